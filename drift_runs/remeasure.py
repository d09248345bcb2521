"""Results from stored rows: found by protocol, by name or by run, and computed again with no model and no server."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from typing import Protocol as Interface

import pyarrow as pa
from pydantic import ValidationError

from drift_runs import schema
from drift_runs.errors import NotMeasured, ProtocolError, StoreError
from drift_runs.importing import figures_without_positions
from drift_runs.measure.listed import Texts
from drift_runs.measure.results import Across, ArmResult, Results
from drift_runs.protocol.canonical import canonical_json
from drift_runs.protocol.load import LoadedProtocol, find_protocol, load_protocol
from drift_runs.protocol.model import Protocol
from drift_runs.protocol.problems import did_you_mean, one_of
from drift_runs.store import Plan, PlannedCapture, Store, plans, read_table
from drift_runs.tracking.uris import redacted

LEAST_RUN_ID = 6
"""Characters of a run id that are taken as one."""
TOLERANCE = 1e-9
"""Relative; beyond it a number counts as different."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredCampaign:
    """A campaign of a store, with its protocol."""

    protocol: Protocol
    protocol_sha256: str
    run_id: str
    captures: tuple[PlannedCapture, ...]
    loaded: LoadedProtocol | None
    """With its streams, where the protocol's file is at hand."""

    @property
    def measured(self) -> tuple[PlannedCapture, ...]:
        return tuple(entry for entry in self.captures if entry.comparison)


class Rows(Interface):
    """Where positions are read from."""

    where: str

    def missing(self, entry: PlannedCapture) -> int:
        """Windows of a comparison that are not there."""
        ...

    def comparison(self, entry: PlannedCapture) -> pa.Table:
        """Positions of a comparison (schema ``COMPARISON``)."""
        ...

    def contexts(self, entry: PlannedCapture) -> pa.Table:
        """Means by context of an import (schema ``CONTEXTS``)."""
        ...

    def rollouts(self, capture: str) -> pa.Table:
        """Continuations of one arm of an import (schema ``ROLLOUTS``)."""
        ...


class StoredRows:
    """Rows of a store's folder."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.where = str(store.root)

    def missing(self, entry: PlannedCapture) -> int:
        return sum(not self.store.comparison_file(entry.comparison, name).is_file() for name in entry.windows)

    def comparison(self, entry: PlannedCapture) -> pa.Table:
        return self.store.read_comparison(entry.comparison, entry.windows)

    def contexts(self, entry: PlannedCapture) -> pa.Table:
        return read_table(self.store.comparison_folder(entry.comparison) / "contexts.parquet", schema.CONTEXTS)

    def rollouts(self, capture: str) -> pa.Table:
        return read_table(self.store.capture_folder(capture) / "rollouts.parquet", schema.ROLLOUTS)


class TrackedRows:
    """Rows that were logged as artifacts, for a machine that has the tracking store and not the folder."""

    def __init__(self, uri: str, runs: Mapping[str, str]) -> None:
        self.where = redacted(uri)
        self._uri = uri
        self._runs = runs

    def missing(self, entry: PlannedCapture) -> int:
        return 0

    def comparison(self, entry: PlannedCapture) -> pa.Table:
        from drift_runs.tracking.reader import load_rows

        return load_rows(self._uri, self._runs[entry.name])

    def contexts(self, entry: PlannedCapture) -> pa.Table:
        raise self._not_logged(entry.name)

    def rollouts(self, capture: str) -> pa.Table:
        raise self._not_logged(capture)

    def _not_logged(self, name: str) -> NotMeasured:
        return NotMeasured(
            f"{name} has no positions among its artifacts", where=self.where, todo="name the store folder with --store"
        )


class Measured(NamedTuple):
    """One arm, computed again."""

    entry: PlannedCapture
    result: ArmResult | None
    """None for an import without positions."""
    figures: pa.Table


def tracked_campaign(uri: str, name: str) -> tuple[StoredCampaign, TrackedRows] | None:
    """A campaign by the beginning of its run's id from the tracking store alone; None when it holds no such run."""
    from drift_runs.tracking.reader import list_campaigns, load_protocol_json

    if len(name) < LEAST_RUN_ID:
        return None
    record = next((found for found in list_campaigns(uri) if found.run_id.startswith(name)), None)
    if record is None:
        return None
    try:
        protocol = Protocol.model_validate_json(load_protocol_json(uri, record.run_id), strict=True)
    except ValidationError:
        raise StoreError("its protocol cannot be read", where=f"run {record.run_id}") from None
    whole = [arm for arm in record.arms if arm.complete]
    captures = tuple(
        PlannedCapture(
            name=arm.arm,
            kind=arm.role,
            capture=arm.capture_id,
            comparison=arm.run_id,
            windows=(),
            against=arm.reference,
            of=arm.arm.rpartition("#")[0] if arm.role == "launch" else "",
        )
        for arm in whole
    )
    campaign = StoredCampaign(
        protocol=protocol,
        protocol_sha256=record.protocol_sha256,
        run_id=record.run_id,
        captures=captures,
        loaded=None,
    )
    return campaign, TrackedRows(uri, {arm.arm: arm.run_id for arm in whole})


