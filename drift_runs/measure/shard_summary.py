"""Sums and histograms of a comparison that is too large to hold: fed a table at a time, in any order, and mergeable.

What is kept depends on the protocol and not on the number of positions: sums, counts and extremes by window, and one
histogram of the divergence for each cluster (once more for each panel, group and outlier choice that the cluster is
split over). :mod:`shards` makes the figures of it.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from drift_runs.errors import NotComparable
from drift_runs.measure.flips import BANDS, band_index
from drift_runs.measure.histograms import BINS, Counts, Floats, bin_index
from drift_runs.measure.intervals import cluster_of
from drift_runs.measure.positions import Positions, positions_of
from drift_runs.measure.specs import BY_BASE, DIVERGENCES
from drift_runs.protocol.model import Protocol
from drift_runs.schema import RowFlag

ROWS_AT_ONCE = 65_536
"""Rows of a table that become arrays together: about 40 MB, however large the table is."""

RATIOS: tuple[tuple[str, str], ...] = (
    *((item.base, "mean") for item in DIVERGENCES),
    ("flip", "rate"),
    ("flip.strict", "rate"),
    ("flip.text", "rate"),
    ("swap", "rate"),
    ("strong_overturn", "rate"),
    ("dnll", "mean"),
    ("nll.reference", "mean"),
    ("nll.candidate", "mean"),
    ("dp", "mean"),
    ("entropy.full.reference", "mean"),
    ("entropy.full.candidate", "mean"),
)
"""(spec without K, statistic) of every ratio of sums that is kept, in the order of the columns."""
AT: dict[str, int] = {spec: at for at, (spec, _) in enumerate(RATIOS)}


class Stratum(NamedTuple):
    """What a window's positions are pooled by, beside the cluster."""

    panel: str
    group: str
    outlier: bool


class Place(NamedTuple):
    """Where a value stands."""

    window: str
    position: int
    value: float


