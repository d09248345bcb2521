"""From what was captured to what is written freely: roots, futures, rollouts and tasks, judged and logged.

It comes behind the captures, because roots are their flips. Engines run once more, each in a process of its own; what
is on disk is not taken again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import pyarrow as pa

from drift_runs import schema
from drift_runs.campaign.logbook import Logbook
from drift_runs.campaign.request import Clock, GenerationReport, Reporter, Request
from drift_runs.capture.execution import Execution
from drift_runs.capture.process import Finished, Opened
from drift_runs.errors import ConfigError, DriftError, EngineError, NotMeasured
from drift_runs.generate.branch_figures import branch_figures
from drift_runs.generate.figures import rollout_figures, sampled_figures, temperature_label
from drift_runs.generate.rollouts import compare_rollouts
from drift_runs.generate.sampled import compare_sampled
from drift_runs.generate.task_figures import task_figures
from drift_runs.generate.task_order import task_order_table
from drift_runs.generate.task_table import task_drift_table, task_spans
from drift_runs.lanes.answered import tasks_table
from drift_runs.lanes.identity import rollouts_lane, sampled_lane, tasks_lane
from drift_runs.lanes.judged import BRANCH, TOKEN, WEIGHTS, constrained_outcomes, outcomes_table
from drift_runs.lanes.plan import LanePlan, items_of
from drift_runs.lanes.process import Generated, run_lanes
from drift_runs.lanes.scenes import Scenes
from drift_runs.measure.figures import figures_table
from drift_runs.measure.resampler import Resampler
from drift_runs.store import content_id
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
        self.plan = LanePlan(self.loaded, sound, request.bounds, self._comparison)
        self.reference = self.plan.reference
        self.reports: dict[str, GenerationReport] = {}
        self.task_order = schema.TASK_ORDER.empty_table()
        """Whether what drifts more fails more: schema ``TASK_ORDER``, once :meth:`run` has ended."""
        self._scenes: Scenes | None = None

    def _comparison(self, execution: Execution) -> pa.Table:
        return self.store.read_comparison(self.log.comparison_id(execution), execution.windows)

    def run(self) -> tuple[GenerationReport, ...]:
        """Take what is left, judge all of it, log it; one report an execution, the reference's first."""
        protocol = self.loaded.protocol
        if protocol.branches is None and protocol.rollouts is None and not protocol.tasks:
            return ()
        steps = {execution.name: self.plan.steps(self.store, execution) for execution in self.plan.executions}
        left = sum(items_of(found) for found in steps.values())
        self.reporter.generating(left, self.request.bounds.said(protocol))
        for execution in self.plan.executions:
            error: DriftError | None = None
            against = self.reports.get(execution.against)
            if against is not None and against.error is not None:
                error = NotMeasured(f"arm {execution.against} failed", where=f"arm {execution.name}")
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
            report = self._report(execution, error)
            self.reports[execution.name] = report
            self.reporter.generated(report)
        if self.plan.tasks:
            self._log_tasks()
        return tuple(self.reports.values())

    def _log_tasks(self) -> None:
        """What the arms' drift says of their passed tasks: of the whole campaign, so in its own run."""
        protocol = self.loaded.protocol
        ranked = [
            report
            for report in self.reports.values()
            if report.error is None and report.execution.kind in ("reference", "candidate", "follow-up")
        ]
        comparisons = {
            report.execution.name: self._comparison(report.execution)
            for report in ranked
            if report.execution is not self.reference
        }
        streams = {task.window: self.loaded.tokens(task.window) for task in protocol.tasks}
        drift = task_drift_table(
            {report.execution.name: report.tasks for report in ranked},
            comparisons,
            protocol,
            task_spans(protocol, streams, self.scenes.ends),
        )
        self.task_order = task_order_table(drift, protocol)
        self.log.tracker.log_files(
            self.log.run_id,
            {
                artifacts.TASK_DRIFT_FILE: artifacts.parquet_bytes(drift, schema.TASK_DRIFT),
                artifacts.TASK_ORDER_FILE: artifacts.parquet_bytes(self.task_order, schema.TASK_ORDER),
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
        with contextlib.closing(run_lanes(self.store, self.loaded, execution, steps)) as events:
            for event in events:
                match event:
                    case Opened():
                        self.clock.add(open_s=event.seconds)
                    case Generated():
                        self.clock.add(engine_s=event.seconds, tokens=event.tokens)
                        self.reporter.written(event)
                        self.log.tracker.beat(self.log.run_id)
                    case Finished():
                        self.clock.peak(event.peak_bytes)

    @property
    def scenes(self) -> Scenes:
        if self._scenes is None:
            dictionary = self.loaded.protocol.dictionary
            self._scenes = Scenes(self.loaded, self.store.read_dictionary(dictionary.sha256))
        return self._scenes

    def _report(self, execution: Execution, error: DriftError | None) -> GenerationReport:
        """Judge, measure and log what one execution wrote."""
        if error is not None:
            return GenerationReport(execution=execution, error=error)
        protocol, plan, tables = self.loaded.protocol, self.plan, {}
        figures: list[pa.Table] = []
        resampler = Resampler.of(protocol)
        is_reference = execution is self.reference
        outcomes = schema.OUTCOMES.empty_table()
        tasks = schema.TASKS.empty_table()
        if protocol.branches is not None:
            lane = plan.futures(execution)
            wanted = [(item.window, item.position, item.first) for item in plan.wanted(execution)]
            tables[artifacts.FUTURES_FILE] = self.store.read_futures(lane.id, wanted)
            if not is_reference:
                outcomes = self._outcomes(execution)
                explored = plan.roots[execution.name]
                tables[artifacts.ROOTS_FILE] = explored.roots
                tables[artifacts.OUTCOMES_FILE] = outcomes
                figures.append(
                    branch_figures(
                        outcomes,
                        protocol,
                        arm=execution.name,
                        existing=explored.existing,
                        floors=self._floors_of(execution),
                    )
                )
        if prompts := plan.prompts(execution):
            lane = rollouts_lane(self.loaded, execution)
            tables[artifacts.ROLLOUTS_FILE] = self._rolled(lane.id, 0, prompts)
            if not is_reference:
                against = rollouts_lane(self.loaded, self._against(execution))
                found = compare_rollouts(
                    self._rolled(against.id, 0, prompts),
                    tables[artifacts.ROLLOUTS_FILE],
                    resampler=resampler,
                    end_tokens=self.scenes.ends,
                )
                figures.append(rollout_figures(found, arm=execution.name, resampler=resampler))
        for temperature in plan.temperatures:
            mine, theirs = (
                self._draws(sampled_lane(self.loaded, side, temperature).id, plan.sampled_prompts(execution))
                for side in (execution, self._against(execution))
            )
            tables[artifacts.sampled_file(temperature_label(temperature))] = mine
            if not is_reference:
                sampled = compare_sampled(
                    theirs, mine, temperature=temperature, resampler=resampler, end_tokens=self.scenes.ends
                )
                figures.append(sampled_figures(sampled, arm=execution.name, resampler=resampler))
        if plan.tasks:
            tasks = tasks_table(self.store, self.scenes, plan.tasks, tasks_lane(self.loaded, execution))
            tables[artifacts.TASKS_FILE] = tasks
            base = None if is_reference else self.reports[self.reference.name].tasks
            figures.append(figures_table(task_figures(tasks, protocol, reference=base)))
        together = pa.concat_tables(figures) if figures else schema.FIGURES.empty_table()
        tables[artifacts.GENERATION_FIGURES_FILE] = together
        self._log(execution, tables)
        if not is_reference:
            self.log.results.add_figures(execution.name, together)
        return GenerationReport(
            execution=execution,
            outcomes=outcomes,
            tasks=tasks,
            figures=together,
            explored=plan.roots.get(execution.name),
        )

    def _against(self, execution: Execution) -> Execution:
        if execution is self.reference:
            return execution
        return next(other for other in self.plan.executions if other.name == execution.against)

    def _outcomes(self, execution: Execution) -> pa.Table:
        roots = self.plan.roots[execution.name].roots
        reference = self.plan.futures(self._against(execution))
        pairs = (BRANCH, TOKEN, WEIGHTS) if self.plan.crosses(execution) else (BRANCH,)
        judged = [
            outcomes_table(
                self.store, self.scenes, roots, reference=reference, candidate=self.plan.futures(execution), pairs=pairs
            )
        ]
        for constrained, lane in self.plan.constrained(execution):
            judged.append(
                constrained_outcomes(
                    self.store, self.scenes, roots, name=constrained.name, reference=reference, constrained=lane
                )
            )
        return pa.concat_tables(judged)

    def _floors_of(self, execution: Execution) -> dict[str, pa.Table]:
        """Outcomes of the floors of what an execution is compared with, which come before it."""
        return {
            name: report.outcomes
            for name, report in self.reports.items()
            if report.execution.floor is not None
            and report.execution.against == execution.against
            and report.error is None
            and report.execution is not execution
        }

    def _rolled(self, lane: str, run: int, prompts: Sequence[str]) -> pa.Table:
        """The rollouts of these prompts, in their order: more may be there from a run with other bounds."""
        rows = {row["prompt"]: row for row in self.store.read_rollouts(lane, run).to_pylist()}
        return pa.Table.from_pylist([rows[name] for name in prompts], schema=schema.ROLLOUTS)

    def _draws(self, lane: str, prompts: Sequence[str]) -> pa.Table:
        draws = range(self.loaded.protocol.sampled.draws)
        return pa.concat_tables([self._rolled(lane, draw, prompts) for draw in draws])

    def _log(self, execution: Execution, tables: dict[str, pa.Table]) -> None:
        """Store the tables beside the comparison's own, unless the run carries the very same."""
        bounds = self.request.bounds.said(self.loaded.protocol)
        key = content_id(
            {
                "bounds": list(bounds),
                "tables": {name: content_id(table.to_pylist()) for name, table in tables.items() if table.num_rows},
            }
        )
        self.log.log_generation(execution, key, tables, bounds)
