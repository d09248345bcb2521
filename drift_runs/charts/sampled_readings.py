"""One reading of rollouts by temperature: a line an arm, the null in grey."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from drift_runs.charts import palette

if TYPE_CHECKING:
    import altair as alt
    import pyarrow as pa

COLUMNS = ("arm", "role", "temperature", "value", "low", "high", "n", "prompts", "reason")
"""What a table must have, temperatures in their order as they are written (``greedy``, ``0.5``). ``n`` counts pairs of
rollouts, ``prompts`` the clusters. ``role``: ``floor`` is the null."""

HEIGHT_PX = 320


def sampled_readings(table: pa.Table, *, axis_title: str, colours: Mapping[str, str]) -> alt.LayerChart:
    """Points with intervals at each temperature, joined where an arm has two or more.

    Temperatures are places and no scale, because greedy decoding is no point of it. Arms stand beside each other at
    each, so that no interval hides another; the null is dashed. ``colours``: arm -> its colour; others are neutral.
    """
    import altair as alt

    missing = [column for column in COLUMNS if column not in table.column_names]
    if missing:
        raise ValueError(f"the table lacks {', '.join(missing)}")
    rows = [_row(row) for row in table.to_pylist()]
    arms = list(dict.fromkeys(row["arm"] for row in rows))
    order = list(dict.fromkeys(row["temperature"] for row in rows))
    x = alt.X("temperature:N", sort=order, axis=alt.Axis(title="temperature", labelAngle=0))
    offset = alt.XOffset("arm:N", sort=arms, scale=alt.Scale(paddingOuter=0.8))
    scale = alt.Scale(domain=[0.0, 1.0], nice=False)
    axis = alt.Axis(title=axis_title, format=".3~%", tickCount=6)

    def y(field: str) -> alt.Y:
        return alt.Y(f"{field}:Q", scale=scale, axis=axis)

    hues = [colours.get(arm, palette.NEUTRAL) for arm in arms]
    colour = alt.Color(
        "arm:N",
        scale=alt.Scale(domain=arms, range=hues),
        legend=alt.Legend(title=None, orient="top", columns=6, labelLimit=160),
    )
    # Neutral for several arms says nothing of which: the shape goes round, as do the names in the hint.
    shapes = [palette.SERIES_SHAPES[at % len(palette.SERIES_SHAPES)] for at in range(len(arms))]
    shape = alt.Shape("arm:N", scale=alt.Scale(domain=arms, range=shapes))
    dash = alt.condition("datum.role === 'floor'", alt.value([5, 3]), alt.value([1, 0]))
    tooltip = [
        alt.Tooltip("arm:N"),
        alt.Tooltip("temperature:N"),
        alt.Tooltip("value:Q", title="value", format=".3~%"),
        alt.Tooltip("low:Q", title="interval from", format=".3~%"),
        alt.Tooltip("high:Q", title="to", format=".3~%"),
        alt.Tooltip("prompts:Q", title="prompts", format=","),
        alt.Tooltip("n:Q", title="pairs of rollouts", format=","),
    ]
    known = [row for row in rows if row["value"] is not None]
    base = alt.Chart(alt.Data(values=known)).encode(x=x, xOffset=offset)
    layers = [
        base.mark_line(strokeWidth=1.5, opacity=0.7).encode(y=y("value"), color=colour, strokeDash=dash),
        base.mark_rule(strokeWidth=2, opacity=0.8).encode(y=y("low"), y2="high:Q", color=colour),
        base.mark_point(filled=True, size=70, opacity=1).encode(
            y=y("value"), color=colour, shape=shape, tooltip=tooltip
        ),
    ]
    return alt.layer(*layers).properties(height=HEIGHT_PX, width="container")


def _row(row: dict[str, Any]) -> dict[str, Any]:
    whole = row["value"] is not None and row["low"] is not None and row["high"] is not None
    return {
        **{name: row[name] for name in COLUMNS},
        "low": row["low"] if whole else None,
        "high": row["high"] if whole else None,
    }
