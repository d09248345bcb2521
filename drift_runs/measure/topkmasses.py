"""Where the mass outside K entries comes from, for two sides that hold K entries a row.

A side that measured its tail (``tail_logprob``) is believed. Otherwise a tail is 1 less the sum of the entries: the
reference's counts as 0 where rounding or a server's offset makes it less, the candidate's is at least 1e-12. A row is
flagged ``TAIL_FLOORED`` where the candidate's mass outside the reference's entries or outside the shared tokens needed
that.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from drift_runs.measure.topkmath import Floats, add_logs, log_sum
from drift_runs.measure.toplists import TopLists

LEAST_TAIL = 1e-12


class OutsideMasses(NamedTuple):
    """Logs of what is outside the entries, float64[n] each; see ``topk_figures``."""

    reference_tail: Floats
    candidate_tail: Floats
    reference_outside: Floats
    candidate_outside: Floats
    own_tail: Floats
    """Of the candidate outside its own entries."""
    floored: NDArray[np.bool_]


def outside_masses(
    reference: TopLists, candidate: TopLists, shared: NDArray[np.bool_], place: NDArray[np.int64], q: Floats
) -> OutsideMasses:
    """What lies outside the entries of either side, and outside the shared tokens.

    ``shared`` and ``place``: bool[n, K] and int64[n, K], where the reference's entries stand among the candidate's.
    ``q``: float64[n, K], the candidate's log-probabilities of them; NaN where it does not say.

    With T what the candidate has outside its own entries, its mass outside S is T and its entries that are not shared;
    its mass outside the reference's entries is that less its probabilities of those that it does not list.
    """
    present, own_present = reference.present, candidate.present
    own_shared = np.zeros(candidate.ids.shape, dtype=bool)
    row, column = np.nonzero(shared)
    own_shared[row, place[row, column]] = True
    known, own_known = ~np.isnan(reference.tail_logprob), ~np.isnan(candidate.tail_logprob)
    measured = add_logs(candidate.tail_logprob, log_sum(candidate.logprobs, own_present & ~own_shared))
    outside = np.where(own_known, np.exp(measured), 1.0 - _sum(candidate.logprobs, own_shared))
    unlisted = _sum(q, present & ~shared)  # NaN where the candidate does not say
    tail = outside - unlisted
    exact_tail = own_known & (unlisted == 0)
    with np.errstate(divide="ignore"):
        return OutsideMasses(
            reference_tail=_tail_or(reference.tail_logprob, 1.0 - _sum(reference.logprobs, present)),
            candidate_tail=np.where(exact_tail, measured, np.log(np.maximum(tail, LEAST_TAIL))),
            reference_outside=np.where(
                known,
                add_logs(reference.tail_logprob, log_sum(reference.logprobs, present & ~shared)),
                np.log(np.maximum(1.0 - _sum(reference.logprobs, shared), 0.0)),
            ),
            candidate_outside=np.where(own_known, measured, np.log(np.maximum(outside, LEAST_TAIL))),
            own_tail=_tail_or(candidate.tail_logprob, 1.0 - _sum(candidate.logprobs, own_present)),
            floored=(~exact_tail & (tail < LEAST_TAIL)) | (~own_known & (outside < LEAST_TAIL)),
        )


def _tail_or(tail_logprob: Floats, mass: Floats) -> Floats:
    """The measured tail, or the logarithm of ``mass`` where none was; nothing for a mass below 0."""
    return np.where(np.isnan(tail_logprob), np.log(np.maximum(mass, 0.0)), tail_logprob)


def _sum(logprobs: Floats, kept: NDArray[np.bool_]) -> Floats:
    """Probability of the kept entries: float64[n]."""
    return np.where(kept, np.exp(logprobs), 0.0).sum(axis=1)
