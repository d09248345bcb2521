"""Picks figures out of the long table, and writes them as text rounded to what is known. No Streamlit here."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from drift_runs import schema
from drift_runs.measure.figures import Figure
from drift_runs.measure.quantiles import WITHHELD


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One figure as a table column: where it is in the long table, and how its header reads."""

    key: str
    """Name in the URL and in a CSV."""
    header: str
    spec: str
    """Spec id, always shown: a bare "KL" could mean any of five."""
    statistic: str
    unit: str
    """``nats``, ``share`` or ``count``."""

    @property
    def label(self) -> str:
        return f"{self.header} ({self.spec})"


FLIP = Column(key="flip", header="flip rate", spec="flip", statistic="rate", unit="share")
FLIP_STRICT = Column(key="flip_strict", header="strict flip rate", spec="flip.strict", statistic="rate", unit="share")
KL_MEAN = Column(key="kl_mean", header="KL mean, nats", spec="kl.full", statistic="mean", unit="nats")
KL_P95 = Column(key="kl_p95", header="KL p95, nats", spec="kl.full", statistic="p95", unit="nats")
WORST = Column(key="worst", header="worst range p95, nats", spec="kl.full", statistic="worst_range.p95", unit="nats")
STRONG = Column(key="strong", header="strong overturns", spec="strong_overturn", statistic="count", unit="count")
STRONG_RATE = Column(
    key="strong_rate", header="strong overturn rate", spec="strong_overturn", statistic="rate", unit="share"
)

OVERVIEW = (FLIP, KL_MEAN, KL_P95, WORST, STRONG)
RANGE_METRICS = {"kl.full.p95": KL_P95, "kl.full.mean": KL_MEAN, "flip.rate": FLIP}


def is_withheld(figure: Figure) -> bool:
    """True when there is a reason in place of a number."""
    return figure.value is None or figure.state == WITHHELD


class Book:
    """The figures of one campaign: every arm's table in one, read by scope and column."""

    def __init__(self, tables: Iterable[pa.Table]) -> None:
        tables = list(tables)
        self.table = pa.concat_tables(tables) if tables else schema.FIGURES.empty_table()
        self._by_arm: dict[tuple[Column, str, str], dict[str, Figure]] = {}

    def rows(self, **wanted: str | Sequence[str]) -> list[Figure]:
        """Figures whose columns have the wanted values; a sequence means any of them. Order is the table's."""
        mask: Any = None
        for column, value in wanted.items():
            values = [value] if isinstance(value, str) else list(value)
            hit = pc.is_in(self.table[column], value_set=pa.array(values, pa.string()))
            mask = hit if mask is None else pc.and_(mask, hit)
        table = self.table if mask is None else self.table.filter(mask)
        return [Figure(**row) for row in table.to_pylist()]

    def by_arm(self, column: Column, scope: str, outliers: str) -> dict[str, Figure]:
        """One figure an arm. ``scope`` is ``all`` or ``panel:NAME``; the first row wins where several floors stand."""
        key = (column, scope, outliers)
        if key not in self._by_arm:
            kind, name = split_scope(scope)
            found = self.rows(
                spec=column.spec, statistic=column.statistic, outliers=outliers, scope_kind=kind, scope=name
            )
            self._by_arm[key] = {figure.arm: figure for figure in reversed(found)}
        return self._by_arm[key]

    def by_scope(self, column: Column, kind: str, outliers: str) -> dict[tuple[str, str], Figure]:
        """Figures of every scope of a kind, by (arm, scope)."""
        found = self.rows(spec=column.spec, statistic=column.statistic, outliers=outliers, scope_kind=kind)
        return {(figure.arm, figure.scope): figure for figure in reversed(found)}

    def scopes(self, kind: str) -> list[str]:
        """Names of the scopes of a kind, in the order of first appearance."""
        return list(dict.fromkeys(figure.scope for figure in self.rows(scope_kind=kind)))


def split_scope(scope: str) -> tuple[str, str]:
    """``panel:P-A`` into (``panel``, ``P-A``); ``all`` into (``all``, ``all``)."""
    kind, _, name = scope.partition(":")
    return (kind, name) if name else ("all", "all")


def write_value(figure: Figure, unit: str) -> str:
    """The value as text; ``withheld`` when there is none."""
    if figure.value is None:
        return "withheld"
    return write_number(figure.value, unit, low=figure.low, high=figure.high)


def write_interval(figure: Figure, unit: str) -> str:
    """``[low, high]`` to the same number of places as the value; empty when there is no interval."""
    if figure.low is None or figure.high is None:
        return ""
    low = write_number(figure.low, unit, low=figure.low, high=figure.high, bare=True)
    high = write_number(figure.high, unit, low=figure.low, high=figure.high, bare=True)
    return f"[{low}, {high}]"


def write_number(
    value: float,
    unit: str,
    *,
    low: float | None = None,
    high: float | None = None,
    bare: bool = False,
    digits: int = 3,
) -> str:
    """A number as text. Two significant digits of the interval's half width decide the places; without one, ``digits``.

    Values in nats between -1e-5 and 0 come from rounding in 16-bit storage and read 0. ``bare`` leaves the unit out.
    """
    if unit == "count":
        return f"{value:,.0f}"
    scale, suffix = (100.0, "" if bare else " %") if unit == "share" else (1.0, "")
    if value == 0 or (unit == "nats" and -1e-5 < value < 0):
        return f"0{suffix}"
    value *= scale
    half = (high - low) * scale / 2 if low is not None and high is not None else 0.0
    leading = math.floor(math.log10(abs(value)))
    if leading < -4 and half < 1e-3:
        mantissa, _, exponent = f"{value:.1e}".partition("e")
        return f"{mantissa}e{int(exponent)}{suffix}"
    places = 1 - math.floor(math.log10(half)) if half > 0 else digits - 1 - leading
    # Never fewer than two digits of the value itself, never more than four.
    places = min(max(places, 1 - leading), 3 - leading)
    return f"{value:.{min(max(places, 0), 7)}f}{suffix}"


def differs_by_outliers(with_: Figure | None, without: Figure | None) -> bool:
    """True when the figure *with* counts positions of a declared outlier window: the two counts differ, or the ranges
    that two worst-range figures name."""
    return with_ is not None and without is not None and (with_.n, with_.named) != (without.n, without.named)


def sort_key(figure: Figure | None) -> tuple[bool, float]:
    """Withheld and missing figures go last in either order when the caller sorts on the first part separately."""
    missing = figure is None or figure.value is None
    return missing, 0.0 if figure is None or figure.value is None else figure.value
