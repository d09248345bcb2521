"""Cluster and block bootstrap. METRICS, Intervals.

Positions of one text are not independent, so whole clusters are drawn. The draws of one number of clusters are made
once and shared by every figure: figures of a report then move together, and hundreds of them cost one matrix.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from drift_runs.measure.positions import Positions
from drift_runs.protocol.model import Protocol, Window

Floats = NDArray[np.float64]
SMALL_CLUSTERS = 20


class Bounds(NamedTuple):
    """Ends of percentile intervals, NaN where there is none: float64[figures] each."""

    low: Floats
    high: Floats


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
    unit = protocol.intervals.cluster
    by_window = [cluster_of(protocol.window(name), unit) for name in positions.windows]
    labels = tuple(dict.fromkeys(by_window))
    code = np.array([labels.index(label) for label in by_window], dtype=np.int32)
    index = code[positions.window] if len(code) else np.zeros(len(positions), dtype=np.int32)
    return Clusters(unit=unit, labels=labels, index=index).take(np.arange(len(positions)))


def plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def small_cluster_note(count: int, unit: str) -> str:
    """What a reader must know of an interval from few clusters; empty from 20 on."""
    if count == 0:
        return ""
    if count == 1:
        return f"1 {unit}: no interval between {unit}s"
    if count < SMALL_CLUSTERS:
        return f"{plural(count, unit)}: such intervals cover less than they claim"
    return ""


class Resampler:
    """Every draw of one protocol's bootstrap, made once for each number of clusters and reused."""

    def __init__(self, *, seed: int, resamples: int = 5000, confidence: float = 0.95, block_tokens: int = 16) -> None:
        self.seed = seed
        self.resamples = resamples
        self.confidence = confidence
        self.block_tokens = block_tokens
        self._counts: dict[int, Floats] = {}
        self._starts: dict[int, NDArray[np.int64]] = {}

    @classmethod
    def of(cls, protocol: Protocol) -> Resampler:
        return cls(
            seed=protocol.seeds.bootstrap,
            resamples=protocol.intervals.resamples,
            confidence=protocol.intervals.confidence,
            block_tokens=protocol.intervals.block_tokens,
        )

    def multiplicities(self, clusters: int) -> Floats:
        """How often each cluster was drawn: float64[resamples, clusters], one ``integers(0, g, g)`` a resample."""
        if clusters not in self._counts:
            generator = np.random.default_rng(self.seed)
            # A matrix draws the same stream as one call a row; a test holds that.
            drawn = generator.integers(0, clusters, (self.resamples, clusters))
            flat = drawn + np.arange(self.resamples)[:, None] * clusters
            counts = np.bincount(flat.ravel(), minlength=self.resamples * clusters)
            self._counts[clusters] = counts.reshape(self.resamples, clusters).astype(np.float64)
        return self._counts[clusters]

    def block_starts(self, positions: int) -> NDArray[np.int64]:
        """First positions of circular blocks: int64[resamples, blocks], enough blocks to cover ``positions``."""
        if positions not in self._starts:
            generator = np.random.default_rng(self.seed)
            blocks = -(-positions // self.block_tokens)
            self._starts[positions] = generator.integers(0, positions, (self.resamples, blocks))
        return self._starts[positions]

    def percentile(self, replicates: Floats) -> Bounds:
        """Percentile interval of each column of float64[resamples, figures]; undefined resamples are left out.

        Other constructions (bias-corrected, Student's t on the log of cluster means) start from the same replicates.
        """
        beyond = (1 - self.confidence) / 2
        undefined = ~np.isfinite(replicates)
        if not undefined.any():
            low, high = np.quantile(replicates, [beyond, 1 - beyond], axis=0)
            return Bounds(low, high)
        ends = np.full((2, replicates.shape[1]), np.nan)
        for column in range(replicates.shape[1]):
            kept = replicates[~undefined[:, column], column]
            if len(kept):
                ends[:, column] = np.quantile(kept, [beyond, 1 - beyond])
        return Bounds(ends[0], ends[1])

    def cluster_label(self, count: int, unit: str) -> str:
        """Method, confidence and unit of a cluster interval, as a figure stores it."""
        return f"percentile bootstrap, {self.confidence * 100:g} %, {plural(count, unit)}"

    def block_label(self) -> str:
        return (
            f"circular block bootstrap of {self.block_tokens} positions, {self.confidence * 100:g} %, within this text"
        )


def cluster_sums(values: Floats, index: NDArray[np.int32], clusters: int) -> Floats:
    """Sums of float64[n, m] by cluster: float64[clusters, m]."""
    columns = [np.bincount(index, weights=values[:, at], minlength=clusters) for at in range(values.shape[1])]
    return np.stack(columns, axis=1) if columns else np.zeros((clusters, 0))


def ratio_replicates(numerators: Floats, denominators: Floats, resampler: Resampler) -> Floats:
    """Ratio of sums in every resample: float64[resamples, m] from float64[clusters, m] each; NaN for 0 over 0."""
    counts = resampler.multiplicities(len(numerators))
    top = counts @ numerators
    bottom = counts @ denominators
    return np.divide(top, bottom, out=np.full_like(top, np.nan), where=bottom != 0)


def ratio_intervals(
    values: Floats, weights: Floats, index: NDArray[np.int32], clusters: int, resampler: Resampler
) -> Bounds:
    """Cluster bootstrap of sum(values) / sum(weights), columns of float64[n, m]. Under 2 clusters: NaN."""
    if clusters < 2:
        nothing = np.full(values.shape[1], np.nan)
        return Bounds(nothing, nothing.copy())
    top = cluster_sums(values, index, clusters)
    bottom = cluster_sums(weights, index, clusters)
    return resampler.percentile(ratio_replicates(top, bottom, resampler))


def quantile_replicates(
    values: Floats, index: NDArray[np.int32], clusters: int, levels: Floats, resampler: Resampler
) -> Floats:
    """Linear quantiles of every cluster resample: float64[resamples, levels]; ``values`` float64[n] are finite.

    A resample holds value i as often as its cluster was drawn. The k-th order statistic is found by bisection over the
    sorted values, on how many of each cluster lie at or below a place: no resample is ever written out.
    """
    n = len(values)
    levels = np.asarray(levels, dtype=np.float64)
    counts = resampler.multiplicities(clusters)
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    at_or_below = np.zeros((n, clusters))
    at_or_below[np.arange(n), index[order]] = 1
    np.cumsum(at_or_below, axis=0, out=at_or_below)
    sizes = counts @ at_or_below[-1]
    replicates = np.full((len(counts), len(levels)), np.nan)
    for column, level in enumerate(levels):
        place = level * np.maximum(sizes - 1, 0)
        below = np.floor(place)
        first = ordered[_order_statistic(at_or_below, counts, below)]
        second = ordered[_order_statistic(at_or_below, counts, np.minimum(below + 1, sizes - 1))]
        replicates[:, column] = first + (second - first) * (place - below)
    replicates[sizes == 0] = np.nan
    return replicates


def _order_statistic(at_or_below: Floats, counts: Floats, rank: Floats) -> NDArray[np.int64]:
    """Index of the sorted value that is number ``rank`` (from 0) in each resample: int64[resamples]."""
    low = np.zeros(len(counts), dtype=np.int64)
    high = np.full(len(counts), len(at_or_below) - 1, dtype=np.int64)
    for _ in range(len(at_or_below).bit_length()):
        middle = (low + high) // 2
        enough = np.einsum("bg,bg->b", at_or_below[middle], counts) > rank
        high = np.where(enough, middle, high)
        low = np.where(enough, low, np.minimum(middle + 1, high))
    return low


def quantile_intervals(
    values: Floats, index: NDArray[np.int32], clusters: int, levels: Floats, resampler: Resampler
) -> Bounds:
    """Cluster bootstrap of linear quantiles of float64[n]. Under 2 clusters: NaN."""
    if clusters < 2 or len(values) == 0:
        nothing = np.full(len(levels), np.nan)
        return Bounds(nothing, nothing.copy())
    return resampler.percentile(quantile_replicates(values, index, clusters, levels, resampler))


def block_ratio_replicates(values: Floats, weights: Floats, resampler: Resampler) -> Floats:
    """Circular block resamples of sum(values) / sum(weights) in one text: float64[resamples, m] from float64[n, m]."""
    n = len(values)
    starts = resampler.block_starts(n)
    lengths = np.full(starts.shape[1], min(resampler.block_tokens, n))
    lengths[-1] = n - resampler.block_tokens * (starts.shape[1] - 1)

    def totals(column: Floats) -> Floats:
        running = np.concatenate([[0.0], np.cumsum(np.concatenate([column, column]))])
        full = running[np.arange(n) + lengths[0]] - running[:n]
        last = running[np.arange(n) + lengths[-1]] - running[:n]
        return full[starts[:, :-1]].sum(axis=1) + last[starts[:, -1]]

    replicates = np.empty((resampler.resamples, values.shape[1]))
    for column in range(values.shape[1]):
        top = totals(values[:, column])
        same = bool((weights[:, column] == 1).all())
        bottom = np.full(len(top), float(n)) if same else totals(weights[:, column])
        replicates[:, column] = np.divide(top, bottom, out=np.full_like(top, np.nan), where=bottom > 0.5)
    return replicates


def block_quantile_replicates(values: Floats, levels: Floats, resampler: Resampler) -> Floats:
    """Linear quantiles of circular block resamples of one text: float64[resamples, levels]; ``values`` are finite."""
    n = len(values)
    levels = np.asarray(levels, dtype=np.float64)
    order = np.argsort(values, kind="stable")
    rank = np.empty(n, dtype=np.uint16 if n < 65_536 else np.int64)
    rank[order] = np.arange(n)
    ordered = values[order]
    starts = resampler.block_starts(n)
    inside = np.arange(resampler.block_tokens)
    replicates = np.empty((resampler.resamples, len(levels)))
    place = levels * (n - 1)
    below = np.floor(place).astype(np.int64)
    above = np.minimum(below + 1, n - 1)
    for first in range(0, resampler.resamples, 500):
        rows = starts[first : first + 500]
        drawn = ((rows[:, :, None] + inside) % n).reshape(len(rows), -1)[:, :n]
        ranks = np.sort(rank[drawn], axis=1)
        low, high = ordered[ranks[:, below]], ordered[ranks[:, above]]
        replicates[first : first + 500] = low + (high - low) * (place - below)
    return replicates
