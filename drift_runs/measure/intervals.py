"""Clusters of positions, and intervals of ratios of sums and of quantiles over them. METRICS, Intervals.

The draws are :mod:`drift_runs.measure.resampler`'s. What is built from them: percentile and BCa intervals; beside them
the clustered standard error and, for few clusters, Student's t on the log of the cluster means. Inside one text:
:mod:`drift_runs.measure.blocks`. docs/intervals.md says which to use when and how often each was seen to cover.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from drift_runs.measure.bca import bca
from drift_runs.measure.blocks import block_quantile_replicates, block_ratio_replicates
from drift_runs.measure.positions import Positions
from drift_runs.measure.resampled_quantiles import quantile_intervals, quantile_replicates
from drift_runs.measure.resampler import Bounds, Floats, Resampler, no_bounds, plural
from drift_runs.measure.students import LogT, log_t_intervals
from drift_runs.protocol.model import Protocol, Window

__all__ = [
    "SMALL_CLUSTERS",
    "Bounds",
    "ClusterIntervals",
    "Clusters",
    "Floats",
    "Resampler",
    "block_quantile_replicates",
    "block_ratio_replicates",
    "cluster_intervals",
    "cluster_of",
    "cluster_sums",
    "clusters_of",
    "clusters_of_windows",
    "intervals_of_sums",
    "plural",
    "quantile_intervals",
    "quantile_replicates",
    "ratio_intervals",
    "ratio_replicates",
    "small_cluster_note",
    "standard_errors",
]

SMALL_CLUSTERS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Clusters:
    """The clusters of n positions."""

    unit: str
    """``document``, ``window`` or ``prompt``."""
    labels: tuple[str, ...]
    index: NDArray[np.int32]
    """int32[n], into ``labels``."""

    def take(self, chosen: NDArray[np.bool_] | NDArray[np.intp]) -> Clusters:
        """The clusters that the chosen positions touch, numbered again in their old order."""
        used, index = np.unique(self.index[chosen], return_inverse=True)
        return Clusters(unit=self.unit, labels=tuple(self.labels[at] for at in used), index=index.astype(np.int32))


def cluster_of(window: Window, unit: str) -> str:
    """The cluster of every position of a window: the one place that knows what a cluster is.

    A prompt is a stream file: windows that score several spans of one stream answer one prompt.
    """
    match unit:
        case "document":
            return window.document
        case "window":
            return window.name
        case "prompt":
            return window.stream
    raise ValueError(f"cluster {unit!r}: expected document, window or prompt")


def clusters_of(positions: Positions, protocol: Protocol) -> Clusters:
    """Clusters of ``positions`` in order of first appearance, by the protocol's unit."""
    return clusters_of_windows(positions.windows, positions.window, protocol)


def clusters_of_windows(windows: tuple[str, ...], window: NDArray[np.int32], protocol: Protocol) -> Clusters:
    """Clusters of positions of which only the window is known: int32[n], into ``windows``."""
    unit = protocol.intervals.cluster
    known = {item.name: item for item in protocol.windows}
    by_window = [cluster_of(known[name], unit) for name in windows]
    number = {label: at for at, label in enumerate(dict.fromkeys(by_window))}
    code = np.array([number[label] for label in by_window], dtype=np.int32)
    index = code[window] if len(code) else np.zeros(len(window), dtype=np.int32)
    return Clusters(unit=unit, labels=tuple(number), index=index).take(np.arange(len(index)))


def small_cluster_note(count: int, unit: str) -> str:
    """What a reader must know of an interval from few clusters; empty from 20 on."""
    if count == 0:
        return ""
    if count == 1:
        return f"1 {unit}: no interval between {unit}s"
    if count < SMALL_CLUSTERS:
        return f"{plural(count, unit)}: such intervals cover less than they claim"
    return ""


class ClusterIntervals(NamedTuple):
    """All intervals of m ratios of sums over the same clusters; NaN where one does not exist."""

    percentile: Bounds
    bca: Bounds
    standard_error: Floats
    """float64[m]: clustered."""
    log_t: Bounds
    """Of the geometric mean of the cluster means, for fewer than ``SMALL_CLUSTERS`` clusters: see students.py."""
    bca_reasons: tuple[str, ...]
    """Why a BCa interval is absent, one a figure; empty where there is one. So are ``log_t_reasons``."""
    log_t_reasons: tuple[str, ...]
    log_t_mean: Bounds
    """``log_t`` shifted to the mean of the cluster means, which it covers as often as it claims if logs are normal."""


