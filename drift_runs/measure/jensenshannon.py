"""Jensen-Shannon divergence of full rows, spec ``js.full``: nats, between 0 and ln 2, finite whatever is 0.

    JS = 1/2 sum of P ln(P / M) + 1/2 sum of Q ln(Q / M), with M = (P + Q) / 2

(Lin, 1991, with equal weights), which is the sum of M ln(Q / M) plus half of KL(P, Q). That one is known already, so
one logarithm an entry is left, of a ratio near 1 where the rows are alike: equal rows give exactly 0.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from drift_runs.measure.rowmath import SideBlock

LN2 = math.log(2)

_DEPTH = -640.0
"""Rows whose logits spread further have weights that lost digits or are 0."""
_LEAST_WEIGHT = 1e-270
"""An entry below this adds nothing to a float64, and its ratio to another may have lost its digits."""


class JensenShannon:
    """The arithmetic with two rows of working memory, which all blocks of a window reuse."""

    def __init__(self, columns: int) -> None:
        self._middle = np.empty(columns)
        self._ratio = np.empty(columns)

    def of(
        self, reference: SideBlock, candidate: SideBlock, kl_nats: NDArray[np.float64], valid: NDArray[np.bool_]
    ) -> NDArray[np.float64]:
        """float64[b]; NaN where ``valid`` is not. Rounding never takes a value out of [0, ln 2].

        ``kl_nats``: float64[b], KL(P, Q), read where every logit is finite.
        """
        result = np.full(len(valid), np.nan)
        # NaN and -inf, of rows that are not finite, are not above anything.
        shallow = valid & (reference.depth > _DEPTH) & (candidate.depth > _DEPTH)
        scale = candidate.total / reference.total
        for row in np.flatnonzero(shallow):
            middle = self._middle_term(reference.weights[row], candidate.weights[row], scale[row])
            result[row] = middle / candidate.total[row] + 0.5 * kl_nats[row]
        for row in np.flatnonzero(valid & ~shallow):
            result[row] = _with_zeros(reference, candidate, row)
        return np.clip(result, 0.0, LN2)

    def _middle_term(self, p: NDArray[np.float64], q: NDArray[np.float64], scale: np.float64) -> np.float64:
        """Sum of M ln(Q / M) in units of ``q``; ``scale``: the candidate's total over the reference's."""
        np.multiply(q, 0.5, out=self._ratio)
        np.multiply(p, 0.5 * scale, out=self._middle)
        self._middle += self._ratio
        np.divide(q, self._middle, out=self._ratio)
        np.log(self._ratio, out=self._ratio)
        return np.einsum("i,i->", self._middle, self._ratio)


def _with_zeros(reference: SideBlock, candidate: SideBlock, row: int) -> float:
    """One row with zeros or weights next to 0: an entry that one side alone has counts half its mass times ln 2."""
    p = reference.weights[row] / reference.total[row]
    q = candidate.weights[row] / candidate.total[row]
    in_p, in_q = p > _LEAST_WEIGHT, q > _LEAST_WEIGHT
    both = in_p & in_q
    alone = p[in_p & ~both].sum() + q[in_q & ~both].sum()
    p, q = p[both], q[both]
    middle = 0.5 * p + 0.5 * q
    log_ratio = reference.shifted[row][both] - candidate.shifted[row][both]
    log_ratio += candidate.log_total[row] - reference.log_total[row]
    inside = np.einsum("i,i->", middle, np.log(q / middle)) + 0.5 * np.einsum("i,i->", p, log_ratio)
    return float(inside + 0.5 * LN2 * alone)
