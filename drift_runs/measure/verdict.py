"""A candidate against a noise floor of the same reference: above it, within it, or not decided."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from drift_runs.measure.intervals import Clusters, Resampler, ratio_intervals, small_cluster_note

ABOVE = "above"
WITHIN = "within"
INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictRule:
    """The protocol's rule."""

    margin: float = 1.0
    """Multiples of the floor's mean that the upper end may reach."""

    def decide(self, low: float, high: float, floor_mean: float) -> str:
        """Outcome for a paired interval [low, high] of candidate minus floor."""
        if low > 0:
            return ABOVE
        if high <= self.margin * floor_mean:
            return WITHIN
        return INCONCLUSIVE


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The outcome and what decided it."""

    outcome: str
    reason: str
    difference_nats: float | None
    """Mean of candidate minus floor; None when no position has both."""
    low: float | None
    high: float | None
    n: int
    """Positions where both are finite."""


def verdict(
    candidate_nats: NDArray[np.float64],
    floor_nats: NDArray[np.float64],
    clusters: Clusters,
    rule: VerdictRule,
    resampler: Resampler,
) -> Verdict:
    """Paired cluster bootstrap of candidate minus floor, float64[n] each, of the same positions in the same order.

    Positions where either is not finite are left out on both sides. Without at least two clusters nothing is decided.
    """
    both = np.isfinite(candidate_nats) & np.isfinite(floor_nats)
    n = int(both.sum())
    if n == 0:
        return Verdict(
            outcome=INCONCLUSIVE,
            reason="no position has both figures",
            difference_nats=None,
            low=None,
            high=None,
            n=0,
        )
    difference = (candidate_nats - floor_nats)[both]
    mean = float(difference.mean())
    inside = clusters.take(both)
    count = len(inside.labels)
    note = small_cluster_note(count, inside.unit)
    if count < 2:
        return Verdict(outcome=INCONCLUSIVE, reason=note, difference_nats=mean, low=None, high=None, n=n)
    bounds = ratio_intervals(difference[:, None], np.ones((n, 1)), inside.index, count, resampler)
    low, high = float(bounds.low[0]), float(bounds.high[0])
    floor_mean = float(floor_nats[both].mean())
    parts = [
        f"candidate minus floor {mean:.3g} [{low:.3g}, {high:.3g}] nats",
        f"the floor's mean {floor_mean:.3g}, margin {rule.margin:g}",
    ]
    if n < len(both):
        parts.append(f"{len(both) - n:,} positions without both figures left out")
    if note:
        parts.append(note)
    return Verdict(
        outcome=rule.decide(low, high, floor_mean),
        reason="; ".join(parts),
        difference_nats=mean,
        low=low,
        high=high,
        n=n,
    )