class ShardSummary:
    """What is kept of the positions that were fed. Arrays go by window in the protocol's order, columns by ``RATIOS``.

    A position that is fed twice counts twice; a window that gets more rows than the protocol scores is refused.
    """

    def __init__(self, protocol: Protocol) -> None:
        self.protocol = protocol
        self.top_k: int | None = None
        self.windows = tuple(window.name for window in protocol.windows)
        self._code = {name: at for at, name in enumerate(self.windows)}
        self._scored = np.array(
            [sum(end - start for start, end in window.scored) for window in protocol.windows], dtype=np.int64
        )
        unit = protocol.intervals.cluster
        of_window = [cluster_of(window, unit) for window in protocol.windows]
        self.cluster_names = tuple(dict.fromkeys(of_window))
        code = {name: at for at, name in enumerate(self.cluster_names)}
        self.cluster = np.array([code[name] for name in of_window], dtype=np.intp)
        """Cluster of each window."""
        outliers = protocol.outlier_windows
        strata = [Stratum(window.panel, window.group, window.name in outliers) for window in protocol.windows]
        self.strata = tuple(dict.fromkeys(strata))
        self.stratum = np.array([self.strata.index(stratum) for stratum in strata], dtype=np.intp)
        """Stratum of each window."""
        cells = list(zip(self.cluster.tolist(), self.stratum.tolist(), strict=True))
        known = {cell: at for at, cell in enumerate(dict.fromkeys(cells))}
        self._cell = np.array([known[cell] for cell in cells], dtype=np.intp)
        self.cell_cluster = np.array([cluster for cluster, _ in known], dtype=np.intp)
        self.cell_stratum = np.array([stratum for _, stratum in known], dtype=np.intp)

        count, figures = len(self.windows), len(RATIOS)
        self.rows = np.zeros(count, dtype=np.int64)
        self.infinite = np.zeros(count, dtype=np.int64)
        self.used = np.zeros((count, figures), dtype=np.int64)
        self.missing = np.zeros((count, figures), dtype=np.int64)
        self._sums = np.zeros((count, figures))
        self._lost = np.zeros((count, figures))
        self.smallest = np.full(count, np.inf)
        self.largest = np.full(count, -np.inf)
        self.largest_at = np.zeros(count, dtype=np.int64)
        self.counts: Counts = np.zeros((len(known), BINS), dtype=np.int64)
        """Histogram of each cell: a cluster inside a stratum."""
        self.bin_sums: Floats = np.zeros((len(self.strata), BINS))
        """Sum of the values of each bin of each stratum."""

    @property
    def headline(self) -> int:
        """Column of the divergence that the protocol names."""
        return AT[self.protocol.capture.divergence]

    @property
    def sums(self) -> Floats:
        """Numerators by window: float64[windows, ratios]. What adding up in turns would lose is carried beside it."""
        return self._sums + self._lost

    def spec(self, base: str) -> str:
        """Spec id of a ratio; K is that of the rows, or of the protocol when no row had one."""
        if base not in BY_BASE:
            return base
        return BY_BASE[base].spec(self.top_k if self.top_k is not None else self.protocol.capture.top_k)

    def feed(self, table: pa.Table) -> None:
        """Count the rows of a table of schema ``COMPARISON``: a window, a part of one, or several.

        ``NotComparable`` for a window that the protocol lacks, for more rows than it scores, and for rows of another K.
        A refused table may have been counted in part: start anew after an error.
        """
        for first in range(0, table.num_rows, ROWS_AT_ONCE):
            positions = positions_of(table.slice(first, ROWS_AT_ONCE))
            self._set_k(positions.top_k)
            numerators, weights, missing = _ratios(positions, self.protocol)
            edges = np.flatnonzero(np.diff(positions.window, prepend=-1, append=len(positions.windows)))
            for start, stop in pairwise(edges):
                rows = slice(int(start), int(stop))
                window = self._window(positions.windows[positions.window[start]])
                self._count(window, positions, rows, numerators[:, rows], weights[:, rows], missing[:, rows])

    def merge(self, other: ShardSummary) -> None:
        """Count what ``other`` counted; it must be of the same protocol and K, and of other rows."""
        if other.protocol != self.protocol:
            raise NotComparable("shards of two protocols", expected="one protocol")
        self._set_k(other.top_k)
        self.rows += other.rows
        for window in np.flatnonzero(self.rows > self._scored):
            self._too_many(int(window))
        self.infinite += other.infinite
        self.used += other.used
        self.missing += other.missing
        self._add(slice(None), other._sums)
        self._add(slice(None), other._lost)
        self.smallest = np.minimum(self.smallest, other.smallest)
        better = other.largest > self.largest
        same = other.largest == self.largest
        earlier = np.where(same, np.minimum(self.largest_at, other.largest_at), self.largest_at)
        self.largest_at = np.where(better, other.largest_at, earlier)
        self.largest = np.maximum(self.largest, other.largest)
        self.counts += other.counts
        self.bin_sums += other.bin_sums

    def largest_in(self, windows: NDArray[np.intp]) -> Place | None:
        """The largest divergence of some windows; the first in the protocol's order of several equal ones."""
        if len(windows) == 0 or not np.isfinite(self.largest[windows]).any():
            return None
        at = int(windows[self.largest[windows].argmax()])
        return Place(self.windows[at], int(self.largest_at[at]), float(self.largest[at]))

    def _set_k(self, top_k: int | None) -> None:
        if top_k is not None and self.top_k is not None and top_k != self.top_k:
            raise NotComparable(f"rows of K = {self.top_k}, {top_k} in one comparison", expected="one K")
        self.top_k = self.top_k if top_k is None else top_k

    def _window(self, name: str) -> int:
        if name not in self._code:
            raise NotComparable(f"rows of window {name!r}", expected=f"a window of protocol {self.protocol.name}")
        return self._code[name]

    def _too_many(self, window: int) -> None:
        raise NotComparable(
            f"{self.rows[window]:,} rows of window {self.windows[window]}",
            expected=f"at most the {self._scored[window]:,} positions that the protocol scores",
            todo="count each window once",
        )

    def _count(
        self,
        window: int,
        positions: Positions,
        rows: slice,
        numerators: Floats,
        weights: NDArray[np.bool_],
        missing: NDArray[np.bool_],
    ) -> None:
        """Count the rows of one window: arrays are [ratios, rows]."""
        self.rows[window] += rows.stop - rows.start
        if self.rows[window] > self._scored[window]:
            self._too_many(window)
        self.infinite[window] += int(((positions.flags[rows] & RowFlag.INFINITE_KL) > 0).sum())
        self.used[window] += weights.sum(axis=1)
        self.missing[window] += missing.sum(axis=1)
        self._add(window, numerators.sum(axis=1))
        finite = weights[self.headline]
        values = numerators[self.headline][finite]
        if len(values) == 0:
            return
        at = positions.position[rows][finite]
        largest = float(values.max())
        place = int(at[values == largest].min())
        if largest > self.largest[window]:
            self.largest[window], self.largest_at[window] = largest, place
        elif largest == self.largest[window]:
            self.largest_at[window] = min(place, int(self.largest_at[window]))
        self.smallest[window] = min(self.smallest[window], float(values.min()))
        bins = bin_index(values)
        self.counts[self._cell[window]] += np.bincount(bins, minlength=BINS)
        self.bin_sums[self.stratum[window]] += np.bincount(bins, weights=values, minlength=BINS)

    def _add(self, windows: int | slice, more: Floats) -> None:
        """Add to the sums and keep what rounding would lose (Neumaier 1974): order and merging then hardly matter."""
        before = self._sums[windows]
        after = before + more
        lost = np.where(np.abs(before) >= np.abs(more), (before - after) + more, (more - after) + before)
        self._lost[windows] += lost
        self._sums[windows] = after


def _ratios(positions: Positions, protocol: Protocol) -> tuple[Floats, NDArray[np.bool_], NDArray[np.bool_]]:
    """Numerators, what counts in the denominator, and what is missing: [ratios, n] each."""
    columns = [
        *(getattr(positions, item.column) for item in DIVERGENCES),
        positions.flip,
        positions.flip_strict,
        positions.flip_text,
        positions.swap,
        positions.flip,
        positions.dnll_nats,
        positions.reference_nll_nats,
        positions.candidate_nll_nats,
        positions.dp,
        positions.reference_entropy_nats,
        positions.candidate_entropy_nats,
    ]
    values = np.stack(columns)
    missing = ~np.isfinite(values)
    weights = ~missing
    weights[AT["strong_overturn"]] &= band_index(positions.reference_p1, protocol.bands) == BANDS.index("strong")
    return np.where(weights, values, 0.0), weights, missing
