"""Histograms of a divergence in log10 bins, and what they still say of order statistics. METRICS, Summaries.

The values are gone, so nothing here is a point: every result is the pair of ends between which the figure of the values
lies. The smallest and the largest value are kept beside the counts, so values that are all equal lose nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

BINS_PER_DECADE = 40
_FIRST_DECADE, _LAST_DECADE = -12, 4
EDGES: Floats = 10.0 ** (
    np.arange(_FIRST_DECADE * BINS_PER_DECADE, _LAST_DECADE * BINS_PER_DECADE + 1) / BINS_PER_DECADE
)
"""Edges in nats, 1e-12 to 1e4: below lie zeros and what 16-bit storage leaves under zero, above is no plausible KL."""
BINS = len(EDGES) + 1
"""Bin 0 holds values under the first edge, bin i holds [EDGES[i-1], EDGES[i]), the last one all others."""

_ROWS_AT_ONCE = 500
"""Resamples whose histograms are held together: 500 x 642 float64 are 2.6 MB."""


class Ends(NamedTuple):
    """Lower and upper ends, both inclusive: float64 of one shape."""

    low: Floats
    high: Floats


def bin_index(values: Floats) -> NDArray[np.intp]:
    """Bin of each finite value: intp[n]. By comparison with the edges, so that a value always lies inside its bin."""
    return np.searchsorted(EDGES, values, side="right")


def bin_ends(smallest: float, largest: float) -> Ends:
    """Ends of every bin of values that lie in [smallest, largest]: float64[BINS] each."""
    low = np.concatenate([[-np.inf], EDGES])
    high = np.concatenate([EDGES, [np.inf]])
    return Ends(np.clip(low, smallest, largest), np.clip(high, smallest, largest))


def quantile_ends(counts: NDArray, level: float, ends: Ends) -> Ends:
    """Ends of the linear quantile of each row of counts[m, bins]: float64[m] each; NaN for a row without values.

    Both order statistics that the quantile lies between are found by rank, and interpolated as numpy does.
    """
    running = np.cumsum(counts, axis=1)
    n = running[:, -1]
    place = level * np.maximum(n - 1, 0)
    below = np.floor(place)
    part = place - below
    last = counts.shape[1] - 1
    first = np.minimum((running <= below[:, None]).sum(axis=1), last)
    second = np.minimum((running <= np.minimum(below + 1, n - 1)[:, None]).sum(axis=1), last)
    low = ends.low[first] + (ends.low[second] - ends.low[first]) * part
    high = ends.high[first] + (ends.high[second] - ends.high[first]) * part
    empty = n == 0
    return Ends(np.where(empty, np.nan, low), np.where(empty, np.nan, high))


def resampled_ends(by_cluster: Counts, multiplicities: NDArray, levels: Floats, ends: Ends) -> Ends:
    """Ends of the quantiles of every cluster resample: float64[resamples, levels] each.

    ``by_cluster``: counts[clusters, bins]; ``multiplicities``: how often each cluster was drawn, [resamples, clusters].
    """
    occupied = by_cluster.any(axis=0)
    counts = by_cluster[:, occupied].astype(np.float64)
    inside = Ends(ends.low[occupied], ends.high[occupied])
    shape = (len(multiplicities), len(levels))
    found = Ends(np.full(shape, np.nan), np.full(shape, np.nan))
    if not occupied.any():
        return found
    for rows in _chunks(len(multiplicities)):
        drawn = multiplicities[rows].astype(np.float64) @ counts
        for column, level in enumerate(levels):
            found.low[rows, column], found.high[rows, column] = quantile_ends(drawn, level, inside)
    return found


def _chunks(rows: int) -> Iterator[slice]:
    for first in range(0, rows, _ROWS_AT_ONCE):
        yield slice(first, min(first + _ROWS_AT_ONCE, rows))


def top_sum_ends(counts: Counts, sums: Floats, top: int, ends: Ends) -> tuple[float, float]:
    """Ends of the sum of the ``top`` largest values, from counts[bins] and the sum of each bin's values.

    Only the bin that ``top`` cuts through is uncertain: its largest r of c values have at least r / c of its sum.
    """
    above = np.cumsum(counts[::-1])[::-1]
    cut = int((above >= top).sum()) - 1
    whole = math.fsum(sums[cut + 1 :])
    left = top - int(above[cut + 1]) if cut + 1 < len(counts) else top
    count, total = int(counts[cut]), float(sums[cut])
    if left == count:
        return whole + total, whole + total
    least = left * total / count
    most = min(left * float(ends.high[cut]), total - (count - left) * float(ends.low[cut]))
    return whole + least, whole + max(least, most)


def middle(low: float, high: float) -> float:
    """The value that stands for [low, high]: the geometric middle, 0 for the bin of zeros."""
    if low == high:
        return low
    if low > 0:
        return math.sqrt(low) * math.sqrt(high)
    if high <= EDGES[0]:
        return 0.0 if high >= 0 else -math.sqrt(-low) * math.sqrt(-high)
    return (low + high) / 2
