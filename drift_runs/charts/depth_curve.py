"""One figure by history, depth or quarter: points with intervals, and a line only where every point has one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from drift_runs.charts import palette

if TYPE_CHECKING:
    import altair as alt
    import pyarrow as pa

COLUMNS = ("bucket", "outliers", "value", "low", "high", "n", "state", "reason", "floor_value")
"""What a table must have, in the order of the buckets. ``value`` is null where a figure is withheld."""

HEIGHT_PX = 260


def depth_curve(table: pa.Table, *, axis_title: str, bucket_title: str, number_format: str = ".3~g") -> alt.LayerChart:
    """Chart of a figure over buckets, one series for each set of windows.

    A line is a claim about what lies between its points. It is drawn where at least two points are there and every one
    has an interval; a point that is withheld keeps its place on the axis and says so.
    """
    import altair as alt

    missing = [column for column in COLUMNS if column not in table.column_names]
    if missing:
        raise ValueError(f"the table lacks {', '.join(missing)}")
    rows = [_row(row) for row in table.to_pylist()]
    order = list(dict.fromkeys(row["bucket"] for row in rows))
    present = [label for key, label in palette.OUTLIER_LABELS.items() if any(row["key"] == key for row in rows)]
    joined = {row["key"] for row in rows} - {row["key"] for row in rows if not row["whole"]}
    many = {key for key in joined if sum(row["key"] == key for row in rows) > 1}
    x = alt.X("bucket:N", sort=order, axis=alt.Axis(title=bucket_title, labelAngle=0, labelLimit=130))
    # Two sets stand beside each other inside their bucket, so that one interval never hides the other.
    offset = alt.XOffset("set:N", sort=present, scale=alt.Scale(paddingOuter=0.8))
    scale = alt.Scale(domain=_domain(rows), nice=True)

    def y(name: str) -> alt.Y:
        return alt.Y(f"{name}:Q", scale=scale, axis=alt.Axis(title=axis_title, format=number_format, tickCount=6))

    colour = alt.Color(
        "set:N",
        scale=alt.Scale(domain=present, range=[palette.OUTLIER_COLOURS[label] for label in present]),
        legend=alt.Legend(title=None, orient="top") if present else None,
    )
    shape = alt.Shape(
        "set:N", scale=alt.Scale(domain=present, range=[palette.OUTLIER_SHAPES[label] for label in present])
    )
    tooltip = [
        alt.Tooltip("bucket:N", title=bucket_title),
        alt.Tooltip("set:N", title="windows"),
        alt.Tooltip("value:Q", title="value", format=number_format),
        alt.Tooltip("low:Q", title="interval from", format=number_format),
        alt.Tooltip("high:Q", title="to", format=number_format),
        alt.Tooltip("floor_value:Q", title="floor", format=number_format),
        alt.Tooltip("n:Q", title="positions", format=","),
        alt.Tooltip("why:N", title="note"),
    ]
    base = alt.Chart(alt.Data(values=rows)).encode(x=x, xOffset=offset)
    drawn = base.transform_filter("datum.drawn")
    layers: list[Any] = []
    if many:
        lines = [row for row in rows if row["key"] in many]
        layers.append(
            alt.Chart(alt.Data(values=lines))
            .mark_line(strokeWidth=1.5, opacity=0.7)
            .encode(x=x, xOffset=offset, y=y("value"), color=colour)
        )
    layers += [
        base.transform_filter("datum.floor_value !== null")
        .mark_tick(color=palette.FLOOR, thickness=2, width=26, orient="horizontal")
        .encode(y=y("floor_value"), tooltip=tooltip),
        drawn.mark_rule(strokeWidth=2).encode(y=y("low"), y2="high:Q", color=colour),
        drawn.mark_point(filled=True, size=80, opacity=1).encode(
            y=y("value"), color=colour, shape=shape, tooltip=tooltip
        ),
        # At the foot of its bucket, in words: a missing point is never mistaken for a small one.
        base.transform_filter("!datum.drawn")
        .mark_text(fontStyle="italic", color=palette.NEUTRAL, baseline="bottom", dy=-4)
        .encode(y=alt.value(HEIGHT_PX), text=alt.value("withheld"), tooltip=tooltip),
    ]
    return alt.layer(*layers).properties(height=HEIGHT_PX, width="container")


def _row(row: dict[str, Any]) -> dict[str, Any]:
    drawn = row["value"] is not None
    whole = drawn and row["low"] is not None and row["high"] is not None
    why = row["reason"] or ("" if whole else "no interval" if drawn else "withheld")
    return {
        **{name: row[name] for name in ("bucket", "value", "n", "state", "floor_value")},
        "key": row["outliers"],
        "set": palette.OUTLIER_LABELS[row["outliers"]],
        "low": row["low"] if whole else None,
        "high": row["high"] if whole else None,
        "drawn": drawn,
        "whole": whole,
        "why": why,
    }


def _domain(rows: list[dict[str, Any]]) -> list[float]:
    """From zero, or below it where a value is: something sensible when nothing is drawn."""
    names = ("value", "low", "high", "floor_value")
    numbers = [row[name] for row in rows for name in names if row[name] is not None]
    if not numbers:
        return [0.0, 1.0]
    low, high = min(0.0, *numbers), max(0.0, *numbers)
    return [low, high] if high > low else [0.0, 1.0]
