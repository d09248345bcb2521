"""From what was captured to what is written freely: roots, futures, rollouts and tasks, judged and logged.

It comes behind the captures, because roots are their flips. Engines run once more, each in a process of its own; what
is on disk is not taken again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import asdict

import pyarrow as pa

from drift_runs import schema
from drift_runs.campaign.judging import Judging, generates
from drift_runs.campaign.logbook import Logbook
from drift_runs.campaign.request import Clock, GenerationReport, Reporter, Request
from drift_runs.campaign.travelled import writing_files
from drift_runs.capture.execution import Execution
from drift_runs.capture.process import Finished, Opened, Probed
from drift_runs.errors import ConfigError, EngineError
from drift_runs.lanes.arrived import arrived
from drift_runs.lanes.plan import LanePlan, items_of
from drift_runs.lanes.process import Generated, run_lanes
from drift_runs.protocol.canonical import canonical_json
from drift_runs.store import PlannedGeneration, content_id
from drift_runs.tracking import artifacts


class Generation:
    """The generation of one campaign whose captures are whole."""

    def __init__(self, request: Request, executions: Sequence[Execution], log: Logbook, reporter: Reporter) -> None:
        self.request = request
        self.store = request.store
        self.loaded = request.loaded
        self.log = log
        self.reporter = reporter
        self.clock = Clock()
        sound = [
            execution
            for execution in executions
            if execution.kind == "reference" or log.outcomes[execution.name].error is None
        ]
        first = executions[0]
        self.arrived = arrived(self.store, self.loaded, first, request.bounds) if first.stored else None
        """Of a reference of another machine: what it wrote there."""
        self.plan = LanePlan(self.loaded, sound, request.bounds, self._comparison, arrived=self.arrived)
        self.reference = self.plan.reference
        self.judging = Judging(self.store, self.plan, self._comparison)
        self.task_order = schema.TASK_ORDER.empty_table()
        """Whether what drifts more fails more: schema ``TASK_ORDER``, once :meth:`run` has ended."""

    def _comparison(self, execution: Execution) -> pa.Table:
        return self.store.read_comparison(self.log.comparison_id(execution), execution.windows)

    def run(self) -> tuple[GenerationReport, ...]:
        """Take what is left, judge all of it, log it; one report an execution, the reference's first."""
        protocol = self.loaded.protocol
        if not generates(protocol) or (self.arrived is not None and self.arrived.empty):
            return ()
        self.log.write_plan(
            PlannedGeneration(
                arms=tuple(execution.name for execution in self.plan.executions), bounds=asdict(self.request.bounds)
            )
        )
        if self.request.ask_again:
            for execution in self.plan.executions:
                for lane in () if execution.scored else self.plan.lanes(execution):
                    self.store.forget_refusals(lane.id)
        steps = {execution.name: self.plan.steps(self.store, execution) for execution in self.plan.executions}
        left = sum(items_of(found) for found in steps.values())
        self.reporter.generating(left, self.request.bounds.said(protocol))
        for execution in self.plan.executions:
            error = self.judging.blocked(execution)
            # A repeat in the same process is taken by the process of what it repeats.
            same = [other for other in self.plan.executions if self._shares(other, execution)]
            work = [step for each in (execution, *same) for step in steps[each.name]]
            if work and execution.pass_ == 1 and error is None:
                try:
                    self._launch(execution, work)
                except (EngineError, ConfigError) as failure:
                    if execution is self.reference:
                        raise
                    error = failure
            report = self.judging.judge(execution, error)
            if report.error is None:
                self._log(execution, report)
            self.reporter.generated(report)
        if self.loaded.prompts is not None:
            self._log_prompts()
        if self.plan.tasks:
            self._log_tasks()
        if self.arrived is None and not self.reference.full_rows:
            tables = self.judging.reports[self.reference.name].tables
            self.log.tracker.log_files(self.log.run_id, writing_files(self.store, self.plan, tables))
        return tuple(self.judging.reports.values())

    def _log_prompts(self) -> None:
        """The panel that was rolled out: a reader of the tracking store has no other way to a prompt's text."""
        content = canonical_json(self.loaded.prompts.model_dump(mode="json", by_alias=True))
        self.log.tracker.log_files(self.log.run_id, {artifacts.PROMPTS_FILE: content})

    def _log_tasks(self) -> None:
        """What the arms' drift says of their passed tasks: of the whole campaign, so in its own run."""
        found = self.judging.tasks()
        self.task_order = found.order
        self.log.tracker.log_files(
            self.log.run_id,
            {
                artifacts.TASK_DRIFT_FILE: artifacts.parquet_bytes(found.drift, schema.TASK_DRIFT),
                artifacts.TASK_ORDER_FILE: artifacts.parquet_bytes(found.order, schema.TASK_ORDER),
            },
        )

    def _shares(self, other: Execution, execution: Execution) -> bool:
        return (
            other.pass_ > 1
            and execution.pass_ == 1
            and other.arm == execution.arm
            and (other.launch, other.settings) == (execution.launch, execution.settings)
        )

    def _launch(self, execution: Execution, steps: list[dict]) -> None:
        self.reporter.opening(execution)
        taken = {step["generation"] for step in steps}
        for each in self.plan.executions:
            for lane in self.plan.lanes(each):
                if lane.id in taken:
                    self.store.write_identity(self.store.generation_folder(lane.id), "generation.json", lane.identity)
        with contextlib.closing(run_lanes(self.store, self.loaded, execution, steps)) as events:
            for event in events:
                match event:
                    case Opened():
                        self.clock.add(open_s=event.seconds)
                    case Probed():
                        if remark := self.log.probed(event.execution, event.report):
                            self.reporter.note(f"warning: {remark}")
                        self.log.log_probe(event.execution, self.log.outcomes[event.execution].run_id)
                    case Generated():
                        self.clock.add(engine_s=event.seconds, tokens=event.tokens)
                        self.reporter.written(event)
                        self.log.tracker.beat(self.log.run_id)
                    case Finished():
                        self.clock.peak(event.peak_bytes)

    def _log(self, execution: Execution, report: GenerationReport) -> None:
        """Store its tables beside the comparison's own, unless the run carries the very same."""
        bounds = self.request.bounds.said(self.loaded.protocol)
        key = content_id(
            {
                "bounds": list(bounds),
                "tables": {
                    name: content_id(table.to_pylist()) for name, table in report.tables.items() if table.num_rows
                },
            }
        )
        self.log.log_generation(execution, key, report.tables, bounds)
        if execution.listed:
            files = {artifacts.GENERATION_RETRIES_FILE: canonical_json(dict(report.retries))}
            self.log.tracker.log_files(self.log.run_of(execution), files)
        if execution is not self.reference:
            self.log.results.add_figures(execution.name, report.figures)
