"""One figure over the campaigns of a protocol: a line an arm, changes marked, and what changed around them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from drift_runs.charts import palette

if TYPE_CHECKING:
    import altair as alt
    import pyarrow as pa

COLUMNS = ("order", "when", "arm", "role", "value", "low", "high", "n", "change", "floor_value", "reference")
"""What a table must have. ``order``: which campaign, from 1; ``when``: its date as text; ``change``: one of
:data:`CHANGES`, against the campaign before; ``role``: ``floor`` is the null; ``reference``: one
line joins what has the same one, and all but the empty one are hollow and dotted."""

CHANGES = {"above": "change above the floor", "within": "within", "undecided": "not decided", "first": "first"}
_SHAPES = {"above": "triangle-up", "within": "circle", "undecided": "diamond", "first": "square"}
HEIGHT_PX = 340
MOST_LABELS = 10
"""Dates on the axis: of more campaigns every second or third, and so on, is written, the newest always."""

SPREAD = 0.4
"""Of the way between two campaigns, the part that the arms of one take up."""


def history_lines(
    table: pa.Table,
    marks: Sequence[int],
    *,
    axis_title: str,
    number_format: str,
    colours: Mapping[str, str],
    no_drift: float = 0.0,
) -> alt.LayerChart:
    """Lines over the order of campaigns, which are rarely taken at even times; the axis says when each was.

    The band reaches from ``no_drift``, the figure's value without any, to the floor that lies farthest from it in each
    campaign. ``marks``: orders of the campaigns before which
    something around the figures changed, a dashed line each. ``colours``: arm -> its colour; others are neutral.
    """
    import altair as alt

    missing = [column for column in COLUMNS if column not in table.column_names]
    if missing:
        raise ValueError(f"the table lacks {', '.join(missing)}")
    rows = table.to_pylist()
    arms = list(dict.fromkeys(row["arm"] for row in rows))
    rows = [_row(row, arms) for row in rows]
    dates = {row["order"]: row["when"] for row in rows}
    last = max(dates, default=1)
    every = -(-len(dates) // MOST_LABELS) or 1
    dates = {order: when for order, when in sorted(dates.items())[::-1][::every]}
    x_scale = alt.Scale(domain=[0.5, last + 0.5], nice=False)
    x_axis = alt.Axis(title="campaign, in the order of time", values=sorted(dates), labelExpr=_labels(dates))

    def x(field: str) -> alt.X:
        return alt.X(f"{field}:Q", scale=x_scale, axis=x_axis)

    y_scale = alt.Scale(domain=_domain(rows, no_drift), nice=True)
    y_axis = alt.Axis(title=axis_title, format=number_format, tickCount=6)

    def y(field: str) -> alt.Y:
        return alt.Y(f"{field}:Q", scale=y_scale, axis=y_axis)

    hues = [colours.get(arm, palette.NEUTRAL) for arm in arms]
    colour = alt.Color(
        "arm:N",
        scale=alt.Scale(domain=arms, range=hues),
        legend=alt.Legend(title=None, orient="top", columns=6, labelLimit=160),
    )
    present = [key for key in CHANGES if any(row["change"] == key for row in rows)]
    shape = alt.Shape(
        "said:N",
        scale=alt.Scale(domain=[CHANGES[key] for key in present], range=[_SHAPES[key] for key in present]),
        # Below: beside the arms it is cut off in a narrow window.
        legend=alt.Legend(title=None, orient="bottom", symbolFillColor=palette.NEUTRAL, labelLimit=200),
    )
    tooltip = [
        alt.Tooltip("arm:N"),
        alt.Tooltip("when:N", title="campaign"),
        alt.Tooltip("value:Q", title="value", format=number_format),
        alt.Tooltip("low:Q", title="interval from", format=number_format),
        alt.Tooltip("high:Q", title="to", format=number_format),
        alt.Tooltip("floor_value:Q", title="floor", format=number_format),
        alt.Tooltip("said:N", title="against the one before"),
        alt.Tooltip("n:Q", title="n", format=","),
    ]
    known = [row for row in rows if row["value"] is not None]
    travelled = any(row["reference"] for row in rows)
    if travelled:
        tooltip.append(alt.Tooltip("reference:N", title="reference that travelled"))
    # As one text: of a list the library would copy every row for each part of the chart, which took longer than the
    # rest of a click.
    values = json.dumps(known, allow_nan=False)
    base = alt.Chart(alt.Data(values=values, format=alt.JsonDataFormat(type="json")))
    layers: list[Any] = []
    if floors := _floors(rows, no_drift):
        band = alt.Chart(alt.Data(values=floors))
        layers.append(
            band.mark_rect(color=palette.FLOOR, opacity=0.25).encode(
                x=x("from"),
                x2="to:Q",
                y=y("low"),
                y2="high:Q",
                tooltip=[alt.Tooltip("floor:Q", title="largest floor", format=number_format)],
            )
        )
    if marks:
        rules = alt.Chart(alt.Data(values=[{"at": order - 0.5} for order in marks]))
        layers.append(rules.mark_rule(strokeDash=[6, 4], color=palette.INCONCLUSIVE, strokeWidth=1.5).encode(x=x("at")))
    # Arms of one campaign stand a little apart, so that no interval hides another.
    layers += [
        base.transform_filter("datum.reference === ''")
        .mark_line(strokeWidth=1.8, opacity=0.8)
        .encode(x=x("place"), y=y("value"), color=colour),
        base.transform_filter("datum.low !== null")
        .mark_rule(strokeWidth=2, opacity=0.8)
        .encode(x=x("place"), y=y("low"), y2="high:Q", color=colour),
        base.transform_filter("datum.reference === ''")
        .mark_point(filled=True, size=90, opacity=1)
        .encode(x=x("place"), y=y("value"), color=colour, shape=shape, tooltip=tooltip),
    ]
    if travelled:
        others = base.transform_filter("datum.reference !== ''")
        layers += [
            others.mark_line(strokeWidth=1.8, opacity=0.8, strokeDash=[2, 3]).encode(
                x=x("place"), y=y("value"), color=colour, detail="reference:N"
            ),
            others.mark_point(filled=False, strokeWidth=2, size=90, opacity=1).encode(
                x=x("place"), y=y("value"), color=colour, shape=shape, tooltip=tooltip
            ),
        ]
    return alt.layer(*layers).properties(height=HEIGHT_PX, width="container")


def _labels(dates: Mapping[int, str]) -> str:
    """An expression that writes a campaign's date for its order. Only digits and ``-: `` of a date go into it."""
    cases = [
        f"datum.value == {order} ? '{''.join(mark for mark in when if mark in '0123456789-: ')}'"
        for order, when in sorted(dates.items())
    ]
    return " : ".join([*cases, "''"])


