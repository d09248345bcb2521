"""A Hugging Face folder made from a GGUF of Llama architecture, in numpy: what torch and MLX engines open.

    python -m drift_runs.weights.hf_folder MODEL.gguf FOLDER --dtype bfloat16

Every matrix is dequantised to float32 and rounded to the wanted type (to nearest, ties to even). llama.cpp turns pairs
of neighbouring components of a query or key by one angle, a Hugging Face model components of the first and the second
half: the converter of llama.cpp therefore reorders the rows of Q and K, and here that is undone.

From a quantised file it is not the original model: ``config.json`` says under ``drift_runs`` what it was made from, and
whoever quantises the folder quantises twice.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drift_runs.errors import ConfigError, DriftError, ModelFileError
from drift_runs.protocol.canonical import file_sha256
from drift_runs.weights.gguf_file import open_reader
from drift_runs.weights.hf_tokenizer import tokenizer_files
from drift_runs.weights.safetensors_file import StoredTensor, write_tensors

DTYPES = {"float32": "F32", "bfloat16": "BF16", "float16": "F16"}

_BLOCK_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_NAMES = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}


def write_hf_folder(source: Path, target: Path, *, dtype: str) -> None:
    """Write ``target`` whole or not at all.

    Parameters
    ----------
    dtype
        of all weights: one of ``DTYPES``.

    Raises
    ------
    ConfigError
        another dtype, or ``target`` exists.
    ModelFileError
        no GGUF file, another architecture, a tensor or a tokenizer that a Llama folder has no place for.
    """
    if dtype not in DTYPES:
        raise ConfigError(f"cannot write weights as {dtype!r}", expected=f"one of {', '.join(DTYPES)}")
    if target.exists():
        raise ConfigError("it exists", where=str(target), todo="name another folder, or remove this one")
    if not source.is_file():
        raise ModelFileError("no such file", where=str(source), expected="a GGUF model", todo="correct the path")
    reader = open_reader(source)
    files = _texts(reader, source, dtype)
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        part.mkdir(parents=True)
        for name, content in files.items():
            (part / name).write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
        _write_weights(reader, source, part / "model.safetensors", files["config.json"], dtype)
        part.rename(target)
    except OSError as error:
        raise ConfigError(f"cannot be written: {error.strerror or error}", where=str(target)) from None
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _texts(reader, source: Path, dtype: str) -> dict[str, dict[str, Any]]:
    """The folder's JSON files by name."""

    def value(key: str) -> Any:
        field = reader.get_field(key)
        return None if field is None else field.contents()

    def refuse(what: str, expected: str) -> ModelFileError:
        return ModelFileError(what, where=str(source), expected=expected, todo="take the model's own folder")

    def needed(key: str, *kinds: type) -> Any:
        found = value(key)
        if type(found) not in (kinds or (int,)) or not found > 0:
            raise refuse(f"{key} is {found!r}", "the header of a Llama model: one number above 0")
        return found

    if (architecture := value("general.architecture")) != "llama":
        raise refuse(f"general.architecture is {architecture!r}", "'llama'")
    if (scaling := value("llama.rope.scaling.type")) not in (None, "none"):
        raise refuse(f"llama.rope.scaling.type is {scaling!r}", "positions that are not scaled")
    if value("llama.expert_count"):
        raise refuse("it has experts", "a dense model")
    heads, width = needed("llama.attention.head_count"), needed("llama.embedding_length")
    groups = needed("llama.attention.head_count_kv") if value("llama.attention.head_count_kv") else heads
    head_size = value("llama.attention.key_length") or width // heads
    if (turned := value("llama.rope.dimension_count")) not in (None, head_size):
        raise refuse(f"{turned} of {head_size} components of a head are turned by position", "all of them")
    context = needed("llama.context_length")
    tokenizer, tokenizer_config = tokenizer_files(value, where=str(source), context_tokens=context)
    ends = {f"{role}_token_id": value(f"tokenizer.ggml.{key}_token_id") for role, key in _ROLES}
    rows = {tensor.name: int(tensor.shape[-1]) for tensor in reader.tensors}
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": rows.get("token_embd.weight", len(tokenizer["model"]["vocab"])),
        "hidden_size": width,
        "intermediate_size": needed("llama.feed_forward_length"),
        "num_hidden_layers": needed("llama.block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": groups,
        "head_dim": head_size,
        "hidden_act": "silu",
        "max_position_embeddings": context,
        # As short as the float32 of the file allows: 1e-05, not 9.999999747378752e-06.
        "rms_norm_eps": float(str(np.float32(needed("llama.attention.layer_norm_rms_epsilon", float)))),
        "rope_theta": float(value("llama.rope.freq_base") or 10_000.0),
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": "output.weight" not in rows,
        "torch_dtype": dtype,
        **ends,
        "drift_runs": _made_from(reader, source, dtype),
    }
    return {
        "config.json": config,
        "generation_config.json": {"do_sample": False, **{role: id for role, id in ends.items() if id is not None}},
        "tokenizer.json": tokenizer,
        "tokenizer_config.json": tokenizer_config,
    }


