"""Shares over answers with their intervals, the answers of one conversation not being independent.

Wilson's interval at an effective number of answers: the number of independent ones that would have the clustered
standard error that was seen. Where nothing varies (all right, or none) that error says nothing, and every conversation
counts as one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
from ops_tasks.tasks import KINDS

from drift_runs.measure.intervals import standard_errors
from ops_evaluation.answers import AnswerRow

Z_95 = 1.959963984540054
ALL = "all"


class Share(NamedTuple):
    """A share of ``n`` with its 95 % interval over conversations; None where n is 0."""

    share: float | None
    low: float | None
    high: float | None
    n: int
    conversations: int
    """That have any of the ``n``."""


class Figure(NamedTuple):
    title: str
    right: Callable[[AnswerRow], int]
    of: Callable[[AnswerRow], int]


FIGURES: dict[str, Figure] = {
    "exact": Figure("exact answers", lambda row: row.exact, lambda row: 1),
    "valid": Figure("valid calls", lambda row: row.valid, lambda row: row.is_call),
    "right_tool": Figure("valid, right tool", lambda row: row.right_tool, lambda row: row.is_call),
    "same_call": Figure("valid, same call", lambda row: row.same_call, lambda row: row.is_call),
    "literals": Figure("literal copies", lambda row: row.right_literals, lambda row: row.literals),
    "tokens": Figure("answers' tokens", lambda row: row.right_tokens, lambda row: row.tokens),
}
"""By the name under which they are stored."""


def wilson(share: float, n: float) -> tuple[float, float]:
    """Wilson's score interval of 95 % for a share of ``n`` independent trials (Wilson 1927)."""
    shrink = 1 + Z_95**2 / n
    middle = (share + Z_95**2 / (2 * n)) / shrink
    half = Z_95 / shrink * math.sqrt(share * (1 - share) / n + Z_95**2 / (4 * n**2))
    return max(0.0, middle - half), min(1.0, middle + half)


def clustered_share(right: Sequence[int], of: Sequence[int]) -> Share:
    """Sum of ``right`` over sum of ``of``, one entry of each a conversation."""
    top, bottom = np.asarray(right, dtype=np.float64), np.asarray(of, dtype=np.float64)
    top, bottom = top[bottom > 0], bottom[bottom > 0]
    n, clusters = int(bottom.sum()), len(bottom)
    if not n:
        return Share(None, None, None, 0, 0)
    share = float(top.sum() / n)
    error = float(standard_errors(top[:, None], bottom[:, None])[0])
    effective = min(float(n), share * (1 - share) / error**2) if error > 0 else float(clusters)
    return Share(share, *wilson(share, effective), n, clusters)


def shares(rows: Iterable[AnswerRow]) -> dict[str, dict[str, Share]]:
    """Every figure by kind and over all: kind to name of the figure to share. Kinds that have no row are left out."""
    rows = list(rows)
    present = {row.kind for row in rows}
    scopes = {ALL: rows} | {kind: [row for row in rows if row.kind == kind] for kind in KINDS if kind in present}
    return {
        scope: {name: _share_of(chosen, figure) for name, figure in FIGURES.items()} for scope, chosen in scopes.items()
    }


def _share_of(rows: list[AnswerRow], figure: Figure) -> Share:
    sums: dict[int, list[int]] = {}
    for row in rows:
        both = sums.setdefault(row.conversation, [0, 0])
        both[0] += int(figure.right(row))
        both[1] += int(figure.of(row))
    return clustered_share([right for right, _ in sums.values()], [of for _, of in sums.values()])
