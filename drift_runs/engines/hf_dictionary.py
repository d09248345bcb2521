"""The bytes of each token by a ``tokenizer.json``, for engines that do not tell them. No library is needed.

Two ways of writing bytes as text are known. Byte-level BPE writes every byte as one character of the table of GPT-2.
SentencePiece writes text as it is, a blank as U+2581, and a byte that no piece has as ``<0x0A>``. Added tokens stand as
they are in both. The file is untrusted: it is read as data, and whatever is not as expected is refused.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from drift_runs.errors import ModelFileError

FILE_NAME = "tokenizer.json"
LARGEST_FILE_BYTES = 256 * 2**20
LARGEST_DICTIONARY = 2**22

_BYTE_PIECE = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_BLANK = "\u2581"

_Id = Annotated[int, Field(ge=0, lt=LARGEST_DICTIONARY)]


class _Part(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True)


class _Added(_Part):
    id: _Id
    content: str


class _Model(_Part):
    type: str | None = None
    vocab: dict[str, _Id] | list[tuple[str, float]]
    byte_fallback: bool = False


class _Tokenizer(_Part):
    added_tokens: list[_Added] = []
    pre_tokenizer: dict[str, Any] | None = None
    decoder: dict[str, Any] | None = None
    model: _Model


def token_bytes_of(folder_or_file: Path, size: int | None = None) -> list[bytes]:
    """The bytes of each id in order, control tokens by their name.

    Parameters
    ----------
    folder_or_file
        a ``tokenizer.json``, or a folder with one.
    size
        entries that the dictionary must have; None: what the file holds.

    Raises
    ------
    ModelFileError
        no such file, no tokenizer of a known kind, an id that is missing or has two texts, another size.
    """
    path = folder_or_file / FILE_NAME if folder_or_file.is_dir() else folder_or_file

    def refuse(what: str, expected: str = "a tokenizer.json of byte-level BPE or with byte pieces") -> ModelFileError:
        return ModelFileError(what, where=str(path), expected=expected, todo="name the model's own tokenizer")

    try:
        if (found := path.stat().st_size) > LARGEST_FILE_BYTES:
            raise refuse(f"it has {found} bytes", f"at most {LARGEST_FILE_BYTES}")
        tokenizer = _Tokenizer.model_validate_json(path.read_bytes())
    except OSError as error:
        raise refuse(f"cannot be read: {error.strerror}", f"a {FILE_NAME}") from None
    except ValidationError as failure:
        first = failure.errors(include_url=False)[0]
        raise refuse(f"{'.'.join(map(str, first['loc'])) or 'the file'}: {first['msg'].lower()}") from None
    table: dict[int, bytes] = {}
    vocabulary = tokenizer.model.vocab
    pieces = vocabulary.items() if isinstance(vocabulary, dict) else ((p[0], i) for i, p in enumerate(vocabulary))
    steps = [*_steps(tokenizer.pre_tokenizer), *_steps(tokenizer.decoder)]
    if any(step.get("type") == "ByteLevel" for step in steps):
        read = _byte_level
    elif tokenizer.model.byte_fallback:
        read = _byte_fallback
    else:
        kind = tokenizer.model.type or "without a type"
        raise refuse(f"a model {kind} whose pieces are no bytes")
    for piece, index in pieces:
        if index in table:
            raise refuse(f"id {index} stands for two pieces", "one piece an id")
        table[index] = read(piece)
    for added in tokenizer.added_tokens:
        table[added.id] = added.content.encode("utf-8", "surrogatepass")
    count = max(table, default=-1) + 1
    if len(table) != count or not count:
        missing = next((index for index in range(count) if index not in table), 0)
        raise refuse(f"id {missing} has no piece", "a piece for every id up to the largest")
    if size is not None and count != size:
        raise refuse(f"it holds {count} tokens", f"{size}")
    return [table[index] for index in range(count)]


def _steps(part: dict[str, Any] | None) -> list[dict[str, Any]]:
    """The steps of a pre-tokenizer or decoder: itself, or those of a sequence."""
    if part is None:
        return []
    inner = part.get("pretokenizers") or part.get("decoders")
    if part.get("type") != "Sequence" or not isinstance(inner, list):
        return [part]
    return [step for step in inner if isinstance(step, dict)]


def _byte_characters() -> dict[str, int]:
    """GPT-2's table: bytes that print stand for themselves, the others follow from U+0100 on in their order."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in plain]
    return {chr(byte): byte for byte in plain} | {chr(0x100 + place): byte for place, byte in enumerate(others)}


_BYTES = _byte_characters()


def _byte_level(piece: str) -> bytes:
    # A piece with another character is one that only an added token can write: it stands as it is.
    if all(character in _BYTES for character in piece):
        return bytes(_BYTES[character] for character in piece)
    return piece.encode("utf-8", "surrogatepass")


def _byte_fallback(piece: str) -> bytes:
    if found := _BYTE_PIECE.fullmatch(piece):
        return bytes([int(found[1], 16)])
    return piece.replace(_BLANK, " ").encode("utf-8", "surrogatepass")
