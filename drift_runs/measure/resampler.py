"""Every draw of a protocol's bootstrap. METRICS, Intervals.

Positions of one text are not independent, so whole clusters are drawn. The draws of one number of clusters are made
once and shared by every figure: figures of a report then move together, and hundreds of them cost one matrix. That
matrix is kept as 16-bit counts and widened a slice at a time: 10,000 resamples of 842 clusters are 17 MB, not 67.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from drift_runs.protocol.model import Protocol

Floats = NDArray[np.float64]
Counts = NDArray[np.int16] | NDArray[np.int32]

SLICE_ENTRIES = 1 << 20
"""Entries of a slice of draws that are held in 64 bits at one time: 8 MB."""
KEPT_BYTES = 256 << 20
"""Counts that are kept for reuse; beyond it the oldest are dropped and drawn again when they are asked for."""


class Bounds(NamedTuple):
    """Ends of intervals, NaN where there is none: float64[figures] each."""

    low: Floats
    high: Floats


def no_bounds(figures: int) -> Bounds:
    """As many intervals that do not exist."""
    return Bounds(np.full(figures, np.nan), np.full(figures, np.nan))


class Resampler:
    """The one source of draws, the same for every figure of a protocol."""

    def __init__(self, *, seed: int, resamples: int = 5000, confidence: float = 0.95, block_tokens: int = 16) -> None:
        self.seed = seed
        self.resamples = resamples
        self.confidence = confidence
        self.block_tokens = block_tokens
        self._counts: dict[int, Counts] = {}

    @classmethod
    def of(cls, protocol: Protocol) -> Resampler:
        return cls(
            seed=protocol.seeds.bootstrap,
            resamples=protocol.intervals.resamples,
            confidence=protocol.intervals.confidence,
            block_tokens=protocol.intervals.block_tokens,
        )

    @property
    def tail(self) -> float:
        """The share of resamples beyond one end of an interval: 0.025 at 95 %."""
        return (1 - self.confidence) / 2

    def multiplicities(self, clusters: int) -> Counts:
        """How often each cluster was drawn: int16[resamples, clusters], one ``integers(0, g, g)`` a resample in order.

        Widen it before arithmetic of your own: 16-bit numbers overflow silently. :meth:`sums` does it in slices.
        """
        if clusters not in self._counts:
            generator = np.random.default_rng(self.seed)
            counts = np.empty((self.resamples, clusters), dtype=np.int16 if clusters < 2**15 else np.int32)
            for rows in slices_of(self.resamples, clusters):
                # A matrix draws the same stream as one call a row; a test holds that.
                drawn = generator.integers(0, clusters, (rows.stop - rows.start, clusters))
                drawn += np.arange(len(drawn))[:, None] * clusters
                counts[rows] = np.bincount(drawn.ravel(), minlength=drawn.size).reshape(drawn.shape)
            self._counts[clusters] = counts
            self._forget(clusters)
        return self._counts[clusters]

    def _forget(self, newest: int) -> None:
        for clusters in list(self._counts):
            if clusters != newest and sum(kept.nbytes for kept in self._counts.values()) > KEPT_BYTES:
                del self._counts[clusters]

    def slices(self, clusters: int) -> Iterator[tuple[slice, Floats]]:
        """The multiplicities in slices of resamples, as float64[rows, clusters] with the rows that they are."""
        counts = self.multiplicities(clusters)
        for rows in slices_of(self.resamples, clusters):
            yield rows, counts[rows].astype(np.float64)

    def sums(self, by_cluster: Floats) -> Floats:
        """Sums over the clusters of every resample: float64[resamples, m] of float64[clusters, m]."""
        found = np.empty((self.resamples, by_cluster.shape[1]))
        for rows, counts in self.slices(len(by_cluster)):
            found[rows] = counts @ by_cluster
        return found

    def block_starts(self, positions: int) -> Iterator[tuple[slice, NDArray[np.int64]]]:
        """First positions of circular blocks, enough to cover ``positions``: int64[rows, blocks], with its rows."""
        generator = np.random.default_rng(self.seed)
        blocks = -(-positions // self.block_tokens)
        for rows in slices_of(self.resamples, max(positions, 1)):
            yield rows, generator.integers(0, positions, (rows.stop - rows.start, blocks))

    def percentile(self, replicates: Floats) -> Bounds:
        """Percentile interval of each column of float64[resamples, figures]; undefined resamples are left out."""
        beyond = self.tail
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


def plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def slices_of(rows: int, entries: int) -> Iterator[slice]:
    """Slices of rows with about ``SLICE_ENTRIES`` entries each."""
    step = max(1, SLICE_ENTRIES // max(entries, 1))
    for first in range(0, rows, step):
        yield slice(first, min(first + step, rows))
