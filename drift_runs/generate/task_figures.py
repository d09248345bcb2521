"""Figures of a protocol's tasks: how many an arm passed on its own, and which it lost or gained against the reference.

The unit is a task and not a position: ``n`` counts tasks here. What was not decided is left out and counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from drift_runs.errors import NotComparable
from drift_runs.measure.figures import Figure, figures_table
from drift_runs.measure.intervals import (
    Clusters,
    cluster_of,
    cluster_sums,
    intervals_of_sums,
    small_cluster_note,
)
from drift_runs.measure.outliers import ONLY, WITH, choices
from drift_runs.measure.permutation import mcnemar, sign_flip
from drift_runs.measure.quantiles import FIRM, WITHHELD
from drift_runs.measure.ranges import kinds_of
from drift_runs.measure.resampler import Resampler, plural
from drift_runs.measure.selected import Interval, whole_interval
from drift_runs.protocol.model import Protocol

SPEC = "task.passed"
RATE = "rate"
DIFFERENCE = "difference"
P_SIGN_FLIP = "p_sign_flip"
P_MCNEMAR = "p_mcnemar"
OWN = (RATE, "count", "unknown")
"""Of the arm alone. ``count``: tasks passed, of the ``n`` that were decided."""
PAIRED = ("reference_count", "lost", "gained", DIFFERENCE, P_SIGN_FLIP, P_MCNEMAR)
"""Against the reference, over the tasks that are decided for both. ``lost``: the reference alone passed; ``gained``:
the arm alone; ``difference``: the arm's rate minus the reference's."""

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Decided:
    """The n tasks of one table."""

    names: tuple[str, ...]
    known: Bools
    passed: Bools
    """False where not ``known``."""

    @classmethod
    def of(cls, table: pa.Table) -> _Decided:
        names = tuple(table["task"].to_pylist())
        if len(set(names)) < len(names):
            twice = next(name for at, name in enumerate(names) if name in names[:at])
            raise NotComparable(f"task {twice} stands twice", where="tasks of one arm", expected="one row each")
        passed = table["passed"].to_pylist()
        return cls(
            names=names,
            known=np.array([value is not None for value in passed], dtype=bool),
            passed=np.array([value is True for value in passed], dtype=bool),
        )

    def laid_over(self, names: tuple[str, ...]) -> _Decided:
        """The same for those tasks, in their order; one that is not here is not known."""
        at = {name: place for place, name in enumerate(self.names)}
        places = [at.get(name, -1) for name in names]
        return _Decided(
            names=names,
            known=np.array([place >= 0 and bool(self.known[place]) for place in places], dtype=bool),
            passed=np.array([place >= 0 and bool(self.passed[place]) for place in places], dtype=bool),
        )


def arms_task_figures(tasks: Mapping[str, pa.Table], protocol: Protocol) -> pa.Table:
    """Table ``FIGURES`` of several arms, in their order: arm -> table ``TASKS``, the reference among them by its name.

    Without the reference's own table nothing is said of lost and gained tasks.
    """
    reference = tasks.get(protocol.reference.name)
    return figures_table(
        figure
        for arm, table in tasks.items()
        for figure in task_figures(table, protocol, reference=None if arm == protocol.reference.name else reference)
    )


def task_figures(tasks: pa.Table, protocol: Protocol, *, reference: pa.Table | None = None) -> list[Figure]:
    """Figures ``task.passed`` of one arm from its table ``TASKS``; none for a table without rows.

    ``reference``: the reference's table. With it the statistics :data:`PAIRED` stand beside :data:`OWN`, each over all
    tasks and those of each panel and kind of range, with and without the outliers. ``n`` counts tasks that were
    decided, for the pair those decided on both sides; ``excluded`` the others. Rate and difference have cluster
    intervals by the protocol's cluster. ``p_sign_flip`` decides; ``p_mcnemar`` takes tasks of one text as independent.
    """
    if not tasks.num_rows:
        return []
    here = _Decided.of(tasks)
    there = None if reference is None else _Decided.of(reference).laid_over(here.names)
    unit = protocol.intervals.cluster
    of_task = [cluster_of(protocol.window(name), unit) for name in tasks["window"].to_pylist()]
    labels = tuple(dict.fromkeys(of_task))
    index = np.array([labels.index(label) for label in of_task], dtype=np.int32)
    clusters = Clusters(unit=unit, labels=labels, index=index)
    outlier = np.array(tasks["outlier"].to_pylist(), dtype=bool)
    resampler = Resampler.of(protocol)
    figures: list[Figure] = []
    for choice in choices(protocol):
        kept = np.ones(len(outlier), dtype=bool) if choice == WITH else outlier == (choice == ONLY)
        for kind, scope, inside in _scopes(tasks, protocol):
            chosen = inside & kept
            if chosen.any():
                common = {"arm": tasks["arm"][0].as_py(), "scope_kind": kind, "scope": scope, "outliers": choice}
                figures += _own(here, chosen, clusters, resampler, common)
                if there is not None:
                    figures += _paired(here, there, chosen, clusters, resampler, common)
    return figures


def _scopes(tasks: pa.Table, protocol: Protocol) -> Iterator[tuple[str, str, Bools]]:
    """Kind, name and tasks of each scope, in the order of a table of figures; a scope may be empty."""
    panels, kinds = tasks["panel"].to_pylist(), tasks["kind"].to_pylist()
    yield "all", "all", np.ones(len(panels), dtype=bool)
    for panel in protocol.panels:
        yield "panel", panel.name, np.array([name == panel.name for name in panels], dtype=bool)
    for kind in kinds_of(protocol):
        yield "kind", kind, np.array([name == kind for name in kinds], dtype=bool)


def _own(
    here: _Decided, chosen: Bools, clusters: Clusters, resampler: Resampler, common: Mapping[str, str]
) -> Iterator[Figure]:
    used = np.flatnonzero(chosen & here.known)
    unknown = int(chosen.sum()) - len(used)
    inside = clusters.take(used)
    count = len(inside.labels)
    passed = here.passed[used]
    interval, note = _interval(passed.astype(np.float64), inside, resampler)
    # Student's t on logs knows no upper limit; a share has one.
    if interval.t_high is not None:
        interval = interval._replace(t_high=min(interval.t_high, 1.0))
    nothing = "" if len(used) else f"no task decided, {unknown:,} unknown"
    for statistic, value in zip(OWN, (float(passed.mean()) if len(used) else None, passed.sum(), unknown), strict=True):
        absent = nothing if statistic != "unknown" else ""
        rated = statistic == RATE
        yield Figure(
            **common,
            spec=SPEC,
            statistic=statistic,
            value=None if absent else float(value),
            n=len(used),
            excluded=unknown,
            state=WITHHELD if absent else FIRM,
            reason=absent or (note if rated else ""),
            **(interval if rated else Interval())._asdict(),
            interval=resampler.cluster_label(count, inside.unit) if rated and interval.low is not None else "",
            clusters=count,
        )


def _paired(
    here: _Decided,
    there: _Decided,
    chosen: Bools,
    clusters: Clusters,
    resampler: Resampler,
    common: Mapping[str, str],
) -> Iterator[Figure]:
    used = np.flatnonzero(chosen & here.known & there.known)
    inside = clusters.take(used)
    count = len(inside.labels)
    passed, reference = here.passed[used], there.passed[used]
    lost, gained = int((reference & ~passed).sum()), int((passed & ~reference).sum())
    differences = passed.astype(np.float64) - reference
    interval, note = _interval(differences, inside, resampler)
    # A log of a difference is that of nothing that there is.
    interval = interval._replace(t_low=None, t_high=None)
    test = sign_flip(cluster_sums(differences[:, None], inside.index, count), seed=resampler.seed, unit=inside.unit)
    p = float(test.p[0])
    alike = "" if lost or gained else "both passed the same tasks: there is nothing to test"
    values = {
        "reference_count": (float(reference.sum()), ""),
        "lost": (float(lost), ""),
        "gained": (float(gained), ""),
        DIFFERENCE: (float(differences.mean()) if len(used) else None, note),
        P_SIGN_FLIP: (None if np.isnan(p) or alike else p, alike or test.method or note),
        P_MCNEMAR: (None if alike else mcnemar(lost, gained), alike or "exact, tasks independent"),
    }
    for statistic in PAIRED:
        value, reason = values[statistic] if len(used) else (None, "no task decided on both sides")
        whole = statistic == DIFFERENCE
        yield Figure(
            **common,
            spec=SPEC,
            statistic=statistic,
            value=value,
            n=len(used),
            excluded=int(chosen.sum()) - len(used),
            state=WITHHELD if value is None else FIRM,
            reason=reason,
            **(interval if whole else Interval())._asdict(),
            interval=resampler.cluster_label(count, inside.unit) if whole and interval.low is not None else "",
            clusters=count,
        )


def _interval(values: Floats, clusters: Clusters, resampler: Resampler) -> tuple[Interval, str]:
    """Of the mean of float64[n], between their clusters, and what a reader must know of it."""
    count = len(clusters.labels)
    note = small_cluster_note(count, clusters.unit)
    if count < 2:
        return Interval(), note
    if (values == values[0]).all():
        return Interval(), f"the same for every task of {plural(count, clusters.unit)}: resamples give no interval"
    top, bottom = (cluster_sums(terms[:, None], clusters.index, count) for terms in (values, np.ones(len(values))))
    return whole_interval(intervals_of_sums(top, bottom, resampler), 0), note


def task_sentence(figures: pa.Table, *, arm: str, confidence: float = 0.95) -> str:
    """What the figures over all tasks, outliers included, say of an arm against the reference, in plain words.

    ``figures``: table ``FIGURES``. Empty where the arm has no paired figure.
    """
    rows = {
        row["statistic"]: row
        for row in figures.to_pylist()
        if (row["arm"], row["spec"], row["scope_kind"], row["outliers"]) == (arm, SPEC, "all", WITH)
    }
    if "lost" not in rows or RATE not in rows:
        return ""
    if rows["lost"]["value"] is None:
        return f"{arm}: {rows['lost']['reason']}."
    n = rows["lost"]["n"]
    lost, gained = int(rows["lost"]["value"]), int(rows["gained"]["value"])
    reference = int(rows["reference_count"]["value"])
    head = (
        f"{arm} passed {reference - lost + gained} of {plural(n, 'task')} and the reference {reference}: "
        f"{lost} lost, {gained} gained"
    )
    if excluded := rows["lost"]["excluded"]:
        head += f"; {excluded} not decided for both"
    p = rows[P_SIGN_FLIP]["value"]
    if not lost and not gained:
        return f"{head}. There is nothing to test."
    if p is None:
        return f"{head}. {rows[P_SIGN_FLIP]['reason'].capitalize()}: that is no test."
    verdict = "more than the signs of whole texts give by chance" if p < 1 - confidence else "inconclusive"
    return f"{head}. {verdict.capitalize()} (p = {p:.3g}, {rows[P_SIGN_FLIP]['reason']})."
