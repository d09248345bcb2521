"""Quantiles with their guards, and the share of the tail. METRICS, Summaries."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

QUANTILE_RULE = "linear"
"""Order statistics with linear interpolation (numpy's default); stored, as published receipts also use ``lower``."""

QUANTILES: dict[str, float] = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p99.9": 0.999}

FIRM = "firm"
INDICATIVE = "indicative"
WITHHELD = "withheld"

FIRM_FROM = 100
INDICATIVE_FROM = 10
TAIL_LEAST_POSITIONS = 200
TAIL_DIVISOR = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantile:
    """One quantile of one set of positions."""

    name: str
    value: float | None
    """None when withheld."""
    n: int
    excluded: int
    """Missing or non-finite values, left out."""
    beyond: int
    """Order statistics above the quantile's place: what the guard counts."""
    state: str
    reason: str
    """Why it is withheld; empty otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TailShare:
    """Share of the total that the highest n // 20 positions hold."""

    value: float | None
    n: int
    excluded: int
    reason: str


def values_beyond(n: int, q: float) -> int:
    """Order statistics strictly above the place of quantile ``q`` among ``n`` values.

    Counted by rank: with ties (all values 0, say) a count of larger values would withhold a quantile that is certain.
    """
    # The product of a decimal level can fall just short of a whole number.
    return n - 1 - math.floor(q * (n - 1) + 1e-9) if n else 0


def guard_state(n: int, q: float) -> tuple[str, str]:
    """State and reason of quantile ``q`` of ``n`` values. The median is exempt."""
    if n == 0:
        return WITHHELD, "no positions"
    if q == 0.5:
        return FIRM, ""
    beyond = values_beyond(n, q)
    if beyond >= FIRM_FROM:
        return FIRM, ""
    if beyond >= INDICATIVE_FROM:
        return INDICATIVE, ""
    noun = "value lies" if beyond == 1 else "values lie"
    return WITHHELD, f"{beyond} {noun} beyond it, {INDICATIVE_FROM} needed"


def quantiles(values: NDArray[np.float64], names: tuple[str, ...] = tuple(QUANTILES)) -> tuple[Quantile, ...]:
    """The named quantiles of float64[n]; values that are not finite are left out and counted."""
    finite = values[np.isfinite(values)]
    n = len(finite)
    levels = [QUANTILES[name] for name in names]
    points = np.quantile(finite, levels) if n else np.full(len(levels), np.nan)
    found = []
    for name, level, point in zip(names, levels, points, strict=True):
        state, reason = guard_state(n, level)
        found.append(
            Quantile(
                name=name,
                value=None if state == WITHHELD else float(point),
                n=n,
                excluded=len(values) - n,
                beyond=values_beyond(n, level),
                state=state,
                reason=reason,
            )
        )
    return tuple(found)


def tail_share(values: NDArray[np.float64]) -> TailShare:
    """Sum of the highest n // 20 of float64[n] over the total; None for a total that is not positive or n under 200."""
    finite = values[np.isfinite(values)]
    n = len(finite)
    excluded = len(values) - n
    if n < TAIL_LEAST_POSITIONS:
        return TailShare(value=None, n=n, excluded=excluded, reason=f"{n} positions, {TAIL_LEAST_POSITIONS} needed")
    total = float(finite.sum())
    if not total > 0:
        return TailShare(value=None, n=n, excluded=excluded, reason="the total is not positive")
    tail = np.sort(finite)[n - n // TAIL_DIVISOR :]
    return TailShare(value=float(tail.sum()) / total, n=n, excluded=excluded, reason="")
