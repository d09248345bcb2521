"""What was written freely, judged and measured from the store: by a campaign, and again by ``drift measure``.

No engine is opened here and nothing is logged. Executions come in the order of their plan: what an arm's figures stand
beside has to be judged before it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from drift_runs import schema
from drift_runs.campaign.request import GenerationReport
from drift_runs.capture.execution import Captured
from drift_runs.errors import DriftError, NotMeasured
from drift_runs.generate.branch_figures import branch_figures
from drift_runs.generate.figures import refused_figures, rollout_figures, sampled_figures, temperature_label
from drift_runs.generate.rollouts import compare_rollouts, up_to_end
from drift_runs.generate.sampled import compare_sampled
from drift_runs.generate.task_figures import task_figures
from drift_runs.generate.task_order import task_order_table
from drift_runs.generate.task_table import task_drift_table, task_spans
from drift_runs.lanes.answered import tasks_table
from drift_runs.lanes.identity import Lane, rollouts_lane, sampled_lane, tasks_lane
from drift_runs.lanes.judged import BRANCH, TOKEN, WEIGHTS, constrained_outcomes, outcomes_table, own_keys
from drift_runs.lanes.plan import Explored, LanePlan
from drift_runs.lanes.scenes import Scenes
from drift_runs.lanes.stored import stored_rollouts
from drift_runs.measure.figures import figures_table
from drift_runs.measure.resampler import Resampler
from drift_runs.protocol.model import Protocol
from drift_runs.store import Store
from drift_runs.tracking import artifacts


def generates(protocol: Protocol) -> bool:
    """Whether a protocol asks for anything that is written freely."""
    return protocol.branches is not None or protocol.rollouts is not None or bool(protocol.tasks)


class TaskTables(NamedTuple):
    """What the arms' drift says of their passed tasks."""

    drift: pa.Table
    """Schema ``TASK_DRIFT``."""
    order: pa.Table
    """Schema ``TASK_ORDER``."""


