"""Softmax arithmetic of one side's rows, a block of rows at a time: what summaries and comparisons share.

Full rows are the hot path (two sides, about 50,000 columns, thousands of rows), so each side of a block is shifted and
exponentiated once in float64, and everything else is a reduction over those two arrays. Every reduction runs along one
row, so a result never depends on how many rows share its block. No BLAS is called: its sums depend on the thread count.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from drift_runs.errors import NotComparable, ProtocolError

BLOCK_ROWS = 8
"""Rows handled together: large enough to amortise calls, small enough that both sides stay in a CPU's cache."""

_STRIPES_PER_K = 4
_LEAST_STRIPES = 512
_TINY_TAIL = 1e-280
"""Below this a sum of exponentials has lost digits or is 0, and the tail is shifted again by its own maximum."""


class TopEntries(NamedTuple):
    """The K best entries of a block, by (-logprob, id)."""

    ids: NDArray[np.int32]
    """int32[b, K]; -1 where the row has none."""
    logprobs: NDArray[np.float32]
    """float32[b, K]; NaN where the row has none."""
    tail_logprob: NDArray[np.float64]
    """float64[b]: log mass outside the K entries; -inf when nothing is outside, NaN for an unusable row."""


class Scratch:
    """Two float64 arrays [rows, columns] that one side's blocks reuse."""

    def __init__(self, rows: int, columns: int) -> None:
        self.shifted = np.empty((rows, columns), dtype=np.float64)
        self.weights = np.empty((rows, columns), dtype=np.float64)


