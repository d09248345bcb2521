"""Student's t on the log of the cluster means, for few clusters. METRICS, Intervals.

**What the ends mean.** They enclose the geometric mean of the clusters' means, not the mean over positions. Divergences
of texts spread over powers of ten, so a sum over few of them mostly misses the rare large one, and the bootstrap cannot
draw what was never seen; on a log scale few texts say more. For a spread that is the same on both sides of the log the
geometric mean is the *median text*. It lies below the mean, the more so the wider the texts spread: with many clusters
the interval leaves the mean behind, so it is given for fewer than 20 only. See docs/intervals.md for its coverage.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from drift_runs.measure.resampler import Bounds, Floats, no_bounds, plural


class LogT(NamedTuple):
    """Intervals, and why one is absent."""

    bounds: Bounds
    reasons: tuple[str, ...]
    """One a figure; empty where there is an interval."""


def log_t_intervals(top: Floats, bottom: Floats, confidence: float) -> LogT:
    """exp(mean ± t s / sqrt(k)) of the log of top / bottom, float64[clusters, m] each; every cluster weighs the same.

    k is the number of clusters with positions (``bottom`` above 0); at least two, and every mean above 0.
    """
    bounds = no_bounds(top.shape[1])
    reasons = []
    for column in range(top.shape[1]):
        used = bottom[:, column] > 0
        means = top[used, column] / bottom[used, column]
        reasons.append(_obstacle(means))
        if not reasons[-1]:
            logs = np.log(means)
            centre, k = float(logs.mean()), len(logs)
            reach = student_t_quantile((1 + confidence) / 2, k - 1) * float(logs.std(ddof=1)) / math.sqrt(k)
            with np.errstate(over="ignore"):
                bounds.low[column], bounds.high[column] = np.exp(centre - reach), np.exp(centre + reach)
            if not np.isfinite(bounds.high[column]):
                bounds.low[column] = bounds.high[column] = np.nan
                reasons[-1] = "its upper end is beyond every number"
    return LogT(bounds, tuple(reasons))


def _obstacle(means: Floats) -> str:
    if len(means) < 2:
        return "fewer than two clusters with positions"
    wrong = int((~(np.isfinite(means) & (means > 0))).sum())
    return f"{plural(wrong, 'cluster mean')} not above 0: no logarithm" if wrong else ""


@lru_cache(maxsize=256)
def student_t_quantile(probability: float, degrees: int) -> float:
    """The value that Student's t with a whole number of ``degrees`` falls short of with ``probability``, to 1e-12."""
    if degrees < 1 or not 0 < probability < 1:
        raise ValueError(f"t quantile of {probability} with {degrees} degrees: expected 0 < p < 1 and at least 1")
    if probability < 0.5:
        return -student_t_quantile(1 - probability, degrees)
    low, high = 0.0, math.pi / 2
    wanted = 2 * probability - 1
    while low < (middle := (low + high) / 2) < high:
        if _within(middle, degrees) < wanted:
            low = middle
        else:
            high = middle
    return math.sqrt(degrees) * math.tan(low)


def student_t_within(t: float, degrees: int) -> float:
    """Probability that |T| is at most ``t``, T of Student's t with a whole number of ``degrees``."""
    return _within(math.atan(abs(t) / math.sqrt(degrees)), degrees)


def _within(angle: float, degrees: int) -> float:
    """The same, of the angle whose tangent is t / sqrt(degrees): a finite sum (Abramowitz and Stegun, 26.7.3 and 4)."""
    sine, cosine = math.sin(angle), math.cos(angle)
    odd = degrees % 2
    term = total = 1.0 if not odd else cosine
    for power in range(2 + odd, degrees, 2):
        term *= cosine * cosine * (power - 1) / power
        total += term
    if not odd:
        return sine * total
    return 2 / math.pi * (angle + (sine * total if degrees > 1 else 0.0))
