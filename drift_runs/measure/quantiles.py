"""Quantiles with their guards, and the share of the tail. METRICS, Summaries."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

QUANTILE_RULE = "linear"
"""Order statistics with linear interpolation (numpy's default); stored, as published receipts also use ``lower``."""

LOWER_RULE = "lower"
"""The order statistic at or below the quantile's place."""

QUANTILES: dict[str, float] = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p99.9": 0.999}
"""Names of quantiles by the stored rule; a name with ``_lower`` after it goes by the other one."""

_LOWER_SUFFIX = "_lower"

FIRM = "firm"
INDICATIVE = "indicative"
WITHHELD = "withheld"

FIRM_FROM = 100
INDICATIVE_FROM = 10
TAIL_LEAST_POSITIONS = 200
TAIL_DIVISOR = 20


class QuantileName(NamedTuple):
    """What the name of a quantile statistic says."""

    level: float
    rule: str
    """``linear`` or ``lower``, as numpy calls them."""


def quantile_name(statistic: str) -> QuantileName | None:
    """Level and rule of ``p95`` or ``p95_lower``; None for a statistic that is no quantile."""
    base = statistic.removesuffix(_LOWER_SUFFIX)
    if base not in QUANTILES:
        return None
    return QuantileName(QUANTILES[base], QUANTILE_RULE if base == statistic else LOWER_RULE)


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
    """The named quantiles of float64[n]; values that are not finite are left out and counted.

    A name may end in ``_lower``. ``ValueError`` for one that is no quantile's.
    """
    finite = values[np.isfinite(values)]
    n = len(finite)
    named = [quantile_name(name) for name in names]
    if None in named:
        raise ValueError(f"{names[named.index(None)]!r} is no quantile: expected one of {', '.join(QUANTILES)}")
    levels = [name.level for name in named if name is not None]
    points = np.full(len(levels), np.nan)
    for rule in dict.fromkeys(name.rule for name in named if name is not None) if n else ():
        at = [place for place, name in enumerate(named) if name is not None and name.rule == rule]
        points[at] = np.quantile(finite, [levels[place] for place in at], method=rule)
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


def lower_quantiles(values: NDArray[np.float64], linear: tuple[Quantile, ...]) -> tuple[Quantile, ...]:
    """The quantiles by the lower rule that are shown and differ from the linear ones of the same values.

    Between two order statistics the linear rule gives a value that no position has; published receipts differ by it.
    """
    shown = [item for item in linear if item.state != WITHHELD]
    if not shown:
        return ()
    lower = quantiles(values, tuple(f"{item.name}{_LOWER_SUFFIX}" for item in shown))
    return tuple(found for found, item in zip(lower, shown, strict=True) if found.value != item.value)


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
