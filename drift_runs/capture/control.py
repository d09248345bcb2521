"""The same few rows again behind each window: a model that was exchanged behind one name says nothing of it.

What a server says of itself is held against what it said when it was opened. A balancer in front of two servers, or one
that was started anew with another model and the name of the first, says the same: only its numbers tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from drift_runs.engines.base import ListedBlock
from drift_runs.errors import ServerError

TOKENS = 9
"""Of a control's text: less than a block of any server's prefix cache."""
_ROWS = 2
_ENTRIES = 5
APART_NATS = 0.5
"""Mean distance of the entries that both rows list. Another batch, or a cache of 8 bits, moves them by hundredths;
another quant of the same weights may lie below it, and is not found."""


class Control:
    """Rows that an engine gave at the start of a launch, for :meth:`check`."""

    def __init__(self, engine: Any, tokens: Sequence[int], *, top_k: int) -> None:
        self._engine = engine
        self._tokens = list(tokens[:TOKENS])
        self._top_k = min(top_k, _ENTRIES)
        self._first = self._rows()

    def _rows(self) -> list[ListedBlock]:
        last = len(self._tokens)
        positions = range(max(1, last - _ROWS), last)
        return list(self._engine.score_listed(self._tokens, positions, top_k=self._top_k))

    def check(self) -> None:
        """``ServerError`` where the rows are those of another model."""
        for before, now in zip(_entries(self._first), _entries(self._rows()), strict=True):
            shared = before.keys() & now.keys()
            apart = sum(abs(before[token] - now[token]) for token in shared) / max(1, len(shared))
            if 2 * len(shared) < len(before) or apart > APART_NATS:
                raise ServerError(
                    f"another model answers than at the start: of the best {len(before)} entries of a control row "
                    f"{len(shared)} are still listed, {apart:.3g} nats apart in the mean",
                    where=self._engine.where,
                    expected="one model from the first window to the last",
                    todo="nothing of this window was kept; see what else answers at this address, and run again",
                )


def control_of(engine: Any, tokens: Sequence[int], *, top_k: int) -> Control | None:
    """The control of a launch; None for an engine that says that it needs none, and for a text without two tokens."""
    wanted = getattr(engine, "needs_control", False)
    return Control(engine, tokens, top_k=top_k) if wanted and len(tokens) > 1 else None


def _entries(blocks: Sequence[ListedBlock]) -> list[dict[int, float]]:
    """Of each row, the id and log-probability of what is listed."""
    return [
        {int(token): float(value) for token, value in zip(ids, values, strict=True) if token >= 0}
        for block in blocks
        for ids, values in zip(block.ids, block.logprobs, strict=True)
    ]
