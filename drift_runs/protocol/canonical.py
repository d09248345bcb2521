"""The one byte form of a parsed file that digests are made of, and the digests.

Nothing heavy is imported here: an engine's process needs this and no model of the protocol.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any


def canonical_json(value: Any) -> bytes:
    """Sorted keys, compact separators, UTF-8, no NaN or infinity.

    Raises ``ValueError`` for a number that is not finite and ``TypeError`` for what JSON cannot hold, a TOML date for
    instance. Whole numbers and floats stay apart: ``1`` and ``1.0`` have different digests.
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def protocol_sha256(content: Mapping[str, Any]) -> str:
    """SHA-256 of the canonical form of a parsed protocol: comments and layout of the TOML do not count, order does."""
    return hashlib.sha256(canonical_json(content)).hexdigest()


def file_sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def dictionary_sha256(tokens: Iterable[bytes]) -> str:
    """SHA-256 over, for each id in order, its byte length as u32 little-endian and then its bytes."""
    digest = hashlib.sha256()
    for token in tokens:
        digest.update(len(token).to_bytes(4, "little"))
        digest.update(token)
    return digest.hexdigest()


def write_atomically(path: Path, data: bytes) -> None:
    """Write beside the target, flush to the disk, rename: a reader sees the old file or the new one, never half."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
