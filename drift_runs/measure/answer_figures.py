"""Figures of a protocol's expected answers: how many an arm would have written to the letter, and which it lost.

The unit is an answer and not a position: ``n`` counts answers here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from drift_runs.measure.answers import Bools, filled
from drift_runs.measure.figures import Figure
from drift_runs.measure.intervals import (
    Clusters,
    cluster_of,
    cluster_sums,
    intervals_of_sums,
    ratio_intervals,
    small_cluster_note,
)
from drift_runs.measure.outliers import ONLY, WITH, choices
from drift_runs.measure.quantiles import FIRM, WITHHELD
from drift_runs.measure.ranges import kinds_of
from drift_runs.measure.resampler import Resampler, plural
from drift_runs.measure.scopes import ROLES, WHOLE
from drift_runs.measure.selected import Interval, number_or_none, whole_interval
from drift_runs.protocol.model import Protocol

SPEC = "answer.exact"
RATE = "rate"
STATISTICS = (RATE, "count", "reference_count", "lost", "gained")
"""``count``: exact in the arm; ``lost``: exact in the reference alone; ``gained``: in the arm alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Judged:
    """n answers of one comparison."""

    names: tuple[str, ...]
    judged: Bools
    exact: Bools
    """bool[n], False where not judged; so is ``reference``."""
    reference: Bools
    at: Mapping[str, int] = field(repr=False)
    """Name to its place."""

    @classmethod
    def of(cls, table: pa.Table) -> _Judged:
        names = tuple(table["answer"].to_pylist())
        return cls(
            names=names,
            judged=filled(table["exact"].is_valid()),
            exact=filled(table["exact"]),
            reference=filled(table["reference_exact"]),
            at={name: at for at, name in enumerate(names)},
        )

    def of_names(self, names: list[str]) -> NDArray[np.intp] | None:
        """Places of those answers; None unless every one of them is judged."""
        at = np.array([self.at.get(name, -1) for name in names], dtype=np.intp)
        return at if (at >= 0).all() and self.judged[at].all() else None

    def values(self, chosen: NDArray[np.intp]) -> dict[str, float | None]:
        """Every statistic over the chosen answers, all of them judged; None for no answer."""
        if not len(chosen):
            return dict.fromkeys(STATISTICS)
        exact, reference = self.exact[chosen], self.reference[chosen]
        sums = (exact, reference, reference & ~exact, exact & ~reference)
        counts = [float(np.count_nonzero(found)) for found in sums]
        return dict(zip(STATISTICS, [counts[0] / len(chosen), *counts], strict=True))


class _Floor(NamedTuple):
    """The floor that stands beside a scope; its name is empty when none has judged the same answers."""

    name: str
    values: Mapping[str, float | None]
    borrowed: bool = False


def answer_figures(
    answers: pa.Table,
    protocol: Protocol,
    *,
    floors: Mapping[str, pa.Table] | None = None,
    borrowed: Mapping[str, pa.Table] | None = None,
) -> list[Figure]:
    """Figures ``answer.exact`` of one arm from its table ``ANSWERS``; none for a table without rows.

    :data:`STATISTICS` over all answers and those of each panel, role, group, kind of range and window. ``n`` counts
    answers that were judged and ``excluded`` those that were not. The rate has a cluster interval by the protocol's
    cluster, over kinds and windows the percentile one alone. It has none where all answers are exact, or none is: every
    resample is then the same, which says nothing of how far the rate may lie from 1 or 0.

    ``floors``: name -> table ``ANSWERS`` of a floor of the arm's reference. Of those that have judged every answer that
    the arm has in a scope, the one with the fewest exact ones stands beside it, the first by name of equals.
    ``borrowed``: the same of another reference's floors, shown where no own one covers a scope.
    """
    if not answers.num_rows:
        return []
    here = _Judged.of(answers)
    unit = protocol.intervals.cluster
    of_answer = [cluster_of(protocol.window(name), unit) for name in answers["window"].to_pylist()]
    labels = tuple(dict.fromkeys(of_answer))
    index = np.array([labels.index(label) for label in of_answer], dtype=np.int32)
    clusters = Clusters(unit=unit, labels=labels, index=index)
    own, others = ({name: _Judged.of(table) for name, table in (of or {}).items()} for of in (floors, borrowed))
    outlier = filled(answers["outlier"])
    resampler = Resampler.of(protocol)
    figures = []
    for choice in choices(protocol):
        kept = np.ones(len(outlier), dtype=bool) if choice == WITH else outlier == (choice == ONLY)
        for kind, name, inside in _scopes(answers, protocol):
            chosen = np.flatnonzero(inside & kept)
            if len(chosen):
                judged = chosen[here.judged[chosen]]
                names = [here.names[at] for at in judged]
                beside = _harshest(own, names, False) or _harshest(others, names, True) or _Floor("", {})
                common = {"arm": answers["arm"][0].as_py(), "scope_kind": kind, "scope": name, "outliers": choice}
                excluded = len(chosen) - len(judged)
                figures += _figures(here, judged, excluded, clusters.take(judged), resampler, beside, common)
    return figures


