"""Where two futures of one root run together again (METRICS, Generation: re-synchronise)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

RUN_TOKENS = 16
FARTHEST_TOKENS = 64
HISTORY_TOKENS = 512

Run = tuple[int, ...]


class Resync(NamedTuple):
    """Tokens of each future before it runs together with the other."""

    reference_tokens: int
    candidate_tokens: int


def resynchronised(reference: Sequence[int], candidate: Sequence[int], history: Sequence[int]) -> Resync | None:
    """Where the futures ``reference`` and ``candidate`` of one ``history`` re-synchronise; None where they never do.

    A place is an i and a j, at most ``FARTHEST_TOKENS`` apart, at which both futures hold the same ``RUN_TOKENS``
    tokens. That run stands once in each future and not within the last ``HISTORY_TOKENS`` tokens of the history, so
    that what a text repeats anyway, as the keys of its records, joins nothing. From there on both are equal to the end
    of the shorter rest: what runs apart once more has not come back.

    Of several places the first counts: the smallest i + j, then the smallest ``|i - j|``. Where two are left, (i, j)
    and (j, i), it is the one whose run has the smaller tokens, so that the sides can be exchanged. The time is linear
    in the futures, times the run's length and the number of diagonals.
    """
    ours, theirs = _single_runs(reference), _single_runs(candidate)
    tail = history[-HISTORY_TOKENS:]
    known = {tuple(tail[at : at + RUN_TOKENS]) for at in range(len(tail) - RUN_TOKENS + 1)}
    left, right = np.asarray(reference, dtype=np.int64), np.asarray(candidate, dtype=np.int64)
    equal_from: dict[int, int] = {}
    found: list[tuple[int, int, Run, Resync]] = []
    for run, i in ours.items():
        j = theirs.get(run)
        if j is None or run in known or abs(i - j) > FARTHEST_TOKENS:
            continue
        if i - j not in equal_from:
            equal_from[i - j] = _equal_from(left, right, i - j)
        if i >= equal_from[i - j]:
            found.append((i + j, abs(i - j), run, Resync(i, j)))
    return min(found)[-1] if found else None


def _single_runs(tokens: Sequence[int]) -> dict[Run, int]:
    """Every run of ``RUN_TOKENS`` that stands once in ``tokens``, and where."""
    places: dict[Run, int] = {}
    repeated: set[Run] = set()
    for at in range(len(tokens) - RUN_TOKENS + 1):
        run = tuple(tokens[at : at + RUN_TOKENS])
        if run in places:
            repeated.add(run)
        places[run] = at
    return {run: at for run, at in places.items() if run not in repeated}


def _equal_from(left: NDArray[np.int64], right: NDArray[np.int64], distance: int) -> int:
    """The smallest i with ``left[i:]`` equal to ``right[i - distance:]`` to the end of the shorter of the two."""
    first = max(distance, 0)
    ours, theirs = left[first:], right[first - distance :]
    count = min(len(ours), len(theirs))
    unequal = np.flatnonzero(ours[:count] != theirs[:count])
    return first + (int(unequal[-1]) + 1 if len(unequal) else 0)
