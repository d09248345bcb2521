"""Does the reference itself choose every token of an expected answer?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from drift_runs.engines.base import ScoredBlock
from drift_runs.errors import NonFiniteLogits


class Scores(Protocol):
    """The part of an engine that answers are held against."""

    def score(self, tokens: Sequence[int], positions: Sequence[int]) -> Iterator[ScoredBlock]: ...


class Miss(NamedTuple):
    """The first position at which another token is the best one."""

    position: int
    expected: int
    found: int


def first_miss(engine: Scores, tokens: Sequence[int], answers: Sequence[tuple[int, int]]) -> Miss | None:
    """Teacher-force ``tokens`` and look at every position of ``answers``: half-open spans, in order and apart.

    The best token is that of the largest logit, the lowest id on a tie. None: every answer is passed, and decoding
    greedily from the text before each answer writes it to the letter.

    Raises ``NonFiniteLogits`` with the position.
    """
    positions = [position for start, end in answers for position in range(start, end)]
    for block in engine.score(tokens, positions):
        finite = np.isfinite(block.logits).all(axis=1)
        if not finite.all():
            raise NonFiniteLogits("a logit is NaN or infinite", where=f"position {block.positions[np.argmin(finite)]}")
        expected = np.asarray(tokens)[block.positions]
        found = np.argmax(block.logits, axis=1)
        for index in np.flatnonzero(found != expected)[:1]:
            return Miss(int(block.positions[index]), int(expected[index]), int(found[index]))
    return None
