"""Arithmetic of the K best entries: specs ``kl.topk-tail``, ``-shared``, ``-lower``, ``-floor`` and ``entropy.topk``.

Full rows and rows that hold K entries alone meet here, so one definition serves both. A mass is always a natural
logarithm, -inf for nothing: what lies outside K entries may be far too small for a float64 that starts at 1. NaN stands
for *not known* and makes every figure NaN that needs it.

With p and q the probabilities of the reference's K best tokens, S those of them that are also among the candidate's K
best, and *rest* one bucket for every other token of the dictionary:

``kl.topk-tail``    sum over the K of p ln(p / q), plus the same term of the rest; nothing renormalised.
``kl.topk-lower``   sum over S of p ln(p / q), plus the same term of all that is outside S; nothing renormalised.
``kl.topk-shared``  p and q each divided by their sum over S, plain KL over S; NaN for fewer than two tokens.
``kl.topk-floor``   a token of the K outside S takes the candidate's smallest probability among its own K best, whatever
                    else is known of it; then p and q are each divided by their sum over the K, plain KL over the K.

p = 0 contributes 0; p > 0 with q = 0 gives infinity, which is returned as NaN.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_WIDTH_TO_SORT = 128
"""Lists up to this long are searched entry by entry: sorting them first would take longer."""


class TopkFigures(NamedTuple):
    """n positions. Every float is NaN where it is not known, not finite or the support collapsed."""

    tail_nats: Floats
    shared_nats: Floats
    lower_nats: Floats
    floor_nats: Floats
    shared_support: NDArray[np.int32]
    """Size of S."""
    reference_mass_outside: Floats
    """P outside S, as a probability: the rest of the dictionary included."""
    reference_mass_dropped: Floats
    """P of those of the K that are not in S, which published receipts call dropped."""
    missed: NDArray[np.int32]
    """Of the reference's entries, those that are not in S."""
    collapsed: NDArray[np.bool_]
    """``kl.topk-shared`` has no value: fewer than two shared tokens, or no mass on them on one side."""


def places(ids: NDArray[np.int32], among: NDArray[np.int32]) -> NDArray[np.int64]:
    """Where each id of int32[n, K] stands in the same row of int32[n, M]: int64[n, K]; -1 where it is not.

    An id of -1 is no entry. Ids are distinct within a row.
    """
    count, width = among.shape
    place = np.full(ids.shape, -1, dtype=np.int64)
    if width == 0 or count == 0:
        return place
    if width <= _WIDTH_TO_SORT:
        for column in range(width):
            np.copyto(place, column, where=ids == among[:, column : column + 1])
        return np.where(ids >= 0, place, -1)
    row = np.arange(count, dtype=np.int64)[:, None] << 32
    known = (row + among).ravel()
    order = np.argsort(known, kind="stable")
    known = known[order]
    wanted = row + ids
    at = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    # Row r's missing id is r * 2^32 - 1, an id that no row before it can have.
    found = (known[at] == wanted) & (ids >= 0)
    return np.where(found, order[at] % width, -1)


def log_sum(values: Floats, kept: NDArray[np.bool_]) -> Floats:
    """Logarithm of the summed exponentials of the kept entries of float64[n, K]: float64[n]; -inf for none."""
    inside = np.where(kept, values, -np.inf)
    if inside.shape[1] == 0:
        return np.full(len(inside), -np.inf)
    top = inside.max(axis=1)
    shift = np.where(np.isneginf(top), 0.0, top)
    with np.errstate(divide="ignore", invalid="ignore"):
        return shift + np.log(np.exp(inside - shift[:, None]).sum(axis=1))


def add_logs(left: Floats, right: Floats) -> Floats:
    """Logarithm of the sum of two masses, float64[n]; NaN where one is."""
    with np.errstate(invalid="ignore"):
        return np.logaddexp(left, right)


def terms(reference: Floats, candidate: Floats) -> Floats:
    """p (ln p - ln q) of log-probabilities of any shape: 0 where p is 0, infinite where q alone is."""
    with np.errstate(invalid="ignore"):
        values = np.exp(reference) * (reference - candidate)
    return np.where(np.isneginf(reference), 0.0, values)


def topk_figures(
    *,
    reference: Floats,
    candidate: Floats,
    present: NDArray[np.bool_],
    shared: NDArray[np.bool_],
    reference_tail: Floats,
    candidate_tail: Floats,
    reference_outside: Floats,
    candidate_outside: Floats,
    least: Floats,
) -> TopkFigures:
    """The figures of n positions.

    Parameters
    ----------
    reference, candidate
        float64[n, K]: log-probabilities of the *reference's* best tokens on either side. The candidate's may be NaN
        outside S.
    present, shared
        bool[n, K]: which of the K the reference has, and which are in S.
    reference_tail, candidate_tail
        float64[n]: log mass outside the reference's entries.
    reference_outside, candidate_outside
        float64[n]: log mass outside S.
    least
        float64[n]: the candidate's smallest log-probability among its own K best.
    """
    support = np.count_nonzero(shared, axis=1).astype(np.int32)
    with np.errstate(invalid="ignore"):
        values = terms(reference, candidate)
        tail = np.where(present, values, 0.0).sum(axis=1) + terms(reference_tail, candidate_tail)
        lower = np.where(shared, values, 0.0).sum(axis=1) + terms(reference_outside, candidate_outside)
    inside_shared = _renormalised(reference, candidate, shared)
    floored = np.where(shared, candidate, least[:, None])
    floor = _renormalised(reference, floored, present)
    collapsed = (support < 2) | np.isneginf(log_sum(reference, shared)) | np.isneginf(log_sum(candidate, shared))
    return TopkFigures(
        tail_nats=_finite(tail),
        shared_nats=np.where(collapsed, np.nan, _finite(inside_shared)),
        lower_nats=_finite(lower),
        floor_nats=_finite(floor),
        shared_support=support,
        reference_mass_outside=np.exp(reference_outside),
        reference_mass_dropped=np.where(present & ~shared, np.exp(reference), 0.0).sum(axis=1),
        missed=np.count_nonzero(present, axis=1).astype(np.int32) - support,
        collapsed=collapsed,
    )


def topk_entropy(logprobs: Floats, present: NDArray[np.bool_], tail: Floats) -> Floats:
    """``entropy.topk``: -sum of p ln p over the entries and one bucket for the rest, nothing renormalised.

    ``logprobs``: float64[n, K], ``tail``: float64[n], log mass outside them. Nats, float64[n].
    """
    inside = np.where(present, logprobs, -np.inf)
    return 0.0 - terms(inside, np.zeros_like(inside)).sum(axis=1) - terms(tail, np.zeros_like(tail))


def _renormalised(reference: Floats, candidate: Floats, kept: NDArray[np.bool_]) -> Floats:
    """KL of both sides divided by their own sum over the kept entries: float64[n]; NaN where one of them has none."""
    with np.errstate(invalid="ignore"):
        p = np.where(kept, reference - log_sum(reference, kept)[:, None], -np.inf)
        q = candidate - log_sum(candidate, kept)[:, None]
        return terms(p, q).sum(axis=1)


def _finite(values: Floats) -> Floats:
    return np.where(np.isfinite(values), values, np.nan)
