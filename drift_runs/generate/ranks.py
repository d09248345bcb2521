"""Rank correlations of observations that lie in clusters, and their bootstrap over clusters.

Kendall's tau-b, and Spearman's rho as Pearson's correlation of mid-ranks. A resample draws whole clusters; one that is
drawn twice has its observations twice over, and those tie with themselves. Both correlations are then sums over
clusters that are made once, so that 5,000 resamples cost a few matrix products and no sorting.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from drift_runs.measure.resampler import Resampler

Floats = NDArray[np.float64]
Index = NDArray[np.int32]

_ENTRIES_AT_ONCE = 1 << 21
_SAME = 1e-9
"""Share of the largest possible sum of squares below which ranks count as all equal: a rest of rounding."""
_ROUNDING = 1e-12
"""Relative difference of two sums that an order of adding makes."""


class Ends(NamedTuple):
    """A percentile interval, and the resamples without a correlation, which it leaves out."""

    low: float
    high: float
    undefined: int


class RankSums:
    """n observations of two figures, float64[n] each, laid out for resampling; ``index``: int32[n], their clusters."""

    def __init__(self, x: Floats, y: Floats, index: Index, clusters: int) -> None:
        if len(x) != len(y) or not (np.isfinite(x).all() and np.isfinite(y).all()):
            raise ValueError("rank correlation: expected two lists of as many finite numbers")
        self.index = index
        self.clusters = clusters
        member = np.zeros((len(index), clusters))
        member[np.arange(len(index)), index] = 1.0
        # By the clusters of both sides of a pair, every pair twice: how it stands, and whether it differs in x or y.
        self.agree, self.in_x, self.in_y = (np.zeros((clusters, clusters)) for _ in range(3))
        # Of each observation and cluster: the smaller values there, and half of the equal ones.
        self.below_x, self.below_y = np.zeros(member.shape), np.zeros(member.shape)
        step = max(1, _ENTRIES_AT_ONCE // max(len(x), 1))
        for first in range(0, len(x), step):
            rows = slice(first, first + step)
            by_x, by_y = _signs(x[rows], x), _signs(y[rows], y)
            for sums, signs in ((self.agree, by_x * by_y), (self.in_x, np.abs(by_x)), (self.in_y, np.abs(by_y))):
                sums += member[rows].T @ (signs @ member)
            for below, signs in ((self.below_x, by_x), (self.below_y, by_y)):
                below[rows] = (signs + 1) / 2 @ member

    def taus(self, counts: Floats) -> Floats:
        """Tau-b of each resample, float64[b] of multiplicities float64[b, clusters]; NaN where a list is all equal."""
        top, left, right = (((counts @ sums) * counts).sum(axis=1) for sums in (self.agree, self.in_x, self.in_y))
        bottom = np.sqrt(left) * np.sqrt(right)
        return np.divide(top, bottom, out=np.full(len(counts), np.nan), where=bottom > 0)

    def spearmans(self, counts: Floats) -> Floats:
        """Spearman's rho of each resample, likewise."""
        found = np.full(len(counts), np.nan)
        step = max(1, _ENTRIES_AT_ONCE // max(len(self.index), 1))
        for first in range(0, len(counts), step):
            rows = slice(first, first + step)
            found[rows] = self._spearmans(counts[rows])
        return found

    def _spearmans(self, counts: Floats) -> Floats:
        weights = counts[:, self.index]
        total = weights.sum(axis=1, keepdims=True)
        left, right = (
            ranks - (weights * ranks).sum(axis=1, keepdims=True) / np.maximum(total, 1)
            for ranks in (counts @ self.below_x.T, counts @ self.below_y.T)
        )
        top = (weights * left * right).sum(axis=1)
        squares = [(weights * side**2).sum(axis=1) for side in (left, right)]
        least = _SAME * total[:, 0] ** 3
        bottom = np.sqrt(squares[0]) * np.sqrt(squares[1])
        defined = (squares[0] > least) & (squares[1] > least)
        return np.divide(top, bottom, out=np.full(len(counts), np.nan), where=defined)


def _signs(one: Floats, other: Floats) -> Floats:
    """sign(a - b) of every two: float64[n, m]. Compared and not subtracted: tiny differences may vanish."""
    return (one[:, None] > other).astype(np.float64) - (one[:, None] < other)


def spearman(x: Floats, y: Floats) -> float | None:
    """Spearman's rho of float64[n] each; None where one list is all equal, or n is under 2."""
    if len(x) < 2:
        return None
    rho = RankSums(x, y, np.zeros(len(x), dtype=np.int32), 1).spearmans(np.ones((1, 1)))[0]
    return float(np.clip(rho, -1, 1)) if np.isfinite(rho) else None


def resampled(x: Floats, y: Floats, index: Index, clusters: int, resampler: Resampler) -> tuple[Ends, Ends] | None:
    """Cluster bootstrap of tau-b and of Spearman's rho; None with fewer than two clusters, or too few resamples.

    With few clusters it claims too often: where drift and failure had nothing to do with each other, each with an
    effect of its own on whole documents (16 pairs a document, 400 panels), an interval of 95 % left 0 out in 9 to 10 %
    of panels of 6 and 12 documents, and in 7 % of those of 20 and 40.
    """
    if clusters < 2:
        return None
    sums = RankSums(x, y, index, clusters)
    taus, rhos = np.empty(resampler.resamples), np.empty(resampler.resamples)
    for rows, counts in resampler.slices(clusters):
        taus[rows], rhos[rows] = sums.taus(counts), sums.spearmans(counts)
    return _both(taus, rhos, resampler)


def resampled_sums(x: Floats, y: Floats, resampler: Resampler) -> tuple[Ends, Ends] | None:
    """The same of the arms' order: each arm's two figures are made anew from the clusters of a resample.

    ``x`` and ``y``: float64[clusters, arms], each arm's sums over each cluster, of as many observations for every arm:
    the order of means is then that of sums.
    """
    if len(x) < 2:
        return None
    taus, rhos = np.empty(resampler.resamples), np.empty(resampler.resamples)
    step = max(1, _ENTRIES_AT_ONCE // x.shape[1] ** 2)
    for rows, counts in resampler.slices(len(x)):
        for first in range(0, len(counts), step):
            part = counts[first : first + step]
            at = slice(rows.start + first, rows.start + first + len(part))
            taus[at], rhos[at] = _of_each(part @ x, part @ y)
    return _both(taus, rhos, resampler)


def _of_each(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Tau-b and Spearman's rho of each row of float64[b, arms]."""
    signs = [_apart(values) for values in (x, y)]
    top = (signs[0] * signs[1]).sum(axis=(1, 2))
    bottom = np.sqrt(np.prod([np.abs(sign).sum(axis=(1, 2)) for sign in signs], axis=0))
    ranks = [sign.sum(axis=2) / 2 for sign in signs]  # around their mean, which is 0
    covariance = (ranks[0] * ranks[1]).sum(axis=1)
    spread = np.sqrt(np.prod([(rank**2).sum(axis=1) for rank in ranks], axis=0))
    nothing = np.full(len(x), np.nan)
    return (
        np.divide(top, bottom, out=nothing.copy(), where=bottom > 0),
        np.divide(covariance, spread, out=nothing.copy(), where=spread > 0),
    )


def _apart(values: Floats) -> Floats:
    """sign(a - b) of every two of a row: float64[b, arms, arms]. Sums that differ by rounding alone are equal."""
    one, other = values[:, :, None], values[:, None, :]
    near = np.abs(one - other) <= _ROUNDING * np.maximum(np.abs(one), np.abs(other))
    return np.where(near, 0.0, np.sign(one - other))


def _both(taus: Floats, rhos: Floats, resampler: Resampler) -> tuple[Ends, Ends] | None:
    """Intervals; None where fewer than half of the resamples have a correlation."""
    if np.isfinite(taus).mean() < 0.5 or np.isfinite(rhos).mean() < 0.5:
        return None
    # Rounding can lead a hair beyond 1.
    low, high = np.clip(resampler.percentile(np.stack([taus, rhos], axis=1)), -1, 1)
    undefined = (~np.isfinite(np.stack([taus, rhos]))).sum(axis=1)
    return Ends(float(low[0]), float(high[0]), int(undefined[0])), Ends(
        float(low[1]), float(high[1]), int(undefined[1])
    )
