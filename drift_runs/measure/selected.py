"""Figures of one selection of positions, each computed when it is first asked for, and once."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from drift_runs.measure.blocks import block_quantile_replicates, block_ratio_replicates
from drift_runs.measure.intervals import (
    ClusterIntervals,
    Clusters,
    cluster_sums,
    intervals_of_sums,
    quantile_intervals,
    ratio_replicates,
    small_cluster_note,
)
from drift_runs.measure.positions import Positions
from drift_runs.measure.quantiles import QUANTILES, Quantile, TailShare, quantiles, tail_share
from drift_runs.measure.ratios import CORE, Ratios
from drift_runs.measure.resampler import Bounds, Resampler

Floats = NDArray[np.float64]
Selection = NDArray[np.intp]

CLUSTERS = "clusters"
BLOCKS = "blocks"
NO_INTERVAL = ""


class Side(NamedTuple):
    """Arrays of one arm, or of a floor laid over another arm's positions."""

    positions: Positions
    ratios: Ratios


class Sums(NamedTuple):
    """Every ratio of one selection."""

    ratios: Floats
    """float64[figures], NaN for nothing over nothing."""
    used: NDArray[np.int64]
    excluded: NDArray[np.int64]
    sums: Floats


class Distribution:
    """Quantiles, extremes and tail of one field in one selection."""

    def __init__(self, values: Floats) -> None:
        self.values = values
        self.finite = values[np.isfinite(values)]

    @cached_property
    def quantiles(self) -> tuple[Quantile, ...]:
        return quantiles(self.values)

    @cached_property
    def tail(self) -> TailShare:
        return tail_share(self.values)

    @property
    def used(self) -> int:
        return len(self.finite)

    @property
    def excluded(self) -> int:
        return len(self.values) - len(self.finite)

    @property
    def smallest(self) -> float | None:
        return float(self.finite.min()) if len(self.finite) else None

    @property
    def largest(self) -> float | None:
        return float(self.finite.max()) if len(self.finite) else None


class Interval(NamedTuple):
    """What stands beside one value; None where there is none."""

    low: float | None = None
    high: float | None = None
    standard_error: float | None = None
    bca_low: float | None = None
    bca_high: float | None = None
    t_low: float | None = None
    t_high: float | None = None


class SelectedSide:
    """Point figures of one side over one selection."""

    def __init__(self, side: Side, chosen: Selection) -> None:
        self.side = side
        self.chosen = chosen
        self._distributions: dict[str, Distribution] = {}

    @cached_property
    def sums(self) -> Sums:
        ratios = self.side.ratios
        # Each sum is of contiguous numbers: numpy then adds pairwise, which the order of windows hardly moves.
        sums = np.array([np.add.reduce(row.take(self.chosen)) for row in ratios.values])
        used = np.array([np.count_nonzero(row.take(self.chosen)) for row in ratios.weights], dtype=np.int64)
        return Sums(
            ratios=np.divide(sums, used, out=np.full(len(sums), np.nan), where=used > 0),
            used=used,
            excluded=np.array([np.count_nonzero(row.take(self.chosen)) for row in ratios.missing], dtype=np.int64),
            sums=sums,
        )

    def values(self, name: str) -> Floats:
        """A field of the positions, over the selection."""
        return getattr(self.side.positions, name)[self.chosen]

    def distribution(self, name: str) -> Distribution:
        if name not in self._distributions:
            self._distributions[name] = Distribution(self.values(name))
        return self._distributions[name]


