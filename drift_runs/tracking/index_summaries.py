"""Headline figures of all campaigns of a protocol, kept in one file: each run's own tables are read once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from drift_runs.errors import StoreError
from drift_runs.schema import DETERMINISM, FIGURES, SUMMARY
from drift_runs.tracking import artifacts, index_files, summary_rows
from drift_runs.tracking.index_rows import record_of
from drift_runs.tracking.mlflow_store import artifact
from drift_runs.tracking.records import ArmRecord, CampaignRecord

FOLDER = "summary"
Progress = Callable[[int, int], None]
"""Called with (runs whose tables were read so far, runs whose tables must be read)."""

_AT_ONCE = 200
_COLUMNS = ["scope_kind", "arm", *summary_rows.OF_FIGURE]


class Summary(NamedTuple):
    """Headline figures of a protocol's campaigns."""

    table: pa.Table
    """Schema ``SUMMARY``, newest campaign first."""
    unread: Mapping[str, str]
    """Run ids of complete comparisons whose tables cannot be read, each with the reason. They have no row."""


class _Wanted(NamedTuple):
    campaign: CampaignRecord
    arm: ArmRecord
    system: str
    tool: str


class Summaries:
    """The summaries of one store. Safe for several threads."""

    def __init__(self, uri: str, folder: Path) -> None:
        self.uri = uri
        self.folder = folder / FOLDER
        self._lock = threading.Lock()
        self._made: dict[str, tuple[Mapping[str, str], Summary]] = {}

    def of(self, protocol: str, index: pa.Table, progress: Progress | None = None) -> Summary:
        """The summary of one protocol; ``index``: its rows of ``INDEX``."""
        states = _states(index)
        with self._lock:
            states_before, before = self._made.get(protocol, ({}, None))
            if before is not None and states_before == states:
                return before
            found = self._make(protocol, index, states, progress)
            self._made[protocol] = (states, found)
            return found

    def _make(self, protocol: str, index: pa.Table, states: Mapping[str, str], progress: Progress | None) -> Summary:
        path = self.folder / f"{index_files.digest(protocol)}.parquet"
        kept = index_files.read(path, SUMMARY)
        table, had = (kept.table, kept.notes.get("states", {})) if kept else (SUMMARY.empty_table(), {})
        missing = {run_id for run_id, state in states.items() if had.get(run_id) != state}
        old = [run_id for run_id in had if run_id in missing or run_id not in states]
        if old:
            table = table.filter(pc.invert(pc.is_in(_words(table, "run"), pa.array(old, pa.string()))))
        unread: dict[str, str] = {}
        parts = [table]
        for number, wanted in enumerate(_wanted(index, missing)):
            if progress is not None:
                progress(number, len(missing))
            try:
                parts.append(self._rows(wanted))
            except StoreError as error:
                unread[wanted.arm.run_id] = str(error)
            if len(parts) > _AT_ONCE:
                parts = [_together(parts)]
        if missing or old:
            table = _ordered(_together(parts), list(states))
            done = {run_id: state for run_id, state in states.items() if run_id not in unread}
            with index_files.turn(self.folder, 0) as mine:
                if mine:
                    index_files.write(path, table, SUMMARY, {"protocol": protocol, "states": done})
        return Summary(table, unread)

    def _rows(self, wanted: _Wanted) -> pa.Table:
        run_id, arm = wanted.arm.run_id, wanted.arm.arm
        with artifact(self.uri, run_id, artifacts.FIGURES_FILE) as path:
            figures = [artifacts.read_columns(path, FIGURES, _COLUMNS, run_id)]
        with artifact(self.uri, run_id, artifacts.GENERATION_FIGURES_FILE, required=False) as path:
            figures += [] if path is None else [artifacts.read_columns(path, FIGURES, _COLUMNS, run_id)]
        with artifact(self.uri, run_id, artifacts.DETERMINISM_FILE, required=False) as path:
            same = None if path is None else artifacts.read_table(path, DETERMINISM, run_id)
        rows = summary_rows.figure_rows(figures, arm)
        if same is not None:
            declared = [window for window, _ in wanted.campaign.outliers]
            rows += summary_rows.determinism_rows(same, declared)
        return summary_rows.summary_table(wanted.campaign, wanted.arm, rows, system=wanted.system, tool=wanted.tool)


def _states(index: pa.Table) -> dict[str, str]:
    """What the rows of each complete comparison depend on, newest campaign first."""
    found = {}
    for row in index.select(["complete", "state", "arms"]).to_pylist():
        for arm in row["arms"]:
            if arm["complete"]:
                found[arm["run_id"]] = f"{arm['state']}|{row['complete']}"
    return found


def _wanted(index: pa.Table, run_ids: set[str]) -> list[_Wanted]:
    found = []
    for row in index.to_pylist():
        campaign = None
        for at, arm in enumerate(row["arms"]):
            if arm["run_id"] in run_ids:
                campaign = campaign or record_of(row)
                found.append(_Wanted(campaign, campaign.arms[at], row["system"], row["tool"]))
    return found


def _together(parts: Sequence[pa.Table]) -> pa.Table:
    return pa.concat_tables(parts).unify_dictionaries().combine_chunks()


def _ordered(table: pa.Table, run_ids: Sequence[str]) -> pa.Table:
    places = pc.index_in(_words(table, "run"), pa.array(list(run_ids), pa.string()))
    return table.take(pc.sort_indices(places))


def _words(table: pa.Table, name: str) -> pa.ChunkedArray:
    return table[name].cast(pa.string())
