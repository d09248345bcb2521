"""Files of a run: what they are called, where they go, and the check of each table that is stored or read."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from drift_runs import schema
from drift_runs.errors import StoreError
from drift_runs.tracking import names, uris

ARTIFACT_ROOT_VARIABLE = "DRIFT_ARTIFACT_ROOT"
FIGURES_FILE = "summary/figures.parquet"
DETERMINISM_FILE = "summary/determinism.parquet"
LISTED_FILE = "summary/listed.parquet"
DISTRIBUTION_FILE = "summary/distribution.parquet"
ANSWERS_FILE = "summary/answers.parquet"
PAIRS_FILE = "summary/pairs.parquet"
AGREEMENT_FILE = "summary/agreement.parquet"
PROPOSALS_FILE = "summary/proposals.parquet"
DICTIONARY_FILE = "protocol/dictionary.parquet"
STREAMS_FILE = "protocol/streams.parquet"
PROBE_FILE = "probe/report.json"
RETRIES_FILE = "probe/retries.json"
GENERATION_RETRIES_FILE = "generation/retries.json"
REFERENCE_FILE = "reference/capture.json"
REFERENCE_MEASURED_FILE = "reference/measured.json"
REFERENCE_ROWS_FOLDER = "reference/rows"
REFERENCE_LANES_FILE = "reference/lanes.json"
REFERENCE_ANSWERS_FOLDER = "reference/answers"
METRIC_NAMES_FILE = "summary/metric_names.json"
PROTOCOL_TEXT_FILE = "protocol/protocol.toml"
PROTOCOL_JSON_FILE = "protocol/protocol.json"
LOCK_FILE = "protocol/lock.json"
ROWS_FOLDER = "rows"
GENERATION_FIGURES_FILE = "generation/figures.parquet"
ROOTS_FILE = "generation/roots.parquet"
FUTURES_FILE = "generation/futures.parquet"
OUTCOMES_FILE = "generation/outcomes.parquet"
ROLLOUTS_FILE = "generation/rollouts.parquet"
TASKS_FILE = "generation/tasks.parquet"
TASK_DRIFT_FILE = "generation/task_drift.parquet"
TASK_ORDER_FILE = "generation/task_order.parquet"
BOUNDS_FILE = "generation/bounds.json"
PROMPTS_FILE = "generation/prompts.json"


def read_table(path: Path, wanted: pa.Schema, run_id: str) -> pa.Table:
    """A Parquet file of a known schema version."""
    try:
        table = pq.read_table(path, partitioning=None)
        table.validate(full=True)
        table.column_names  # noqa: B018  names that are no texts
    except (OSError, pa.ArrowException, ValueError) as error:
        raise StoreError(f"{path.name} cannot be read: {error}", where=f"run {run_id}") from error
    if (newer := schema.upgraded(table, wanted)) is not None:
        return newer
    found, known = schema.version_of(table.schema), schema.version_of(wanted)
    if found != known:
        raise StoreError(
            f"{path.name} has the schema {found or 'none'!r}",
            where=f"run {run_id}",
            expected=known,
            todo="read it with the version that wrote it",
        )
    if reason := schema.misfit(table, wanted):
        raise StoreError(f"{path.name}: {found} with {reason}", where=f"run {run_id}")
    return table.cast(wanted)


def read_columns(path: Path, wanted: pa.Schema, columns: Sequence[str], run_id: str) -> pa.Table:
    """Some columns of a Parquet file of a known schema version, and no more of it."""
    try:
        with pq.ParquetFile(path) as file:
            if schema.version_of(file.schema_arrow) == schema.version_of(wanted):
                table = file.read(columns=list(columns))
                table.validate(full=True)
                return table.select(columns).cast(pa.schema([wanted.field(name) for name in columns]))
    except (OSError, pa.ArrowException, ValueError, KeyError) as error:
        raise StoreError(f"{path.name} cannot be read: {error}", where=f"run {run_id}") from error
    return read_table(path, wanted, run_id).select(columns)


def parquet_bytes(table: pa.Table, wanted: pa.Schema) -> bytes:
    found, known = schema.version_of(table.schema), schema.version_of(wanted)
    if found != known:
        raise StoreError(f"a table of schema {found or 'none'!r} was to be stored", expected=known)
    sink = pa.BufferOutputStream()
    pq.write_table(table.cast(wanted), sink, compression="zstd")
    return sink.getvalue().to_pybytes()


def rows_file(window: str) -> str:
    return f"{ROWS_FOLDER}/{names.checked_component(window, 'window')}.parquet"


def constrained_file(name: str) -> str:
    """Futures of a constrained decode, which stand in the run of the arm that it constrains."""
    return f"generation/constrained-{names.checked_component(name, 'constrained decode')}.parquet"


def sampled_file(temperature: str) -> str:
    return f"generation/sampled-{names.checked_component(temperature, 'temperature')}.parquet"


def refuse_case_collisions(files: Iterable[str]) -> None:
    """Two artifacts whose names differ in case only are one file on many machines."""
    seen: dict[str, str] = {}
    for name in files:
        other = seen.setdefault(name.casefold(), name)
        if other != name:
            raise StoreError(f"{other!r} and {name!r} would be one file", todo="rename one of the windows")


def location_of(uri: str, artifact_root: str | Path | None) -> str | None:
    """Where a new experiment's artifacts go; ``None`` when the server decides."""
    kind = uris.scheme_of(uri)
    if kind in uris.SERVER_SCHEMES or kind == "databricks":
        return None
    chosen = artifact_root or os.environ.get(ARTIFACT_ROOT_VARIABLE) or None
    if chosen is None:
        if kind != "sqlite":
            raise StoreError(
                "no place for artifacts is named",
                where=uris.redacted(uri),
                expected=f"{ARTIFACT_ROOT_VARIABLE}, for instance s3://bucket/prefix",
            )
        path = uris.sqlite_path(uri)
        chosen = Path(path).absolute().parent / "mlartifacts" if path else None
    if isinstance(chosen, str) and uris.scheme_of(chosen) not in ("", "file"):
        return chosen.rstrip("/")
    folder = uris.local_path(str(chosen))
    return uris.file_uri(Path(folder).absolute()) if folder is not None else None
