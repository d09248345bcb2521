"""Readings of rollouts by arm: shares of prompts with intervals, and the null as a band behind each of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from drift_runs.charts import palette

if TYPE_CHECKING:
    import altair as alt
    import pyarrow as pa

COLUMNS = ("arm", "role", "reading", "value", "low", "high", "n", "reason")
"""What a table must have, one row an arm and reading, in the order in which both are drawn. ``role``: ``floor`` is the
null; ``value`` is null where the reading is withheld."""

ROW_HEIGHT_PX = 38
_BAND_PX = 9


def rollout_readings(table: pa.Table, *, colours: Mapping[str, str]) -> alt.LayerChart:
    """Points with intervals over the whole share, three readings an arm beside each other.

    The band behind a point spans the same reading of the floors, from the smallest to the largest; a tick is where they
    are all alike. ``colours``: arm -> its colour; an arm that has none is neutral.
    """
    import altair as alt

    missing = [column for column in COLUMNS if column not in table.column_names]
    if missing:
        raise ValueError(f"the table lacks {', '.join(missing)}")
    rows = [_row(row) for row in table.to_pylist()]
    arms = list(dict.fromkeys(row["arm"] for row in rows))
    readings = list(dict.fromkeys(row["reading"] for row in rows))
    x_scale = alt.Scale(domain=[0.0, 1.0], nice=False)
    axis = alt.Axis(title="share of prompts, or mean share of tokens, %", format=".3~%", tickCount=6)

    def x(field: str) -> alt.X:
        return alt.X(f"{field}:Q", scale=x_scale, axis=axis)

    y = alt.Y("arm:N", sort=arms, axis=alt.Axis(title=None, labelLimit=200))
    offset = alt.YOffset("reading:N", sort=readings, scale=alt.Scale(paddingOuter=0.35))
    hues = [colours.get(arm, palette.NEUTRAL) for arm in arms]
    colour = alt.Color("arm:N", scale=alt.Scale(domain=arms, range=hues), legend=None)
    shapes = list(palette.SERIES_SHAPES[: len(readings)])
    shape = alt.Shape(
        "reading:N",
        scale=alt.Scale(domain=readings, range=shapes),
        legend=alt.Legend(title=None, orient="top", symbolFillColor=palette.NEUTRAL, labelLimit=260),
    )
    tooltip = [
        alt.Tooltip("arm:N"),
        alt.Tooltip("reading:N"),
        alt.Tooltip("value:Q", title="value", format=".3~%"),
        alt.Tooltip("low:Q", title="interval from", format=".3~%"),
        alt.Tooltip("high:Q", title="to", format=".3~%"),
        alt.Tooltip("n:Q", title="prompts", format=","),
    ]
    base = alt.Chart(alt.Data(values=rows)).encode(y=y, yOffset=offset)
    drawn = base.transform_filter("datum.drawn")
    layers: list[Any] = []
    if bands := _bands(rows):
        band = alt.Chart(alt.Data(values=bands)).encode(y=y, yOffset=offset)
        of_floors = [
            alt.Tooltip("reading:N"),
            alt.Tooltip("lowest:Q", title="floors from", format=".3~%"),
            alt.Tooltip("highest:Q", title="to", format=".3~%"),
        ]
        layers += [
            band.mark_rule(strokeWidth=_BAND_PX, color=palette.FLOOR, opacity=0.3).encode(
                x=x("lowest"), x2="highest:Q", tooltip=of_floors
            ),
            band.mark_tick(color=palette.FLOOR, thickness=2, size=_BAND_PX, orient="vertical").encode(
                x=x("lowest"), tooltip=of_floors
            ),
        ]
    layers += [
        drawn.mark_rule(strokeWidth=2).encode(x=x("low"), x2="high:Q", color=colour),
        drawn.mark_point(filled=True, size=75, opacity=1).encode(
            x=x("value"), color=colour, shape=shape, tooltip=tooltip
        ),
    ]
    if any(not row["drawn"] for row in rows):
        layers.append(
            base.transform_filter("!datum.drawn")
            .mark_text(align="left", dx=4, fontStyle="italic", color=palette.NEUTRAL)
            .encode(x=alt.value(0), text="reason:N")
        )
    return alt.layer(*layers).properties(height=70 + ROW_HEIGHT_PX * max(len(arms), 1), width="container")


def _row(row: dict[str, Any]) -> dict[str, Any]:
    drawn = row["value"] is not None
    whole = drawn and row["low"] is not None and row["high"] is not None
    return {
        **{name: row[name] for name in ("arm", "role", "reading", "value", "n")},
        "low": row["low"] if whole else None,
        "high": row["high"] if whole else None,
        "reason": row["reason"] or ("" if drawn else "withheld"),
        "drawn": drawn,
    }


def _bands(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The span of the floors' values, behind every arm that is none, reading by reading."""
    found = []
    for row in rows:
        values = [
            other["value"]
            for other in rows
            if other["role"] == "floor" and other["reading"] == row["reading"] and other["drawn"]
        ]
        if row["role"] != "floor" and values:
            place = {name: row[name] for name in ("arm", "reading")}
            found.append({**place, "lowest": min(values), "highest": max(values)})
    return found
