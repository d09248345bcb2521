"""What a stored campaign wrote freely, judged and measured again from the store, with no engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, get_args

import pyarrow as pa
from pydantic import TypeAdapter, ValidationError

from drift_runs.campaign import GenerationReport
from drift_runs.campaign.judging import Judging, TaskTables, generates
from drift_runs.capture.execution import Captured, Kind
from drift_runs.errors import DriftError, NotMeasured, StoreError
from drift_runs.lanes.arrived import arrived
from drift_runs.lanes.bounds import Bounds
from drift_runs.lanes.plan import LanePlan, items_of
from drift_runs.protocol.canonical import canonical_json
from drift_runs.protocol.model import Protocol
from drift_runs.remeasure.stored import Rows, StoredCampaign, StoredRows
from drift_runs.store import PlannedCapture, PlannedGeneration, Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Regenerated:
    """The generation of a stored campaign, computed again."""

    reference: str
    """Whose own writing was logged with the campaign."""
    reports: tuple[GenerationReport, ...]
    """In the order of the campaign; one whose files are not all there has an error and no number."""
    tasks: TaskTables | None
    """None where no tasks were run, or some arms only are wanted."""
    bounds: tuple[str, ...]
    """What was bounded below the protocol, in words."""
    temperatures: Mapping[str, tuple[float, ...]]
    """Arm to those at which it was decoded."""
    constrained: Mapping[str, tuple[str, ...]]
    """Arm to the names of its constrained decodes, of those that were judged."""

    @property
    def measured(self) -> tuple[GenerationReport, ...]:
        return tuple(report for report in self.reports if report.error is None)

    @property
    def incomplete(self) -> tuple[DriftError, ...]:
        """Why the others are not measured, one error each."""
        return tuple(report.error for report in self.reports if report.error is not None)


def judge_again(campaign: StoredCampaign, rows: Rows, only: Sequence[str] = ()) -> Regenerated | None:
    """Judge and measure all that a campaign wrote freely; None where its protocol asks for nothing of the kind.

    ``only``: arms that are wanted; what they stand beside is judged with them.

    Raises
    ------
    NotMeasured
        it cannot be judged again, and why: the plan does not say what was generated, or the streams are not at hand.
    StoreError
        a file is damaged, or is not what its name says.
    """
    if not generates(campaign.protocol):
        return None
    if not isinstance(rows, StoredRows):
        raise NotMeasured(
            "generation is not measured again: futures and rollouts are read from the store's folder",
            where=rows.where,
            todo="name the folder with --store",
        )
    if campaign.generation is None:
        raise NotMeasured(
            "generation is not measured again: the plan of this campaign does not say how much was generated",
            where=rows.where,
            todo="run 'drift run' again: it notes that, and writes only what is missing",
        )
    if campaign.loaded is None:
        raise NotMeasured(
            "generation is not measured again: it is judged with the streams beside the protocol's file",
            where=rows.where,
            todo="name the protocol's file in place of its name or run",
        )
    entries = {entry.name: entry for entry in campaign.captures}
    planned = [entries[name] for name in campaign.generation.arms]
    for entry in planned:
        if entry.comparison and (missing := rows.missing(entry)):
            raise NotMeasured(
                "generation is not measured again: its roots are flips of every arm, and "
                f"{missing} of {len(entry.windows)} windows of {entry.name} are not there",
                where=rows.where,
                todo="go on with 'drift run'",
            )
    executions = [captured(rows.store, entry, campaign.protocol) for entry in planned]
    bounds = read_bounds(campaign.generation, rows.where)

    def comparison(execution: Captured) -> pa.Table:
        return rows.comparison(entries[execution.name])

    there = arrived(rows.store, campaign.loaded, executions[0], bounds) if executions[0].stored else None
    plan = LanePlan(campaign.loaded, executions, bounds, comparison, arrived=there)
    judging = Judging(rows.store, plan, comparison)
    wanted = _needed(executions, only)
    for execution in plan.executions:
        if execution.name in wanted:
            error = judging.blocked(execution)
            if error is None and (left := items_of(plan.steps(rows.store, execution))):
                error = NotMeasured(
                    f"{left} of its futures, rollouts and answers are not there",
                    where=f"arm {execution.name}",
                    todo="go on with 'drift run'",
                )
            judging.judge(execution, error)
    shown = {executions[0].name, *only} if only else wanted
    return Regenerated(
        reference=executions[0].name,
        reports=tuple(report for name, report in judging.reports.items() if name in shown),
        tasks=judging.tasks() if plan.tasks and not only else None,
        bounds=bounds.said(campaign.protocol),
        temperatures={execution.name: plan.temperatures(execution) for execution in plan.executions},
        constrained={
            execution.name: tuple(found.name for found, _ in plan.constrained(execution))
            for execution in plan.executions
        },
    )


def captured(store: Store, entry: PlannedCapture, protocol: Protocol) -> Captured:
    """An entry of a plan as what was executed. ``StoreError`` unless its identity is what its id follows from."""
    floor = next((found for found in protocol.floors if found.name == entry.name), None)
    if entry.kind not in get_args(Kind) or (entry.kind == "floor") != (floor is not None):
        raise StoreError(
            f"{entry.name} is no {entry.kind} of its protocol", where=str(store.root), todo="run 'drift run' again"
        )
    return Captured(
        name=entry.name,
        kind=entry.kind,
        against=entry.against or protocol.reference.name,
        floor=floor,
        windows=entry.windows,
        identity=store.read_capture(entry.capture),
        capture_id=entry.capture,
        from_run=entry.from_run,
    )


def read_bounds(generation: PlannedGeneration, where: str) -> Bounds:
    """The bounds of a plan. ``StoreError`` for one that this version does not know, or that is none."""
    known = {field.name for field in fields(Bounds)}
    try:
        if not known.issuperset(generation.bounds) or _below_zero(generation.bounds):
            raise ValueError
        return TypeAdapter(Bounds).validate_json(canonical_json(generation.bounds), strict=True)
    except (ValidationError, ValueError, TypeError):
        raise StoreError(
            "a plan with bounds of generation that cannot be read",
            where=where,
            expected=f"some of {', '.join(sorted(known))}",
            todo="run 'drift run' again, or read it with the version of drift-runs that wrote it",
        ) from None


def _below_zero(bounds: Mapping[str, Any]) -> bool:
    return any(isinstance(value, int | float) and value < 0 for value in bounds.values())


def _needed(executions: Sequence[Captured], only: Sequence[str]) -> set[str]:
    """Names of what is judged: all, or what is wanted with all that it is set against and stands beside."""
    if not only:
        return {execution.name for execution in executions}
    against = {execution.name: execution.against for execution in executions}
    needed = {executions[0].name}
    for name in only:
        while name in against and name not in needed:
            needed.add(name)
            name = against[name]
    beside = {against[name] for name in needed}
    return needed | {found.name for found in executions if found.floor is not None and found.against in beside}
