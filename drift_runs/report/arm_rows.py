"""Figures of arms as rows for a chart by arm."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from drift_runs.report.figures import Column, is_withheld

if TYPE_CHECKING:
    from drift_runs.measure.figures import Figure
    from drift_runs.tracking.records import ArmRecord

_CHART_SCHEMA = pa.schema(
    [
        ("arm", pa.string()),
        ("group", pa.string()),
        ("outliers", pa.string()),
        ("value", pa.float64()),
        ("low", pa.float64()),
        ("high", pa.float64()),
        ("n", pa.int64()),
        ("state", pa.string()),
        ("verdict", pa.string()),
        ("floor", pa.string()),
        ("floor_value", pa.float64()),
        ("floor_low", pa.float64()),
        ("floor_high", pa.float64()),
        ("reason", pa.string()),
    ]
)


class Figures(Protocol):
    """A page or a report: the sets of windows that it shows, and its figures."""

    @property
    def sets(self) -> tuple[str, ...]: ...

    def figure(self, arm: str, column: Column, outliers: str) -> Figure | None: ...


def chart_rows(shown: Figures, column: Column, arms: Sequence[ArmRecord]) -> pa.Table:
    """Rows for the charts by arm, in the order of ``arms``, with the floor's own interval for its band.

    No band where the floor covers other positions (or answers) than the arm: its value is over the arm's, its interval
    is not.
    """
    rows = []
    for arm in arms:
        for outliers in shown.sets:
            figure = shown.figure(arm.arm, column, outliers)
            if figure is None:
                continue
            floor = shown.figure(figure.floor, column, outliers) if figure.floor else None
            floor = floor if floor is not None and floor.n == figure.n else None
            rows.append(
                {
                    "arm": arm.arm,
                    "group": arm.role,
                    "outliers": outliers,
                    "value": None if is_withheld(figure) else figure.value,
                    "low": figure.low,
                    "high": figure.high,
                    "n": figure.n,
                    "state": figure.state,
                    "verdict": figure.verdict,
                    "floor": figure.floor,
                    "floor_value": figure.floor_value,
                    "floor_low": floor.low if floor else None,
                    "floor_high": floor.high if floor else None,
                    "reason": figure.reason,
                }
            )
    return pa.Table.from_pylist(rows, schema=_CHART_SCHEMA)
