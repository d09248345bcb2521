"""Every figure of one arm, in long form, from its comparison table: what tracking, pages and reports show.

**Headline.** Quantiles, tail, worst range, verdict and window mean are those of the protocol's divergence
(``capture.divergence``); every other divergence that the rows have stands beside it with fewer statistics.

**Floors.** In each scope a figure stands beside one floor: among the floors that cover every scored position of that
scope, the one with the largest headline mean there (the harshest), the first by name when two are equal. A floor
that was run on some of the scope's windows only is not set beside it: its positions would be others. The verdict is
given against the same floor, for the headline's mean over all positions and over each panel, role and group. A floor
that the protocol gives to another arm than this arm's reference is left out: its rows hold that arm's own drift, not
the reference's noise. So is one whose rows have another K, where the headline depends on K.

**Borrowed floors** are those of another reference. Where no floor of this reference covers a scope, the harshest of
them stands there, marked, and gives no verdict.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa

from drift_runs.measure.arm_figures import (
    BORROWED,
    Beside,
    count_figure,
    extreme_figure,
    largest_figure,
    quantile_figure,
    ratio_figure,
    tail_figure,
    worst_figure,
)
from drift_runs.measure.coverage import Coverage
from drift_runs.measure.figures import Figure, figures_table
from drift_runs.measure.floors import Floors
from drift_runs.measure.headline import headline_of, others_of
from drift_runs.measure.intervals import Clusters, clusters_of
from drift_runs.measure.outliers import choices, outlier_mask
from drift_runs.measure.positions import infinite_mask, positions_of
from drift_runs.measure.quantiles import QUANTILES, WITHHELD, lower_quantiles
from drift_runs.measure.ranges import MEAN, P95, RATE, SpanValues, Statistic, range_index, worst_range
from drift_runs.measure.ratios import CORE, HEADLINE, Ratios, columns_of, emitted
from drift_runs.measure.resampler import Resampler
from drift_runs.measure.scopes import WHOLE, Scope, scopes_of
from drift_runs.measure.selected import Interval, Selected, SelectedSide, Selection, Side
from drift_runs.measure.shown import LOWER_RULE_SCOPES, has_interval, has_quantile_intervals, is_shown
from drift_runs.measure.verdict import Verdict, VerdictRule, verdict
from drift_runs.measure.window_figures import window_figures
from drift_runs.protocol.model import Protocol

_OTHER_QUANTILES = ("p50", "p95", "p99")


def summarise(
    comparison: pa.Table,
    protocol: Protocol,
    *,
    arm: str,
    floors: Mapping[str, pa.Table],
    borrowed: Mapping[str, pa.Table] | None = None,
) -> pa.Table:
    """Table ``FIGURES`` of one arm from its table ``COMPARISON``; ``floors``: name -> comparison of that floor.

    ``borrowed``: the same for floors of another reference. A floor's own figures come from the same call, with its name
    as ``arm`` and no floors. ``NotComparable`` for rows of several K.
    """
    return figures_table(_Summary(comparison, protocol, arm, floors, borrowed or {}).figures())


class _Summary:
    """One call of :func:`summarise`: the arrays, the draws and what was evaluated already."""

    def __init__(
        self,
        comparison: pa.Table,
        protocol: Protocol,
        arm: str,
        floors: Mapping[str, pa.Table],
        borrowed: Mapping[str, pa.Table],
    ) -> None:
        self.protocol = protocol
        self.arm = arm
        self.positions = positions_of(comparison)
        self.headline = headline_of(self.positions, protocol)
        self.others = others_of(self.positions, protocol)
        self.columns = columns_of(self.positions, protocol)
        self.emitted = emitted(self.columns, self.positions, protocol)
        self.side = Side(self.positions, Ratios.of(self.positions, protocol, self.columns))
        self.clusters: Clusters = clusters_of(self.positions, protocol)
        self.resampler = Resampler.of(protocol)
        self.range_at = range_index(self.positions, protocol)
        against = next((item.against for item in protocol.arms if item.name == arm), "") or protocol.reference.name
        foreign = {floor.name for floor in protocol.floors if floor.arm != against}
        own = {name: table for name, table in floors.items() if name not in foreign}
        self.floors = Floors(self.positions, protocol, self.columns, own=own, borrowed=borrowed)
        self._evaluated: dict[bytes, tuple[Selected, Beside]] = {}
        self._pooled: dict[bytes, tuple[Figure, ...]] = {}

    def figures(self) -> Iterator[Figure]:
        scopes = scopes_of(self.positions, self.protocol, self.range_at)
        coverage = Coverage(self.arm, self.positions, self.protocol)
        for choice in choices(self.protocol):
            kept = outlier_mask(self.positions, self.protocol, choice)
            for scope in scopes:
                chosen = np.flatnonzero(scope.chosen & kept)
                if len(chosen) or scope.kind == "all":
                    yield from self._scope(scope, choice, chosen)
                    if (covered := coverage.figure(scope, choice, chosen, kept)) is not None:
                        yield covered

    def _evaluate(self, chosen: Selection) -> tuple[Selected, Beside]:
        key = chosen.tobytes()
        if key not in self._evaluated:
            found = Selected(self.side, chosen, self.clusters, self.resampler, self.headline.column)
            self._evaluated[key] = found, self.floors.beside(chosen)
        return self._evaluated[key]

    def _scope(self, scope: Scope, choice: str, chosen: Selection) -> Iterator[Figure]:
        if scope.kind not in WHOLE:
            yield from self._figures_of(scope, choice, chosen)
            return
        # A panel may be all positions, or all of one role: nothing is computed twice.
        key = chosen.tobytes()
        if key not in self._pooled:
            self._pooled[key] = tuple(self._figures_of(scope, choice, chosen))
        for figure in self._pooled[key]:
            if not figure.statistic.endswith("_lower") or scope.kind in LOWER_RULE_SCOPES:
                yield replace(figure, scope_kind=scope.kind, scope=scope.name, outliers=choice)

    def _figures_of(self, scope: Scope, choice: str, chosen: Selection) -> Iterator[Figure]:
        found, beside = self._evaluate(chosen)
        common = {
            "arm": self.arm,
            "scope_kind": scope.kind,
            "scope": scope.name,
            "outliers": choice,
            "clusters": found.clusters,
        }
        # In a range or a window one cluster is the rule and the interval's label says what it is.
        note = found.note if scope.kind not in ("range", "window") or not found.label else ""
        yield from self._ratios(scope.kind, common, found, beside, note)
        yield from self._distribution(scope.kind, common, found, beside, note)
        if scope.kind in WHOLE:
            yield from self._other_distributions(common, found, beside, note)
            yield from self._extremes(common, found, beside)
            yield from self._whole_figures(common, found, beside, note)

    def _ratios(self, kind: str, common: dict, found: Selected, beside: Beside, note: str) -> Iterator[Figure]:
        headline = self.headline.spec
        rated, counted, resampled = [], [], []
        for at, column in enumerate(self.columns):
            if not self.emitted[at]:
                continue
            if column.statistic and is_shown(kind, column.spec, column.statistic, headline):
                rated.append(at)
                if at < CORE or has_interval(kind, column.spec, column.statistic):
                    resampled.append(at)
            if column.count and is_shown(kind, column.spec, column.count, headline):
                counted.append(at)
        found.ratio_intervals(resampled, all_kinds=kind in WHOLE)
        for at in rated:
            decided = self._verdict(found, beside) if at == HEADLINE and kind in WHOLE else None
            yield ratio_figure(common, self.columns[at], at, found, beside, note, decided)
        for at in counted:
            yield count_figure(common, self.columns[at], at, found, beside)

    def _distribution(self, kind: str, common: dict, found: Selected, beside: Beside, note: str) -> Iterator[Figure]:
        """Quantiles, the largest value and the share of the tail of the headline."""
        spec, column, absence = self.headline.spec, self.headline.column, self.headline.absence
        names = [name for name in QUANTILES if is_shown(kind, spec, name, spec)]
        if names:
            here = found.distribution(column).quantiles
            floor = beside.side.distribution(column).quantiles if beside.side is not None else None
            if has_quantile_intervals(kind):
                found.quantile_intervals([item.name for item in here if item.name in names and item.state != WITHHELD])
            for at, item in enumerate(here):
                if item.name in names:
                    beneath = None if floor is None else floor[at]
                    interval = found.quantile_interval(item.name)
                    yield quantile_figure(common, spec, item, beneath, interval, found, beside, note, absence)
        if kind in WHOLE:
            yield from self._lower(common, found, beside, note)
        if is_shown(kind, spec, "max", spec):
            yield largest_figure(common, spec, column, found, beside, absence)
        if is_shown(kind, spec, "tail_share", spec):
            yield tail_figure(common, spec, column, found, beside, absence)

    def _lower(self, common: dict, found: Selected, beside: Beside, note: str) -> Iterator[Figure]:
        column = self.headline.column
        lower = lower_quantiles(found.values(column), found.distribution(column).quantiles)
        for item in lower:
            yield quantile_figure(common, self.headline.spec, item, None, Interval(), found, beside, note, "")

    def _other_distributions(self, common: dict, found: Selected, beside: Beside, note: str) -> Iterator[Figure]:
        """Quantiles and the largest value of the other divergences; these have no interval."""
        for other in self.others:
            spec = other.spec(self.positions.top_k)
            here = found.distribution(other.column).quantiles
            floor = beside.side.distribution(other.column).quantiles if beside.side is not None else None
            for at, item in enumerate(here):
                if item.name in _OTHER_QUANTILES:
                    beneath = None if floor is None else floor[at]
                    yield quantile_figure(common, spec, item, beneath, Interval(), found, beside, note, "")
            yield largest_figure(common, spec, other.column, found, beside, "")

    def _extremes(self, common: dict, found: Selected, beside: Beside) -> Iterator[Figure]:
        k = self.positions.top_k
        for spec, statistic, column in (
            (f"shared_support@{k}", "min", "shared_support"),
            (f"reference_mass_outside@{k}", "max", "reference_mass_outside"),
            (f"reference_mass_dropped@{k}", "max", "reference_mass_dropped"),
            ("padding_mass.reference", "max", "reference_padding_mass"),
            ("padding_mass.candidate", "max", "candidate_padding_mass"),
        ):
            if np.isfinite(getattr(self.positions, column)).any() and ("@" not in spec or k is not None):
                yield extreme_figure(common, spec, statistic, column, found, beside)

    def _verdict(self, found: Selected, beside: Beside) -> Verdict | None:
        if beside.side is None or self.headline.absence:
            return None
        if beside.borrowed:
            return Verdict(outcome="", reason=BORROWED, difference_nats=None, low=None, high=None, n=0)
        return verdict(
            found.values(self.headline.column),
            beside.side.values(self.headline.column),
            found.inside,
            VerdictRule(margin=self.protocol.verdict.margin),
            self.resampler,
        )

    def _whole_figures(self, common: dict, found: Selected, beside: Beside, note: str) -> Iterator[Figure]:
        """Figures that only make sense over several windows."""
        yield from window_figures(common, self.headline, found, beside, note, self.protocol)
        infinite = int(infinite_mask(self.positions, self.headline.column)[found.chosen].sum())
        for statistic, value in (("excluded", int(found.sums.excluded[HEADLINE])), ("infinite", infinite)):
            yield Figure(
                **common, spec=self.headline.spec, statistic=statistic, value=float(value), n=len(found.chosen)
            )
        for spec, column, statistic, absence in (
            (self.headline.spec, self.headline.column, P95, self.headline.absence),
            (self.headline.spec, self.headline.column, MEAN, self.headline.absence),
            ("flip", "flip", RATE, ""),
        ):
            if spec != "flip" or self.emitted[1]:
                yield self._worst(common, spec, column, statistic, absence, found, beside)

    def _worst(
        self, common: dict, spec: str, column: str, statistic: Statistic, absence: str, found: Selected, beside: Beside
    ) -> Figure:
        worst = worst_range(
            self._spans(found, column, found.chosen),
            statistic,
            self.resampler,
            self._spans(beside.side, column, found.chosen) if beside.side is not None else (),
        )
        if not self.protocol.ranges:
            absence = absence or "the protocol labels no ranges"
        return worst_figure(common, spec, statistic, worst, beside, absence)

    def _spans(self, side: SelectedSide, column: str, chosen: Selection) -> tuple[SpanValues, ...]:
        """Finite values of each range with positions in the selection, in the protocol's order."""
        values = side.values(column)
        range_at = self.range_at[chosen]
        spans = []
        for at in np.unique(range_at[range_at >= 0]):
            inside = np.flatnonzero(range_at == at)
            here = values[inside]
            cluster = self.clusters.labels[self.clusters.index[chosen[inside[0]]]]
            finite = here[np.isfinite(here)]
            name = self.protocol.ranges[at].name
            spans.append(SpanValues(name=name, cluster=cluster, values=finite, excluded=len(here) - len(finite)))
        return tuple(spans)
