"""A GGUF's byte-level BPE tokenizer as ``tokenizer.json`` and ``tokenizer_config.json``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from drift_runs.errors import ModelFileError

_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED, _UNUSED = 1, 2, 3, 4, 5

_BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}

_LLAMA3_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)

PRE_TOKENIZERS: dict[str, dict[str, Any]] = {
    "smollm": {
        "type": "Sequence",
        "pretokenizers": [{"type": "Digits", "individual_digits": True}, _BYTE_LEVEL],
    },
    "gpt-2": _BYTE_LEVEL,
    "llama-bpe": {
        "type": "Sequence",
        "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": _LLAMA3_WORDS}, "behavior": "Isolated", "invert": False},
            {**_BYTE_LEVEL, "use_regex": False},
        ],
    },
}
"""How a text is cut before merging, by ``tokenizer.ggml.pre``."""


def tokenizer_files(value: Callable[[str], Any], *, where: str, context_tokens: int) -> tuple[dict, dict]:
    """The contents of both files. ``value`` gives a key of the GGUF, None where it has none.

    Raises ``ModelFileError`` for a tokenizer that cannot be written so.
    """

    def refuse(what: str, expected: str) -> ModelFileError:
        return ModelFileError(what, where=where, expected=expected, todo="take the model's own Hugging Face folder")

    if (kind := value("tokenizer.ggml.model")) != "gpt2":
        raise refuse(f"tokenizer.ggml.model is {kind!r}", "'gpt2', byte-level BPE")
    if (pre := value("tokenizer.ggml.pre")) not in PRE_TOKENIZERS:
        raise refuse(f"tokenizer.ggml.pre is {pre!r}", f"one of {', '.join(PRE_TOKENIZERS)}")
    tokens: list[str] = value("tokenizer.ggml.tokens") or []
    types: list[int] = value("tokenizer.ggml.token_type") or [_NORMAL] * len(tokens)
    if len(types) != len(tokens):
        raise refuse(f"{len(types)} token types for {len(tokens)} tokens", "as many")
    ids = {token: index for index, token in enumerate(tokens)}
    if len(ids) != len(tokens):
        raise refuse("two ids have the same text", "one id a token")
    added = [
        {
            "id": index,
            "content": token,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": types[index] in (_UNKNOWN, _CONTROL),
        }
        for index, token in enumerate(tokens)
        if types[index] in (_UNKNOWN, _CONTROL, _USER_DEFINED)
    ]
    special: dict[str, str] = {}
    for role, key in (("bos", "bos"), ("eos", "eos"), ("unk", "unknown"), ("pad", "padding")):
        index = value(f"tokenizer.ggml.{key}_token_id")
        if index is None:
            continue
        if not 0 <= index < len(tokens):
            raise refuse(f"{key}_token_id is {index}", f"an id below {len(tokens)}")
        special[f"{role}_token"] = tokens[index]
    add_bos = bool(value("tokenizer.ggml.add_bos_token")) and "bos_token" in special
    tokenizer = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": PRE_TOKENIZERS[pre],
        "post_processor": _with_bos(special["bos_token"], ids) if add_bos else None,
        "decoder": {**_BYTE_LEVEL, "add_prefix_space": True},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": pre == "llama-bpe",
            "vocab": ids,
            "merges": _merges(value("tokenizer.ggml.merges") or [], ids),
        },
    }
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": context_tokens,
        "clean_up_tokenization_spaces": False,
        "add_prefix_space": False,
        "add_bos_token": add_bos,
        **special,
    }
    if template := value("tokenizer.chat_template"):
        config["chat_template"] = template
    return tokenizer, config


def _merges(written: list[str], ids: dict[str, int]) -> list[list[str]]:
    """Pairs in their order. A merge without a token of its own does nothing, and the reader of the file refuses it."""
    pairs = [merge.split(" ", 1) for merge in written]
    return [pair for pair in pairs if len(pair) == 2 and {*pair, "".join(pair)} <= ids.keys()]


def _with_bos(bos: str, ids: dict[str, int]) -> dict[str, Any]:
    """Puts BOS in front of a text."""

    def piece(kind: str, name: str, number: int) -> dict[str, Any]:
        return {kind: {"id": name, "type_id": number}}

    first, second = piece("Sequence", "A", 0), piece("Sequence", "B", 1)
    begin = piece("SpecialToken", bos, 0)
    return {
        "type": "TemplateProcessing",
        "single": [begin, first],
        "pair": [begin, first, piece("SpecialToken", bos, 1), second],
        "special_tokens": {bos: {"id": bos, "ids": [ids[bos]], "tokens": [bos]}},
    }
