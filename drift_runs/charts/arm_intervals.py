"""One figure by arm: a point, its interval, and the floor as a band: what the KL and flip charts have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from drift_runs.charts import palette
from drift_runs.charts.log_axis import decades

if TYPE_CHECKING:
    import altair as alt
    import pyarrow as pa

COLUMNS = ("arm", "group", "outliers", "value", "low", "high", "n", "state", "verdict", "floor", "floor_value")
"""What a table must have. ``group`` is ``candidate`` or ``follow-up``; ``floor_low``, ``floor_high`` are optional."""

ROW_HEIGHT_PX = 28


def arm_intervals(
    table: pa.Table,
    *,
    axis_title: str,
    log: bool,
    number_format: str,
    domain: tuple[float, float] | None = None,
    counted: str = "positions",
) -> alt.LayerChart:
    """Points with intervals, arms in the order of the table, follow-ups below the candidates.

    A value that is null, or not positive on a log axis, cannot be drawn: its row stays, and says so in words. So a
    missing point is never mistaken for a small one. ``domain``: both ends of a linear axis, where they are known.
    ``counted``: what ``n`` counts.
    """
    import altair as alt

    missing = [column for column in COLUMNS if column not in table.column_names]
    if missing:
        raise ValueError(f"the table lacks {', '.join(missing)}")
    rows = [_row(row, log=log) for row in table.to_pylist()]
    order = list(dict.fromkeys(row["label"] for row in sorted(rows, key=lambda row: row["group"] == "follow-up")))
    present = [label for key, label in palette.OUTLIER_LABELS.items() if any(row["key"] == key for row in rows)]
    low, high = _extent(rows, log=log)
    if log:
        scale = alt.Scale(type="log", domain=[low / 1.6, high * 1.6], nice=False)
        # One line a decade: the ticks between would fill the page with lines.
        axis = alt.Axis(title=axis_title, format=number_format, values=decades(low / 1.6, high * 1.6))
    else:
        scale = alt.Scale(domain=list(domain or (0.0, high * 1.06)), nice=False)
        axis = alt.Axis(title=axis_title, format=number_format, tickCount=6, labelOverlap=True)

    def x(field: str) -> alt.X:
        return alt.X(f"{field}:Q", scale=scale, axis=axis)

    y = alt.Y("label:N", sort=order, axis=alt.Axis(title=None, labelLimit=240))
    offset = alt.YOffset("set:N", sort=present)
    colour = alt.Color(
        "set:N",
        scale=alt.Scale(domain=present, range=[palette.OUTLIER_COLOURS[label] for label in present]),
        legend=alt.Legend(title=None, orient="top") if present else None,
    )
    shape = alt.Shape(
        "set:N", scale=alt.Scale(domain=present, range=[palette.OUTLIER_SHAPES[label] for label in present])
    )
    tooltip = [
        alt.Tooltip("label:N", title="arm"),
        alt.Tooltip("set:N", title="windows"),
        alt.Tooltip("value:Q", title="value", format=number_format),
        alt.Tooltip("low:Q", title="interval from", format=number_format),
        alt.Tooltip("high:Q", title="to", format=number_format),
        alt.Tooltip("floor:N", title="floor"),
        alt.Tooltip("floor_value:Q", title="floor value", format=number_format),
        alt.Tooltip("verdict:N", title="verdict"),
        alt.Tooltip("n:Q", title=counted, format=","),
    ]
    base = alt.Chart(alt.Data(values=rows))
    drawn = base.transform_filter("datum.drawn")
    layers = [
        *_floor_layers(rows, x, log=log),
        drawn.mark_rule(strokeWidth=2).encode(x=x("low"), x2="high:Q", y=y, yOffset=offset, color=colour),
        drawn.mark_point(filled=True, size=90, opacity=1).encode(
            x=x("value"), y=y, yOffset=offset, color=colour, shape=shape, tooltip=tooltip
        ),
    ]
    if any(not row["drawn"] for row in rows):
        layers.append(
            base.transform_filter("!datum.drawn")
            .mark_text(align="left", dx=4, fontStyle="italic", color=palette.NEUTRAL)
            .encode(x=alt.value(0), y=y, yOffset=offset, text="why:N")
        )
    height = 120 + ROW_HEIGHT_PX * max(len(order), 1) * (1 if len(present) < 2 else 1.3)
    return alt.layer(*layers).properties(height=height, width="container")


def _extent(rows: list[dict[str, Any]], *, log: bool) -> tuple[float, float]:
    """Smallest and largest number that is drawn; something sensible when nothing is."""
    names = ("value", "low", "high", "floor_value", "floor_low", "floor_high")
    numbers = [
        row[name] for row in rows for name in names if row[name] is not None and (row["drawn"] or "floor" in name)
    ]
    numbers = [number for number in numbers if number > 0]
    if not numbers:
        return (1e-6, 1.0) if log else (0.0, 0.01)
    return min(numbers), max(numbers)


def _row(row: dict[str, Any], *, log: bool) -> dict[str, Any]:
    value = row["value"]
    drawn = value is not None and (not log or value > 0)
    why = ""
    if value is None:
        why = row.get("reason") or "withheld"
    elif not drawn:
        why = "0: not on a log axis"
    low, high = row["low"], row["high"]
    if log and low is not None and low <= 0:
        # An interval that reaches zero has no left end here: it is drawn from the point upwards.
        low = value
    mark = " (follow-up)" if row["group"] == "follow-up" else ""
    verdict = palette.VERDICT_LABELS.get(row["verdict"], "")
    return {
        **{key: row[key] for key in ("group", "value", "n", "state", "floor", "floor_value")},
        "label": row["arm"] + mark,
        "key": row["outliers"],
        "set": palette.OUTLIER_LABELS[row["outliers"]],
        "low": low if drawn else None,
        "high": high if drawn else None,
        "verdict": verdict,
        "drawn": drawn,
        "why": why,
        "floor_low": row.get("floor_low"),
        "floor_high": row.get("floor_high"),
    }


def _floor_layers(rows: list[dict[str, Any]], x: Any, *, log: bool) -> list[alt.Chart]:
    """A band over the floor's interval and a dashed rule at its value, once for each floor and set of windows."""
    import altair as alt

    floors = []
    seen: set[tuple[str, str]] = set()
    for row in rows:
        value, key = row["floor_value"], (row["floor"], row["key"])
        if not row["floor"] or value is None or key in seen or (log and value <= 0):
            continue
        seen.add(key)
        low, high = row["floor_low"], row["floor_high"]
        if low is None or high is None:
            low = high = value
        floors.append(
            {"floor": row["floor"], "low": max(low, value * 1e-3) if log else low, "value": value, "high": high}
        )
    if not floors:
        return []
    data = alt.Chart(alt.Data(values=floors))
    tooltip = [alt.Tooltip("floor:N", title="floor"), alt.Tooltip("value:Q", title="value", format=".3g")]
    return [
        data.mark_rect(color=palette.FLOOR, opacity=0.25).encode(x=x("low"), x2="high:Q", tooltip=tooltip),
        data.mark_rule(color=palette.FLOOR, strokeDash=[5, 3], strokeWidth=2).encode(x=x("value"), tooltip=tooltip),
    ]
