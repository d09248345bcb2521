"""The next token's row where only its best entries are known."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from drift_runs.errors import EngineError


class Listed(NamedTuple):
    """The best entries by (-log-probability, id), at least one; natural logarithms over the whole dictionary."""

    ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    """NaN where nothing is told: of an end that the server did not name."""

    @property
    def best_logprob(self) -> float | None:
        return None if math.isnan(self.logprobs[0]) else self.logprobs[0]


Row = NDArray[np.float32] | Listed
"""Logits float32[columns] of an engine of this process, or what a server lists."""


def best_of(row: Row, size: int) -> int:
    """The best token of a dictionary of ``size`` entries; the lowest id wins a tie.

    ``EngineError`` for a listed token beyond the dictionary: padding that won has no text.
    """
    if not isinstance(row, Listed):
        return int(np.argmax(row[:size]))
    if not row.ids or not 0 <= row.ids[0] < size:
        raise EngineError(
            f"token {row.ids[0]} was listed as the best" if row.ids else "no token was listed",
            expected=f"an id below {size}, the dictionary's size",
        )
    return row.ids[0]
