"""Ranges of a protocol: which position lies in which, the worst one, and spans pooled by kind. METRICS, Summaries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from drift_runs.measure.intervals import Resampler
from drift_runs.measure.positions import Positions
from drift_runs.measure.quantiles import FIRM, INDICATIVE, QUANTILES, WITHHELD, guard_state
from drift_runs.protocol.model import Protocol

Floats = NDArray[np.float64]


class Statistic(NamedTuple):
    """A statistic of one span's values, and when it may be shown."""

    name: str
    of: Callable[[Floats], float]
    """float64[m], m at least 1 and finite -> value."""
    state: Callable[[int], tuple[str, str]]
    """Number of values -> (state, reason)."""


def _mean_state(n: int) -> tuple[str, str]:
    return (FIRM, "") if n else (WITHHELD, "no positions")


def _quantile_statistic(name: str) -> Statistic:
    level = QUANTILES[name]
    return Statistic(name, lambda values: float(np.quantile(values, level)), lambda n: guard_state(n, level))


MEAN = Statistic("mean", lambda values: float(values.mean()), _mean_state)
RATE = Statistic("rate", lambda values: float(values.mean()), _mean_state)
P95 = _quantile_statistic("p95")


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanValues:
    """The finite values of one span."""

    name: str
    cluster: str
    values: Floats
    excluded: int = 0
    """Positions of the span without a finite value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanStatistic:
    """One statistic of one span."""

    name: str
    value: float | None
    """None when withheld."""
    n: int
    state: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WorstRange:
    """The span with the largest value among those firm or indicative."""

    statistic: str
    name: str
    """Empty when every span was passed over."""
    value: float | None
    n: int
    excluded: int
    """Positions of the span without a finite value."""
    state: str
    named_share: float | None
    """Of the cluster resamples that contain this span, the share that names it; None with fewer than two clusters.

    A span lies in one cluster, and a resample leaves a given one out about 37 times in 100. Such a resample cannot name
    the span and says nothing about it, so it is not counted: a span that always leads has a share of 1."""
    clusters: int
    passed_over: tuple[SpanStatistic, ...]
    floor_value: float | None
    """The floor's maximum over the same spans: a maximum over noisy spans is biased upwards."""


def range_index(positions: Positions, protocol: Protocol) -> NDArray[np.int32]:
    """Index into ``protocol.ranges`` of each position; -1 outside every range. Ranges of a window do not overlap."""
    index = np.full(len(positions), -1, dtype=np.int32)
    code = {name: at for at, name in enumerate(positions.windows)}
    for at, span in enumerate(protocol.ranges):
        if span.window in code:
            inside = (positions.window == code[span.window]) & (positions.position >= span.start)
            index[inside & (positions.position < span.end)] = at
    return index


def kinds_of(protocol: Protocol) -> dict[str, tuple[int, ...]]:
    """Range kind -> indices of its ranges, kinds in order of first appearance: what the heat map pools."""
    kinds: dict[str, list[int]] = {}
    for at, span in enumerate(protocol.ranges):
        kinds.setdefault(span.kind, []).append(at)
    return {kind: tuple(spans) for kind, spans in kinds.items()}


def span_statistic(span: SpanValues, statistic: Statistic) -> SpanStatistic:
    n = len(span.values)
    state, reason = statistic.state(n)
    value = None if state == WITHHELD else statistic.of(span.values)
    return SpanStatistic(name=span.name, value=value, n=n, state=state, reason=reason)


def worst_range(
    spans: Sequence[SpanValues],
    statistic: Statistic,
    resampler: Resampler,
    floor_spans: Sequence[SpanValues] = (),
) -> WorstRange:
    """The worst of ``spans``; the first of equals. ``floor_spans``: the same spans of a floor, when it covers them."""
    found = [span_statistic(span, statistic) for span in spans]
    eligible = [at for at, result in enumerate(found) if result.state in (FIRM, INDICATIVE)]
    passed_over = tuple(result for result in found if result.state == WITHHELD)
    if not eligible:
        return WorstRange(
            statistic=statistic.name,
            name="",
            value=None,
            n=0,
            excluded=0,
            state=WITHHELD,
            named_share=None,
            clusters=0,
            passed_over=passed_over,
            floor_value=None,
        )
    worst = max(eligible, key=lambda at: (found[at].value, -at))
    labels = tuple(dict.fromkeys(spans[at].cluster for at in eligible))
    chosen = [spans[at] for at in eligible]
    names = {found[at].name for at in eligible}
    floor_values = [statistic.of(span.values) for span in floor_spans if span.name in names and len(span.values)]
    return WorstRange(
        statistic=statistic.name,
        name=found[worst].name,
        value=found[worst].value,
        n=found[worst].n,
        excluded=spans[worst].excluded,
        state=found[worst].state,
        named_share=_named_share(chosen, eligible.index(worst), labels, statistic, resampler),
        clusters=len(labels),
        passed_over=passed_over,
        floor_value=max(floor_values) if len(floor_values) == len(eligible) else None,
    )


def _named_share(
    spans: Sequence[SpanValues], worst: int, labels: tuple[str, ...], statistic: Statistic, resampler: Resampler
) -> float | None:
    if len(labels) < 2:
        return None
    cluster = np.array([labels.index(span.cluster) for span in spans])
    drawn = resampler.multiplicities(len(labels))[:, cluster].astype(np.int64)
    # A span that is drawn k times is its values k times over: its statistic is needed once for each k, not each
    # resample.
    table = np.full((len(spans), int(drawn.max()) + 1), -np.inf)
    for at, span in enumerate(spans):
        for times in range(1, table.shape[1]):
            table[at, times] = statistic.of(np.repeat(span.values, times))
    contains = drawn[:, worst] > 0
    if not contains.any():
        return None
    values = table[np.arange(len(spans)), drawn[contains]]
    return float((values.argmax(axis=1) == worst).mean())
