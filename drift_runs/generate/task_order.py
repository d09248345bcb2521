"""Do tasks and arms that drift more fail more? Rank correlations of table ``TASK_DRIFT``, and what they show.

Over *pairs* of task and arm, and over *arms*: there each arm's mean of a figure and its share of failures are taken
over the tasks that every arm has, so that no arm is ahead because its tasks were others. The reference is no arm here:
it has no drift. Among *all* tasks, and among those that the *reference passed*: a task that nobody can do says nothing
of drift.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from drift_runs.generate.ranks import resampled, resampled_sums, spearman
from drift_runs.generate.task_sentences import order_sentence
from drift_runs.measure.agreement import LEAST_ARMS, kendall_tau
from drift_runs.measure.intervals import cluster_of, small_cluster_note
from drift_runs.measure.outliers import ONLY, WITH, choices
from drift_runs.measure.resampler import Resampler, plural
from drift_runs.protocol.model import Protocol
from drift_runs.schema import TASK_ORDER

FIGURES = ("flips", "strong_overturns", "mean_nats", "max_nats", "p95_nats", "worst_p95_nats")
COUNTS = ("flips", "strong_overturns")
ALL = "all"
REFERENCE_PASSED = "reference passed"
PAIRS = "pairs"
ARMS = "arms"

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pairs:
    """n pairs of task and arm that have a figure and a pass or fail."""

    arms: tuple[str, ...]
    tasks: tuple[str, ...]
    arm: NDArray[np.int32]
    task: NDArray[np.int32]
    cluster: NDArray[np.int32]
    """int32[n] each; clusters are numbered from 0 in order of first appearance."""
    clusters: int
    drift: Floats
    failed: Floats
    """1 or 0."""
    excluded: int
    specs: tuple[str, ...]

    @classmethod
    def of(cls, rows: list[dict], figure: str, cluster: dict[str, str]) -> _Pairs:
        used = [row for row in rows if row["passed"] is not None and row[figure] is not None]
        arms, tasks, clusters = (
            tuple(dict.fromkeys(keys))
            for keys in (
                (row["arm"] for row in used),
                (row["task"] for row in used),
                (cluster[row["window"]] for row in used),
            )
        )
        return cls(
            arms=arms,
            tasks=tasks,
            arm=np.array([arms.index(row["arm"]) for row in used], dtype=np.int32),
            task=np.array([tasks.index(row["task"]) for row in used], dtype=np.int32),
            cluster=np.array([clusters.index(cluster[row["window"]]) for row in used], dtype=np.int32),
            clusters=len(clusters),
            drift=np.array([row[figure] for row in used], dtype=np.float64),
            failed=np.array([not row["passed"] for row in used], dtype=np.float64),
            excluded=len(rows) - len(used),
            specs=() if figure in COUNTS else tuple(dict.fromkeys(row["spec"] for row in used)),
        )

    def of_common_tasks(self) -> _Pairs:
        """The pairs of tasks that every arm has."""
        counts = np.bincount(self.task, minlength=len(self.tasks))
        kept = counts[self.task] == len(self.arms) if len(self.task) else np.zeros(0, dtype=bool)
        used, cluster = np.unique(self.cluster[kept], return_inverse=True)
        return _Pairs(
            arms=self.arms if kept.any() else (),
            tasks=tuple(self.tasks[at] for at in np.unique(self.task[kept])),
            arm=self.arm[kept],
            task=np.unique(self.task[kept], return_inverse=True)[1].astype(np.int32),
            cluster=cluster.astype(np.int32),
            clusters=len(used),
            drift=self.drift[kept],
            failed=self.failed[kept],
            excluded=self.excluded + int((~kept).sum()),
            specs=self.specs,
        )

    def by_arm(self, values: Floats) -> Floats:
        """Sums of float64[n]: float64[clusters, arms]."""
        sums = np.zeros((self.clusters, len(self.arms)))
        np.add.at(sums, (self.cluster, self.arm), values)
        return sums


def task_order_table(drift: pa.Table, protocol: Protocol) -> pa.Table:
    """Table ``TASK_ORDER`` of a table ``TASK_DRIFT``: every figure, over pairs and arms, among both sets of tasks.

    Tau-b, Spearman's rho, percentile intervals over the protocol's clusters, and a sentence. Where there is nothing to
    order (every answer passed, one arm, one value) the correlations are null and the reason says why. An interval
    leaves out the resamples that have no correlation and says how many.
    """
    resampler = Resampler.of(protocol)
    unit = protocol.intervals.cluster
    cluster = {window.name: cluster_of(window, unit) for window in protocol.windows}
    rows = drift.to_pylist()
    found = []
    for choice in choices(protocol):
        kept = [row for row in rows if choice == WITH or row["outlier"] == (choice == ONLY)]
        for among in (ALL, REFERENCE_PASSED):
            chosen = [row for row in kept if among == ALL or row["reference_passed"]]
            for figure in FIGURES:
                pairs = _Pairs.of(chosen, figure, cluster)
                for over in (PAIRS, ARMS):
                    row = {
                        **dict.fromkeys(TASK_ORDER.names),
                        "over": over,
                        "among": among,
                        "outliers": choice,
                        "figure": figure,
                        **_order(pairs, over, unit, resampler),
                    }
                    found.append({**row, "says": order_sentence(row, unit=unit, figures=len(FIGURES))})
    return pa.Table.from_pylist(found, schema=TASK_ORDER)


def _order(pairs: _Pairs, over: str, unit: str, resampler: Resampler) -> dict[str, object]:
    if over == ARMS:
        pairs = pairs.of_common_tasks()
        drift, failed = pairs.by_arm(pairs.drift).sum(axis=0), pairs.by_arm(pairs.failed).sum(axis=0)
    else:
        drift, failed = pairs.drift, pairs.failed
    count = len(pairs.tasks)
    row: dict[str, object] = {
        "spec": " and ".join(pairs.specs),
        "n": len(drift),
        "excluded": pairs.excluded,
        "tasks": count,
        "arms": len(pairs.arms),
        "failed": int(pairs.failed.sum()),
        "interval": "",
        "clusters": pairs.clusters,
        "reason": "; ".join(_obstacles(pairs, over, drift, failed)),
    }
    if row["reason"]:
        return row
    tau = kendall_tau(drift, failed)
    row |= {
        "tau": tau,
        "tau_limit": kendall_tau(np.sort(drift), np.sort(failed)[:: -1 if tau is not None and tau < 0 else 1]),
        "spearman": spearman(drift, failed),
    }
    ends = (
        resampled_sums(pairs.by_arm(pairs.drift), pairs.by_arm(pairs.failed), resampler)
        if over == ARMS
        else resampled(pairs.drift, pairs.failed, pairs.cluster, pairs.clusters, resampler)
    )
    notes = [small_cluster_note(pairs.clusters, unit)]
    if ends is not None:
        (row["tau_low"], row["tau_high"], undefined), (row["spearman_low"], row["spearman_high"], _) = ends
        row["interval"] = resampler.cluster_label(pairs.clusters, unit)
        if undefined:
            notes.append(f"{undefined:,} of {resampler.resamples:,} resamples have no order and are left out")
    elif pairs.clusters >= 2:
        notes.append("most resamples have no order: no interval")
    row["reason"] = "; ".join(note for note in notes if note)
    return row


def _obstacles(pairs: _Pairs, over: str, drift: Floats, failed: Floats) -> Iterator[str]:
    """Why there is no order, the first of the reasons that apply."""
    if not len(pairs.drift):
        yield "no pair of task and arm has both the figure and a pass or fail"
    elif len(pairs.specs) > 1:
        yield f"another definition in some arms: {' and '.join(pairs.specs)}"
    elif over == ARMS and len(pairs.arms) < LEAST_ARMS:
        yield f"{plural(len(pairs.arms), 'arm')}, {LEAST_ARMS} needed"
    elif not pairs.failed.any():
        yield "every answer passed"
    elif pairs.failed.all():
        yield "every answer failed"
    elif (failed == failed[0]).all():
        yield "every arm failed as often"
    elif (drift == drift[0]).all():
        yield f"the figure is the same for every {'arm' if over == ARMS else 'pair'}"