def find_campaign(store: Store, name: str) -> StoredCampaign:
    """The newest campaign of a store by protocol file, protocol name, or the beginning of its run's id.

    ``NotMeasured`` when there is none.
    """
    store.open(create=False)
    known = plans(store)
    by_run = [plan for plan in known if len(name) >= LEAST_RUN_ID and plan.run_id.startswith(name)]
    if by_run:
        return _from_plan(by_run[0], None, store)
    try:
        loaded = load_protocol(find_protocol(name))
    except ProtocolError:
        named = [plan for plan in known if plan.name == name]
        if named:
            return _from_plan(named[0], None, store)
        if Path(name).suffix == ".toml" or not known:
            raise
        names = sorted({plan.name for plan in known if plan.name})
        raise NotMeasured(
            f"no campaign {name!r}",
            where=str(store.root),
            expected=f"a protocol file, the beginning of a run's id, or {one_of(names)}",
            todo=did_you_mean(name, names),
        ) from None
    for plan in known:
        if plan.protocol_sha256 == loaded.protocol_sha256:
            return _from_plan(plan, loaded, store)
    raise NotMeasured(
        f"{loaded.protocol.name} version {loaded.protocol.version} never ran here",
        where=str(store.root),
        todo=f"run it first: drift run {name}",
    )


def _from_plan(plan: Plan, loaded: LoadedProtocol | None, store: Store) -> StoredCampaign:
    if loaded is not None:
        protocol = loaded.protocol
    elif plan.protocol is None:
        raise NotMeasured(
            "an older plan, without its protocol", where=str(store.root), expected="the protocol's file as argument"
        )
    else:
        try:
            protocol = Protocol.model_validate_json(canonical_json(plan.protocol), strict=True)
        except ValidationError:
            raise StoreError(
                "a plan whose protocol cannot be read", where=str(store.root), todo="name the protocol's file instead"
            ) from None
    return StoredCampaign(
        protocol=protocol,
        protocol_sha256=plan.protocol_sha256,
        run_id=plan.run_id,
        captures=plan.captures,
        loaded=loaded,
    )


class Remeasured:
    """Computes a stored campaign again, arm by arm in the order of its plan."""

    def __init__(self, campaign: StoredCampaign, rows: Rows, texts: Texts | None = None) -> None:
        self.campaign = campaign
        self.rows = rows
        self._results = Results(campaign.protocol, texts)

    def arms(self, only: Sequence[str] = ()) -> Iterator[Measured]:
        """Whole arms in order; ``only``: names of arms that are wanted (floors and launches are measured as needed)."""
        for entry in self.campaign.measured:
            if self.rows.missing(entry):
                continue
            if entry.table != "comparison":
                table, figures = self._without_positions(entry)
                self._results.keep_without_positions(
                    table, figures, arm=entry.name, kind=entry.kind, against=entry.against
                )
                if not only or entry.name in only:
                    yield Measured(entry, None, figures)
                continue
            comparison = self.rows.comparison(entry)
            result = self._results.measure(
                comparison, arm=entry.name, kind=entry.kind, against=entry.against, of=entry.of, ranked=entry.ranked
            )
            if not only or entry.name in only:
                yield Measured(entry, result, result.figures)

    def add_figures(self, arm: str, figures: pa.Table) -> None:
        """Note further figures of an arm, which are not made from its rows."""
        self._results.add_figures(arm, figures)

    def across(self) -> Across:
        """The arms against each other, once :meth:`arms` has gone through all of them."""
        return self._results.across()

    def _without_positions(self, entry: PlannedCapture) -> tuple[pa.Table, pa.Table]:
        """What is stored of an import without positions, and its figures."""
        reference = None
        if entry.table == "contexts":
            table = self.rows.contexts(entry)
        else:
            table = self.rows.rollouts(entry.capture)
            against = next((found for found in self.campaign.captures if found.name == entry.against), None)
            reference = self.rows.rollouts(against.capture if against else entry.against)
        figures = figures_without_positions(table, self.campaign.protocol, arm=entry.name, reference=reference)
        return table, figures


