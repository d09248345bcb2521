"""How often the headline divergence has which size, in log10 bins: what a page draws a distribution from.

A campaign of a million positions has a distribution of some hundred bins, so nobody has to read the positions again to
see the tail. The bins are those of :mod:`histograms`, and every count is exact: what a bin says of the values inside it
is only that they lie between its edges.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from drift_runs.measure.headline import headline_of
from drift_runs.measure.histograms import BINS, EDGES, Counts, Floats, bin_index
from drift_runs.measure.outliers import choices, outlier_mask
from drift_runs.measure.positions import Positions, infinite_mask, positions_of
from drift_runs.measure.ranges import range_index
from drift_runs.measure.scopes import WHOLE, scopes_of
from drift_runs.measure.shard_summary import ROWS_AT_ONCE
from drift_runs.measure.specs import headline_spec
from drift_runs.protocol.model import Protocol
from drift_runs.schema import DISTRIBUTION

SCOPE_KINDS = (*WHOLE, "kind")
"""Scopes that have a distribution: those that pool several texts, and kinds of range."""


class Exceedance(NamedTuple):
    """How many values are at least so large: a step at every edge of an occupied bin, ascending."""

    at_nats: Floats
    """float64[m]."""
    count: Counts
    """Values at or above: int64[m]."""
    n: int
    """Finite values, those that are not positive included: what a share is of."""


@dataclass(slots=True)
class _Tally:
    """One scope under one choice of outliers, while tables are fed."""

    counts: Counts = field(default_factory=lambda: np.zeros(BINS, dtype=np.int64))
    not_positive: int = 0
    infinite: int = 0
    missing: int = 0

    def add(self, values: Floats, infinite: NDArray[np.bool_]) -> None:
        finite = values[np.isfinite(values)]
        positive = finite[finite > 0]
        self.counts += np.bincount(bin_index(positive), minlength=BINS)
        self.not_positive += len(finite) - len(positive)
        self.infinite += int(infinite.sum())
        self.missing += len(values) - len(finite) - int(infinite.sum())

    def forget(self) -> None:
        """Every value counts as not measured."""
        self.missing += int(self.counts.sum()) + self.not_positive + self.infinite
        self.counts[:] = 0
        self.not_positive = self.infinite = 0

    def rows(self) -> Iterator[dict[str, Any]]:
        """The occupied bins in ascending order; one row without edges where there is none."""
        whole = {
            "n": int(self.counts.sum()) + self.not_positive,
            "not_positive": self.not_positive,
            "infinite": self.infinite,
            "missing": self.missing,
        }
        occupied = np.flatnonzero(self.counts)
        if not len(occupied):
            yield {"low_nats": None, "high_nats": None, "count": 0, **whole}
        for at in occupied:
            yield {
                "low_nats": float(EDGES[at - 1]) if at else 0.0,
                "high_nats": float(EDGES[at]) if at < len(EDGES) else None,
                "count": int(self.counts[at]),
                **whole,
            }


def distribution_table(comparison: pa.Table, protocol: Protocol, *, arm: str) -> pa.Table:
    """Table ``DISTRIBUTION`` of one arm from its table ``COMPARISON``, in the order of scopes and bins.

    Positions become arrays a part at a time, so a comparison of any size may be given. A scope without a position has
    no row.
    """
    tallies: dict[tuple[str, str, str], _Tally] = {}
    unsaid, top_k = 0, None
    for start in range(0, comparison.num_rows, ROWS_AT_ONCE):
        positions = positions_of(comparison.slice(start, ROWS_AT_ONCE))
        unsaid += positions.unsaid_tails
        top_k = top_k or positions.top_k
        _feed(tallies, positions, protocol)
    if unsaid and protocol.capture.divergence == "kl.topk-tail":
        # One part may say all of its tails and another not: then nobody has the figure, as in every other table.
        for tally in tallies.values():
            tally.forget()
    if not tallies:
        return DISTRIBUTION.empty_table()
    spec = headline_spec(protocol, top_k or protocol.capture.top_k)
    rows = [
        {"arm": arm, "spec": spec, "scope_kind": kind, "scope": scope, "outliers": outliers, **row}
        for (kind, scope, outliers), tally in tallies.items()
        for row in tally.rows()
    ]
    return pa.Table.from_pylist(rows, schema=DISTRIBUTION)


def _feed(tallies: dict[tuple[str, str, str], _Tally], positions: Positions, protocol: Protocol) -> None:
    column = headline_of(positions, protocol).column
    values = getattr(positions, column)
    infinite = infinite_mask(positions, column)
    range_at = range_index(positions, protocol)
    scopes = [scope for scope in scopes_of(positions, protocol, range_at) if scope.kind in SCOPE_KINDS]
    for outliers in choices(protocol):
        kept = outlier_mask(positions, protocol, outliers)
        for scope in scopes:
            chosen = scope.chosen & kept
            if chosen.any():
                tally = tallies.setdefault((scope.kind, scope.name, outliers), _Tally())
                tally.add(values[chosen], infinite[chosen])


def exceedance(rows: Sequence[Mapping[str, Any]]) -> Exceedance:
    """How many values are at least so large, from the rows of one scope (schema ``DISTRIBUTION``) in their order.

    Exact at every edge that is given; a value under the first edge of all bins counts in ``n`` alone.
    """
    if not rows:
        return Exceedance(np.zeros(0), np.zeros(0, dtype=np.int64), 0)
    bins = [row for row in rows if row["count"]]
    left = sum(row["count"] for row in bins)
    at: list[float] = []
    counts: list[int] = []
    for row in bins:
        for edge, count in ((row["low_nats"], left), (row["high_nats"], left - row["count"])):
            if edge and count and (not at or edge > at[-1]):
                at.append(edge)
                counts.append(count)
        left -= row["count"]
    return Exceedance(np.array(at, dtype=np.float64), np.array(counts, dtype=np.int64), int(rows[0]["n"]))
