"""Runs of a local store, read from its database file. No MLflow here: importing it takes seconds, this milliseconds.

Only what MLflow's search would show is read, and nothing is written. A database that is laid out in another way, or is
locked or damaged, gives None: then MLflow itself is asked, and says what is wrong.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

from drift_runs.tracking import tags, uris
from drift_runs.tracking.index_rows import CHANGING_TAGS, Changes, RunRow, state_of

_BUSY_WAIT_S = 10.0
_AT_ONCE = 500
"""Run ids in one question: below the limit of variables of every sqlite."""
_COUNTER_AT = 24
_COUNTER_BYTES = 4

_RUNS = """
SELECT runs.run_uuid, kind.value, runs.experiment_id, experiments.name, runs.status, runs.start_time, runs.end_time,
       runs.artifact_uri
FROM tags AS kind
JOIN runs ON runs.run_uuid = kind.run_uuid
JOIN experiments ON experiments.experiment_id = runs.experiment_id
WHERE kind.key = ? AND kind.value IN (?, ?) AND runs.lifecycle_stage = 'active'
  AND experiments.lifecycle_stage = 'active'
"""
_ELSEWHERE = "SELECT count(*) FROM experiments WHERE workspace <> 'default'"


def probe(uri: str) -> str:
    """A text that changes whenever something is written to the database of a local store; empty for another store.

    The counter in the file's head rises with each write; a write-ahead log has its own size and time.
    """
    path = uris.sqlite_path(uri) if uris.scheme_of(uri) == "sqlite" else None
    if path is None:
        return ""
    try:
        with path.open("rb") as file:
            file.seek(_COUNTER_AT)
            counter = int.from_bytes(file.read(_COUNTER_BYTES), "big")
        parts = [counter, *_size_and_time(path)]
        for beside in ("-wal", "-journal"):
            other = path.with_name(path.name + beside)
            parts += _size_and_time(other) if other.exists() else [0]
    except OSError:
        return ""
    return " ".join(map(str, parts))


def _size_and_time(path: Path) -> list[int]:
    found = path.stat()
    return [found.st_ino, found.st_size, found.st_mtime_ns]


def read(uri: str, known: Mapping[str, str]) -> Changes | None:
    """How the store differs from the ``known`` states of runs; None when its database cannot be read like this."""
    path = uris.sqlite_path(uri) if uris.scheme_of(uri) == "sqlite" else None
    if path is None or not path.is_file():
        return None
    try:
        address = f"{path.absolute().as_uri()}?mode=ro"
        with closing(sqlite3.connect(address, uri=True, timeout=_BUSY_WAIT_S)) as connection:
            connection.execute("BEGIN")  # one state of the database for all questions
            return _read(connection, known)
    except (sqlite3.Error, ValueError):
        return None


def _read(connection: sqlite3.Connection, known: Mapping[str, str]) -> Changes | None:
    (elsewhere,) = connection.execute(_ELSEWHERE).fetchone()
    if elsewhere:
        return None  # which workspace is meant is MLflow's affair
    changing: dict[str, dict[str, str]] = {}
    marks = ", ".join("?" * len(CHANGING_TAGS))
    for run_id, key, value in connection.execute(
        f"SELECT run_uuid, key, value FROM tags WHERE key IN ({marks})", CHANGING_TAGS
    ):
        changing.setdefault(run_id, {})[key] = value
    rows: dict[str, RunRow] = {}
    there = set()
    for run_id, kind, experiment_id, experiment, status, started_ms, ended_ms, location in connection.execute(
        _RUNS, (tags.KIND_TAG, tags.CAMPAIGN, tags.COMPARISON)
    ):
        its = changing.get(run_id, {})
        if tags.SUPERSEDED_TAG in its:
            continue
        there.add(run_id)
        if known.get(run_id) != state_of(str(experiment_id), status, ended_ms, its):
            rows[run_id] = RunRow(
                run_id, kind, str(experiment_id), experiment, status, started_ms, ended_ms, location, {}
            )
    wanted = list(rows)
    runs = []
    for start in range(0, len(wanted), _AT_ONCE):
        part = wanted[start : start + _AT_ONCE]
        for run_id, found in _tags_of(connection, part).items():
            runs.append(rows[run_id]._replace(tags=found))
    return Changes(runs, frozenset(known) - there, {})


def _tags_of(connection: sqlite3.Connection, run_ids: Sequence[str]) -> dict[str, dict[str, str]]:
    """Every tag of these runs but the long one that no record has anything of."""
    found: dict[str, dict[str, str]] = {run_id: {} for run_id in run_ids}
    marks = ", ".join("?" * len(run_ids))
    question = f"SELECT run_uuid, key, value FROM tags WHERE run_uuid IN ({marks}) AND key <> ?"
    for run_id, key, value in connection.execute(question, (*run_ids, tags.METRIC_NAMES_TAG)):
        found[run_id][key] = value
    return found
