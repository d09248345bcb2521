"""Size of the weights against drift: no other arm is both smaller and nearer the reference than one on the front."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from drift_runs.charts import palette
from drift_runs.charts.log_axis import decades

if TYPE_CHECKING:
    import altair as alt
    import pyarrow as pa

COLUMNS = ("arm", "bytes", "value", "low", "high", "n")
"""What a table must have, one row an arm: size of its weights in bytes and its figure, both known and positive (a value
of 0 has no place on a log axis and is left out by the caller with its reason)."""

HEIGHT_PX = 380
_ASSUMED_HEIGHT_PX = 310
"""Of the plot as a page draws it, by which names are kept apart."""
_LABEL_PX = 13
BYTES = (
    "datum.value >= 1e9 ? format(datum.value / 1e9, '.3~g') + ' GB' : "
    "datum.value >= 1e6 ? format(datum.value / 1e6, '.3~g') + ' MB' : "
    "datum.value >= 1e3 ? format(datum.value / 1e3, '.3~g') + ' kB' : format(datum.value, ',') + ' B'"
)
"""How a tick of the axis in bytes reads."""


def pareto_front(sizes: Mapping[str, float], values: Mapping[str, float]) -> tuple[str, ...]:
    """Names on the front, by size: no other name has a size and a value at most as large and one of them smaller.

    Both mappings have the same names; of two that are equal in both, both are on it.
    """
    front = [
        name
        for name in sizes
        if not any(
            sizes[other] <= sizes[name]
            and values[other] <= values[name]
            and (sizes[other], values[other]) != (sizes[name], values[name])
            for other in sizes
        )
    ]
    return tuple(sorted(front, key=lambda name: (sizes[name], values[name], name)))


def size_drift(
    table: pa.Table, *, title: str, number_format: str, colours: Mapping[str, str], reference_bytes: int | None = None
) -> alt.LayerChart:
    """Points with intervals on two log axes; those on the front are ringed and joined by a stair.

    ``title``: of the drift's axis, with its unit. ``reference_bytes``: size of the reference's weights, a grey rule.
    """
    import altair as alt

    missing = [column for column in COLUMNS if column not in table.column_names]
    if missing:
        raise ValueError(f"the table lacks {', '.join(missing)}")
    rows: list[dict[str, Any]] = table.to_pylist()
    if wrong := [row["arm"] for row in rows if not (row["bytes"] and row["value"] and row["value"] > 0)]:
        raise ValueError(f"no place on a log axis for {', '.join(wrong)}")
    front = pareto_front({row["arm"]: row["bytes"] for row in rows}, {row["arm"]: row["value"] for row in rows})
    for row in rows:
        row["front"] = "on the front" if row["arm"] in front else "not on it"
        if row["low"] is not None and row["low"] <= 0:
            row["low"] = row["value"]  # it reaches zero, which a log axis has not: drawn from the point upwards
    sizes = [row["bytes"] for row in rows] + ([reference_bytes] if reference_bytes else [])
    x_low, x_high = (min(sizes) / 1.15, max(sizes) * 1.5) if sizes else (1e6, 1e9)
    numbers = [row[name] for row in rows for name in ("value", "low", "high") if row[name] is not None]
    y_low, y_high = (min(numbers) / 1.6, max(numbers) * 1.6) if numbers else (1e-6, 1.0)

    for row, place in zip(rows, _label_places(rows, y_low, y_high), strict=True):
        row["label_at"] = place

    x_axis = alt.Axis(
        title="size of the weights (log axis)", values=size_ticks(x_low, x_high), labelExpr=BYTES, labelOverlap=True
    )
    y_axis = alt.Axis(title=f"{title} (log axis)", format=number_format, values=decades(y_low, y_high))

    def x(field: str = "bytes") -> alt.X:
        return alt.X(f"{field}:Q", scale=alt.Scale(type="log", domain=[x_low, x_high], nice=False), axis=x_axis)

    def y(field: str) -> alt.Y:
        return alt.Y(f"{field}:Q", scale=alt.Scale(type="log", domain=[y_low, y_high], nice=False), axis=y_axis)

    arms = [row["arm"] for row in rows]
    hues = [colours.get(arm, palette.NEUTRAL) for arm in arms]
    colour = alt.Color("arm:N", scale=alt.Scale(domain=arms, range=hues), legend=None)
    tooltip = [
        alt.Tooltip("arm:N"),
        alt.Tooltip("bytes:Q", title="weights, bytes", format=","),
        alt.Tooltip("value:Q", title="value", format=number_format),
        alt.Tooltip("low:Q", title="interval from", format=number_format),
        alt.Tooltip("high:Q", title="to", format=number_format),
        alt.Tooltip("n:Q", title="positions", format=","),
        alt.Tooltip("front:N", title="Pareto front"),
    ]
    base = alt.Chart(alt.Data(values=rows))
    on_front = base.transform_filter("datum.front === 'on the front'")
    stair = alt.Chart(alt.Data(values=[row for name in front for row in rows if row["arm"] == name]))
    layers: list[Any] = []
    if reference_bytes:
        own = alt.Chart(alt.Data(values=[{"bytes": reference_bytes, "name": "reference"}]))
        layers += [
            own.mark_rule(color=palette.NEUTRAL, strokeDash=[2, 3]).encode(x=x()),
            own.mark_text(color=palette.NEUTRAL, align="right", baseline="top", dx=-4, dy=4).encode(
                x=x(), y=alt.value(0), text="name:N"
            ),
        ]
    layers += [
        stair.mark_line(interpolate="step-after", color=palette.NEUTRAL, strokeDash=[5, 3], strokeWidth=1.5).encode(
            x=x(), y=y("value"), order=alt.Order("bytes:Q")
        ),
        base.mark_rule(strokeWidth=2).encode(x=x(), y=y("low"), y2="high:Q", color=colour),
        base.mark_point(filled=True, size=90, opacity=1).encode(x=x(), y=y("value"), color=colour, tooltip=tooltip),
        on_front.mark_point(filled=False, size=300, strokeWidth=1.6, stroke=palette.NEUTRAL, opacity=1).encode(
            x=x(), y=y("value"), tooltip=tooltip
        ),
        base.mark_text(align="left", dx=12, color=palette.NEUTRAL, limit=150).encode(
            x=x(), y=y("label_at"), text="arm:N", tooltip=tooltip
        ),
    ]
    return alt.layer(*layers).properties(height=HEIGHT_PX, width="container")


def _label_places(rows: list[dict[str, Any]], low: float, high: float) -> list[float]:
    """Where the name of each point stands on the axis: above a stair, and below the name of one close to it."""

    def pixels(value: float) -> float:
        return math.log(value / low) / math.log(high / low) * _ASSUMED_HEIGHT_PX

    places = [pixels(row["value"]) + (9.0 if row["front"] == "on the front" else 0.0) for row in rows]
    done: list[int] = []
    for at in sorted(range(len(rows)), key=lambda at: -places[at]):
        for other in done:
            near = abs(math.log(rows[at]["bytes"] / rows[other]["bytes"])) < math.log(1.2)
            if near and places[at] > places[other] - _LABEL_PX:
                places[at] = places[other] - _LABEL_PX
        done.append(at)
    return [low * (high / low) ** (place / _ASSUMED_HEIGHT_PX) for place in places]


def size_ticks(low: float, high: float) -> list[float]:
    """Round sizes in [low, high]: 1, 1.5, 2, 3, 5 and 7 of every decade, thinned to powers of ten over four decades."""
    if high / low > 1e4:
        return decades(low, high)
    exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = (1.0, 1.5, 2.0, 3.0, 5.0, 7.0) if high / low < 100 else (1.0, 3.0)
    ticks = [step * 10.0**exponent for exponent in exponents for step in steps]
    return [tick for tick in ticks if low <= tick <= high] or [low, high]
