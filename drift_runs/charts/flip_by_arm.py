"""Top-1 flip rate by arm, with intervals and the floor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from drift_runs.charts.arm_intervals import arm_intervals

if TYPE_CHECKING:
    import altair as alt
    import pyarrow as pa


def flip_by_arm(table: pa.Table, *, spec: str = "flip") -> alt.LayerChart:
    """Chart of the flip rate by arm.

    ``table``: the columns of :data:`arm_intervals.COLUMNS`, values as shares of the scored positions.
    """
    return arm_intervals(table, axis_title=f"{spec} rate, % of scored positions", log=False, number_format=".2~%")
