"""Two answers to the same request: how far they lie apart."""

from __future__ import annotations

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
        here, there = _entries(one, row), _entries(other, row)
        shared = here.keys() & there.keys()
        unshared += len(here.keys() ^ there.keys())
        with np.errstate(invalid="ignore"):
            gaps = np.abs([here[token] - there[token] for token in shared])
        largest = max(largest, float(np.nan_to_num(gaps, nan=0.0, posinf=np.inf).max(initial=0.0)))
    return RowDifference(identical=identical, largest_nats=largest, unshared=unshared, rows=len(one.positions))


def _entries(block: ListedBlock, row: int) -> dict[int, float]:
    kept = block.ids[row] >= 0
    return dict(zip(block.ids[row][kept].tolist(), block.logprobs[row][kept].tolist(), strict=True))
