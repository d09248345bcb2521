"""Does a text repeat itself? A repetition loop makes every later position trivial, so it must not be scored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopReport:
    """How much of a token span is repetition."""

    tokens: int
    distinct_share: float
    """Distinct 8-grams / 8-grams; 1 when the span is shorter than 8."""
    period: int
    """Length of the block that repeats without a break for the longest stretch; 0 when none does."""
    stretch: int
    """Tokens of that stretch, all copies together."""

    @property
    def is_loop(self) -> bool:
        """True when most 8-grams are repeats, or when one block stands three times in a row over 24 tokens or more.

        The limits leave room for what repeats for a reason: a table, a list of calls with equal keys.
        """
        return self.distinct_share < 0.5 or (self.period > 0 and self.stretch >= max(3 * self.period, 24))


def loop_report(tokens: Sequence[int], *, gram: int = 8, largest_period: int = 96) -> LoopReport:
    """Look at one span.

    A stretch of period p is a run of positions i with ``tokens[i] == tokens[i - p]``; it covers the run and the p
    tokens before it. The period reported is the one whose stretch holds the most copies, the shortest on a tie.
    """
    ids = np.asarray(tokens, dtype=np.int64)
    count = len(ids)
    distinct_share = 1.0
    if count >= gram:
        grams = {tuple(ids[begin : begin + gram].tolist()) for begin in range(count - gram + 1)}
        distinct_share = len(grams) / (count - gram + 1)
    best_copies, best_period, best_stretch = 1.0, 0, 0
    for period in range(1, min(largest_period, count // 2) + 1):
        run = _longest_run(ids[period:] == ids[:-period])
        copies = (run + period) / period
        if run and copies > best_copies and run + period >= 2 * period:
            best_copies, best_period, best_stretch = copies, period, run + period
    return LoopReport(tokens=count, distinct_share=distinct_share, period=best_period, stretch=best_stretch)


def _longest_run(equal: np.ndarray) -> int:
    """Length of the longest run of True in bool[n]."""
    padded = np.concatenate([[False], equal, [False]])
    edges = np.flatnonzero(padded[1:] != padded[:-1])
    return int((edges[1::2] - edges[::2]).max(initial=0))
