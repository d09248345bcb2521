"""Times until something happens, some of which were cut off before it did: quantiles that use both.

A time that was cut off says that it is longer, and no more. Leaving such times out makes a median too short, and taking
them as they stand does too. The product-limit estimate of Kaplan and Meier (Nonparametric estimation from incomplete
observations, Journal of the American Statistical Association 53, 1958, 457-481) uses what they say: with d of the r
that are still waiting just before time t having it at t, the share that waits longer than t is the product of
(1 - d / r) over all times up to t.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from drift_runs.measure.intervals import Clusters
from drift_runs.measure.resampler import Floats, Resampler

_ROUNDING = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingTime:
    """One quantile of a waiting time."""

    value: float | None
    """None: so large a share never had it before the rest was cut off."""
    low: float | None
    high: float | None
    """None with ``low`` given: the interval has no upper end."""


def waiting_times(
    times: Floats,
    happened: NDArray[np.bool_],
    levels: tuple[float, ...],
    clusters: Clusters,
    resampler: Resampler,
) -> tuple[WaitingTime, ...]:
    """Quantiles of waiting times with percentile intervals between clusters, one a level.

    Parameters
    ----------
    times
        float64[n], not negative and finite: when it happened, or when it was cut off.
    happened
        bool[n]: False for a time that was cut off. Cut off at t counts as waiting at t.
    levels
        shares above 0 and below 1. A quantile is the first time at which at least that share has it.

    An interval is drawn from whole clusters. A resample that does not reach the level counts as beyond every time, so
    its ends are order statistics and not interpolated. Fewer than two clusters: no interval.
    """
    marks = np.unique(times[happened])
    if not len(marks):
        return tuple(WaitingTime(value=None, low=None, high=None) for _ in levels)
    here = (times[:, None] == marks) & happened[:, None]
    waiting = times[:, None] >= marks
    count = len(clusters.labels)
    had, waits = (_by_cluster(terms, clusters.index, count) for terms in (here, waiting))
    points = _quantiles(had.sum(axis=0)[None], waits.sum(axis=0)[None], marks, levels)[0]
    bounds = [(None, None)] * len(levels)
    if count >= 2:
        both = resampler.sums(np.concatenate([had, waits], axis=1))
        replicates = _quantiles(both[:, : len(marks)], both[:, len(marks) :], marks, levels)
        bounds = [_bounds(replicates[:, at], resampler) for at in range(len(levels))]
    return tuple(
        WaitingTime(value=float(point) if np.isfinite(point) else None, low=low, high=high)
        for point, (low, high) in zip(points, bounds, strict=True)
    )


def _by_cluster(terms: NDArray[np.bool_], index: NDArray[np.int32], count: int) -> Floats:
    """Sums of bool[n, m] by cluster: float64[clusters, m]."""
    sums = np.zeros((count, terms.shape[1]))
    np.add.at(sums, index, terms)
    return sums


def _quantiles(had: Floats, waits: Floats, marks: Floats, levels: tuple[float, ...]) -> Floats:
    """float64[rows, levels] from counts at each of the marks, float64[rows, marks] each.

    Infinity where a level is not reached, NaN where nobody waits at all.
    """
    lasting = np.cumprod(1 - np.divide(had, waits, out=np.zeros_like(had), where=waits > 0), axis=1)
    found = np.empty((len(had), len(levels)))
    for at, level in enumerate(levels):
        reached = lasting <= 1 - level + _ROUNDING
        found[:, at] = np.where(reached.any(axis=1), marks[reached.argmax(axis=1)], np.inf)
    found[waits[:, 0] == 0] = np.nan
    return found


def _bounds(replicates: Floats, resampler: Resampler) -> tuple[float | None, float | None]:
    known = replicates[~np.isnan(replicates)]
    if not len(known):
        return None, None
    low = float(np.quantile(known, resampler.tail, method="lower"))
    high = float(np.quantile(known, 1 - resampler.tail, method="higher"))
    return (low if np.isfinite(low) else None), (high if np.isfinite(high) else None)
