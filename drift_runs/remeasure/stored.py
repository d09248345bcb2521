"""A campaign and its rows, found in a store or in the tracking store by protocol, by name or by run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol as Interface

import pyarrow as pa
from pydantic import ValidationError

from drift_runs import schema
from drift_runs.errors import NotMeasured, ProtocolError, StoreError
from drift_runs.protocol.canonical import canonical_json
from drift_runs.protocol.load import LoadedProtocol, find_protocol, load_protocol
from drift_runs.protocol.model import WRITERS, Protocol
from drift_runs.protocol.problems import did_you_mean, one_of
from drift_runs.store import Plan, PlannedCapture, PlannedGeneration, Store, plans, read_table
from drift_runs.tracking.uris import redacted

LEAST_RUN_ID = 6
"""Characters of a run id that are taken as one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredCampaign:
    """A campaign of a store, with its protocol."""

    protocol: Protocol
    protocol_sha256: str
    run_id: str
    captures: tuple[PlannedCapture, ...]
    loaded: LoadedProtocol | None
    """With its streams, where the protocol's file is at hand."""
    generation: PlannedGeneration | None = None
    """What it generated; None where it did not, or where its plan does not say."""

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


def tracked_campaign(uri: str, name: str) -> tuple[StoredCampaign, TrackedRows] | None:
    """A campaign by the beginning of its run's id from the tracking store alone; None when it holds no such run."""
    from drift_runs.tracking.index import open_index
    from drift_runs.tracking.reader import load_protocol_json

    if len(name) < LEAST_RUN_ID:
        return None
    record = open_index(uri).beginning(name)
    if record is None:
        return None
    try:
        protocol = Protocol.model_validate_json(load_protocol_json(uri, record.run_id), strict=True)
    except ValidationError:
        raise StoreError("its protocol cannot be read", where=f"run {record.run_id}") from None
    whole = [arm for arm in record.arms if arm.complete]
    writers = {arm.name for arm in protocol.arms if arm.engine in WRITERS}
    captures = tuple(
        PlannedCapture(
            name=arm.arm,
            kind=arm.role,
            capture=arm.capture_id,
            comparison=arm.run_id,
            windows=(),
            against=arm.reference,
            of=arm.arm.rpartition("#")[0] if arm.role == "launch" else "",
            table="written" if arm.arm in writers else "comparison",
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
        return _from_plan(by_run[0], _protocol_of(by_run[0]), store)
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


def _protocol_of(plan: Plan) -> LoadedProtocol | None:
    """The protocol of a plan with its streams, where it is among those that go by their names; None elsewhere."""
    try:
        loaded = load_protocol(find_protocol(plan.name))
    except ProtocolError:
        return None
    return loaded if loaded.protocol_sha256 == plan.protocol_sha256 else None


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
        generation=plan.generation,
    )