class SideBlock:
    """One side's block of rows after its softmax.

    ``logits``: float32[b, D], the dictionary's columns. ``shifted``: float64[b, D], logits minus the row's maximum,
    with 0 in place of minus infinity (its weight is 0, so products stay finite). ``weights``: exp(shifted).
    ``log_total``: float64[b], log of the weights' sum, so that log-softmax = shifted - log_total.

    ``best_entries``: the ``top_k`` best. ``tie_count``: int32[b], entries that share the best logit; 0 for an unusable
    row. ``second``: int32[b], the second-best id, the lowest winning a tie; -1 when nothing else has mass.
    ``second_shifted``: float64[b], its shifted logit.

    ``depth``: float64[b], the smallest logit less the largest; -inf or NaN in a row that is not ``finite``.

    ``usable``: bool[b], no NaN and no plus infinity, and at least one finite logit. Rows that are not usable hold zeros
    and whoever reads them puts NaN. ``finite``: bool[b], every logit finite, which a row hash needs.
    """

    def __init__(self, rows: NDArray[np.float32], dictionary_size: int, scratch: Scratch, *, top_k: int) -> None:
        count = len(rows)
        self.logits = rows[:, :dictionary_size]
        self.shifted = scratch.shifted[:count]
        self.weights = scratch.weights[:count]
        with np.errstate(invalid="ignore", over="ignore"):
            first = self.logits.argmax(axis=1)  # of a NaN where there is one
            best = self.logits[np.arange(count), first]
            least = self.logits.min(axis=1)
            self.depth = least.astype(np.float64) - best
        self.usable = np.isfinite(best)
        self.finite = self.usable & np.isfinite(least)
        self.best = np.where(self.usable, best, 0).astype(np.float64)
        self.top = first.astype(np.int32)
        self.each = np.arange(count)

        self.shifted[:] = self.logits
        self.shifted[~self.usable] = 0
        self.shifted -= self.best[:, None]
        np.exp(self.shifted, out=self.weights)
        for row in np.flatnonzero(self.usable & ~self.finite):
            self.shifted[row][np.isneginf(self.logits[row])] = 0
        self.total = self.weights.sum(axis=1)
        self.log_total = np.log(self.total)
        self.own_product = np.einsum("ij,ij->i", self.weights, self.shifted)
        self.entropy_nats = np.where(self.usable, self.log_total - self.own_product / self.total, np.nan)
        self.p1 = np.where(self.usable, 1.0 / self.total, np.nan)
        self.top[~self.usable] = -1
        self.tie_count = np.zeros(count, dtype=np.int32)
        self.second = np.full(count, -1, dtype=np.int32)
        self.second_shifted = np.full(count, -np.inf)
        self.best_entries = self._best_entries(top_k)
        self.padding_mass = self._padding(rows[:, dictionary_size:])

    def _padding(self, padding: NDArray[np.float32]) -> NDArray[np.float64]:
        """Probability of the columns beyond the dictionary, in the softmax over all columns: float64[b]."""
        if padding.shape[1] == 0:
            return np.where(self.usable, 0.0, np.nan)
        with np.errstate(invalid="ignore", over="ignore"):
            excess = padding.astype(np.float64) - self.best[:, None]
            # The padding's own maximum may lie above the dictionary's, so both sums are shifted by the larger.
            shift = np.maximum(excess.max(axis=1), 0.0)
            outside = np.exp(excess - shift[:, None]).sum(axis=1)
            inside = self.total * np.exp(-shift)
            mass = outside / (outside + inside)
        return np.where(self.usable, mass, np.nan)

    def logprob_of(self, tokens: NDArray[np.int32]) -> NDArray[np.float64]:
        """Log-probability of one token a row: float64[b]; -inf when its logit is, NaN for an unusable row."""
        value = self.logits[self.each, tokens].astype(np.float64) - self.best - self.log_total
        return np.where(self.usable, value, np.nan)

    def logprobs_of(self, ids: NDArray[np.int32]) -> NDArray[np.float64]:
        """:meth:`logprob_of` of several tokens a row, int32[b, K]: float64[b, K]."""
        value = self.logits[self.each[:, None], ids] - self.best[:, None] - self.log_total[:, None]
        return np.where(self.usable[:, None], value, np.nan)

    def rank_of(self, tokens: NDArray[np.int32]) -> NDArray[np.int32]:
        """1 plus the number of strictly better tokens: int32[b]; 0 for an unusable row."""
        better = self.logits > self.logits[self.each, tokens][:, None]
        rank = np.array([1 + np.count_nonzero(row) for row in better], dtype=np.int32)
        rank[~self.usable] = 0
        return rank

    def _best_entries(self, top_k: int) -> TopEntries:
        """The ``top_k`` best entries (all of them when the dictionary is smaller) and the mass outside them.

        Ties for the best place and the second place are read off the same few candidates.
        """
        count, columns = self.logits.shape
        width = min(top_k, columns)
        ids = np.full((count, width), -1, dtype=np.int32)
        logprobs = np.full((count, width), np.nan, dtype=np.float32)
        tail = np.full(count, np.nan)
        good = np.flatnonzero(self.usable)
        if len(good) == 0:
            return TopEntries(ids, logprobs, tail)
        logits = self.logits if len(good) == count else self.logits[good]
        offset = (self.best + self.log_total)[good]
        # Candidates are all entries that could round to the float32 log-probability of a lower bound of the K-th:
        # with every tie inside, the choice between ties is by id and not by the order of a selection algorithm.
        bound = _lower_bound(logits, min(max(width, 2), columns)).astype(np.float64) - offset
        with np.errstate(invalid="ignore", over="ignore"):
            rounded = bound.astype(np.float32)
            slack = 2.0 * np.spacing(np.abs(rounded)).astype(np.float64)
            least = np.nextafter((rounded - slack + offset).astype(np.float32), np.float32(-np.inf))
        least = np.where(np.isnan(least), np.float32(-np.inf), least)
        flat = np.flatnonzero(logits >= least[:, None])
        row, column = np.divmod(flat, columns)
        raw = logits[row, column]
        value = (raw.astype(np.float64) - offset[row]).astype(np.float32)
        order = np.lexsort((-value, row))
        starts = np.searchsorted(row, np.arange(len(good)))
        self._first_two(good, row, column, raw, starts)
        chosen = order[starts[:, None] + np.arange(width)]
        ids[good] = column[chosen]
        logprobs[good] = value[chosen]
        tail[good] = self.log_mass_outside(good, column[chosen])
        return TopEntries(ids, logprobs, tail)

    def _first_two(
        self,
        good: NDArray[np.intp],
        row: NDArray[np.intp],
        column: NDArray[np.intp],
        raw: NDArray[np.float32],
        starts: NDArray[np.intp],
    ) -> None:
        """Fill ``tie_count``, ``second`` and ``second_shifted`` from candidates sorted by row and id."""
        best = self.best[good]
        self.tie_count[good] = np.bincount(row[raw == best[row]], minlength=len(good))
        others = np.where(column == self.top[good][row], np.float32(-np.inf), raw)
        second = np.maximum.reduceat(others, starts)
        at_second = np.flatnonzero(others == second[row])
        ids = column[at_second[np.searchsorted(at_second, starts)]]
        self.second[good] = np.where(np.isfinite(second), ids, -1)
        self.second_shifted[good] = second - best

    def log_mass_outside(self, good: NDArray[np.intp], ids: NDArray[np.integer]) -> NDArray[np.float64]:
        """Log of the mass outside ``ids``, summed from what is there and never as 1 less the rest: float64[m].

        ``good``: m usable rows of the block, ``ids``: int[m, K] of them. -inf when nothing is outside.
        """
        rows = good[:, None]
        kept = self.weights[rows, ids]
        self.weights[rows, ids] = 0
        rest = self.weights.sum(axis=1)[good]
        self.weights[rows, ids] = kept
        with np.errstate(divide="ignore"):
            tail = np.log(rest) - self.log_total[good]
        for at in np.flatnonzero(rest < _TINY_TAIL):
            outside = self.logits[good[at]].astype(np.float64)
            outside[ids[at]] = -np.inf
            top = outside.max()
            if np.isfinite(top):
                log_rest = top + np.log(np.exp(outside - top).sum())
                tail[at] = log_rest - self.best[good[at]] - self.log_total[good[at]]
        return tail


