"""Stream files: token ids with their text, and the digest of the dictionary that gives ids a meaning."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from drift_runs.errors import ProtocolError
from drift_runs.protocol.canonical import dictionary_sha256 as dictionary_sha256
from drift_runs.protocol.canonical import write_atomically
from drift_runs.protocol.model import Stream


def decode_text(ids: Iterable[int], dictionary: Sequence[bytes]) -> str:
    """The text of token ids, special tokens included.

    Bytes that are no UTF-8 (a token may end inside a character) become U+FFFD: the ids are what counts, the text is
    for people. Raises ``ProtocolError`` for an id that the dictionary does not have.
    """
    pieces = []
    for index, token in enumerate(ids):
        if not 0 <= token < len(dictionary):
            raise ProtocolError(
                f"token id {token} at index {index} is beyond the dictionary", expected=f"ids below {len(dictionary)}"
            )
        pieces.append(dictionary[token])
    return b"".join(pieces).decode("utf-8", errors="replace")


def stream_bytes(stream: Stream) -> bytes:
    """The one form of a stream file: a line for each key, all tokens on one line, sorted keys inside values."""
    fields = stream.model_dump(by_alias=True, mode="json")
    lines = [
        f"  {json.dumps(key)}: {json.dumps(value, ensure_ascii=False, sort_keys=True, allow_nan=False)}"
        for key, value in fields.items()
    ]
    return ("{\n" + ",\n".join(lines) + "\n}\n").encode()


def write_stream(path: Path, stream: Stream) -> None:
    """Write a stream file: the same stream always gives the same bytes, so its digest says whether it changed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, stream_bytes(stream))
