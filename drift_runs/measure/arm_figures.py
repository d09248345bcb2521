"""From what was computed over one selection to rows of figures."""

from __future__ import annotations

from typing import NamedTuple

from drift_runs.measure.figures import Figure
from drift_runs.measure.quantiles import FIRM, WITHHELD, Quantile
from drift_runs.measure.ranges import Statistic, WorstRange
from drift_runs.measure.ratios import RatioColumn
from drift_runs.measure.selected import Interval, Selected, SelectedSide, number_or_none
from drift_runs.measure.verdict import Verdict

BORROWED = "borrowed: a floor of another reference gives no verdict"


class Beside(NamedTuple):
    """The floor that stands beside a selection; its name is empty when none covers it."""

    name: str = ""
    side: SelectedSide | None = None
    borrowed: bool = False

    def labels(self) -> dict:
        return {"floor": self.name, "borrowed": self.borrowed}


def with_partial(note: str, column: RatioColumn, excluded: int) -> str:
    """The note of a figure, and why positions are left out of it where some are."""
    return "; ".join(part for part in (note, column.partial if excluded else "") if part)


def ratio_figure(
    common: dict,
    column: RatioColumn,
    at: int,
    found: Selected,
    beside: Beside,
    note: str,
    decided: Verdict | None,
) -> Figure:
    """A ratio of sums; ``decided`` is the verdict, where one is given."""
    sums = found.sums
    value = number_or_none(sums.ratios[at])
    interval = found.ratio_interval(at)
    # Where no position of the ratio is left although some are known, that is another reason than no positions.
    known = len(found.chosen) > sums.excluded[at]
    empty = column.absence or (column.empty if column.empty and known else "no positions")
    return Figure(
        **common,
        **beside.labels(),
        spec=column.spec,
        statistic=column.statistic,
        value=value,
        n=int(sums.used[at]),
        excluded=int(sums.excluded[at]),
        state=FIRM if value is not None else WITHHELD,
        reason=with_partial(note, column, int(sums.excluded[at])) if value is not None else empty,
        **_ends(interval, found),
        floor_value=None if beside.side is None else number_or_none(beside.side.sums.ratios[at]),
        verdict="" if decided is None else decided.outcome,
        verdict_reason="" if decided is None else decided.reason,
    )


def count_figure(common: dict, column: RatioColumn, at: int, found: Selected, beside: Beside) -> Figure:
    """How often something happened among the positions where it could be seen; withheld where it could be at none."""
    used, excluded = int(found.sums.used[at]), int(found.sums.excluded[at])
    unseen = len(found.chosen) > 0 and excluded == len(found.chosen)
    floor_value = None
    if beside.side is not None and beside.side.sums.excluded[at] < len(found.chosen):
        floor_value = float(beside.side.sums.sums[at])
    return Figure(
        **common,
        **beside.labels(),
        spec=column.spec,
        statistic=column.count,
        value=None if unseen else float(found.sums.sums[at]),
        n=used,
        excluded=excluded,
        state=WITHHELD if unseen else FIRM,
        reason=column.absence or "no positions" if unseen else "",
        floor_value=floor_value,
    )


def quantile_figure(
    common: dict,
    spec: str,
    quantile: Quantile,
    floor: Quantile | None,
    interval: Interval,
    found: Selected,
    beside: Beside,
    note: str,
    absence: str,
) -> Figure:
    """One quantile, with the floor's."""
    held = quantile.state == WITHHELD
    return Figure(
        **common,
        **beside.labels(),
        spec=spec,
        statistic=quantile.name,
        value=quantile.value,
        n=quantile.n,
        excluded=quantile.excluded,
        beyond=quantile.beyond,
        state=quantile.state,
        reason=(absence or quantile.reason) if held else note,
        **_ends(Interval() if held else interval, found),
        floor_value=None if floor is None else floor.value,
    )


def largest_figure(common: dict, spec: str, column: str, found: Selected, beside: Beside, absence: str) -> Figure:
    """The largest value of a divergence."""
    here = found.distribution(column)
    return Figure(
        **common,
        **beside.labels(),
        spec=spec,
        statistic="max",
        value=here.largest,
        n=here.used,
        excluded=here.excluded,
        beyond=0,
        state=FIRM if here.used else WITHHELD,
        reason="a maximum grows with n and has no interval" if here.used else absence or "no positions",
        floor_value=None if beside.side is None else beside.side.distribution(column).largest,
    )


def tail_figure(common: dict, spec: str, column: str, found: Selected, beside: Beside, absence: str) -> Figure:
    """The share of the total that the highest twentieth holds."""
    tail = found.distribution(column).tail
    return Figure(
        **common,
        **beside.labels(),
        spec=spec,
        statistic="tail_share",
        value=tail.value,
        n=tail.n,
        excluded=tail.excluded,
        state=FIRM if tail.value is not None else WITHHELD,
        reason=absence or tail.reason,
        floor_value=None if beside.side is None else beside.side.distribution(column).tail.value,
    )


def extreme_figure(common: dict, spec: str, statistic: str, column: str, found: Selected, beside: Beside) -> Figure:
    """The smallest or largest value of a field that is no divergence; statistic ``min`` or ``max``."""

    def of(side: SelectedSide) -> float | None:
        here = side.distribution(column)
        return here.smallest if statistic == "min" else here.largest

    value = of(found)
    return Figure(
        **common,
        **beside.labels(),
        spec=spec,
        statistic=statistic,
        value=value,
        n=found.distribution(column).used,
        excluded=found.distribution(column).excluded,
        state=FIRM if value is not None else WITHHELD,
        reason="" if value is not None else "no positions",
        floor_value=None if beside.side is None else of(beside.side),
    )


def worst_figure(
    common: dict, spec: str, statistic: Statistic, worst: WorstRange, beside: Beside, absence: str
) -> Figure:
    """The worst range: named, with what was passed over."""
    parts = []
    if worst.value is None:
        parts.append(absence or "no range is firm or indicative")
    if worst.passed_over:
        spans = ", ".join(f"{span.name} (n {span.n}, {span.reason})" for span in worst.passed_over)
        parts.append(f"passed over: {spans}")
    return Figure(
        **{**common, "clusters": worst.clusters},
        **beside.labels(),
        spec=spec,
        statistic=f"worst_range.{statistic.name}",
        value=worst.value,
        n=worst.n,
        excluded=worst.excluded,
        state=worst.state,
        reason="; ".join(parts),
        named=worst.name,
        named_share=worst.named_share,
        floor_value=worst.floor_value,
    )


def _ends(interval: Interval, found: Selected) -> dict:
    ends = dict(zip(Interval._fields, interval, strict=True))
    return {**ends, "interval": found.label if interval.low is not None else ""}
