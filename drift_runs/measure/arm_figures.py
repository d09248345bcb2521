"""From what was evaluated over one selection to rows of figures."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from drift_runs.measure.figures import Figure
from drift_runs.measure.quantiles import FIRM, WITHHELD
from drift_runs.measure.ranges import Statistic, WorstRange
from drift_runs.measure.scopes import STRICT_RATE, STRONG_RATE, Points, Spread
from drift_runs.measure.verdict import Verdict


class Evaluated(NamedTuple):
    """Figures of one selection of positions, their intervals, and the floor that stands beside them."""

    points: Points
    spread: Spread
    floor: str
    floor_points: Points | None


def ratio_figure(
    beside: dict, spec: str, statistic: str, at: int, found: Evaluated, note: str, decided: Verdict | None
) -> Figure:
    value = number_or_none(found.points.ratios[at])
    low, high = number_or_none(found.spread.ratios.low[at]), number_or_none(found.spread.ratios.high[at])
    floor = found.floor_points
    empty = "no strong positions" if at == STRONG_RATE and found.points.used[STRICT_RATE] else "no positions"
    return Figure(
        **beside,
        spec=spec,
        statistic=statistic,
        value=value,
        n=int(found.points.used[at]),
        excluded=int(found.points.excluded[at]),
        state=FIRM if value is not None else WITHHELD,
        reason=note if value is not None else empty,
        low=low,
        high=high,
        interval=found.spread.label if low is not None else "",
        floor_value=None if floor is None else number_or_none(floor.ratios[at]),
        verdict="" if decided is None else decided.outcome,
        verdict_reason="" if decided is None else decided.reason,
    )


def distribution_figures(beside: dict, found: Evaluated, note: str) -> Iterator[Figure]:
    """Quantiles, the largest value and the share of the tail of ``kl.full``."""
    points, floor = found.points, found.floor_points
    for at, quantile in enumerate(points.quantiles):
        held = quantile.state == WITHHELD
        low = None if held else number_or_none(found.spread.quantiles.low[at])
        high = None if held else number_or_none(found.spread.quantiles.high[at])
        yield Figure(
            **beside,
            spec="kl.full",
            statistic=quantile.name,
            value=quantile.value,
            n=quantile.n,
            excluded=quantile.excluded,
            beyond=quantile.beyond,
            state=quantile.state,
            reason=quantile.reason if held else note,
            low=low,
            high=high,
            interval=found.spread.label if low is not None else "",
            floor_value=None if floor is None else floor.quantiles[at].value,
        )
    count = points.quantiles[0].n
    excluded = points.quantiles[0].excluded
    yield Figure(
        **beside,
        spec="kl.full",
        statistic="max",
        value=points.largest,
        n=count,
        excluded=excluded,
        beyond=0,
        state=FIRM if count else WITHHELD,
        reason="a maximum grows with n and has no interval" if count else "no positions",
        floor_value=None if floor is None else floor.largest,
    )
    yield Figure(
        **beside,
        spec="kl.full",
        statistic="tail_share",
        value=points.tail.value,
        n=points.tail.n,
        excluded=points.tail.excluded,
        state=FIRM if points.tail.value is not None else WITHHELD,
        reason=points.tail.reason,
        floor_value=None if floor is None else floor.tail.value,
    )


def worst_figure(beside: dict, spec: str, statistic: Statistic, worst: WorstRange) -> Figure:
    parts = []
    if worst.passed_over:
        spans = ", ".join(f"{span.name} (n {span.n}, {span.reason})" for span in worst.passed_over)
        parts.append(f"passed over: {spans}")
    if worst.value is None:
        parts.insert(0, "no range is firm or indicative")
    return Figure(
        **{**beside, "clusters": worst.clusters},
        spec=spec,
        statistic=f"worst_range.{statistic.name}",
        value=worst.value,
        n=worst.n,
        state=worst.state,
        reason="; ".join(parts),
        named=worst.name,
        named_share=worst.named_share,
        floor_value=worst.floor_value,
    )


def number_or_none(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
