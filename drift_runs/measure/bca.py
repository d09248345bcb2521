"""Bias-corrected and accelerated bootstrap intervals of ratios of sums (Efron 1987).

The percentile interval takes the resamples as they are. This one moves both ends by how far the estimate lies from the
median of its resamples (bias) and by how fast its spread changes with its size (acceleration, from leaving out one
cluster at a time).
"""

from __future__ import annotations

from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from drift_runs.measure.resampler import Bounds, Floats, Resampler, no_bounds

SAME = 1e-12
"""Relative difference up to which a resample counts as equal to the estimate: sums in another order differ by less."""

_NORMAL = NormalDist()


class Corrected(NamedTuple):
    """Intervals, and why one is absent."""

    bounds: Bounds
    reasons: tuple[str, ...]
    """One a figure; empty where there is an interval."""


def bca(top: Floats, bottom: Floats, replicates: Floats, resampler: Resampler) -> Corrected:
    """BCa intervals of sum(top) / sum(bottom), float64[clusters, m] each, from its float64[resamples, m] replicates.

    The bias correction is the normal quantile of the share of resamples below the estimate; one that equals it counts
    half, so that a figure with many ties (a rate of rare events) is not pushed to one side. Undefined resamples are
    left out. NaN and a reason where the construction breaks down.
    """
    figures = top.shape[1]
    bounds = no_bounds(figures)
    reasons = []
    for column in range(figures):
        ends = _ends(top[:, column], bottom[:, column], replicates[:, column], resampler)
        if isinstance(ends, str):
            reasons.append(ends)
        else:
            reasons.append("")
            bounds.low[column], bounds.high[column] = ends
    return Corrected(bounds, tuple(reasons))


def _ends(top: Floats, bottom: Floats, replicates: Floats, resampler: Resampler) -> tuple[float, float] | str:
    """Both ends of one figure, or why there are none."""
    if int((bottom != 0).sum()) < 2:
        return "fewer than two clusters with positions"
    estimate = top.sum() / bottom.sum()
    kept = replicates[np.isfinite(replicates)]
    if not np.isfinite(estimate) or len(kept) == 0:
        return "no finite estimate"
    apart = SAME * max(abs(estimate), float(np.abs(kept).max()))
    below = int((kept < estimate - apart).sum())
    equal = int((np.abs(kept - estimate) <= apart).sum())
    if equal == len(kept):
        return "every resample gives the same value"
    share = (below + equal / 2) / len(kept)
    if share in (0.0, 1.0):
        return f"every resample lies {'below' if share else 'above'} the estimate"
    acceleration = _acceleration(top, bottom)
    if acceleration is None:
        return "undefined without one of the clusters"
    bias = _NORMAL.inv_cdf(share)
    levels = []
    for level in (resampler.tail, 1 - resampler.tail):
        shifted = bias + _NORMAL.inv_cdf(level)
        slope = 1 - acceleration * shifted
        if slope <= 0:
            return "the acceleration is too large"
        levels.append(_NORMAL.cdf(bias + shifted / slope))
    low, high = np.quantile(kept, levels)
    return float(low), float(high)


def _acceleration(top: Floats, bottom: Floats) -> float | None:
    """Jackknife over clusters; 0 where no cluster moves the figure, None where leaving one out leaves nothing."""
    without = bottom.sum() - bottom
    if (without == 0).any():
        return None
    left_out = (top.sum() - top) / without
    moved = left_out.mean() - left_out
    # The cube of a difference near the smallest number is 0: only the shape matters, so scale first.
    largest = float(np.abs(moved).max())
    if largest == 0:
        return 0.0
    moved = moved / largest
    return float((moved**3).sum() / (6 * (moved**2).sum() ** 1.5))
