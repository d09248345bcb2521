"""The index: what a store holds of all its campaigns, in columns, so that a page need not search MLflow for it.

It is a copy, in a folder beside a local store, and may be deleted at any time. A refresh reads only runs that are new
or have changed; whether anything was written at all costs a look at the database's head. Pages see one state until the
next refresh has ended, so they never wait for one.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from drift_runs import schema
from drift_runs.tracking import index_files, index_rows, index_sqlite, locations, reach, uris
from drift_runs.tracking.index_summaries import Progress, Summaries, Summary
from drift_runs.tracking.records import CampaignRecord

CAMPAIGNS_FILE = "campaigns.parquet"
_BUILD_WAIT_S = 120.0
"""How long a first build waits for that of another process."""
_SEARCHED = ("protocol_name", "title", "run_id")


class _State(NamedTuple):
    """What is shown until the next refresh has ended."""

    table: pa.Table
    seen: Mapping[str, Any]
    """Notes of the last look at a store that is searched; empty for one that was read from its database."""
    stamp: str
    """The state of the database at the last look; empty when it is not known."""
    records: dict[str, CampaignRecord]
    """Those that somebody asked for, by run id."""


def open_index(uri: str, folder: Path | None = None) -> Index:
    """The index of a store. ``folder``: where its files lie; by default beside a local store, else in the cache."""
    return Index(uri, folder or index_files.default_folder(uri))


class Index:
    """All campaigns of a store as of the last :meth:`refresh`. Safe for several threads and processes."""

    def __init__(self, uri: str, folder: Path) -> None:
        self.uri = uri
        self.folder = folder
        self._state: _State | None = None
        self._refreshing = threading.Lock()
        self._summaries = Summaries(uri, folder)
        self._summed: dict[str, tuple[pa.Table, Summary]] = {}
        """By protocol: the last summary and the table of campaigns that it is of."""

    @property
    def path(self) -> Path:
        """File of the campaigns and their arms."""
        return self.folder / CAMPAIGNS_FILE

    def refresh(self, *, rebuild: bool = False) -> bool:
        """Take in what is new or has changed in the store; True when something had.

        ``rebuild``: read everything again. ``StoreError`` when the store or a tag in it cannot be read: what was shown
        before stays.
        """
        stamp = index_sqlite.probe(self.uri)  # before the reading: what is written meanwhile is seen next time
        state = self._state
        if stamp and not rebuild and state is not None and state.stamp == stamp:
            return False
        with self._refreshing:
            opened = self._state is None
            state = None if rebuild else self._state or self._load()
            if state is not None:
                return self._renew(state, stamp, wait_s=0, keep=opened)
            reach.refuse_unreachable(self.uri, create=False)  # no folder is made beside a store that is not there
            with index_files.turn(self.folder, _BUILD_WAIT_S):
                state = None if rebuild else self._load()  # another process may have built it meanwhile
                return self._renew(state or _empty(), stamp, wait_s=None)

    def campaigns(
        self, protocol: str | None = None, offset: int = 0, limit: int | None = None, *, matching: str = ""
    ) -> tuple[CampaignRecord, ...]:
        """Campaigns, newest first, ``limit`` of them from the ``offset``-th on.

        ``protocol``: only those of this protocol. ``matching``: only those whose protocol, title or run id holds this
        text, in either case.
        """
        state = self._current()
        found = self._found(state, protocol, matching)
        return self._records(state, found[offset : None if limit is None else offset + limit])

    def campaign(self, run_id: str) -> CampaignRecord | None:
        """One campaign by its run id."""
        state = self._current()
        place = pc.index(state.table["run_id"], run_id).as_py()
        return None if place < 0 else self._records(state, [place])[0]

    def beginning(self, run_id: str) -> CampaignRecord | None:
        """The newest campaign whose run id begins so."""
        state = self._current()
        found = pc.indices_nonzero(pc.starts_with(state.table["run_id"], run_id))
        return self._records(state, [found[0].as_py()])[0] if len(found) else None

    def sharing(self, campaign: CampaignRecord) -> tuple[CampaignRecord, ...]:
        """The complete campaigns of the same protocol, to the digest, that compare with the very same rows of a
        reference, oldest first, the campaign itself among them.

        None where all of them took it themselves: that was on one machine, because the id of a capture holds its
        engine and hardware.
        """
        state = self._current()
        table = state.table
        mask = pc.and_(table["complete"], pc.invert(table["imported"]))
        for name in ("protocol_sha256", "reference_capture_id"):
            mask = pc.and_(mask, pc.equal(table[name], getattr(campaign, name)))
        if not pc.any(pc.and_(mask, pc.not_equal(table["reference_run"], ""))).as_py():
            return ()  # before a record is made of each: a store may hold a thousand
        return self._records(state, pc.indices_nonzero(mask).to_pylist()[::-1])

    def total(self, protocol: str | None = None, *, matching: str = "") -> int:
        """How many campaigns there are, of a protocol or in all."""
        return len(self._found(self._current(), protocol, matching))

    def newest(self, protocol: str | None = None) -> CampaignRecord | None:
        """The newest complete campaign, else the newest; None when there is none."""
        state = self._current()
        found = self._found(state, protocol, "")
        complete = state.table["complete"]
        place = next((at for at in found if complete[at].as_py()), next(iter(found), None))
        return None if place is None else self._records(state, [place])[0]

    def protocols(self) -> dict[str, int]:
        """Number of campaigns by the name of their protocol, by name."""
        return dict(sorted(Counter(self._current().table["protocol_name"].to_pylist()).items()))

    def summary(self, protocol: str, progress: Progress | None = None) -> Summary:
        """Headline figures of every complete comparison of a protocol, and which could not be read.

        What is not in the index yet is read from the runs' own tables, once; ``progress`` is told how far that is.
        """
        table = self._current().table
        of_table, found = self._summed.get(protocol, (None, None))
        if found is None or of_table is not table:
            found = self._summaries.of(protocol, table.filter(pc.equal(table["protocol_name"], protocol)), progress)
            self._summed[protocol] = (table, found)
        return found

    def summaries(self, protocol: str) -> pa.Table:
        """The table of :meth:`summary` (schema ``SUMMARY``), newest campaign first."""
        return self.summary(protocol).table

    def _current(self) -> _State:
        if self._state is None:
            self.refresh()
        assert self._state is not None
        return self._state

    def _load(self) -> _State | None:
        kept = index_files.read(self.path, schema.INDEX)
        if kept is None or kept.notes.get("store") != _identity(self.uri):
            return None
        seen = kept.notes.get("seen")
        if not isinstance(seen, dict):
            return None
        return _State(kept.table, seen, str(kept.notes.get("stamp", "")), {})

    def _renew(self, state: _State, stamp: str, *, wait_s: float | None, keep: bool = False) -> bool:
        """Compare ``state`` with the store and show the result; ``wait_s`` None: the caller holds the lock.

        ``keep``: write the file where only the database has another stamp, so that the next process need not compare.
        Not at each refresh: while a campaign runs, its metrics change the stamp all the time.
        """
        if stamp and state.stamp == stamp:
            self._show(state)
            return False
        changes = self._changes(state)
        changed = bool(changes.runs or changes.gone)
        table = index_rows.merged(state.table, changes) if changed else state.table
        changed = changed and not table.equals(state.table)
        renewed = _State(table, changes.seen, stamp, {} if changed else state.records)
        self._show(renewed)
        if changed or keep or wait_s is None:
            self._write(renewed, wait_s)
        return changed

    def _changes(self, state: _State) -> index_rows.Changes:
        known = index_rows.known_states(state.table)
        found = index_sqlite.read(self.uri, known)
        if found is None:
            from drift_runs.tracking import index_search

            found = index_search.read(self.uri, known, index_rows.unfinished(state.table), state.seen)
        return found

    def _show(self, state: _State) -> None:
        locations.remember(self.uri, index_rows.locations(state.table))
        self._state = state

    def _write(self, state: _State, wait_s: float | None) -> None:
        notes = {"store": _identity(self.uri), "seen": dict(state.seen), "stamp": state.stamp}
        if wait_s is None:
            index_files.write(self.path, state.table, schema.INDEX, notes)
            return
        with index_files.turn(self.folder, wait_s) as mine:
            if mine:  # else another process writes the same
                index_files.write(self.path, state.table, schema.INDEX, notes)

    def _found(self, state: _State, protocol: str | None, matching: str) -> list[int]:
        table = state.table
        mask: Any = None
        if protocol is not None:
            mask = pc.equal(table["protocol_name"], protocol)
        if matching:
            hits = [pc.match_substring(table[name], matching, ignore_case=True) for name in _SEARCHED]
            hit = pc.or_(pc.or_(hits[0], hits[1]), hits[2])
            mask = hit if mask is None else pc.and_(mask, hit)
        return list(range(table.num_rows)) if mask is None else pc.indices_nonzero(mask).to_pylist()

    def _records(self, state: _State, places: list[int]) -> tuple[CampaignRecord, ...]:
        run_ids = state.table["run_id"].take(pa.array(places, pa.int64())).to_pylist()
        missing = [place for place, run_id in zip(places, run_ids, strict=True) if run_id not in state.records]
        for record in index_rows.records_of(state.table, missing):
            state.records[record.run_id] = record
        return tuple(state.records[run_id] for run_id in run_ids)


def _empty() -> _State:
    return _State(schema.INDEX.empty_table(), {}, "", {})


def _identity(uri: str) -> str:
    """Whose index it is. A local store is known by its place beside the index: it may be moved, or copied whole."""
    path = uris.sqlite_path(uri) if uris.scheme_of(uri) == "sqlite" else None
    return path.name if path is not None else index_files.digest(uris.redacted(uri))
