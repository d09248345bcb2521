"""Reading what of a reference travels with its campaign: who took it, its rows, and what it wrote freely."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from drift_runs import schema
from drift_runs.errors import NotComparable, StoreError
from drift_runs.tracking import artifacts
from drift_runs.tracking.mlflow_store import artifact


def load_identity(uri: str, run_id: str) -> dict[str, object]:
    """Identity of a campaign's reference, as it was captured; ``NotComparable`` where it did not leave its machine."""
    found = _table_of(uri, run_id, artifacts.REFERENCE_FILE, "object", lambda value: True)
    if found is None:
        raise NotComparable(
            "its reference's rows are not beside it",
            where=f"run {run_id}",
            expected="a campaign whose protocol has capture.full_vocabulary = 'no'",
            todo="run the reference here",
        )
    return found


def load_measured(uri: str, run_id: str) -> dict[str, float]:
    """What was measured of a reference's server and all of its rows are made with; empty where there is no such."""
    numbers = (int, float)
    found = _table_of(
        uri, run_id, artifacts.REFERENCE_MEASURED_FILE, "table of numbers", lambda value: type(value) in numbers
    )
    return found or {}


def load_rows(uri: str, run_id: str, window: str) -> pa.Table:
    """The reference's own rows of one window (schema ``ROWS``)."""
    with artifact(uri, run_id, f"{artifacts.REFERENCE_ROWS_FOLDER}/{window}.parquet") as path:
        return artifacts.read_table(path, schema.ROWS, run_id)


def load_lanes(uri: str, run_id: str) -> dict[str, str]:
    """Ids of the lanes in which a campaign's reference wrote, and digests of what; empty where none travels."""
    found = _table_of(
        uri, run_id, artifacts.REFERENCE_LANES_FILE, "table of digests", lambda value: isinstance(value, str)
    )
    return found or {}


def load_answer(uri: str, run_id: str, task: str) -> pa.Table:
    """The reference's own answer to a task (schema ``FUTURES``); empty where it answered none."""
    name = f"{artifacts.REFERENCE_ANSWERS_FOLDER}/{task}.parquet"
    with artifact(uri, run_id, name, required=False) as path:
        return schema.FUTURES.empty_table() if path is None else artifacts.read_table(path, schema.FUTURES, run_id)


def _table_of(uri: str, run_id: str, name: str, what: str, holds: Callable[[Any], bool]) -> dict[str, Any] | None:
    """The JSON table of an artifact; None where there is no such artifact.

    ``StoreError`` where it is damaged, or a value is not what it should hold: no ``what``.
    """
    with artifact(uri, run_id, name, required=False) as path:
        if path is None:
            return None
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise StoreError(f"{name} cannot be read: {error}", where=f"run {run_id}") from error
    if not isinstance(found, dict) or not all(holds(value) for value in found.values()):
        raise StoreError(f"{name} is no {what}", where=f"run {run_id}")
    return found
