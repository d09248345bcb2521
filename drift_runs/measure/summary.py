"""Every figure of one arm, in long form, from its comparison table: what tracking, pages and reports show.

**Floors.** In each scope a figure stands beside one floor: among the floors that cover every scored position of that
scope, the one with the largest ``kl.full`` mean there (the harshest), the first by name when two are equal. A floor
that was run on some of the scope's windows only is not set beside it: its positions would be others. The verdict is
given against the same floor, for the mean of ``kl.full`` over all positions and over each panel. A floor that the
protocol gives to another arm than the reference is left out: its rows hold that arm's own drift, not the reference's
noise.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from drift_runs.measure.arm_figures import (
    Evaluated,
    distribution_figures,
    number_or_none,
    ratio_figure,
    worst_figure,
)
from drift_runs.measure.figures import Figure, figures_table
from drift_runs.measure.intervals import Clusters, Resampler, clusters_of, plural, ratio_intervals
from drift_runs.measure.outliers import choices, outlier_mask
from drift_runs.measure.positions import Positions, positions_of
from drift_runs.measure.quantiles import FIRM, WITHHELD
from drift_runs.measure.ranges import MEAN, P95, RATE, SpanValues, range_index, worst_range
from drift_runs.measure.scopes import (
    FLIP_RATE,
    KL_MEAN,
    RATIOS,
    STRONG_RATE,
    Points,
    Ratios,
    Scope,
    Selection,
    points_of,
    scopes_of,
    spread_of,
)
from drift_runs.measure.verdict import Verdict, VerdictRule, verdict
from drift_runs.protocol.model import Protocol
from drift_runs.schema import RowFlag

_WHOLE = ("all", "panel")
_SHOWN: dict[str, frozenset[str]] = {
    "window": frozenset(
        ["kl.full/mean", "kl.full/p95", "kl.full/max", "flip/rate", "flip/count", "strong_overturn/count", "dnll/mean"]
    ),
    "history": frozenset(["kl.full/mean", "kl.full/p50", "kl.full/p95", "flip/rate", "flip/count", "dnll/mean"]),
    "band": frozenset(["kl.full/mean", "flip/rate", "flip/count", "flip.strict/rate"]),
}
"""Figures of the scopes that do not get all of them."""


class _Arm(NamedTuple):
    """Arrays of one arm, or of a floor laid over a candidate's positions."""

    positions: Positions
    ratios: Ratios
    covered: NDArray[np.bool_]


def summarise(comparison: pa.Table, protocol: Protocol, *, arm: str, floors: Mapping[str, pa.Table]) -> pa.Table:
    """Table ``FIGURES`` of one arm from its table ``COMPARISON``; ``floors``: name -> comparison of that floor.

    A floor's own figures come from the same call, with its name as ``arm`` and no floors.
    """
    return figures_table(_Summary(comparison, protocol, arm, floors).figures())