def _row(row: dict[str, Any], arms: Sequence[str]) -> dict[str, Any]:
    whole = row["value"] is not None and row["low"] is not None and row["high"] is not None
    return {
        **{name: row[name] for name in COLUMNS},
        "low": row["low"] if whole else None,
        "high": row["high"] if whole else None,
        "said": CHANGES[row["change"]],
        "place": row["order"] + SPREAD * ((arms.index(row["arm"]) + 0.5) / len(arms) - 0.5),
    }


def _floors(rows: list[dict[str, Any]], no_drift: float) -> list[dict[str, Any]]:
    """The farthest floor of each campaign as a box from ``no_drift`` around its place."""
    farthest: dict[int, float] = {}
    for row in rows:
        value = row["value"] if row["role"] == "floor" else row["floor_value"]
        if value is not None:
            values = (value, farthest.get(row["order"], value))
            farthest[row["order"]] = max(values, key=lambda found: abs(found - no_drift))
    return [
        {
            "from": order - 0.5,
            "to": order + 0.5,
            "low": min(no_drift, value),
            "high": max(no_drift, value),
            "floor": value,
        }
        for order, value in sorted(farthest.items())
    ]


def _domain(rows: list[dict[str, Any]], no_drift: float) -> list[float]:
    """Where nothing drifts is always on the axis."""
    numbers = [row[name] for row in rows for name in ("value", "low", "high", "floor_value") if row[name] is not None]
    low, high = min((no_drift, *numbers)), max((no_drift, *numbers))
    if no_drift:
        low = min(low, 0.0)
    return [low, high] if high > low else [0.0, 1.0]
