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
from drift_runs.measure.headline import TAIL
from drift_runs.measure.histograms import BINS, Counts, Floats, bin_index
from drift_runs.measure.intervals import cluster_of
from drift_runs.measure.positions import Positions, infinite_mask, positions_of
from drift_runs.measure.ratios import CORE, HEADLINE, RatioColumn, Ratios, columns_of
from drift_runs.measure.specs import BY_BASE, base_of
from drift_runs.protocol.model import Protocol
from drift_runs.schema import COMPARISON

ROWS_AT_ONCE = 65_536
"""Rows of a table that become arrays together: about 60 MB, however large the table is."""

_SET_BY = {
    "support_collapse": ("kl.topk-shared", "shared_support"),
    "tail_floored": ("kl.topk-tail", "kl.topk-lower"),
}
"""Counts of flags, and what must have been measured for the flag to be set at all."""


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
    """What is kept of the positions that were fed. Arrays go by window in the protocol's order.

    Columns of ratios are those of :mod:`ratios`, whether or not a table has them: what is kept then does not depend on
    how the rows came. A position that is fed twice counts twice; a window that gets more rows than the protocol scores
    is refused.
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

        self._columns: dict[int | None, tuple[RatioColumn, ...]] = {}
        count, figures = len(self.windows), len(self._columns_of(None))
        self.unsaid_tails = 0
        """See :class:`positions.Positions`: with one of them no position counts for ``kl.topk-tail``."""
        self.rows = np.zeros(count, dtype=np.int64)
        self.infinite = np.zeros(count, dtype=np.int64)
        self.used = np.zeros((count, figures), dtype=np.int64)
        self.known = np.zeros((count, figures), dtype=np.int64)
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
    def columns(self) -> tuple[RatioColumn, ...]:
        """The ratios, the core first; their specs have the K of the rows, or the protocol's when no row had one."""
        return self._columns_of(self.top_k)

    @property
    def emitted(self) -> tuple[int, ...]:
        """Places of the columns that give figures: see :func:`ratios.emitted`, here for all rows together."""
        known = self.known.any(axis=0)
        by_base = {base_of(column.spec): bool(known[at]) for at, column in enumerate(self.columns) if column.statistic}
        over_dictionary = by_base["entropy.full.reference"] or by_base["entropy.full.candidate"]
        made_here = self.protocol.capture.full_vocabulary == "yes"
        places = []
        for at, column in enumerate(self.columns):
            base = base_of(column.spec)
            if base in _SET_BY:
                shown = any(by_base.get(name, False) for name in _SET_BY[base])
            elif base in ("entropy.topk", "dentropy.topk"):
                shown = bool(known[at]) and not over_dictionary
            else:
                shown = bool(known[at]) or at == HEADLINE or (made_here and at < CORE)
                shown = shown or (base == TAIL.base and self.unsaid_tails > 0)
            if shown:
                places.append(at)
        return tuple(places)

    @property
    def sums(self) -> Floats:
        """Numerators by window: float64[windows, columns]. What adding up in turns would lose is carried beside it."""
        return self._sums + self._lost

    def _columns_of(self, top_k: int | None) -> tuple[RatioColumn, ...]:
        """Every column that rows of that K can have, in one order whatever K is."""
        if top_k not in self._columns:
            of_all, of_entries = (
                columns_of(_one_position(top_k or self.protocol.capture.top_k, **missing), self.protocol)
                for missing in ({}, {"reference_entropy_nats": None, "candidate_entropy_nats": None})
            )
            known = {(column.spec, column.statistic, column.count) for column in of_all}
            more = [item for item in of_entries if (item.spec, item.statistic, item.count) not in known]
            self._columns[top_k] = (*of_all, *more)
        return self._columns[top_k]

    def feed(self, table: pa.Table) -> None:
        """Count the rows of a table of schema ``COMPARISON``: a window, a part of one, or several.

        ``NotComparable`` for a window that the protocol lacks, for more rows than it scores, and for rows of another K.
        A refused table may have been counted in part: start anew after an error.
        """
        for first in range(0, table.num_rows, ROWS_AT_ONCE):
            positions = positions_of(table.slice(first, ROWS_AT_ONCE))
            self._set_k(positions.top_k)
            self.unsaid_tails += positions.unsaid_tails
            ratios = Ratios.of(positions, self.protocol, self._columns_of(positions.top_k))
            edges = np.flatnonzero(np.diff(positions.window, prepend=-1, append=len(positions.windows)))
            for start, stop in pairwise(edges):
                rows = slice(int(start), int(stop))
                window = self._window(positions.windows[positions.window[start]])
                self._count(window, positions, rows, ratios)

    def merge(self, other: ShardSummary) -> None:
        """Count what ``other`` counted; it must be of the same protocol and K, and of other rows."""
        if other.protocol != self.protocol:
            raise NotComparable("shards of two protocols", expected="one protocol")
        self._set_k(other.top_k)
        self.unsaid_tails += other.unsaid_tails
        self.rows += other.rows
        for window in np.flatnonzero(self.rows > self._scored):
            self._too_many(int(window))
        self.infinite += other.infinite
        self.used += other.used
        self.known += other.known
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

    def _count(self, window: int, positions: Positions, rows: slice, ratios: Ratios) -> None:
        """Count the rows of one window."""
        self.rows[window] += rows.stop - rows.start
        if self.rows[window] > self._scored[window]:
            self._too_many(window)
        column = BY_BASE[self.protocol.capture.divergence].column
        self.infinite[window] += int(infinite_mask(positions, column)[rows].sum())
        self.used[window] += ratios.weights[:, rows].sum(axis=1)
        self.known[window] += (~ratios.missing[:, rows]).sum(axis=1)
        self._add(window, ratios.values[:, rows].sum(axis=1))
        finite = ratios.weights[HEADLINE, rows]
        values = ratios.values[HEADLINE, rows][finite]
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


def _one_position(top_k: int, **missing: None) -> Positions:
    """A position that has every field but the missing ones: it has every column that rows can have."""
    columns = {}
    for field in COMPARISON:
        value: object = 1
        if pa.types.is_dictionary(field.type):
            value = "prompt"
        elif field.name == "top_k":
            value = top_k
        columns[field.name] = pa.array([missing.get(field.name, value)]).cast(field.type)
    return positions_of(pa.table(columns, schema=COMPARISON))
