"""Dictionaries from tokenizer.json: bytes of both ways of writing them, and files that are refused."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from drift_runs.engines.hf_dictionary import token_bytes_of
from drift_runs.errors import ModelFileError
from drift_runs.protocol.canonical import dictionary_sha256

BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False}


def write(folder: Path, **content: Any) -> Path:
    (folder / "tokenizer.json").write_text(json.dumps(content), "utf-8")
    return folder


def model(vocab: object, **more: object) -> dict[str, object]:
    return {"type": "BPE", "vocab": vocab, "merges": [], **more}


@pytest.mark.parametrize(
    "steps",
    [
        {"decoder": BYTE_LEVEL},
        {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Digits"}, BYTE_LEVEL]}},
        {"decoder": {"type": "Sequence", "decoders": [BYTE_LEVEL]}},
    ],
)
def test_byte_level_pieces_are_bytes(tmp_path: Path, steps: dict[str, Any]) -> None:
    vocab = {"\u0120the": 0, "\u010a": 1, "\u00c3\u00a9": 2, "\u0122": 3, "<|end|>": 4, "\u2581": 5}
    added = [{"id": 4, "content": "<|end|>", "special": True}, {"id": 6, "content": "\u00e9 x", "special": False}]
    folder = write(tmp_path, model=model(vocab), added_tokens=added, **steps)
    # What is no character of the table stands as it is.
    expected = [b" the", b"\n", "\u00e9".encode(), b"\x80", b"<|end|>", "\u2581".encode(), "\u00e9 x".encode()]
    assert token_bytes_of(folder) == expected
    assert token_bytes_of(folder / "tokenizer.json", 7) == expected


def test_every_byte_has_one_character(tmp_path: Path) -> None:
    """The table's own definition: printing bytes stand for themselves, the others follow from U+0100 on."""
    printing = [b for b in range(256) if 33 <= b <= 126 or 161 <= b <= 172 or 174 <= b <= 255]
    others = iter(range(256, 256 + 68))
    characters = [chr(b) if b in printing else chr(next(others)) for b in range(256)]
    vocab = {character: index for index, character in enumerate(characters)}
    assert token_bytes_of(write(tmp_path, model=model(vocab), decoder=BYTE_LEVEL)) == [bytes([b]) for b in range(256)]


@pytest.mark.parametrize("as_list", [False, True])
def test_byte_pieces_and_blanks(tmp_path: Path, as_list: bool) -> None:
    pieces = ["<unk>", "<0x0A>", "<0xff>", "\u2581the", "\u00e9"]
    vocab = [[piece, -1.0] for piece in pieces] if as_list else {piece: i for i, piece in enumerate(pieces)}
    kind = "Unigram" if as_list else "BPE"
    folder = write(tmp_path, model=model(vocab, type=kind, byte_fallback=True), added_tokens=[])
    assert token_bytes_of(folder) == [b"<unk>", b"\n", b"\xff", b" the", "\u00e9".encode()]


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ({"model": model({"a": 0, "b": 2}), "decoder": BYTE_LEVEL}, "id 1 has no piece"),
        ({"model": model({"a": 0, "b": 0}), "decoder": BYTE_LEVEL}, "two pieces"),
        ({"model": model({}), "decoder": BYTE_LEVEL}, "has no piece"),
        ({"model": model({"a": -1}), "decoder": BYTE_LEVEL}, "greater than or equal"),
        ({"model": model({"a": 2**40}), "decoder": BYTE_LEVEL}, "less than"),
        ({"model": model({"a": "0"}), "decoder": BYTE_LEVEL}, "integer"),
        ({"model": model({"a": 0}, type="WordPiece")}, "model WordPiece"),
        ({"added_tokens": []}, "model"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, content: dict[str, Any], named: str) -> None:
    with pytest.raises(ModelFileError, match=named):
        token_bytes_of(write(tmp_path, **content))


def test_files_that_are_none_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="cannot be read"):
        token_bytes_of(tmp_path)
    for text in ("", "{", "[" * 100_000, "\ud800".encode("utf-8", "surrogatepass").decode("latin-1")):
        (tmp_path / "tokenizer.json").write_text(text, "latin-1")
        with pytest.raises(ModelFileError, match=r"tokenizer\.json"):
            token_bytes_of(tmp_path)


def test_another_size_is_refused(tmp_path: Path) -> None:
    folder = write(tmp_path, model=model({"a": 0, "b": 1}), decoder=BYTE_LEVEL)
    with pytest.raises(ModelFileError, match="holds 2 tokens; expected 3"):
        token_bytes_of(folder, 3)


def test_the_demos_dictionary_is_the_one_of_its_protocol(smollm2: Path, tmp_path: Path) -> None:
    from drift_runs.protocol.load import find_protocol
    from drift_runs.weights.gguf_file import open_reader
    from drift_runs.weights.hf_tokenizer import tokenizer_files

    reader = open_reader(smollm2)

    def value(key: str) -> object:
        field = reader.get_field(key)
        return None if field is None else field.contents()

    content, _ = tokenizer_files(value, where="demo", context_tokens=8192)
    expected = tomllib.loads(find_protocol("smollm2-quick").read_text("utf-8"))["dictionary"]
    assert dictionary_sha256(token_bytes_of(write(tmp_path, **content), expected["size"])) == expected["sha256"]
