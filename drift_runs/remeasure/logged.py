"""A campaign as it was logged, against what its rows give now."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from drift_runs.campaign import GenerationReport
from drift_runs.campaign.judging import TaskTables
from drift_runs.generate.figures import temperature_label
from drift_runs.measure.results import Across, ArmResult
from drift_runs.remeasure.differences import Compared, differences, different_metrics
from drift_runs.remeasure.generation import Regenerated
from drift_runs.tracking import artifacts, reader
from drift_runs.tracking.names import select_metrics
from drift_runs.tracking.records import CampaignRecord

_NOT_OF_GENERATION = ("withheld", "nonfinite")
"""Metrics of a run that count the figures of its comparison alone."""


class _Table(NamedTuple):
    kind: str
    load: Callable[[str, str], pa.Table]
    named: str
    """What a row is, for a person."""


_TABLES = {
    artifacts.ROOTS_FILE: _Table("roots", reader.load_roots, "root"),
    artifacts.FUTURES_FILE: _Table("futures", reader.load_futures, "future"),
    artifacts.OUTCOMES_FILE: _Table("outcomes", reader.load_outcomes, "outcome"),
    artifacts.ROLLOUTS_FILE: _Table("rollouts", reader.load_rollouts, "rollout"),
    artifacts.TASKS_FILE: _Table("tasks", reader.load_tasks, "task"),
}

_WRITTEN = (artifacts.FUTURES_FILE, artifacts.ROLLOUTS_FILE, artifacts.TASKS_FILE)
"""What every execution that generates has some rows of."""


class Logged:
    """One campaign of a tracking store, and how each part of it differs from what is computed now."""

    def __init__(self, uri: str, record: CampaignRecord) -> None:
        self.uri = uri
        self.record = record
        self.runs = {arm.arm: arm.run_id for arm in record.arms if arm.complete}
        """Arm to run, of those that were logged whole."""

    def arm(self, name: str, figures: pa.Table, result: ArmResult | None) -> list[Compared]:
        """A comparison: its figures and metrics, and where there are positions its windows and answers."""
        run = self.runs[name]
        found = [
            differences("figures", name, reader.load_figures(self.uri, run), figures),
            different_metrics(name, reader.load_metrics(self.uri, run), select_metrics(figures)),
        ]
        if result is not None:
            rows, answers = reader.load_determinism(self.uri, run), reader.load_answers(self.uri, run)
            found.append(differences("determinism", f"{name} rows", rows, result.determinism))
            found.append(differences("answers", f"{name} answer", answers, result.answers))
            if (bins := reader.load_distribution(self.uri, run)).num_rows:  # an older version logged none
                by_bin = differences("distribution", f"{name} bin", bins, result.distribution)
                found.append(Compared(int(not by_bin.differing), by_bin.differing, 0))  # the table counts as one
        return found

    def lacking(self, name: str, result: ArmResult) -> dict[str, pa.Table]:
        """Tables that the rows of an arm give and its run has not, because an older version did not make them."""
        run = self.runs[name]
        made = {
            artifacts.DISTRIBUTION_FILE: (reader.load_distribution, result.distribution),
            artifacts.LISTED_FILE: (reader.load_listed, result.listed),
        }
        return {
            artifact: table
            for artifact, (load, table) in made.items()
            if table.num_rows and not load(self.uri, run).num_rows
        }

    def add(self, name: str, tables: Mapping[str, pa.Table]) -> None:
        """Store such tables beside what was logged, of which nothing changes."""
        from drift_runs.tracking.mlflow_store import Tracker

        files = {artifact: artifacts.parquet_bytes(table, table.schema) for artifact, table in tables.items()}
        Tracker(self.uri).log_files(self.runs[name], files)

    def across(self, across: Across) -> list[Compared]:
        """What the arms say of each other."""
        run = self.record.run_id
        return [
            differences("pairs", "pairs", reader.load_pairs(self.uri, run), across.pairs),
            differences("agreement", "agreement", reader.load_agreement(self.uri, run), across.agreement),
            differences("proposals", "proposals", reader.load_proposals(self.uri, run), across.proposals),
        ]

    def not_comparable(self, report: GenerationReport, now: Regenerated) -> str:
        """Why what an arm wrote freely is not set against what was logged of it; empty: it is."""
        name = report.execution.name
        run = self._run(report, now)
        if run is None:
            return ""  # said of its comparison already
        logged = reader.load_bounds(self.uri, run)
        if logged != now.bounds:
            words = [", ".join(found) or "nothing" for found in (logged, now.bounds)]
            return f"{name}: logged bounded to {words[0]}, now bounded to {words[1]}: its generation is not compared"
        written = [artifact for artifact in _WRITTEN if artifact in report.tables and report.tables[artifact].num_rows]
        if written and not any(_TABLES[artifact].load(self.uri, run).num_rows for artifact in written):
            return f"{name}: what it wrote freely is not logged: go on with 'drift run'"
        return ""

    def of_earlier_runs(self, now: Regenerated) -> list[str]:
        """Arms whose generation was logged, and that the newest run left out: one line each."""
        known = {report.execution.name for report in now.reports}
        return [
            f"{name}: generated by an earlier run, its generation is not measured again: run 'drift run' on all arms"
            for name, run in self.runs.items()
            if name not in known and reader.load_generation_figures(self.uri, run).num_rows
        ]

    def generation(self, report: GenerationReport, now: Regenerated) -> list[Compared]:
        """What an arm wrote freely and what became of it, row by row."""
        run, name = self._run(report, now), report.execution.name
        if run is None:
            return []
        found = []
        for artifact, (kind, load, named) in _TABLES.items():
            logged = load(self.uri, run)
            computed = report.tables.get(artifact, logged.schema.empty_table())
            found.append(differences(kind, f"{name} {named}", logged, computed))
        for temperature in now.temperatures[name]:
            label = temperature_label(temperature)
            logged, computed = reader.load_sampled(self.uri, run, label), report.tables[artifacts.sampled_file(label)]
            found.append(differences("rollouts", f"{name} draw at {label}", logged, computed))
        for decode in now.constrained[name]:
            logged = reader.load_constrained(self.uri, run, decode)
            computed = report.tables[artifacts.constrained_file(decode)]
            if logged.num_rows or not computed.num_rows:
                found.append(differences("futures", f"{decode} future", logged, computed))
            else:  # an older version logged none
                found.append(Compared(0, (), computed.num_rows))
        return found

    def generation_figures(self, report: GenerationReport, now: Regenerated) -> list[Compared]:
        """Figures and metrics of what an arm wrote freely."""
        run, name = self._run(report, now), report.execution.name
        if run is None:
            return []
        logged = reader.load_generation_figures(self.uri, run)
        found = [differences("generation", f"{name} figure", logged, report.figures)]
        own = report.figures.filter(pc.equal(report.figures["arm"], name))
        if own.num_rows:
            metrics = {key: value for key, value in select_metrics(own).items() if key not in _NOT_OF_GENERATION}
            found.append(different_metrics(name, reader.load_metrics(self.uri, run), metrics))
        return found

    def tasks(self, tasks: TaskTables) -> list[Compared]:
        """What the arms' drift says of their passed tasks."""
        run = self.record.run_id
        return [
            differences("task_drift", "drift of task", reader.load_task_drift(self.uri, run), tasks.drift),
            differences("task_order", "order of tasks", reader.load_task_order(self.uri, run), tasks.order),
        ]

    def _run(self, report: GenerationReport, now: Regenerated) -> str | None:
        name = report.execution.name
        return self.record.run_id if name == now.reference else self.runs.get(name)
