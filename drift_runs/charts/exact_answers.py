"""Share of the expected answers that each arm would write to the letter, with intervals and the reference's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from drift_runs.charts import palette
from drift_runs.charts.arm_intervals import arm_intervals

if TYPE_CHECKING:
    import altair as alt
    import pyarrow as pa

DOMAIN = (0.0, 1.0)
"""All of the axis, so that a loss of two answers does not look like one of twenty."""


def exact_answers(table: pa.Table, *, references: dict[str, float] | None = None) -> alt.LayerChart:
    """Chart of the share of exact answers by arm.

    ``table``: the columns of :data:`arm_intervals.COLUMNS`, values as shares of the answers that were judged.
    ``references``: set of windows (a key of ``palette.OUTLIER_LABELS``) -> the reference's share on the same answers,
    a solid line; the floor is a dashed one.
    """
    import altair as alt

    chart = arm_intervals(
        table,
        axis_title="exact answers, % of those judged",
        log=False,
        number_format=".3~%",
        domain=DOMAIN,
        counted="answers",
    )
    rows = [
        {"share": share, "set": palette.OUTLIER_LABELS[key], "words": "reference"}
        for key, share in (references or {}).items()
    ]
    if not rows:
        return chart
    x = alt.X("share:Q", scale=alt.Scale(domain=list(DOMAIN), nice=False))
    tooltip = [
        alt.Tooltip("words:N", title="arm"),
        alt.Tooltip("set:N", title="windows"),
        alt.Tooltip("share:Q", title="value", format=".3~%"),
    ]
    rule = alt.Chart(alt.Data(values=rows)).mark_rule(color=palette.NEUTRAL, strokeWidth=1.5)
    return alt.layer(rule.encode(x=x, tooltip=tooltip), chart).properties(height=chart.height, width="container")