_ROLES = (("bos", "bos"), ("eos", "eos"), ("pad", "padding"))


def _made_from(reader, source: Path, dtype: str) -> dict[str, str]:
    """What a reader of the folder must know of its weights."""
    counts: dict[str, int] = {}
    for tensor in reader.tensors:
        kind = tensor.tensor_type.name.lower()
        counts[kind] = counts.get(kind, 0) + int(tensor.n_elements)
    total = sum(counts.values())
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    types = ", ".join(f"{name} {count / total:.0%}" for name, count in ordered if count / total >= 0.005)
    return {
        "made_from": source.name,
        "made_from_sha256": file_sha256(source),
        "made_from_types": types,
        "note": f"Dequantised from {types} to {dtype}. Unless those are float types, this is not the original model.",
    }


def _write_weights(reader, source: Path, target: Path, config: dict[str, Any], dtype: str) -> None:
    turned = {"attn_q": config["num_attention_heads"], "attn_k": config["num_key_value_heads"]}
    stored = []
    for tensor in reader.tensors:
        shape = tuple(int(size) for size in reversed(tensor.shape))
        stored.append(StoredTensor(_name(tensor.name, source), DTYPES[dtype], shape))

    def values() -> Iterator[NDArray[np.generic]]:
        import gguf
        from gguf.quants import dequantize, quantize

        for tensor, place in zip(reader.tensors, stored, strict=True):
            array = dequantize(tensor.data, tensor.tensor_type).reshape(place.shape).astype(np.float32, copy=False)
            layer_name = tensor.name.split(".")[-2]
            if layer_name in turned:
                array = _halves(array, turned[layer_name])
            if dtype == "bfloat16":
                yield quantize(array, gguf.GGMLQuantizationType.BF16)
            else:
                yield array.astype(np.dtype(dtype), copy=False)

    write_tensors(target, stored, values(), metadata={"format": "pt"})


def _name(name: str, source: Path) -> str:
    """The name of a tensor in a Hugging Face folder."""
    if (found := _NAMES.get(name)) is not None:
        return found
    parts = name.split(".")
    if len(parts) == 4 and parts[0] == "blk" and parts[1].isdigit() and parts[3] == "weight":
        inner = _BLOCK_NAMES.get(parts[2])
        if inner is not None:
            return f"model.layers.{parts[1]}.{inner}.weight"
    raise ModelFileError(
        f"tensor {name} has no place in a Llama folder",
        where=str(source),
        expected="a dense Llama model without biases or scaled positions",
        todo="take the model's own folder",
    )


def _halves(rows: NDArray[np.float32], heads: int) -> NDArray[np.float32]:
    """Rows of Q or K from neighbouring pairs to halves, head by head."""
    count, columns = rows.shape
    return rows.reshape(heads, count // heads // 2, 2, columns).swapaxes(1, 2).reshape(count, columns)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m drift_runs.weights.hf_folder",
        description="Write a GGUF of Llama architecture as a Hugging Face folder.",
    )
    parser.add_argument("gguf", type=Path, metavar="GGUF")
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="must not exist")
    parser.add_argument("--dtype", choices=list(DTYPES), default="bfloat16")
    given = parser.parse_args(arguments)
    try:
        write_hf_folder(given.gguf, given.folder, dtype=given.dtype)
    except DriftError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    print(given.folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
