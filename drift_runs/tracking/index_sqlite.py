"""Runs of a local store, read from its database file. No MLflow here: importing it takes seconds, this milliseconds.

Only what MLflow's search would show is read, and nothing is written. A database that is laid out in another way, or is
locked or damaged, gives None: then MLflow itself is asked, and says what is wrong.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
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
_TAGS = "SELECT run_uuid, key, value FROM tags"
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
        with closing(_opened(path)) as connection:
            return _read(connection, known)
    except (sqlite3.Error, ValueError):
        return None


def tags_of(uri: str, run_ids: Sequence[str], prefix: str) -> dict[str, dict[str, str]] | None:
    """Tags of these runs whose names begin with ``prefix``, by run id; None as for :func:`read`."""
    path = uris.sqlite_path(uri) if uris.scheme_of(uri) == "sqlite" else None
    if path is None or not path.is_file():
        return None
    found: dict[str, dict[str, str]] = {run_id: {} for run_id in run_ids}
    try:
        with closing(_opened(path)) as connection:
            for part in _parts(run_ids):
                question = f"{_TAGS} WHERE run_uuid IN ({_marks(part)}) AND substr(key, 1, ?) = ?"
                for run_id, key, value in connection.execute(question, (*part, len(prefix), prefix)):
                    found[run_id][key] = value
    except (sqlite3.Error, ValueError):
        return None
    return found


def _opened(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=_BUSY_WAIT_S)
    connection.execute("BEGIN")  # one state of the database for all questions
    return connection


def _parts(run_ids: Sequence[str]) -> Iterator[Sequence[str]]:
    return (run_ids[start : start + _AT_ONCE] for start in range(0, len(run_ids), _AT_ONCE))


def _marks(values: Sequence[str]) -> str:
    return ", ".join("?" * len(values))


def _read(connection: sqlite3.Connection, known: Mapping[str, str]) -> Changes | None:
    (elsewhere,) = connection.execute(_ELSEWHERE).fetchone()
    if elsewhere:
        return None  # which workspace is meant is MLflow's affair
    changing: dict[str, dict[str, str]] = {}
    question = f"{_TAGS} WHERE key IN ({_marks(CHANGING_TAGS)})"
    for run_id, key, value in connection.execute(question, CHANGING_TAGS):
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
    runs = [
        rows[run_id]._replace(tags=found)
        for part in _parts(list(rows))
        for run_id, found in _all_tags(connection, part).items()
    ]
    return Changes(runs, frozenset(known) - there, {})


def _all_tags(connection: sqlite3.Connection, run_ids: Sequence[str]) -> dict[str, dict[str, str]]:
    """Every tag of these runs but the long one that no record has anything of."""
    found: dict[str, dict[str, str]] = {run_id: {} for run_id in run_ids}
    question = f"{_TAGS} WHERE run_uuid IN ({_marks(run_ids)}) AND key <> ?"
    for run_id, key, value in connection.execute(question, (*run_ids, tags.METRIC_NAMES_TAG)):
        found[run_id][key] = value
    return found