def cluster_intervals(
    values: Floats, weights: Floats, index: NDArray[np.int32], clusters: int, resampler: Resampler
) -> ClusterIntervals:
    """Every interval of sum(values) / sum(weights), columns of float64[n, m] each.

    ``values`` are finite (0 where the weight is 0); ``index`` int[n] is each position's cluster, from 0 to
    ``clusters`` - 1. A column with fewer than two clusters of positive weight has no interval.
    """
    top, bottom = cluster_sums(values, index, clusters), cluster_sums(weights, index, clusters)
    return intervals_of_sums(top, bottom, resampler)


def intervals_of_sums(top: Floats, bottom: Floats, resampler: Resampler) -> ClusterIntervals:
    """The same from the clusters' sums: float64[clusters, m] each."""
    clusters, figures = top.shape
    if clusters < 2:
        nothing, reasons = no_bounds(figures), ("fewer than two clusters with positions",) * figures
        return ClusterIntervals(nothing, nothing, np.full(figures, np.nan), nothing, reasons, reasons, nothing)
    replicates = ratio_replicates(top, bottom, resampler)
    corrected = bca(top, bottom, replicates, resampler)
    log_t = log_t_intervals(top, bottom, resampler.confidence)
    log_t_mean = log_t_intervals(top, bottom, resampler.confidence, of_mean=True)
    if clusters >= SMALL_CLUSTERS:
        many = f"{plural(clusters, 'cluster')}: given for fewer than {SMALL_CLUSTERS}"
        log_t = log_t_mean = LogT(no_bounds(figures), (many,) * figures)
    return ClusterIntervals(
        percentile=_of_several(resampler.percentile(replicates), bottom),
        bca=corrected.bounds,
        standard_error=standard_errors(top, bottom),
        log_t=log_t.bounds,
        bca_reasons=corrected.reasons,
        log_t_reasons=log_t.reasons,
        log_t_mean=log_t_mean.bounds,
    )


def standard_errors(top: Floats, bottom: Floats) -> Floats:
    """Clustered standard errors of sum(top) / sum(bottom): float64[m] of float64[clusters, m] each.

    The ratio is linearised: each cluster's residual is its top minus the ratio times its bottom, and the variance of
    their sum has the factor g / (g - 1), g being the number of clusters. NaN with fewer than two clusters of positive
    weight, where the only residual is 0 by construction.
    """
    clusters = len(top)
    total = bottom.sum(axis=0)
    several = (bottom > 0).sum(axis=0) >= 2
    ratio = np.divide(top.sum(axis=0), total, out=np.full(top.shape[1], np.nan), where=several)
    squares = ((top - ratio * bottom) ** 2).sum(axis=0)
    return np.divide(
        np.sqrt(squares * (clusters / max(clusters - 1, 1))), total, out=np.full(top.shape[1], np.nan), where=several
    )


def cluster_sums(values: Floats, index: NDArray[np.int32], clusters: int) -> Floats:
    """Sums of float64[n, m] by cluster: float64[clusters, m]."""
    columns = [np.bincount(index, weights=values[:, at], minlength=clusters) for at in range(values.shape[1])]
    return np.stack(columns, axis=1) if columns else np.zeros((clusters, 0))


def ratio_replicates(numerators: Floats, denominators: Floats, resampler: Resampler) -> Floats:
    """Ratio of sums in every resample: float64[resamples, m] from float64[clusters, m] each; NaN for 0 over 0."""
    figures = numerators.shape[1]
    both = resampler.sums(np.concatenate([numerators, denominators], axis=1))
    top, bottom = both[:, :figures], both[:, figures:]
    return np.divide(top, bottom, out=np.full(top.shape, np.nan), where=bottom != 0)


def ratio_intervals(
    values: Floats, weights: Floats, index: NDArray[np.int32], clusters: int, resampler: Resampler
) -> Bounds:
    """Cluster bootstrap of sum(values) / sum(weights), columns of float64[n, m].

    NaN with fewer than two clusters of positive weight: every resample would be the same.
    """
    if clusters < 2:
        return no_bounds(values.shape[1])
    top = cluster_sums(values, index, clusters)
    bottom = cluster_sums(weights, index, clusters)
    return _of_several(resampler.percentile(ratio_replicates(top, bottom, resampler)), bottom)


def _of_several(bounds: Bounds, bottom: Floats) -> Bounds:
    """The bounds of the figures to which at least two clusters contribute."""
    alone = (bottom > 0).sum(axis=0) < 2
    return Bounds(np.where(alone, np.nan, bounds.low), np.where(alone, np.nan, bounds.high))