def _scopes(answers: pa.Table, protocol: Protocol) -> Iterator[tuple[str, str, Bools]]:
    """Kind, name and answers of each scope, in the order of a table of figures; a scope may be empty."""
    windows = [protocol.window(name) for name in answers["window"].to_pylist()]
    roles = {panel.name: panel.role for panel in protocol.panels}
    columns = {
        "panel": ([window.panel for window in windows], [panel.name for panel in protocol.panels]),
        "role": ([roles[window.panel] for window in windows], ROLES),
        "group": ([window.group for window in windows], [item.group for item in protocol.windows if item.group]),
        "kind": (answers["kind"].to_pylist(), kinds_of(protocol)),
        "window": ([window.name for window in windows], [window.name for window in protocol.windows]),
    }
    yield "all", "all", np.ones(len(windows), dtype=bool)
    for kind, (of_answer, names) in columns.items():
        for name in dict.fromkeys(names):
            yield kind, name, np.array([value == name for value in of_answer], dtype=bool)


def _harshest(floors: Mapping[str, _Judged], names: list[str], borrowed: bool) -> _Floor | None:
    """The floor with the fewest exact answers among those that have judged all of them."""
    best: _Floor | None = None
    for name in sorted(floors) if names else ():
        if (at := floors[name].of_names(names)) is None:
            continue
        values = floors[name].values(at)
        if best is None or values[RATE] < best.values[RATE]:
            best = _Floor(name, values, borrowed)
    return best


def _figures(
    here: _Judged,
    judged: NDArray[np.intp],
    excluded: int,
    clusters: Clusters,
    resampler: Resampler,
    beside: _Floor,
    common: Mapping[str, str],
) -> Iterator[Figure]:
    """Every statistic of one scope; ``judged``: its answers that were, ``clusters``: of those."""
    count = len(clusters.labels)
    interval, note = _interval(here.exact[judged], clusters, resampler, whole=common["scope_kind"] in WHOLE)
    for statistic, value in here.values(judged).items():
        rated = statistic == RATE
        reason = note if rated else ""
        if value is None:
            reason = f"{plural(excluded, 'answer')} not judged: a best token is not known"
        yield Figure(
            **common,
            spec=SPEC,
            statistic=statistic,
            value=value,
            n=len(judged),
            excluded=excluded,
            state=FIRM if value is not None else WITHHELD,
            reason=reason,
            **(interval if rated else Interval())._asdict(),
            interval=resampler.cluster_label(count, clusters.unit) if rated and interval.low is not None else "",
            clusters=count,
            floor=beside.name,
            floor_value=beside.values.get(statistic),
            borrowed=beside.borrowed,
        )


def _interval(exact: Bools, clusters: Clusters, resampler: Resampler, *, whole: bool) -> tuple[Interval, str]:
    """Of the rate of bool[n], between their clusters, and what a reader must know of it."""
    count = len(clusters.labels)
    note = small_cluster_note(count, clusters.unit)
    if count < 2:
        return Interval(), note
    if exact.all() or not exact.any():
        return (
            Interval(),
            f"{'every' if exact[0] else 'no'} answer is exact: resamples are all alike and give no interval",
        )
    values, weights = exact.astype(np.float64)[:, None], np.ones((len(exact), 1))
    if whole:
        top, bottom = (cluster_sums(terms, clusters.index, count) for terms in (values, weights))
        found = whole_interval(intervals_of_sums(top, bottom, resampler), 0)
        # Student's t on logs knows no upper limit; a share has one.
        return found if found.t_high is None else found._replace(t_high=min(found.t_high, 1.0)), note
    bounds = ratio_intervals(values, weights, clusters.index, count, resampler)
    return Interval(low=number_or_none(bounds.low[0]), high=number_or_none(bounds.high[0])), note