class _Summary:
    """One call of :func:`summarise`: the arrays, the draws and what was evaluated already."""

    def __init__(self, comparison: pa.Table, protocol: Protocol, arm: str, floors: Mapping[str, pa.Table]) -> None:
        self.protocol = protocol
        self.arm = arm
        self.positions = positions_of(comparison)
        self.ratios = Ratios.of(self.positions, protocol)
        self.clusters: Clusters = clusters_of(self.positions, protocol)
        self.resampler = Resampler.of(protocol)
        self.range_at = range_index(self.positions, protocol)
        foreign = {floor.name for floor in protocol.floors if floor.arm != protocol.reference.name}
        self.floors = {name: self._laid_over(floors[name]) for name in sorted(floors) if name not in foreign}
        self._evaluated: dict[bytes, Evaluated] = {}

    def figures(self) -> Iterator[Figure]:
        scopes = scopes_of(self.positions, self.protocol, self.range_at)
        for choice in choices(self.protocol):
            kept = outlier_mask(self.positions, self.protocol, choice)
            for scope in scopes:
                chosen = np.flatnonzero(scope.chosen & kept)
                if len(chosen) or scope.kind == "all":
                    yield from self._scope(scope, choice, chosen)

    def _laid_over(self, table: pa.Table) -> _Arm:
        """A floor's figures at this arm's positions, in this arm's order; not ``covered``: they mean nothing."""
        floor = positions_of(table, windows=self.positions.windows)
        keys, wanted = floor.keys(), self.positions.keys()
        covered = np.isin(wanted, keys)
        at = np.minimum(np.searchsorted(keys, wanted), max(len(keys) - 1, 0))
        laid = floor.take(at) if len(keys) else floor
        return _Arm(laid, Ratios.of(laid, self.protocol), covered)

    def _evaluate(self, chosen: Selection) -> Evaluated:
        key = chosen.tobytes()
        if key not in self._evaluated:
            name, points = self._harshest(chosen)
            self._evaluated[key] = Evaluated(
                points_of(self.positions, self.ratios, chosen),
                spread_of(self.positions, self.ratios, self.clusters, chosen, self.resampler),
                name,
                points,
            )
        return self._evaluated[key]

    def _harshest(self, chosen: Selection) -> tuple[str, Points | None]:
        """The floor that stands beside a selection, and its figures there; no name when none covers it."""
        best: tuple[float, str] | None = None
        for name, floor in self.floors.items():
            if len(chosen) == 0 or not floor.covered[chosen].all():
                continue
            used = floor.ratios.weights[chosen, KL_MEAN].sum()
            mean = floor.ratios.values[chosen, KL_MEAN].sum() / used if used else -np.inf
            if best is None or mean > best[0]:
                best = (float(mean), name)
        if best is None:
            return "", None
        floor = self.floors[best[1]]
        return best[1], points_of(floor.positions, floor.ratios, chosen)

    def _scope(self, scope: Scope, choice: str, chosen: Selection) -> Iterator[Figure]:
        found = self._evaluate(chosen)
        shown = _SHOWN.get(scope.kind)
        for figure in self._figures_of(scope, choice, chosen, found):
            if shown is None or f"{figure.spec}/{figure.statistic}" in shown:
                yield figure

    def _figures_of(self, scope: Scope, choice: str, chosen: Selection, found: Evaluated) -> Iterator[Figure]:
        common = {"arm": self.arm, "scope_kind": scope.kind, "scope": scope.name, "outliers": choice}
        points, floor = found.points, found.floor_points
        beside = {**common, "floor": found.floor, "clusters": found.spread.clusters}
        # In a range or a window one cluster is the rule and the interval's label says what it is.
        note = found.spread.note if scope.kind not in ("range", "window") or not found.spread.label else ""
        for at, (spec, statistic) in enumerate(RATIOS):
            decided = self._verdict(chosen, found) if at == KL_MEAN and scope.kind in _WHOLE else None
            yield ratio_figure(beside, spec, statistic, at, found, note, decided)
        for spec, at in (("flip", FLIP_RATE), ("strong_overturn", STRONG_RATE)):
            yield Figure(
                **beside,
                spec=spec,
                statistic="count",
                value=float(points.sums[at]),
                n=int(points.used[at]),
                excluded=int(points.excluded[at]),
                floor_value=None if floor is None else float(floor.sums[at]),
            )
        yield from distribution_figures(beside, found, note)
        if scope.kind in _WHOLE:
            yield from self._whole_figures(beside, chosen, found, note)

    def _verdict(self, chosen: Selection, found: Evaluated) -> Verdict | None:
        if not found.floor:
            return None
        return verdict(
            self.positions.kl_full_nats[chosen],
            self.floors[found.floor].positions.kl_full_nats[chosen],
            self.clusters.take(chosen),
            VerdictRule(margin=self.protocol.verdict.margin),
            self.resampler,
        )

    def _whole_figures(self, beside: dict, chosen: Selection, found: Evaluated, note: str) -> Iterator[Figure]:
        """Figures that only make sense over several windows."""
        yield self._window_mean(beside, chosen, found, note)
        yield from self._windows_above(beside, chosen)
        kl = found.points
        infinite = int(((self.positions.flags[chosen] & RowFlag.INFINITE_KL) > 0).sum())
        for statistic, value in (("excluded", int(kl.excluded[KL_MEAN])), ("infinite", infinite)):
            yield Figure(
                **{**beside, "floor": ""}, spec="kl.full", statistic=statistic, value=float(value), n=len(chosen)
            )
        for spec, array, statistic in (
            ("kl.full", "kl_full_nats", P95),
            ("kl.full", "kl_full_nats", MEAN),
            ("flip", "flip", RATE),
        ):
            floor = self.floors[found.floor].positions if found.floor else None
            worst = worst_range(
                self._spans(self.positions, array, chosen),
                statistic,
                self.resampler,
                self._spans(floor, array, chosen) if floor is not None else (),
            )
            yield worst_figure(beside, spec, statistic, worst)

    def _spans(self, positions: Positions, array: str, chosen: Selection) -> tuple[SpanValues, ...]:
        """Finite values of each range with positions in the selection, in the protocol's order."""
        values = getattr(positions, array)[chosen]
        range_at = self.range_at[chosen]
        spans = []
        for at in np.unique(range_at[range_at >= 0]):
            inside = np.flatnonzero(range_at == at)
            here = values[inside]
            cluster = self.clusters.labels[self.clusters.index[chosen[inside[0]]]]
            spans.append(
                SpanValues(name=self.protocol.ranges[at].name, cluster=cluster, values=here[np.isfinite(here)])
            )
        return tuple(spans)

    def _window_means(self, positions: Positions, array: str, chosen: Selection) -> dict[int, float]:
        """Mean of the finite values of each window in the selection that has some."""
        window = self.positions.window[chosen]
        values = getattr(positions, array)[chosen]
        finite = np.isfinite(values)
        return {int(at): float(values[finite & (window == at)].mean()) for at in np.unique(window[finite])}

    def _window_mean(self, beside: dict, chosen: Selection, found: Evaluated, note: str) -> Figure:
        """Mean of window means of ``kl.full``: every window weighs the same, however long it is."""
        means = self._window_means(self.positions, "kl_full_nats", chosen)
        n = int(found.points.used[KL_MEAN])
        common = {"spec": "kl.full", "statistic": "window_mean", "n": n}
        excluded = int(found.points.excluded[KL_MEAN])
        if not means:
            return Figure(**beside, **common, value=None, excluded=excluded, state=WITHHELD, reason="no positions")
        values = np.array(list(means.values()))
        first = {at: int(chosen[np.flatnonzero(self.positions.window[chosen] == at)[0]]) for at in means}
        clusters = self.clusters.take(np.array(list(first.values())))
        ones = np.ones((len(values), 1))
        bounds = ratio_intervals(values[:, None], ones, clusters.index, len(clusters.labels), self.resampler)
        low, high = number_or_none(bounds.low[0]), number_or_none(bounds.high[0])
        floor_value = None
        if found.floor:
            floor = self._window_means(self.floors[found.floor].positions, "kl_full_nats", chosen)
            floor_value = float(np.mean(list(floor.values()))) if floor else None
        return Figure(
            **beside,
            **common,
            value=float(values.mean()),
            excluded=excluded,
            reason=note,
            low=low,
            high=high,
            interval=self.resampler.cluster_label(len(clusters.labels), clusters.unit) if low is not None else "",
            floor_value=floor_value,
        )

    def _windows_above(self, beside: dict, chosen: Selection) -> Iterator[Figure]:
        """In how many windows the candidate's mean lies above the reference's; ``n`` counts windows here."""
        for spec, stem in (("nll", "nll_nats"), ("entropy.full", "entropy_nats")):
            reference = self._window_means(self.positions, f"reference_{stem}", chosen)
            candidate = self._window_means(self.positions, f"candidate_{stem}", chosen)
            both = [at for at in reference if at in candidate]
            above = sum(candidate[at] > reference[at] for at in both)
            plain = {**beside, "floor": ""}
            yield Figure(
                **plain,
                spec=spec,
                statistic="windows_above",
                value=float(above) if both else None,
                n=len(both),
                state=FIRM if both else WITHHELD,
                reason=f"of {plural(len(both), 'window')}" if both else "no positions",
            )
