"""Figures of an arm that was launched several times: smallest, largest and mean over its launches. METRICS, Summaries.

The launches are executions of one configuration in fresh processes, each with figures of its own. How far they lie
apart is what a second launch may change about the result; nothing is pooled, for the positions are the same ones.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

import pyarrow as pa

from drift_runs.measure.figures import Figure
from drift_runs.measure.quantiles import FIRM, INDICATIVE, QUANTILES, WITHHELD
from drift_runs.measure.specs import is_divergence

Key = tuple[str, str, str, str, str]

KEY = ("scope_kind", "scope", "outliers", "spec", "statistic")
SCOPE_KINDS = ("all", "panel")
_RATES = (("flip", "rate"), ("answer.exact", "rate"))


def launch_figures(by_launch: Sequence[pa.Table], *, arm: str) -> list[Figure]:
    """Figures over launches, from the table ``FIGURES`` of each; none for fewer than two launches.

    For the mean and the quantiles of every divergence, the flip rate and the rate of exact answers, over all positions
    and each panel, under every choice of outliers: statistics ``<statistic>.launches_mean``, ``.launches_min``,
    ``.launches_max`` and ``.launches_difference`` (largest minus smallest). ``n`` counts the positions (or answers) of
    one launch, the fewest where they differ; ``reason`` says how many launches there were. Withheld where one of the
    launches has no value.
    """
    if len(by_launch) < 2:
        return []
    rows = [_rows(table) for table in by_launch]
    keys = dict.fromkeys(key for launch in rows for key in launch)
    return [figure for key in keys for figure in _figures(key, [launch.get(key) for launch in rows], arm)]


def _rows(table: pa.Table) -> dict[Key, dict]:
    """The rows that are given over launches, by what must be equal."""
    found = {}
    for row in table.to_pylist():
        if row["scope_kind"] in SCOPE_KINDS and _given(row["spec"], row["statistic"]):
            found[tuple(row[name] for name in KEY)] = row
    return found


def _given(spec: str, statistic: str) -> bool:
    if is_divergence(spec):
        return statistic == "mean" or statistic in QUANTILES
    return (spec, statistic) in _RATES


def _figures(key: Key, launches: list[dict | None], arm: str) -> list[Figure]:
    """The four figures of one key; ``launches``: its row in each launch, None where there is none."""
    there = [row for row in launches if row is not None]
    values = [
        row["value"]
        for row in there
        if row["state"] != WITHHELD and row["value"] is not None and math.isfinite(row["value"])
    ]
    reason, state = f"{len(launches)} launches", FIRM
    if len(values) < len(launches):
        reason, state = f"{reason}, {len(launches) - len(values)} without a value", WITHHELD
    elif any(row["state"] == INDICATIVE for row in there):
        state = INDICATIVE
    spread = {
        "launches_mean": lambda: statistics.mean(values),
        "launches_min": lambda: min(values),
        "launches_max": lambda: max(values),
        "launches_difference": lambda: max(values) - min(values),
    }
    beyond = [row["beyond"] for row in there if row["beyond"] is not None]
    return [
        Figure(
            arm=arm,
            **dict(zip(KEY[:-1], key[:-1], strict=True)),
            statistic=f"{key[-1]}.{name}",
            value=None if state == WITHHELD else of(),
            n=min(row["n"] for row in there),
            excluded=max(row["excluded"] for row in there),
            beyond=min(beyond) if beyond else None,
            state=state,
            reason=reason,
        )
        for name, of in spread.items()
    ]