class Judging:
    """Judges the executions of a plan, one after the other, from what their lanes left in a store."""

    def __init__(self, store: Store, plan: LanePlan, comparison: Callable[[Captured], pa.Table]) -> None:
        self.store = store
        self.plan = plan
        self.loaded = plan.loaded
        self.reference = plan.reference
        self.reports: dict[str, GenerationReport] = {}
        """One an execution that was judged or failed, in their order."""
        self._comparison = comparison
        self._scenes: Scenes | None = None

    @property
    def scenes(self) -> Scenes:
        if self._scenes is None:
            dictionary = self.loaded.protocol.dictionary
            self._scenes = Scenes(self.loaded, self.store.read_dictionary(dictionary.sha256))
        return self._scenes

    def blocked(self, execution: Captured) -> DriftError | None:
        """Why an execution cannot be judged: what it is judged against was not."""
        against = self.reports.get(execution.against)
        if against is None or against.error is None:
            return None
        return NotMeasured(f"arm {execution.against} failed", where=f"arm {execution.name}")

    def judge(self, execution: Captured, error: DriftError | None = None) -> GenerationReport:
        """Judge and measure what one execution wrote, all of which must be there; with ``error`` note that it failed.

        Raises
        ------
        StoreError
            a file is missing, damaged, or not what its name says.
        """
        report = GenerationReport(execution=execution, error=error) if error is not None else self._judged(execution)
        self.reports[execution.name] = report
        return report

    def tasks(self) -> TaskTables:
        """What the arms' drift says of their passed tasks, once all are judged."""
        protocol = self.loaded.protocol
        ranked = [
            report
            for report in self.reports.values()
            if report.error is None
            and report.execution.scored
            and report.execution.kind in ("reference", "candidate", "follow-up")
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
        return TaskTables(drift, task_order_table(drift, protocol))

    def _judged(self, execution: Captured) -> GenerationReport:
        protocol, plan = self.loaded.protocol, self.plan
        tables: dict[str, pa.Table] = {}
        figures: list[pa.Table] = []
        resampler = Resampler.of(protocol)
        is_reference = execution is self.reference
        explored: Explored | None = None
        outcomes = schema.OUTCOMES.empty_table()
        tasks = schema.TASKS.empty_table()
        if protocol.branches is not None:
            lane = plan.futures(execution)
            explored = plan.explored(self.store, execution)
            wanted = [(item.window, item.position, item.first) for item in plan.wanted(execution)]
            if not execution.scored:
                columns = (explored.roots[name].to_pylist() for name in ("window", "position", "candidate_top"))
                wanted = list(zip(*columns, strict=True))
            tables[artifacts.FUTURES_FILE] = self.store.read_futures(lane.id, wanted)
            if not is_reference:
                outcomes = self._outcomes(execution, explored.roots)
                tables[artifacts.ROOTS_FILE] = explored.roots
                tables[artifacts.OUTCOMES_FILE] = outcomes
                for constrained, held in plan.constrained(execution):
                    keys = own_keys(self.store, held, explored.roots)
                    tables[artifacts.constrained_file(constrained.name)] = self.store.read_futures(held.id, keys)
                figures.append(
                    branch_figures(
                        outcomes,
                        protocol,
                        arm=execution.name,
                        existing=explored.existing,
                        visited=explored.visited,
                        floors=self._floors_of(execution),
                    )
                )
        if prompts := plan.prompts(execution):
            tables[artifacts.ROLLOUTS_FILE], rolled = self._rollouts(execution, prompts, resampler)
            figures += rolled
        for temperature in plan.temperatures(execution):
            mine, theirs = (
                self._draws(sampled_lane(self.loaded, side, temperature), plan.sampled_prompts(execution))
                for side in (execution, self._against(execution))
            )
            tables[artifacts.sampled_file(temperature_label(temperature))] = mine
            if not is_reference:
                sampled = compare_sampled(
                    theirs, mine, temperature=temperature, resampler=resampler, end_tokens=self.scenes.ends
                )
                figures.append(sampled_figures(sampled, arm=execution.name, resampler=resampler))
        if plan.tasks:
            tasks, answered = self._tasks(execution)
            tables[artifacts.TASKS_FILE] = tasks
            figures += answered
        together = pa.concat_tables(figures) if figures else schema.FIGURES.empty_table()
        tables[artifacts.GENERATION_FIGURES_FILE] = together
        return GenerationReport(
            execution=execution,
            outcomes=outcomes,
            tasks=tasks,
            figures=together,
            explored=explored,
            tables=tables,
            retries=self._retries(execution),
        )

    def _tasks(self, execution: Captured) -> tuple[pa.Table, list[pa.Table]]:
        """An execution's answers, checked, and its figures; a server that takes texts may not be asked all of them."""
        lane = tasks_lane(self.loaded, execution)
        known = {} if execution.scored else self.store.refused_tasks(lane.id)
        asked = [task for task in self.plan.tasks if task.name not in known]
        refused = {task.name: known[task.name] for task in self.plan.tasks if task.name in known}
        tasks = tasks_table(self.store, self.scenes, asked, lane)
        figures = []
        if asked:
            base = None
            if execution is not self.reference:
                theirs = self.reports[self.reference.name].tasks
                base = theirs.filter(pc.is_in(theirs["task"], value_set=pa.array([task.name for task in asked])))
            figures.append(figures_table(task_figures(tasks, self.loaded.protocol, reference=base)))
        if refused:
            figures.append(refused_figures(refused, len(asked), arm=execution.name, spec="task.refused", what="tasks"))
        return tasks, figures

    def _retries(self, execution: Captured) -> dict[str, int]:
        found: dict[str, int] = {}
        for lane in self.plan.lanes(execution):
            found[lane.kind] = found.get(lane.kind, 0) + self.store.lane_retries(lane.id)
        return found

    def _rollouts(
        self, execution: Captured, prompts: Sequence[str], resampler: Resampler
    ) -> tuple[pa.Table, list[pa.Table]]:
        """What an execution wrote behind these prompts, and its figures; of the reference none."""
        lane = rollouts_lane(self.loaded, execution)
        known = {} if execution.scored else self.store.refused_prompts(lane.id, 0)
        refused = {name: reason for name, reason in known.items() if name in prompts}
        asked = [name for name in prompts if name not in refused]
        if not asked:
            return schema.ROLLOUTS.empty_table(), [refused_figures(refused, 0, arm=execution.name)]
        mine = stored_rollouts(self.store, lane, 0, asked)
        if execution is self.reference:
            return mine, []
        against = rollouts_lane(self.loaded, self._against(execution))
        sides = [stored_rollouts(self.store, against, 0, asked), mine]
        chat = self.loaded.protocol.chat
        if cut := not execution.scored and chat is not None:
            sides = [up_to_end(side, chat.ends) for side in sides]
        found = compare_rollouts(*sides, resampler=resampler, end_tokens=self.scenes.ends)
        return mine, [rollout_figures(found, arm=execution.name, resampler=resampler, cut=cut, refused=refused)]

    def _against(self, execution: Captured) -> Captured:
        if execution is self.reference:
            return execution
        return next(other for other in self.plan.executions if other.name == execution.against)

    def _outcomes(self, execution: Captured, roots: pa.Table) -> pa.Table:
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

    def _floors_of(self, execution: Captured) -> dict[str, pa.Table]:
        """Outcomes of the floors of what an execution is compared with, which come before it."""
        return {
            name: report.outcomes
            for name, report in self.reports.items()
            if report.execution.floor is not None
            and report.execution.against == execution.against
            and report.error is None
            and report.execution is not execution
        }

    def _draws(self, lane: Lane, prompts: Sequence[str]) -> pa.Table:
        draws = range(self.loaded.protocol.sampled.draws)
        return pa.concat_tables([stored_rollouts(self.store, lane, draw, prompts) for draw in draws])
