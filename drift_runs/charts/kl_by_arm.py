"""Mean ``kl.full`` by arm on a log axis, with intervals and the floor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from drift_runs.charts.arm_intervals import arm_intervals

if TYPE_CHECKING:
    import altair as alt
    import pyarrow as pa


def kl_by_arm(table: pa.Table, *, spec: str = "kl.full", statistic: str = "mean") -> alt.LayerChart:
    """Chart of a divergence by arm.

    ``table``: the columns of :data:`arm_intervals.COLUMNS`, values in nats. The axis is logarithmic because arms lie
    orders of magnitude apart, and the floor further below still.
    """
    return arm_intervals(table, axis_title=f"{spec} {statistic}, nats (log axis)", log=True, number_format=".2~g")