def _lower_bound(logits: NDArray[np.float32], top_k: int) -> NDArray[np.float32]:
    """A value that at least ``top_k`` entries of each row reach: float32[rows].

    The K-th best of the maxima of disjoint stripes is such a value. One pass over the row replaces a full selection,
    which costs ten times as much.
    """
    columns = logits.shape[1]
    per_stripe = columns // max(_LEAST_STRIPES, _STRIPES_PER_K * top_k)
    maxima = logits
    if per_stripe >= 2:
        stripes = columns // per_stripe
        maxima = logits[:, : per_stripe * stripes].reshape(len(logits), per_stripe, stripes).max(axis=1)
    at = maxima.shape[1] - top_k
    return np.partition(maxima, at, axis=1)[:, at]


def check_rows(
    logits: NDArray[np.float32], tokens: NDArray[np.int32], dictionary_size: int, *, side: str
) -> NDArray[np.float32]:
    """``logits`` as float32[n, V_all]; refuses rows narrower than the dictionary and tokens outside it."""
    logits = np.asarray(logits)
    if logits.ndim != 2 or len(logits) != len(tokens):
        raise NotComparable(
            f"rows of shape {logits.shape} for {len(tokens)} tokens",
            where=f"{side} rows",
            expected="one row of logits a scored position",
        )
    if logits.dtype != np.float32:
        raise NotComparable(f"logits are {logits.dtype}", where=f"{side} rows", expected="float32")
    if len(logits) and logits.shape[1] < dictionary_size:
        raise NotComparable(
            f"{logits.shape[1]} columns for a dictionary of {dictionary_size}",
            where=f"{side} rows",
            expected="at least one column a dictionary entry",
            todo="use a model with the protocol's tokenizer",
        )
    if len(tokens) and (int(np.min(tokens)) < 0 or int(np.max(tokens)) >= dictionary_size):
        raise ProtocolError(
            f"token id outside 0 to {dictionary_size - 1}",
            where=f"{side} rows",
            expected="ids of the protocol's dictionary",
            todo="run drift check on the protocol",
        )
    return logits
