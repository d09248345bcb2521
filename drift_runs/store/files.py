"""How one file is written, so that a kill at any moment leaves the old one or the new one, and how it is read back."""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from drift_runs import schema
from drift_runs.errors import StoreError
from drift_runs.protocol.canonical import canonical_json, write_atomically

PART = ".part"
"""How the name of an unfinished file ends."""


def content_id(content: object) -> str:
    """First 16 hex digits of SHA-256 over canonical JSON."""
    return hashlib.sha256(canonical_json(content)).hexdigest()[:16]


def comparison_id(reference_capture: str, candidate_capture: str, marks: Mapping[str, int] | None = None) -> str:
    """Identity of a comparison: the two captures, the table's version, and what else its columns depend on.

    ``marks``: settings of the marks that are stored in it, where they are not the defaults.
    """
    content: dict[str, object] = {
        "reference": reference_capture,
        "candidate": candidate_capture,
        "table": schema.version_of(schema.COMPARISON),
    }
    if marks:
        content["marks"] = dict(marks)
    return content_id(content)


def way_out(error: OSError) -> str:
    """What to do about a file that cannot be written."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "free some space"
    return "put right what lies at this path, or name another folder with --store"


def write_table(path: Path, table: pa.Table, wanted: pa.Schema) -> None:
    """Write one Parquet file atomically under an explicit schema; equal tables give equal bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{os.getpid()}{PART}")
    try:
        with part.open("wb") as sink:
            pq.write_table(table.cast(wanted), sink, compression="zstd", compression_level=3)
            sink.flush()
            os.fsync(sink.fileno())
        os.replace(part, path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise StoreError(f"cannot be written: {error.strerror}", where=str(path), todo=way_out(error)) from None


def read_table(path: Path, wanted: pa.Schema) -> pa.Table:
    """Read one Parquet file; refuses another schema version and a damaged file."""
    try:
        # ParquetFile, not read_table: a dataset would guess partitions from the folder names.
        table = pq.ParquetFile(path).read()
        table.validate(full=True)  # lists that end outside their values, texts that are none
        table.column_names  # noqa: B018  names that are no texts
    except (pa.ArrowException, OSError, ValueError) as error:
        raise StoreError(
            f"cannot be read: {str(error).partition(chr(10))[0]}",
            where=str(path),
            todo="remove the file and run again: only its window is taken anew",
        ) from None
    if (newer := schema.upgraded(table, wanted)) is not None:
        return newer
    found = schema.version_of(table.schema)
    if found != schema.version_of(wanted):
        raise StoreError(
            f"schema {found or 'without a version'}",
            where=str(path),
            expected=schema.version_of(wanted),
            todo="read it with the version of drift-runs that wrote it",
        )
    if reason := schema.misfit(table, wanted):
        raise StoreError(f"{found} with {reason}", where=str(path), todo="remove the file and run again")
    return table


def write_json(path: Path, content: object) -> None:
    """Write canonical JSON atomically."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, canonical_json(content) + b"\n")
    except OSError as error:
        raise StoreError(f"cannot be written: {error.strerror}", where=str(path), todo=way_out(error)) from None
