"""Two answers to the same request: how far they lie apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from drift_runs.engines.base import ListedBlock


@dataclass(frozen=True, slots=True, kw_only=True)
class RowDifference:
    """Of the rows of two answers at the same positions."""

    identical: bool
    """Ids, log-probabilities and the text's own tokens to the last bit."""
    largest_nats: float
    """Over the entries that both list; 0 where none is shared."""
    unshared: int
    """Entries that one of the two lists alone."""
    rows: int

    def __str__(self) -> str:
        if self.identical:
            return f"{self._rows} the same to the last bit"
        unshared = f", {self.unshared:,} entries are listed on one side alone" if self.unshared else ""
        return f"up to {self.largest_nats:.3g} nats apart in {self._rows}{unshared}"

    @property
    def _rows(self) -> str:
        return f"{self.rows} row{'s' if self.rows != 1 else ''}"


def row_difference(one: ListedBlock, other: ListedBlock) -> RowDifference:
    """Of two answers with as many rows."""
    identical = all(
        np.array_equal(getattr(one, name), getattr(other, name), equal_nan=name != "ids")
        for name in ("ids", "logprobs", "token_logprob")
    )
    largest, unshared = 0.0, 0
    for row in range(len(one.positions)):
        here, there = entries_of(one, row), entries_of(other, row)
        shared = here.keys() & there.keys()
        unshared += len(here.keys() ^ there.keys())
        with np.errstate(invalid="ignore"):
            gaps = np.abs([here[token] - there[token] for token in shared])
        largest = max(largest, float(np.nan_to_num(gaps, nan=0.0, posinf=np.inf).max(initial=0.0)))
    return RowDifference(identical=identical, largest_nats=largest, unshared=unshared, rows=len(one.positions))


def row_apart_nats(one: Mapping[int, float], other: Mapping[int, float]) -> float:
    """Mean distance of two rows over the best entries of either, as many as both list: a lower bound.

    NaN where one of them lists nothing. What one side does not list lies at or below its last entry, so it counts as
    far as it must.
    """
    count = min(len(one), len(other))
    here, there = (dict(sorted(row.items(), key=lambda entry: -entry[1])[:count]) for row in (one, other))
    here, there = ({token: value for token, value in row.items() if np.isfinite(value)} for row in (here, there))
    if not here or not there:
        return float("nan")
    edge_here, edge_there = min(here.values()), min(there.values())
    gaps = [
        abs(here[token] - there[token])
        if token in here and token in there
        else max(0.0, here[token] - edge_there if token in here else there[token] - edge_here)
        for token in here.keys() | there.keys()
    ]
    return float(np.mean(gaps))


def entries_of(block: ListedBlock, row: int) -> dict[int, float]:
    """Log-probability by id of one row."""
    kept = block.ids[row] >= 0
    return dict(zip(block.ids[row][kept].tolist(), block.logprobs[row][kept].tolist(), strict=True))