class Selected(SelectedSide):
    """One selection of an arm: point figures, and the intervals between clusters or within the one text."""

    def __init__(self, side: Side, chosen: Selection, clusters: Clusters, resampler: Resampler, headline: str) -> None:
        super().__init__(side, chosen)
        self.resampler = resampler
        self.headline = headline
        self.inside = clusters.take(chosen)
        self.clusters = len(self.inside.labels)
        self.note = small_cluster_note(self.clusters, self.inside.unit)
        self.method = NO_INTERVAL
        self.label = ""
        """Method, confidence and unit; empty when there is no interval."""
        self._columns: dict[int, Interval] = {}
        self._complete: set[int] = set()
        self._quantiles: dict[str, Interval] = {}
        self._choose_method()

    def _choose_method(self) -> None:
        if self.clusters >= 2:
            self.method, self.label = CLUSTERS, self.resampler.cluster_label(self.clusters, self.inside.unit)
            return
        if not len(self.chosen) or len(np.unique(self.side.positions.window[self.chosen])) != 1:
            return
        finite = int(np.isfinite(self.values(self.headline)).sum())
        least = 2 * self.resampler.block_tokens
        # Fewer than two blocks resample to the text itself: an interval of no width that says nothing.
        if finite >= least:
            self.method, self.label = BLOCKS, self.resampler.block_label()
        else:
            self.note = f"{finite} positions: no interval under {least}"

    def ratio_intervals(self, wanted: Sequence[int], *, all_kinds: bool) -> None:
        """Make the intervals of these columns ready, so that they are resampled together.

        ``all_kinds``: with standard errors, BCa and t intervals beside the percentile interval of clusters.
        """
        if self.method == CLUSTERS:
            # The core is always resampled as one matrix: a matrix product of another width may round otherwise.
            for part in ([at for at in wanted if at < CORE], [at for at in wanted if at >= CORE]):
                held = self._complete if all_kinds else self._columns
                missing = [at for at in part if at not in held]
                if missing:
                    drawn = list(range(CORE)) if missing[0] < CORE else missing
                    self._resample_clusters(drawn, missing, all_kinds=all_kinds)
        elif self.method == BLOCKS:
            missing = [at for at in wanted if at not in self._columns]
            if missing:
                replicates = block_ratio_replicates(*self._terms(missing), self.resampler)
                self._keep(missing, self.resampler.percentile(replicates))

    def _resample_clusters(self, drawn: Sequence[int], missing: Sequence[int], *, all_kinds: bool) -> None:
        top, bottom = (cluster_sums(terms, self.inside.index, self.clusters) for terms in self._terms(drawn))
        if all_kinds:
            found = intervals_of_sums(top, bottom, self.resampler)
            self._columns.update({at: whole_interval(found, place) for place, at in enumerate(drawn)})
            self._complete.update(drawn)
            return
        replicates = ratio_replicates(top, bottom, self.resampler)
        # A ratio to which one cluster alone contributes has no interval between clusters.
        replicates[:, (bottom > 0).sum(axis=0) < 2] = np.nan
        self._keep(missing, self.resampler.percentile(replicates[:, [drawn.index(at) for at in missing]]))

    def _terms(self, columns: Sequence[int]) -> tuple[Floats, Floats]:
        """Values and weights of columns over the selection: float64[n, columns] each."""
        ratios = self.side.ratios
        at = np.ix_(columns, self.chosen)
        return ratios.values[at].T, ratios.weights[at].T.astype(np.float64)

    def _keep(self, columns: Sequence[int], bounds: Bounds) -> None:
        self._columns.update({at: _interval(bounds, place) for place, at in enumerate(columns)})

    def ratio_interval(self, at: int) -> Interval:
        """The interval of one column; an empty one where none was made ready."""
        return self._columns.get(at, Interval())

    def quantile_intervals(self, wanted: Sequence[str]) -> None:
        """Make the intervals of these quantiles of the headline ready."""
        missing = [name for name in wanted if name not in self._quantiles]
        if not missing or self.method == NO_INTERVAL:
            return
        levels = np.array([QUANTILES[name] for name in missing])
        values = self.values(self.headline)
        finite = np.isfinite(values)
        if self.method == CLUSTERS:
            kept = self.inside.take(finite)
            bounds = quantile_intervals(values[finite], kept.index, len(kept.labels), levels, self.resampler)
        else:
            bounds = self.resampler.percentile(block_quantile_replicates(values[finite], levels, self.resampler))
        for place, name in enumerate(missing):
            self._quantiles[name] = _interval(bounds, place)

    def quantile_interval(self, name: str) -> Interval:
        return self._quantiles.get(name, Interval())


def number_or_none(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _interval(bounds: Bounds, place: int) -> Interval:
    return Interval(low=number_or_none(bounds.low[place]), high=number_or_none(bounds.high[place]))


def whole_interval(found: ClusterIntervals, place: int) -> Interval:
    """Everything that stands beside one figure."""
    return Interval(
        low=number_or_none(found.percentile.low[place]),
        high=number_or_none(found.percentile.high[place]),
        standard_error=number_or_none(found.standard_error[place]),
        bca_low=number_or_none(found.bca.low[place]),
        bca_high=number_or_none(found.bca.high[place]),
        t_low=number_or_none(found.log_t_mean.low[place]),
        t_high=number_or_none(found.log_t_mean.high[place]),
    )
