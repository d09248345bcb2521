"""Picks figures out of the long table, and writes them as text rounded to what is known."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from drift_runs import schema
from drift_runs.measure.figures import Figure
from drift_runs.measure.quantiles import WITHHELD
from drift_runs.measure.specs import BY_BASE, base_of, headline_spec

if TYPE_CHECKING:
    from drift_runs.protocol.model import Protocol


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
    """``nats``, ``share``, ``count``, or ``tokens`` and whatever else a plain number is of."""

    @property
    def label(self) -> str:
        return f"{self.header} ({self.spec})"


FLIP = Column(key="flip", header="flip rate", spec="flip", statistic="rate", unit="share")
FLIP_STRICT = Column(key="flip_strict", header="strict flip rate", spec="flip.strict", statistic="rate", unit="share")
STRONG = Column(key="strong", header="strong overturns", spec="strong_overturn", statistic="count", unit="count")
STRONG_RATE = Column(
    key="strong_rate", header="strong overturn rate", spec="strong_overturn", statistic="rate", unit="share"
)
ANSWERS = Column(key="answers", header="exact answers", spec="answer.exact", statistic="rate", unit="share")

EXACT = Column(key="exact", header="equal in full", spec="rollout.exact", statistic="share", unit="share")
PREFIX = Column(key="prefix", header="equal prefix", spec="rollout.prefix", statistic="share", unit="share")
AGREE = Column(key="agree", header="agreeing tokens", spec="rollout.agree", statistic="share", unit="share")
ROLLOUTS = (EXACT, PREFIX, AGREE)

INVALID = Column(key="invalid", header="invalid futures", spec="branches", statistic="invalid", unit="share")
PASSED = Column(key="passed", header="task passes", spec="task.passed", statistic="rate", unit="share")
GENERATED = (INVALID, EXACT, PREFIX, PASSED)
"""What leads of free generation, where a campaign has it."""
LOST = Column(key="lost", header="tasks lost", spec="task.passed", statistic="lost", unit="count")
GAINED = Column(key="gained", header="tasks gained", spec="task.passed", statistic="gained", unit="count")
REFERENCE_PASSED = Column(
    key="reference_passed",
    header="passed by the reference",
    spec="task.passed",
    statistic="reference_count",
    unit="count",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """The leading columns of one campaign: its divergence is what its protocol names."""

    headline: str
    """Spec id of the divergence, with its K where it has one."""
    free_running: bool = False
    """Continuations were compared and no distributions: there is no divergence, and rollouts lead."""
    answers: bool = False
    """The protocol says what should be answered."""
    deep: bool = False
    """The divergence has a p99."""
    generated: tuple[Column, ...] = ()
    """Those of ``GENERATED`` that the campaign has."""

    def _divergence(self, key: str, words: str, statistic: str) -> Column:
        return Column(key=key, header=words, spec=self.headline, statistic=statistic, unit="nats")

    @property
    def mean(self) -> Column:
        return self._divergence("mean", f"{short_name(self.headline)} mean, nats", "mean")

    @property
    def p95(self) -> Column:
        return self._divergence("p95", f"{short_name(self.headline)} p95, nats", "p95")

    @property
    def p99(self) -> Column:
        return self._divergence("p99", f"{short_name(self.headline)} p99, nats", "p99")

    @property
    def worst(self) -> Column:
        return self._divergence("worst", "worst range p95, nats", "worst_range.p95")

    @property
    def measured(self) -> tuple[Column, ...]:
        """The leading columns that count scored positions (or, free-running, all there is)."""
        if self.free_running:
            return ROLLOUTS
        quantiles = (self.p95, self.p99) if self.deep else (self.p95,)
        return (FLIP, self.mean, *quantiles, self.worst, STRONG, *([ANSWERS] if self.answers else []))

    @property
    def overview(self) -> tuple[Column, ...]:
        return (*self.measured, *self.generated)

    @property
    def first(self) -> Column:
        """What a sentence about all arms is about."""
        return EXACT if self.free_running else self.mean

    def by_key(self, key: str) -> Column:
        """A column of the overview by its name in the URL; the first one where the campaign has none of that name."""
        return next((column for column in self.overview if column.key == key), self.first)

    def of_metric(self, metric: str) -> Column:
        """The column of one of ``state.METRICS``."""
        return {"divergence.p95": self.p95, "divergence.mean": self.mean, "flip.rate": FLIP}[metric]


def columns_of(protocol: Protocol, book: Book) -> Columns:
    """The leading columns of a campaign, from its protocol and what was measured."""
    headline = headline_of(protocol, book)
    free_running = EXACT.spec in book.specs and headline not in book.specs
    there = set(pc.unique(book.generated["spec"]).to_pylist())
    return Columns(
        headline=headline,
        free_running=free_running,
        answers=bool(protocol.answers),
        deep=book.has(headline, "p99"),
        generated=() if free_running else tuple(column for column in GENERATED if column.spec in there),
    )


def short_name(spec: str) -> str:
    """``KL`` or ``JS``: what a header calls a divergence whose spec id stands below it."""
    return "JS" if base_of(spec).startswith("js") else "KL"


def headline_of(protocol: Protocol, book: Book) -> str:
    """The spec id that leads the campaign's tables: the protocol's divergence, with the K that its rows have."""
    base = protocol.capture.divergence
    if not BY_BASE[base].needs_k:
        return base
    asked = headline_spec(protocol, protocol.capture.top_k)
    often = {spec: count for spec, count in book.specs.items() if base_of(spec) == base}
    return asked if asked in often or not often else max(often, key=often.__getitem__)


def is_withheld(figure: Figure) -> bool:
    """True when there is a reason in place of a number."""
    return figure.value is None or figure.state == WITHHELD


class Book:
    """The figures of one campaign: every arm's table in one, read by scope and column.

    ``generated``: those of free generation. They stand apart, because they count roots, prompts and tasks: only
    :meth:`by_arm` reads them, for a column that nothing measured has.
    """

    def __init__(self, tables: Iterable[pa.Table], generated: Iterable[pa.Table] = ()) -> None:
        tables, generated = list(tables), list(generated)
        self.table = pa.concat_tables(tables) if tables else schema.FIGURES.empty_table()
        self.generated = pa.concat_tables(generated) if generated else schema.FIGURES.empty_table()
        self._by_arm: dict[tuple[Column, str, str], dict[str, Figure]] = {}
        counted = pc.value_counts(self.table["spec"]).to_pylist()
        self.specs: dict[str, int] = {item["values"]: item["counts"] for item in counted}
        """How many figures each spec id has."""

    def rows(self, **wanted: str | Sequence[str]) -> list[Figure]:
        """Figures whose columns have the wanted values; a sequence means any of them. Order is the table's."""
        return _rows(self.table, wanted)

    def has(self, spec: str, statistic: str) -> bool:
        """Whether any arm has this figure, withheld or not, over any measured positions."""
        return bool(
            pc.any(pc.and_(pc.equal(self.table["spec"], spec), pc.equal(self.table["statistic"], statistic))).as_py()
        )

    def by_arm(self, column: Column, scope: str, outliers: str) -> dict[str, Figure]:
        """One figure an arm. ``scope`` is ``all`` or ``panel:NAME``; the first row wins where several floors stand."""
        key = (column, scope, outliers)
        if key not in self._by_arm:
            kind, name = split_scope(scope)
            wanted = {"spec": column.spec, "statistic": column.statistic, "outliers": outliers}
            wanted |= {"scope_kind": kind, "scope": name}
            found = _rows(self.table, wanted) or _rows(self.generated, wanted)
            self._by_arm[key] = {figure.arm: figure for figure in reversed(found)}
        return self._by_arm[key]

    def by_scope(self, column: Column, kind: str, outliers: str) -> dict[tuple[str, str], Figure]:
        """Figures of every scope of a kind, by (arm, scope)."""
        found = self.rows(spec=column.spec, statistic=column.statistic, outliers=outliers, scope_kind=kind)
        return {(figure.arm, figure.scope): figure for figure in reversed(found)}

    def scopes(self, kind: str) -> list[str]:
        """Names of the scopes of a kind, in the order of first appearance."""
        return list(dict.fromkeys(figure.scope for figure in self.rows(scope_kind=kind)))


def _rows(table: pa.Table, wanted: Mapping[str, str | Sequence[str]]) -> list[Figure]:
    mask: Any = None
    for column, value in wanted.items():
        values = [value] if isinstance(value, str) else list(value)
        hit = pc.is_in(table[column], value_set=pa.array(values, pa.string()))
        mask = hit if mask is None else pc.and_(mask, hit)
    return [Figure(**row) for row in (table if mask is None else table.filter(mask)).to_pylist()]


def split_scope(scope: str) -> tuple[str, str]:
    """``panel:P-A`` into (``panel``, ``P-A``); ``all`` into (``all``, ``all``)."""
    kind, _, name = scope.partition(":")
    return (kind, name) if name else ("all", "all")


def write_value(figure: Figure, unit: str) -> str:
    """The value as text; ``withheld`` when there is none."""
    if figure.value is None:
        return "withheld"
    return write_number(figure.value, unit, low=figure.low, high=figure.high)


def write_counted(figure: Figure) -> str:
    """``93/120`` of a rate: how many of how many. The count is whole again, because a rate is one over n."""
    if figure.value is None:
        return "withheld"
    return f"{round(figure.value * figure.n):,}/{figure.n:,}"


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
