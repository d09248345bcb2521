"""Runs of a tracking store as rows of the index, and rows of the index as records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from drift_runs.schema import INDEX
from drift_runs.tracking import tags
from drift_runs.tracking.records import ArmRecord, CampaignRecord

SYSTEM_TAG = "drift.host.system"
TOOL_TAG = "drift.tool.version"
CHANGING_TAGS = (tags.COMPLETE_TAG, tags.GENERATION_TAG, tags.SUPERSEDED_TAG)
"""Tags that are written, or taken away, after a run has begun, and of which a record or its figures depend."""

_OF_ARM = tuple(item.name for item in fields(ArmRecord))
_OF_CAMPAIGN = tuple(item.name for item in fields(CampaignRecord) if item.name not in ("arms", "notes", "outliers"))


class RunRow(NamedTuple):
    """One live run of the store that is a campaign or a comparison, and not superseded."""

    run_id: str
    kind: str
    """``campaign`` or ``comparison``."""
    experiment_id: str
    experiment: str
    """Its name."""
    status: str
    started_ms: int
    ended_ms: int | None
    location: str
    tags: Mapping[str, str]

    @property
    def state(self) -> str:
        return state_of(self.experiment_id, self.status, self.ended_ms, self.tags)


class Changes(NamedTuple):
    """How a store differs from what an index holds."""

    runs: list[RunRow]
    """New ones, and those whose state is another."""
    gone: frozenset[str]
    """Run ids that the index holds and the store no longer shows."""
    seen: Mapping[str, Any]
    """What the next look must know of this one: plain JSON."""


def state_of(experiment_id: str, status: str, ended_ms: int | None, run_tags: Mapping[str, str]) -> str:
    """What may change of a run, in one text: a run whose text is the same need not be read again."""
    changing = (run_tags.get(tag, "") for tag in CHANGING_TAGS)
    return "|".join((experiment_id, status, "" if ended_ms is None else str(ended_ms), *changing))


def known_states(table: pa.Table) -> dict[str, str]:
    """State of every run that the index holds, by run id."""
    arms = pc.list_flatten(table["arms"])
    found = dict(zip(table["run_id"].to_pylist(), table["state"].to_pylist(), strict=True))
    found.update(zip(_field(arms, "run_id").to_pylist(), _field(arms, "state").to_pylist(), strict=True))
    return found


def unfinished(table: pa.Table) -> frozenset[str]:
    """Run ids without the tag that says *complete*: these change."""
    arms = pc.list_flatten(table["arms"])
    campaigns = table["run_id"].filter(pc.invert(table["complete"])).to_pylist()
    waiting = _field(arms, "run_id").filter(pc.invert(_field(arms, "complete"))).to_pylist()
    return frozenset([*campaigns, *waiting])


def locations(table: pa.Table) -> dict[str, str]:
    """Where each run's artifacts are, by run id."""
    arms = pc.list_flatten(table["arms"])
    found = dict(zip(table["run_id"].to_pylist(), table["location"].to_pylist(), strict=True))
    found.update(zip(_field(arms, "run_id").to_pylist(), _field(arms, "location").to_pylist(), strict=True))
    return found


def merged(table: pa.Table, changes: Changes) -> pa.Table:
    """The index with the changes taken in. Only the campaigns that they touch are taken apart.

    ``StoreError`` when a tag of a changed run cannot be read. A comparison whose campaign is not there is left out.
    """
    campaigns = {run.run_id: run for run in changes.runs if run.kind == tags.CAMPAIGN}
    arms = {run.run_id: run for run in changes.runs if run.kind == tags.COMPARISON}
    replaced = pa.array([*arms, *changes.gone], pa.string())
    touched = {*campaigns, *changes.gone, *(run.tags.get(tags.PARENT_TAG, "") for run in arms.values())}
    held = pc.list_flatten(table["arms"])
    parents = table["run_id"].take(pc.list_parent_indices(table["arms"]))
    touched.update(parents.filter(pc.is_in(_field(held, "run_id"), replaced)).to_pylist())
    is_touched = pc.is_in(table["run_id"], pa.array(sorted(touched), pa.string()))
    rows = {row["run_id"]: row for row in table.filter(is_touched).to_pylist()}
    for run_id in changes.gone:
        rows.pop(run_id, None)
    for run_id, run in campaigns.items():
        rows[run_id] = {**campaign_row(run), "arms": rows.get(run_id, {}).get("arms", [])}
    gone = {*arms, *changes.gone}
    for row in rows.values():
        row["arms"] = [arm for arm in row["arms"] if arm["run_id"] not in gone]
    for run in arms.values():
        parent = rows.get(run.tags.get(tags.PARENT_TAG, ""))
        if parent is not None:
            parent["arms"].append(arm_row(run))
    for row in rows.values():
        row["arms"].sort(key=lambda arm: (arm["started_ms"], arm["run_id"]))
    together = pa.concat_tables(
        [table.filter(pc.invert(is_touched)), pa.Table.from_pylist(list(rows.values()), schema=INDEX)]
    )
    return together.sort_by([("started_ms", "descending"), ("run_id", "descending")]).combine_chunks()


def campaign_row(run: RunRow) -> dict[str, Any]:
    """A campaign as a row of the index, without its arms."""
    record = tags.campaign_record(
        run.tags,
        run_id=run.run_id,
        experiment=run.experiment,
        status=run.status,
        started_ms=run.started_ms,
        arms=(),
    )
    return {
        **{name: getattr(record, name) for name in _OF_CAMPAIGN},
        **_of_run(run),
        "notes": list(record.notes),
        "outliers": [{"window": window, "reason": reason} for window, reason in record.outliers],
        "system": run.tags.get(SYSTEM_TAG, ""),
        "tool": run.tags.get(TOOL_TAG, ""),
    }


def arm_row(run: RunRow) -> dict[str, Any]:
    """A comparison as an element of ``arms``."""
    record = asdict(tags.arm_record(run.tags, run_id=run.run_id))
    return {**record, **_of_run(run), "key": list(record["key"].items())}


def _of_run(run: RunRow) -> dict[str, Any]:
    return {
        "state": run.state,
        "experiment_id": run.experiment_id,
        "location": run.location,
        "started_ms": run.started_ms,
    }


def record_of(row: Mapping[str, Any]) -> CampaignRecord:
    """A row of the index as the record that a page shows."""
    return CampaignRecord(
        **{name: row[name] for name in _OF_CAMPAIGN},
        notes=tuple(row["notes"]),
        outliers=tuple((item["window"], item["reason"]) for item in row["outliers"]),
        arms=tuple(
            ArmRecord(**{**{name: arm[name] for name in _OF_ARM}, "key": dict(arm["key"])}) for arm in row["arms"]
        ),
    )


def records_of(table: pa.Table, places: Iterable[int]) -> list[CampaignRecord]:
    """The records at these places of the index, in their order."""
    # A slice copies nothing; taking rows from lists of structs copies all of them.
    return [record_of(row) for place in places for row in table.slice(place, 1).to_pylist()]


def _field(arms: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    return pc.struct_field(arms, name)
