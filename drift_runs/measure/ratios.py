"""Every figure that is a ratio of sums over positions, or a sum: which ones a comparison has, and their terms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from drift_runs.measure.flips import BANDS, band_index
from drift_runs.measure.headline import TAIL, headline_of, others_of, unsaid_reason
from drift_runs.measure.marks import confident_mask, known_mask, volatile_mask
from drift_runs.measure.positions import Positions
from drift_runs.protocol.model import Protocol
from drift_runs.schema import RowFlag

Floats = NDArray[np.float64]
Terms = Callable[[Positions, Protocol], Floats]

CORE = 10
"""The first columns of every comparison: the headline's mean, flips, likelihood and entropy over the dictionary."""

HEADLINE = 0

UNLISTED = (
    "left out are positions where a side's list does not hold the text's own token: the unlikely ones, so this is not "
    "the mean over all"
)
"""Of figures that need the log-probability of the text's own token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RatioColumn:
    """One numerator and its positions."""

    spec: str
    statistic: str
    """Of the ratio; empty where only the sum is a figure."""
    terms: Terms
    """float64[n] of the positions, NaN where the term is missing: left out and counted."""
    among: Callable[[Positions, Protocol], NDArray[np.bool_]] | None = None
    """The positions that the ratio is taken over; None for all."""
    count: str = ""
    """Statistic of the sum; empty where the sum is no figure."""
    empty: str = ""
    """Why there is no value when no position is left although some are known."""
    absence: str = ""
    """Why there is no value when no position was measured at all."""
    partial: str = ""
    """What a reader must know of a value over some positions: why the others are left out."""


def columns_of(positions: Positions, protocol: Protocol) -> tuple[RatioColumn, ...]:
    """The columns of a comparison, the :data:`CORE` ones first.

    Of the others, and of the core of imported rows, only those are given that some position has: rows without a
    column say nothing of it.
    """
    extra = [column for column in _extra(positions, protocol) if column.absence or _known(column, positions, protocol)]
    return (*_core(positions, protocol), *extra)


def emitted(columns: tuple[RatioColumn, ...], positions: Positions, protocol: Protocol) -> tuple[bool, ...]:
    """Which columns give figures: all but those of the core that imported rows never had."""
    made_here = protocol.capture.full_vocabulary == "yes"
    return tuple(
        at == HEADLINE or at >= CORE or made_here or _known(column, positions, protocol)
        for at, column in enumerate(columns)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratios:
    """Terms of columns at n positions, one contiguous row a figure."""

    values: Floats
    """float64[figures, n], 0 where a position is left out."""
    weights: NDArray[np.bool_]
    """bool[figures, n]: used."""
    missing: NDArray[np.bool_]
    """bool[figures, n]: null or not finite, so counted as excluded."""

    @classmethod
    def of(cls, positions: Positions, protocol: Protocol, columns: tuple[RatioColumn, ...]) -> Ratios:
        values = np.zeros((len(columns), len(positions)))
        weights = np.zeros(values.shape, dtype=bool)
        missing = np.zeros(values.shape, dtype=bool)
        for at, column in enumerate(columns):
            terms = column.terms(positions, protocol)
            missing[at] = ~np.isfinite(terms)
            weights[at] = ~missing[at]
            if column.among is not None:
                weights[at] &= column.among(positions, protocol)
            values[at] = np.where(weights[at], terms, 0.0)
        return cls(values=values, weights=weights, missing=missing)


def _known(column: RatioColumn, positions: Positions, protocol: Protocol) -> bool:
    return bool(np.isfinite(column.terms(positions, protocol)).any())


def _of(name: str) -> Terms:
    return lambda positions, protocol: getattr(positions, name)


def _difference(candidate: str, reference: str) -> Terms:
    return lambda positions, protocol: getattr(positions, candidate) - getattr(positions, reference)


def _where_finite(name: str, test: Callable[[Floats], NDArray[np.bool_]]) -> Terms:
    """1 where a field passes the test, 0 where it does not, NaN where it is missing."""

    def terms(positions: Positions, protocol: Protocol) -> Floats:
        values = getattr(positions, name)
        return np.where(np.isfinite(values), test(values).astype(np.float64), np.nan)

    return terms


def _flag(bit: int, fields: tuple[str, ...]) -> Terms:
    """1 where a flag is set, 0 where it could have been because one of ``fields`` is known, NaN elsewhere."""

    def terms(positions: Positions, protocol: Protocol) -> Floats:
        marked = (positions.flags & bit) > 0
        known = np.any([np.isfinite(getattr(positions, name)) for name in fields], axis=0)
        return np.where(marked | known, marked.astype(np.float64), np.nan)

    return terms


def _strong(positions: Positions, protocol: Protocol) -> NDArray[np.bool_]:
    return band_index(positions.reference_p1, protocol.bands) == BANDS.index("strong")


def _volatile(positions: Positions, protocol: Protocol) -> Floats:
    marked = volatile_mask(positions, protocol.marks).astype(np.float64)
    return np.where(known_mask(positions), marked, np.nan)


def _volatile_confident(positions: Positions, protocol: Protocol) -> Floats:
    marked = volatile_mask(positions, protocol.marks) & confident_mask(positions, protocol.marks)
    return np.where(known_mask(positions), marked.astype(np.float64), np.nan)


def _core(positions: Positions, protocol: Protocol) -> tuple[RatioColumn, ...]:
    headline = headline_of(positions, protocol)
    return (
        RatioColumn(spec=headline.spec, statistic="mean", terms=_of(headline.column), absence=headline.absence),
        RatioColumn(spec="flip", statistic="rate", terms=_of("flip"), count="count"),
        RatioColumn(spec="flip.strict", statistic="rate", terms=_of("flip_strict"), count="count"),
        RatioColumn(
            spec="strong_overturn",
            statistic="rate",
            terms=_of("flip"),
            among=_strong,
            count="count",
            empty="no strong positions",
        ),
        RatioColumn(spec="dnll", statistic="mean", terms=_of("dnll_nats"), partial=UNLISTED),
        RatioColumn(spec="nll.reference", statistic="mean", terms=_of("reference_nll_nats"), partial=UNLISTED),
        RatioColumn(spec="nll.candidate", statistic="mean", terms=_of("candidate_nll_nats"), partial=UNLISTED),
        RatioColumn(spec="dp", statistic="mean", terms=_of("dp"), partial=UNLISTED),
        RatioColumn(spec="entropy.full.reference", statistic="mean", terms=_of("reference_entropy_nats")),
        RatioColumn(spec="entropy.full.candidate", statistic="mean", terms=_of("candidate_entropy_nats")),
    )


def _extra(positions: Positions, protocol: Protocol) -> list[RatioColumn]:
    headline = headline_of(positions, protocol)
    columns = [
        RatioColumn(spec=item.spec(positions.top_k), statistic="mean", terms=_of(item.column))
        for item in others_of(positions, protocol)
    ]
    if positions.unsaid_tails and protocol.capture.divergence != TAIL.base:
        columns.append(
            RatioColumn(
                spec=TAIL.spec(positions.top_k),
                statistic="mean",
                terms=_of(TAIL.column),
                absence=unsaid_reason(positions.unsaid_tails, len(positions)),
            )
        )
    columns += [
        RatioColumn(
            spec=headline.spec,
            statistic="",
            terms=_where_finite(headline.column, lambda values: values == 0),
            count="exactly_zero",
        ),
        RatioColumn(spec="flip.text", statistic="rate", terms=_of("flip_text")),
        RatioColumn(spec="swap", statistic="rate", terms=_of("swap"), count="count"),
        RatioColumn(spec="volatile", statistic="rate", terms=_volatile, count="count", partial=UNLISTED),
        RatioColumn(spec="volatile.confident", statistic="", terms=_volatile_confident, count="count"),
        RatioColumn(
            spec="dentropy.full",
            statistic="mean",
            terms=_difference("candidate_entropy_nats", "reference_entropy_nats"),
        ),
        *(
            RatioColumn(
                spec=f"rank.{side}",
                statistic="first_share",
                terms=_where_finite(f"{side}_rank", lambda values: values == 1),
            )
            for side in ("reference", "candidate")
        ),
    ]
    if positions.top_k is not None:
        columns += _of_top_k(positions, positions.top_k)
    return columns


def _of_top_k(positions: Positions, top_k: int) -> list[RatioColumn]:
    """What the K best entries of both sides give."""
    columns = []
    over_dictionary = np.isfinite(positions.reference_entropy_nats) | np.isfinite(positions.candidate_entropy_nats)
    if not over_dictionary.any():
        reference, candidate = "reference_entropy_topk_nats", "candidate_entropy_topk_nats"
        columns += [
            RatioColumn(spec=f"entropy.topk@{top_k}.reference", statistic="mean", terms=_of(reference)),
            RatioColumn(spec=f"entropy.topk@{top_k}.candidate", statistic="mean", terms=_of(candidate)),
            RatioColumn(spec=f"dentropy.topk@{top_k}", statistic="mean", terms=_difference(candidate, reference)),
        ]
    columns += [
        RatioColumn(spec=f"shared_support@{top_k}", statistic="mean", terms=_of("shared_support")),
        RatioColumn(
            spec=f"reference_mass_outside@{top_k}",
            statistic="mean",
            terms=_of("reference_mass_outside"),
        ),
        RatioColumn(
            spec=f"reference_mass_dropped@{top_k}",
            statistic="mean",
            terms=_of("reference_mass_dropped"),
        ),
        RatioColumn(
            spec=f"missed@{top_k}",
            statistic="share",
            terms=lambda positions, protocol: positions.missed / top_k,
        ),
    ]
    columns += [
        RatioColumn(
            spec=f"support_collapse@{top_k}",
            statistic="",
            terms=_flag(RowFlag.SUPPORT_COLLAPSE, ("kl_topk_shared_nats", "shared_support")),
            count="count",
        ),
        RatioColumn(
            spec=f"tail_floored@{top_k}",
            statistic="",
            terms=_flag(RowFlag.TAIL_FLOORED, ("kl_topk_tail_nats", "kl_topk_lower_nats")),
            count="count",
        ),
    ]
    return columns