_NUMBERS = (
    "value",
    "n",
    "excluded",
    "beyond",
    "low",
    "high",
    "standard_error",
    "bca_low",
    "bca_high",
    "t_low",
    "t_high",
)
_COMPARED = (*_NUMBERS, "state", "named", "named_share", "floor", "floor_value", "borrowed", "verdict", "clusters")
_KEYS: Mapping[str, tuple[str, ...]] = {
    "figures": ("scope_kind", "scope", "outliers", "spec", "statistic"),
    "pairs": ("left", "right", "scope_kind", "scope", "outliers", "spec", "statistic"),
    "agreement": ("left", "right", "outliers"),
    "proposals": ("window", "rule", "floor"),
    "determinism": ("against", "window"),
    "answers": ("answer",),
}
"""What names a row of each table."""


_LEFT_OUT = ("window_hash", "text", "token_text", "candidate_text", "wrong_from", "wrong_to")
"""What needs more than the comparison: the rows themselves, or the dictionary and the streams."""


class Compared(NamedTuple):
    """Two tables of one kind: what was logged, and what the rows give now."""

    equal: int
    differing: tuple[str, ...]
    """One line for each row that is not the same, or that only the logged table has."""
    only_computed: int
    """Rows that were never logged: an older version did not know their figure."""


def differences(kind: str, label: str, logged: pa.Table, computed: pa.Table) -> Compared:
    """Row by row: texts in full, numbers to the tolerance.

    A column that is null throughout the logged table is left out: the version that wrote it had no such column.
    ``kind`` is ``figures``, ``determinism``, ``answers``, ``pairs``, ``agreement`` or ``proposals``.
    """
    keys = _KEYS[kind]
    left_out = (*keys, *_LEFT_OUT)
    compared = _COMPARED if kind == "figures" else tuple(name for name in computed.column_names if name not in left_out)
    compared = tuple(name for name in compared if not logged.num_rows or logged[name].null_count < logged.num_rows)

    def keyed(table: pa.Table) -> dict[tuple[str, ...], dict]:
        return {tuple(str(row[key]) for key in keys): row for row in table.to_pylist()}

    before, after = keyed(logged), keyed(computed)
    lines = [f"{label} {'/'.join(key)}: only logged" for key in sorted(before.keys() - after.keys())]
    equal = 0
    for key in sorted(before.keys() & after.keys()):
        old, new = before[key], after[key]
        changed = [name for name in compared if not _same(old[name], new[name])]
        if changed:
            was = ", ".join(f"{name} {old[name]}" for name in changed)
            now = ", ".join(f"{name} {new[name]}" for name in changed)
            lines.append(f"{label} {'/'.join(key)}: logged {was}; now {now}")
        else:
            equal += 1
    return Compared(equal, tuple(lines), len(after.keys() - before.keys()))


def different_metrics(label: str, logged: Mapping[str, float], computed: Mapping[str, float]) -> Compared:
    """The same of metrics by name; series by history are not compared here."""
    both = sorted(computed.keys() & logged.keys())
    lines = tuple(
        f"{label} metric {name}: logged {logged[name]}; now {computed[name]}"
        for name in both
        if not _same(logged[name], computed[name])
    )
    return Compared(len(both) - len(lines), lines, len(computed.keys() - logged.keys()))


def _same(old: object, new: object) -> bool:
    if isinstance(old, float) and isinstance(new, float):
        return math.isclose(old, new, rel_tol=TOLERANCE, abs_tol=1e-15)
    return old == new
