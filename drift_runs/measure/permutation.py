"""Is a difference more than chance? Cluster sign-flip permutation, and McNemar's test beside it. METRICS, Intervals.

Where two arms are alike, each cluster's difference could as well have come out with the other sign. The permutation
test asks how many choices of signs give a total as large as the one seen; it needs clusters that are independent, and
nothing of the positions inside them. McNemar's test takes every position as independent, which positions of one text
are not: it finds differences that are none, and stands beside the other for its counts.
"""

from __future__ import annotations

import math
import sys
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from drift_runs.measure.resampler import plural, slices_of

Floats = NDArray[np.float64]

EXACT_CLUSTERS = 13
DRAWS = 9_999
SAME = 1e-12
"""Share of the sum of |differences| up to which two totals count as equal: the order of a sum moves it by less."""


class SignFlip(NamedTuple):
    """Two-sided p-values of m differences over the same clusters."""

    p: Floats
    """float64[m]; NaN with fewer than two clusters."""
    method: str
    """Exact or sampled, and of how many clusters; empty where there is no test."""


def sign_flip(differences: Floats, *, seed: int, unit: str = "cluster") -> SignFlip:
    """Cluster sign-flip permutation test of the sums of float64[clusters, m].

    Up to ``EXACT_CLUSTERS`` clusters every choice of signs is counted; beyond it ``DRAWS`` choices are drawn from
    ``default_rng(seed)``, one ``integers(0, 2, g)`` a draw in order, and the choice that was seen counts as one more. A
    choice with an equal total counts as one that is as large. ``ValueError`` for a difference that is not finite.
    """
    clusters, figures = differences.shape
    if not np.isfinite(differences).all():
        raise ValueError("sign flips of a difference that is not finite: leave those positions out first")
    if clusters < 2:
        return SignFlip(np.full(figures, np.nan), "")
    seen = np.abs(differences.sum(axis=0)) - SAME * np.abs(differences).sum(axis=0)
    if clusters <= EXACT_CLUSTERS:
        choices = np.arange(2**clusters)[:, None] >> np.arange(clusters) & 1
        as_large = (np.abs((2.0 * choices - 1.0) @ differences) >= seen).sum(axis=0)
        return SignFlip(as_large / len(choices), f"exact, all signs of {plural(clusters, unit)}")
    generator = np.random.default_rng(seed)
    as_large = np.ones(figures, dtype=np.int64)
    for rows in slices_of(DRAWS, max(clusters, figures)):
        signs = 2.0 * generator.integers(0, 2, (rows.stop - rows.start, clusters)) - 1.0
        as_large += (np.abs(signs @ differences) >= seen).sum(axis=0)
    return SignFlip(as_large / (DRAWS + 1), f"sampled, {DRAWS:,} signs of {plural(clusters, unit)}")


def mcnemar(left_only: int, right_only: int) -> float:
    """Exact two-sided binomial p-value of discordant counts, *positions independent*; 1 where there are none.

    A value below the smallest normal number is given as that number: a p-value is never 0.
    """
    if left_only < 0 or right_only < 0:
        raise ValueError(f"counts {left_only} and {right_only}: expected 0 or more")
    total, fewer = left_only + right_only, min(left_only, right_only)
    if left_only == right_only:
        return 1.0
    # The largest term by its logarithm, the smaller ones as ratios to it: no factorial is ever written out.
    log_largest = math.lgamma(total + 1) - math.lgamma(fewer + 1) - math.lgamma(total - fewer + 1)
    ratio = series = 1.0
    for count in range(fewer, 0, -1):
        ratio *= count / (total - count + 1)
        series += ratio
        if ratio < series * 1e-18:
            break
    log_p = log_largest + math.log(series) - (total - 1) * math.log(2)
    return min(1.0, max(math.exp(log_p), sys.float_info.min))
