"""Files of an index: where they lie, how they are written, and what of them is believed."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from drift_runs import schema
from drift_runs.tracking import uris

FOLDER = "index"
NOTES_KEY = b"drift.index"
_USUAL_DATABASE = "mlflow.db"
_PART = ".part"
_DIGITS = 16


class Kept(NamedTuple):
    """A table as it was read from its file."""

    table: pa.Table
    notes: Mapping[str, Any]
    """What was written beside it: plain JSON."""


def default_folder(uri: str) -> Path:
    """Beside the database of a local store; for any other address in the user's cache folder, under a digest of the
    address without its password."""
    path = uris.sqlite_path(uri) if uris.scheme_of(uri) == "sqlite" else None
    if path is not None:
        usual = path.name == _USUAL_DATABASE
        return path.absolute().parent / (FOLDER if usual else f"{FOLDER}-{path.name}")
    from drift_runs.weights.fetch import cache_folder

    return cache_folder() / FOLDER / digest(uris.redacted(uri))


def digest(text: str) -> str:
    """First 16 hex digits of SHA-256: a file's name for any text."""
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


def read(path: Path, wanted: pa.Schema) -> Kept | None:
    """A table and its notes; None for a file that is not there, is damaged, or was written by another version.

    An index is a copy: what is wrong with it is no error, it is made again.
    """
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            table = file.read()
        table.validate(full=True)
        notes = json.loads((table.schema.metadata or {}).get(NOTES_KEY, b"null"))
        if schema.version_of(table.schema) != schema.version_of(wanted) or schema.misfit(table, wanted):
            return None
        if not isinstance(notes, dict):
            return None
        return Kept(table.select(wanted.names).cast(wanted), notes)
    except (OSError, pa.ArrowException, ValueError):
        return None


def write(path: Path, table: pa.Table, wanted: pa.Schema, notes: Mapping[str, Any]) -> bool:
    """Write a table atomically; False where that is not possible: a folder that may only be read, a full disk."""
    noted = {**(wanted.metadata or {}), NOTES_KEY: json.dumps(notes, sort_keys=True).encode()}
    part = path.with_name(f".{path.name}.{os.getpid()}{_PART}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with part.open("wb") as sink:
            pq.write_table(
                table.cast(wanted).replace_schema_metadata(noted),
                sink,
                compression="zstd",
                compression_level=1,
                write_page_checksum=True,
            )
        os.replace(part, path)
        return True
    except OSError:
        try:
            part.unlink(missing_ok=True)
        except OSError:
            return False  # the folder itself may only be read
        return False


@contextmanager
def turn(folder: Path, wait_s: float) -> Iterator[bool]:
    """Whether it is this process's turn to write the index; False after ``wait_s``, and where no lock can be made."""
    from filelock import FileLock, Timeout

    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / "lock")
        lock.acquire(timeout=wait_s)
    except (OSError, Timeout, NotImplementedError):
        yield False
        return
    try:
        yield True
    finally:
        lock.release()
