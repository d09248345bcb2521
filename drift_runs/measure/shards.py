"""Figures of a panel whose positions cannot be held, from sums and log10 histograms. METRICS, Summaries.

Means, rates and counts are what :func:`summary.summarise` gives. A quantile is known to the bin that it lies in: its
value is the bin's geometric middle, and the reason states the ends. Where there are several clusters its interval is
the bootstrap over their histograms, with each end moved outward to its bin's end, so that it holds the interval that
the positions would give. What needs single positions (ranges, history, bands) is not among the figures.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from drift_runs.errors import NotComparable
from drift_runs.measure.arm_figures import with_partial
from drift_runs.measure.coverage import Stretches, share_figure
from drift_runs.measure.figures import Figure, figures_table
from drift_runs.measure.headline import TAIL, unsaid_reason
from drift_runs.measure.histograms import (
    BINS_PER_DECADE,
    Counts,
    Ends,
    Floats,
    bin_ends,
    middle,
    quantile_ends,
    resampled_ends,
    top_sum_ends,
)
from drift_runs.measure.intervals import intervals_of_sums, small_cluster_note
from drift_runs.measure.outliers import ONLY, WITH, choices
from drift_runs.measure.quantiles import (
    FIRM,
    QUANTILES,
    TAIL_DIVISOR,
    TAIL_LEAST_POSITIONS,
    WITHHELD,
    guard_state,
    values_beyond,
)
from drift_runs.measure.ratios import HEADLINE
from drift_runs.measure.resampler import Resampler, plural
from drift_runs.measure.selected import Interval, whole_interval
from drift_runs.measure.shard_summary import ShardSummary
from drift_runs.measure.specs import base_of
from drift_runs.measure.window_figures import UNLIKE
from drift_runs.protocol.model import Protocol

LIMIT_POSITIONS = 2_000_000
"""Up to here a comparison is held and its quantiles are exact. It takes about 1.2 kB a position (measured: fields,
and the numerators and weights of every ratio, 8 bytes each), so 2 million positions take 2.5 GB, which a machine that
runs an engine has; ten million take 12 GB, and their summary in shards takes 70 MB."""

NO_TEXT_INTERVAL = "no interval within the text: its positions are not held"

Windows = NDArray[np.intp]


class _Scope(NamedTuple):
    """A named selection of windows that have rows."""

    kind: str
    name: str
    outliers: str
    windows: Windows
    strata: NDArray[np.bool_]
    """Which strata lie inside."""


class _Spread(NamedTuple):
    """The clusters of a scope, numbered among themselves, and the draws of their number."""

    clusters: Windows
    """Cluster of the protocol, in its order."""
    at: Windows
    """Index into ``clusters`` of each window of the scope."""
    note: str


def summarise_shards(tables: Iterable[pa.Table], protocol: Protocol, *, arm: str) -> pa.Table:
    """Table ``FIGURES`` of one arm whose comparison has more than :data:`LIMIT_POSITIONS` positions.

    ``tables``: its parts, schema ``COMPARISON``, in any order; only one is held at a time. Scopes are all positions,
    panels and groups, with the divergence that the protocol names as headline; windows get its mean, its largest value
    and the flip rate. Raises ``NotComparable`` as :meth:`ShardSummary.feed` does.
    """
    summary = ShardSummary(protocol)
    for table in tables:
        summary.feed(table)
    return shard_table(summary, arm=arm)


def shard_table(summary: ShardSummary, *, arm: str) -> pa.Table:
    """Table ``FIGURES`` of what a summary has counted."""
    return figures_table(_Shards(summary, arm).figures())


class _Shards:
    """One call of :func:`shard_table`."""

    def __init__(self, summary: ShardSummary, arm: str) -> None:
        self.summary = summary
        self.arm = arm
        self.resampler = Resampler.of(summary.protocol)
        self.sums = summary.sums
        self.columns = summary.columns
        self.emitted = summary.emitted
        self.spec = self.columns[HEADLINE].spec
        unmeasured = summary.rows.any() and not summary.known[:, HEADLINE].any()
        self.absence = f"not measured: no row has {self.spec}" if unmeasured else ""
        self.unsaid = unsaid_reason(summary.unsaid_tails, int(summary.rows.sum()))
        if self.unsaid and base_of(self.spec) == TAIL.base:
            raise NotComparable(
                f"{self.spec} {self.unsaid}",
                where=f"arm {arm}",
                expected="rows with the candidate's log-probabilities of every wanted token",
                todo="choose another capture.divergence",
            )

    def figures(self) -> Iterator[Figure]:
        for choice in choices(self.summary.protocol):
            for scope in self._scopes(choice):
                if len(scope.windows) or scope.kind == "all":
                    yield from self._scope(scope)
            for window in self._kept(choice):
                yield from self._window(int(window), choice)

    def _kept(self, choice: str) -> Windows:
        """Windows with rows that a choice of outliers keeps."""
        return np.flatnonzero(self._strata(choice)[self.summary.stratum] & (self.summary.rows > 0))

    def _strata(self, choice: str) -> NDArray[np.bool_]:
        return np.array(
            [choice == WITH or stratum.outlier == (choice == ONLY) for stratum in self.summary.strata], dtype=bool
        )

    def _scopes(self, choice: str) -> Iterator[_Scope]:
        strata, protocol = self.summary.strata, self.summary.protocol
        kept = self._strata(choice)
        yield self._scope_of("all", "all", choice, kept)
        for panel in protocol.panels:
            inside = np.array([stratum.panel == panel.name for stratum in strata])
            yield self._scope_of("panel", panel.name, choice, kept & inside)
        for group in dict.fromkeys(stratum.group for stratum in strata if stratum.group):
            inside = np.array([stratum.group == group for stratum in strata])
            yield self._scope_of("group", group, choice, kept & inside)

    def _scope_of(self, kind: str, name: str, choice: str, strata: NDArray[np.bool_]) -> _Scope:
        windows = np.flatnonzero(strata[self.summary.stratum] & (self.summary.rows > 0))
        return _Scope(kind, name, choice, windows, strata)

    def _scope(self, scope: _Scope) -> Iterator[Figure]:
        clusters, at = np.unique(self.summary.cluster[scope.windows], return_inverse=True)
        unit = self.summary.protocol.intervals.cluster
        spread = _Spread(clusters, at, small_cluster_note(len(clusters), unit))
        common = {
            "arm": self.arm,
            "scope_kind": scope.kind,
            "scope": scope.name,
            "outliers": scope.outliers,
            "clusters": len(clusters),
        }
        yield from self._ratios(common, scope, spread)
        yield from self._quantiles(common, scope, spread)
        yield self._largest(common, scope.windows)
        yield self._tail_share(common, scope)
        yield self._window_mean(common, scope, spread)
        yield from self._windows_above(common, scope.windows)
        used, missing = self._count(scope.windows, HEADLINE)
        infinite = int(self.summary.infinite[scope.windows].sum())
        for statistic, value in (("excluded", missing), ("infinite", infinite)):
            yield Figure(**common, spec=self.spec, statistic=statistic, value=float(value), n=used + missing)
        of = Stretches(self.summary.protocol.windows).within(scope.windows)
        covered = share_figure(self.arm, scope.kind, scope.name, scope.outliers, scored=used + missing, of=of)
        if covered is not None:
            yield covered

    def _count(self, windows: Windows, column: int) -> tuple[int, int]:
        """(used, missing) of a ratio."""
        summary = self.summary
        missing = int(summary.rows[windows].sum()) - int(summary.known[windows, column].sum())
        return int(summary.used[windows, column].sum()), missing

    def _sum(self, windows: Windows, column: int) -> float:
        return math.fsum(self.sums[windows, column])

    def _ratios(self, common: Mapping[str, Any], scope: _Scope, spread: _Spread) -> Iterator[Figure]:
        at = list(self.emitted)
        tops = _by_cluster(self.sums[scope.windows][:, at], spread)
        bottoms = _by_cluster(self.summary.used[scope.windows][:, at].astype(np.float64), spread)
        found = intervals_of_sums(tops, bottoms, self.resampler)
        rows = int(self.summary.rows[scope.windows].sum())
        for place, column_at in enumerate(at):
            column = self.columns[column_at]
            used, missing = self._count(scope.windows, column_at)
            total = self._sum(scope.windows, column_at)
            shared = {"spec": column.spec, "n": used, "excluded": missing}
            if column.statistic:
                interval = whole_interval(found, place)
                absence = self.absence if column_at == HEADLINE else ""
                if self.unsaid and base_of(column.spec) == TAIL.base:
                    shared |= {"n": 0, "excluded": used + missing}
                    used, interval, absence = 0, Interval(), self.unsaid
                yield Figure(
                    **common,
                    **shared,
                    statistic=column.statistic,
                    value=total / used if used else None,
                    state=FIRM if used else WITHHELD,
                    reason=with_partial(spread.note, column, missing)
                    if used
                    else absence or (column.empty if column.empty and rows > missing else "no positions"),
                    **interval._asdict(),
                    interval=self._label(spread) if interval.low is not None else "",
                )
            if column.count:
                yield Figure(**common, **shared, statistic=column.count, value=total)

    def _label(self, spread: _Spread) -> str:
        return self.resampler.cluster_label(len(spread.clusters), self.summary.protocol.intervals.cluster)

    def _quantiles(self, common: Mapping[str, Any], scope: _Scope, spread: _Spread) -> Iterator[Figure]:
        n, missing = self._count(scope.windows, HEADLINE)
        ends = self._bin_ends(scope.windows)
        by_cluster = self._histograms(scope, spread)
        levels = np.array(list(QUANTILES.values()))
        bounds = self._quantile_bounds(by_cluster, levels, ends)
        for at, (name, level) in enumerate(QUANTILES.items()):
            state, reason = guard_state(n, level)
            shared = {"spec": self.spec, "statistic": name, "n": n, "excluded": missing, "state": state}
            shared["beyond"] = values_beyond(n, level)
            if state == WITHHELD:
                yield Figure(**common, **shared, value=None, reason=self.absence or reason)
                continue
            found = quantile_ends(by_cluster.sum(axis=0, keepdims=True), level, ends)
            least, most = float(found.low[0]), float(found.high[0])
            low, high = _known(bounds.low[at]), _known(bounds.high[at])
            label = f"{self._label(spread)}, of histograms: each end is its bin's outer end"
            if low is None or high is None:
                low, high, label = least, most, "the bin of a log10 histogram"
            reason = f"from log10 histograms, {BINS_PER_DECADE} bins a decade: the value lies in [{least:g}, {most:g}]"
            yield Figure(
                **common,
                **shared,
                value=middle(least, most),
                reason="; ".join(filter(None, (reason, spread.note))),
                low=low,
                high=high,
                interval=label,
            )

    def _bin_ends(self, windows: Windows) -> Ends:
        """Ends of the bins, cut to the extremes of the values in these windows."""
        if not np.isfinite(self.summary.largest[windows]).any():
            return bin_ends(0.0, 0.0)
        return bin_ends(float(self.summary.smallest[windows].min()), float(self.summary.largest[windows].max()))

    def _histograms(self, scope: _Scope, spread: _Spread) -> Counts:
        """Histograms of the clusters of a scope: int64[clusters, bins]."""
        summary = self.summary
        inside = scope.strata[summary.cell_stratum] & np.isin(summary.cell_cluster, spread.clusters)
        counts = np.zeros((max(len(spread.clusters), 1), summary.counts.shape[1]), dtype=np.int64)
        if inside.any():
            at = np.searchsorted(spread.clusters, summary.cell_cluster[inside])
            np.add.at(counts, at, summary.counts[inside])
        return counts

    def _quantile_bounds(self, by_cluster: Counts, levels: Floats, ends: Ends) -> Ends:
        """Bootstrap over the clusters that have values, as the whole positions would be resampled."""
        filled = by_cluster[by_cluster.any(axis=1)]
        if len(filled) < 2:
            nothing = np.full(len(levels), np.nan)
            return Ends(nothing, nothing)
        found = resampled_ends(filled, self.resampler.multiplicities(len(filled)), levels, ends)
        return Ends(self.resampler.percentile(found.low).low, self.resampler.percentile(found.high).high)

    def _largest(self, common: Mapping[str, Any], windows: Windows) -> Figure:
        n, missing = self._count(windows, HEADLINE)
        place = self.summary.largest_in(windows)
        reason = self.absence or "no positions"
        if place is not None:
            reason = f"window {place.window}, position {place.position}; a maximum grows with n and has no interval"
        return Figure(
            **common,
            spec=self.spec,
            statistic="max",
            value=None if place is None else place.value,
            n=n,
            excluded=missing,
            beyond=0,
            state=WITHHELD if place is None else FIRM,
            reason=reason,
        )

    def _tail_share(self, common: Mapping[str, Any], scope: _Scope) -> Figure:
        n, missing = self._count(scope.windows, HEADLINE)
        shared = {"spec": self.spec, "statistic": "tail_share", "n": n, "excluded": missing}
        if n < TAIL_LEAST_POSITIONS:
            reason = self.absence or f"{n} positions, {TAIL_LEAST_POSITIONS} needed"
            return Figure(**common, **shared, value=None, state=WITHHELD, reason=reason)
        total = self._sum(scope.windows, HEADLINE)
        if not total > 0:
            return Figure(**common, **shared, value=None, state=WITHHELD, reason="the total is not positive")
        counts = self.summary.counts[scope.strata[self.summary.cell_stratum]].sum(axis=0)
        sums = self.summary.bin_sums[scope.strata].sum(axis=0)
        least, most = top_sum_ends(counts, sums, n // TAIL_DIVISOR, self._bin_ends(scope.windows))
        low, high = least / total, most / total
        return Figure(
            **common,
            **shared,
            value=(low + high) / 2,
            reason=f"from log10 histograms, {BINS_PER_DECADE} bins a decade: the value lies in [{low:g}, {high:g}]",
            low=low,
            high=high,
            interval="the bin of a log10 histogram",
        )

    def _window_mean(self, common: Mapping[str, Any], scope: _Scope, spread: _Spread) -> Figure:
        """Mean of window means: every window weighs the same, however long it is."""
        n, missing = self._count(scope.windows, HEADLINE)
        shared = {"spec": self.spec, "statistic": "window_mean", "n": n, "excluded": missing}
        used = self.summary.used[scope.windows, HEADLINE]
        some = np.flatnonzero(used)
        if len(some) == 0:
            return Figure(**common, **shared, value=None, state=WITHHELD, reason=self.absence or "no positions")
        means = self.sums[scope.windows[some], HEADLINE] / used[some]
        clusters, at = np.unique(spread.at[some], return_inverse=True)
        inside = _Spread(clusters, at, spread.note)
        interval = Interval()
        if len(clusters) > 1:
            tops, bottoms = (_by_cluster(terms[:, None], inside) for terms in (means, np.ones(len(means))))
            interval = whole_interval(intervals_of_sums(tops, bottoms, self.resampler), 0)
        return Figure(
            **common,
            **shared,
            value=math.fsum(means) / len(means),
            reason=spread.note,
            **interval._asdict(),
            interval=self._label(inside) if interval.low is not None else "",
        )

    def _windows_above(self, common: Mapping[str, Any], windows: Windows) -> Iterator[Figure]:
        """In how many windows the candidate's mean lies above the reference's; ``n`` counts windows here."""
        at = {self.columns[place].spec: place for place in self.emitted}
        for spec in dict.fromkeys(name.removesuffix(".reference") for name in at if name.endswith(".reference")):
            sides = [at.get(f"{spec}.{side}") for side in ("reference", "candidate")]
            if None in sides or not spec.startswith(("nll", "entropy")):
                continue
            used = self.summary.used[np.ix_(windows, sides)]
            both = windows[(used > 0).all(axis=1) & (used[:, 0] == used[:, 1])]
            unlike = used.any() and not len(both)
            means = self.sums[np.ix_(both, sides)] / self.summary.used[np.ix_(both, sides)]
            yield Figure(
                **common,
                spec=spec,
                statistic="windows_above",
                value=float((means[:, 1] > means[:, 0]).sum()) if len(both) else None,
                n=len(both),
                state=FIRM if len(both) else WITHHELD,
                reason=f"of {plural(len(both), 'window')}" if len(both) else UNLIKE if unlike else "no positions",
            )

    def _window(self, window: int, choice: str) -> Iterator[Figure]:
        """Mean, largest value and flip rate of one window."""
        windows = np.array([window], dtype=np.intp)
        common = {
            "arm": self.arm,
            "scope_kind": "window",
            "scope": self.summary.windows[window],
            "outliers": choice,
            "clusters": 1,
        }
        for at in self.emitted:
            column = self.columns[at]
            if at != HEADLINE and (column.spec, column.statistic) != ("flip", "rate"):
                continue
            used, missing = self._count(windows, at)
            absence = self.absence if at == HEADLINE else ""
            yield Figure(
                **common,
                spec=column.spec,
                statistic=column.statistic,
                value=self._sum(windows, at) / used if used else None,
                n=used,
                excluded=missing,
                state=FIRM if used else WITHHELD,
                reason=NO_TEXT_INTERVAL if used else absence or "no positions",
            )
        yield self._largest(common, windows)


def _by_cluster(values: Floats, spread: _Spread) -> Floats:
    """Sums of float64[windows, m] over the windows of each cluster: float64[clusters, m]."""
    sums = np.zeros((len(spread.clusters), values.shape[1]))
    np.add.at(sums, spread.at, values)
    return sums


def _known(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
