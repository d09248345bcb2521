"""Student's t on the log of the cluster means, for few clusters. METRICS, Intervals.

Divergences of texts spread over powers of ten. A sum over few of them mostly misses the rare large one, and the
bootstrap cannot draw what was never seen; on a log scale few texts say more.

**What the ends mean.** They enclose the geometric mean of the clusters' means: of an even spread on the log scale, the
*median text*. It lies below the mean over positions, the more so the wider the texts spread. For about seven clusters
the interval is wide enough to hold the mean nearly as often; with more of them it closes in on the geometric mean and
leaves the mean behind, so it is given for fewer than 20 only. Shifted up by half the variance of the logs (Cox's
method with Student's t, Olsson 2005) it is about the mean of the clusters' means, as long as their logs are about
normal. docs/intervals.md says how often each was seen to cover.
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


def log_t_intervals(top: Floats, bottom: Floats, confidence: float, *, of_mean: bool = False) -> LogT:
    """exp(mean ± t s / sqrt(k)) of the log of top / bottom, float64[clusters, m] each; every cluster weighs the same.

    k is the number of clusters with positions (``bottom`` above 0); at least two, and every mean above 0. ``of_mean``:
    the centre goes up by s² / 2, and the standard error to sqrt(s² / k + s⁴ / (2 (k - 1))).
    """
    bounds = no_bounds(top.shape[1])
    reasons = []
    for column in range(top.shape[1]):
        used = bottom[:, column] > 0
        means = top[used, column] / bottom[used, column]
        reasons.append(_obstacle(means))
        if not reasons[-1]:
            low, high = _ends(np.log(means), confidence, of_mean)
            if np.isfinite(high):
                bounds.low[column], bounds.high[column] = low, high
            else:
                reasons[-1] = "its upper end is beyond every number"
    return LogT(bounds, tuple(reasons))


def _ends(logs: Floats, confidence: float, of_mean: bool) -> tuple[float, float]:
    k = len(logs)
    centre, variance = float(logs.mean()), float(logs.var(ddof=1))
    squared_error = variance / k
    if of_mean:
        centre += variance / 2
        squared_error += variance**2 / (2 * (k - 1))
    reach = student_t_quantile((1 + confidence) / 2, k - 1) * math.sqrt(squared_error)
    with np.errstate(over="ignore"):
        return float(np.exp(centre - reach)), float(np.exp(centre + reach))


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
