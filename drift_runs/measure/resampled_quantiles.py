"""Quantiles of cluster resamples, without ever writing a resample out. METRICS, Intervals.

A resample holds a value as often as its cluster was drawn. The values are sorted once; a resample's k-th value is found
by bisection, on how many drawn values lie at or below a place. Those counts by cluster are kept at every place. Where
that would be more than ``SLICE_ENTRIES`` numbers, they are kept at the ends of segments, and a segment is read through.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from drift_runs.measure.resampler import SLICE_ENTRIES, Bounds, Floats, Resampler, no_bounds, slices_of


def quantile_intervals(
    values: Floats, index: NDArray[np.int32], clusters: int, levels: Floats, resampler: Resampler
) -> Bounds:
    """Cluster bootstrap of linear quantiles of float64[n], percentile interval. Under 2 clusters: NaN."""
    if clusters < 2 or len(values) == 0:
        return no_bounds(len(levels))
    return resampler.percentile(quantile_replicates(values, index, clusters, levels, resampler))


def quantile_replicates(
    values: Floats, index: NDArray[np.int32], clusters: int, levels: Floats, resampler: Resampler
) -> Floats:
    """Linear quantiles of every cluster resample: float64[resamples, levels]; ``values`` float64[n] are finite."""
    levels = np.asarray(levels, dtype=np.float64)
    if len(values) == 0:
        return np.full((resampler.resamples, len(levels)), np.nan)
    segments = _Segments(values, index, clusters)
    counts = resampler.multiplicities(clusters)
    replicates = np.full((len(counts), len(levels)), np.nan)
    for rows in slices_of(len(counts), max(clusters, segments.length)):
        drawn = counts[rows].astype(np.float64)
        sizes = drawn @ segments.at_or_below[-1]
        for column, level in enumerate(levels):
            place = level * np.maximum(sizes - 1, 0)
            below = np.floor(place)
            first = segments.order_statistic(drawn, below)
            second = segments.order_statistic(drawn, np.minimum(below + 1, sizes - 1))
            replicates[rows, column] = np.where(sizes > 0, first + (second - first) * (place - below), np.nan)
    return replicates


class _Segments:
    """Sorted values of n positions, cut into segments of equal length; the last one is filled up with its last value.

    A filled place is never found: before it, a resample has reached its own size.
    """

    def __init__(self, values: Floats, index: NDArray[np.int32], clusters: int) -> None:
        order = np.argsort(values, kind="stable")
        self.length = -(-len(values) * clusters // SLICE_ENTRIES)
        self.count = -(-len(values) // self.length)
        filled = np.minimum(np.arange(self.count * self.length), len(values) - 1)
        shape = (self.count, self.length)
        self.values = values[order][filled].reshape(shape)
        self.owner = index[order][filled].reshape(shape)
        at = np.arange(len(values)) // self.length * clusters + index[order]
        inside = np.bincount(at, minlength=self.count * clusters).reshape(self.count, clusters)
        self.at_or_below = np.cumsum(inside, axis=0).astype(np.float64)
        """float64[segments, clusters]: values of each cluster up to the end of each segment."""

    def order_statistic(self, drawn: Floats, rank: Floats) -> Floats:
        """The value that is number ``rank`` (from 0) in each resample: float64[rows]."""
        segment = np.zeros(len(drawn), dtype=np.int64)
        beyond = np.full(len(drawn), self.count - 1)
        for _ in range(self.count.bit_length()):
            middle = (segment + beyond) // 2
            enough = np.einsum("bg,bg->b", self.at_or_below[middle], drawn) > rank
            beyond = np.where(enough, middle, beyond)
            segment = np.where(enough, segment, np.minimum(middle + 1, beyond))
        if self.length == 1:
            return self.values[segment, 0]
        reached = np.einsum("bg,bg->b", self.at_or_below[np.maximum(segment - 1, 0)], drawn)
        before = np.where(segment > 0, reached, 0.0)
        inside = np.cumsum(drawn[np.arange(len(drawn))[:, None], self.owner[segment]], axis=1)
        return self.values[segment, (inside > (rank - before)[:, None]).argmax(axis=1)]
