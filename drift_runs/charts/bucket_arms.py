"""One figure by history, depth or quarter for several arms: points with intervals, lines only between intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from drift_runs.charts import palette
from drift_runs.charts.log_axis import decades

if TYPE_CHECKING:
    import altair as alt
    import pyarrow as pa

COLUMNS = ("bucket", "arm", "value", "low", "high", "n", "state", "reason", "floor_value", "coverage")
"""What a table must have, in the order of buckets and arms. ``value`` is null where a figure is withheld; ``coverage``
is the share of the stretch that was scored, null for all of it."""

HEIGHT_PX = 300
LEGEND_ROW_PX = 26
LEGEND_FONT_PX = 12


def bucket_arms(
    table: pa.Table,
    *,
    axis_title: str,
    bucket_title: str,
    colours: dict[str, str],
    log: bool,
    number_format: str = ".3~g",
) -> alt.LayerChart:
    """Arms beside each other in each bucket, in the order of the table.

    A line is a claim about what lies between its points: an arm has one where every bucket has a value with an
    interval. An indicative point is hollow. A withheld one is not drawn, and the table beside the chart says why. The
    grey ticks are the floors that stand beside the figures, once for each bucket and value. On a log axis a value that
    is not positive has no place, and an interval that reaches zero begins at the foot.
    """
    import altair as alt

    missing = [column for column in COLUMNS if column not in table.column_names]
    if missing:
        raise ValueError(f"the table lacks {', '.join(missing)}")
    rows = [_row(row, log) for row in table.to_pylist()]
    buckets = list(dict.fromkeys(row["bucket"] for row in rows))
    arms = list(dict.fromkeys(row["arm"] for row in rows))
    x = alt.X("bucket:N", sort=buckets, axis=alt.Axis(title=bucket_title, labelAngle=0, labelLimit=130))
    offset = alt.XOffset("arm:N", sort=arms, scale=alt.Scale(domain=arms, paddingOuter=0.6))
    numbers = [row[name] for row in rows for name in ("value", "low", "high", "floor_value") if row[name] is not None]
    if log:
        low, high = _log_domain(numbers)
        scale = alt.Scale(type="log", domain=[low, high], nice=False, clamp=True)
        axis = alt.Axis(title=f"{axis_title} (log axis)", format=".2~g", values=decades(low, high))
    else:
        ends = [min(0.0, *numbers), max(0.0, *numbers)] if numbers and any(numbers) else [0.0, 1.0]
        scale = alt.Scale(domain=ends, nice=True)
        axis = alt.Axis(title=axis_title, format=number_format, tickCount=6)

    def y(name: str) -> alt.Y:
        return alt.Y(f"{name}:Q", scale=scale, axis=axis)

    colour = alt.Color(
        "arm:N",
        scale=alt.Scale(domain=arms, range=[colours.get(name, palette.NEUTRAL) for name in arms]),
        # Rows of a height of their own: in a page's theme they are so tall that the last ones are cut off.
        legend=alt.Legend(
            title=None, orient="right", labelLimit=170, rowPadding=2, symbolSize=70, labelFontSize=LEGEND_FONT_PX
        )
        if arms
        else None,
    )
    tooltip = [
        alt.Tooltip("arm:N"),
        alt.Tooltip("bucket:N", title=bucket_title),
        alt.Tooltip("value:Q", title="value", format=number_format),
        alt.Tooltip("low:Q", title="interval from", format=number_format),
        alt.Tooltip("high:Q", title="to", format=number_format),
        alt.Tooltip("floor_value:Q", title="floor", format=number_format),
        alt.Tooltip("n:Q", title="positions", format=","),
        alt.Tooltip("sampled:N", title="coverage"),
        alt.Tooltip("why:N", title="note"),
    ]
    base = alt.Chart(alt.Data(values=rows)).encode(x=x, xOffset=offset)
    layers: list[Any] = []
    broken = {row["arm"] for row in rows if not row["whole"]}
    joined = [row for row in rows if row["arm"] not in broken]
    if len(buckets) > 1 and joined:
        layers.append(
            alt.Chart(alt.Data(values=joined))
            .mark_line(strokeWidth=1.2, opacity=0.55)
            .encode(x=x, xOffset=offset, y=y("value"), color=colour)
        )
    layers += [
        alt.Chart(alt.Data(values=_floors(rows, log)))
        .mark_tick(color=palette.FLOOR, thickness=2, width=46, orient="horizontal")
        .encode(x=x, y=y("floor_value"), tooltip=[alt.Tooltip("floor_value:Q", title="floor", format=number_format)]),
        base.transform_filter("datum.low !== null")
        .mark_rule(strokeWidth=1.8)
        .encode(y=y("low"), y2="high:Q", color=colour),
        base.transform_filter("datum.value !== null && datum.state === 'firm'")
        .mark_point(filled=True, size=55, opacity=1)
        .encode(y=y("value"), color=colour, tooltip=tooltip),
        base.transform_filter("datum.value !== null && datum.state !== 'firm'")
        .mark_point(filled=False, size=55, opacity=1, strokeWidth=1.8)
        .encode(y=y("value"), color=colour, tooltip=tooltip),
    ]
    return alt.layer(*layers).properties(height=max(HEIGHT_PX, 30 + LEGEND_ROW_PX * len(arms)), width="container")


def _log_domain(numbers: list[float]) -> tuple[float, float]:
    positive = [number for number in numbers if number > 0]
    if not positive:
        return 1e-6, 1.0
    high = max(positive) * 1.5
    # An interval that almost reaches zero would press everything else into the top.
    return max(min(positive) / 1.5, high * 1e-9), high


def _row(row: dict[str, Any], log: bool) -> dict[str, Any]:
    value, low = row["value"], row["low"]
    if log and value is not None and value <= 0:
        value = None
    whole = value is not None and low is not None and row["high"] is not None
    if log and low is not None and low <= 0:
        low = 1e-300  # clamped to the foot of the axis
    coverage = row["coverage"]
    return {
        **{name: row[name] for name in ("bucket", "arm", "n", "state", "floor_value")},
        "value": value,
        "low": low if whole else None,
        "high": row["high"] if whole else None,
        "whole": whole,
        "sampled": "every position" if coverage is None else f"{coverage:.1%} of the positions",
        "why": row["reason"] or ("" if whole else "no interval"),
    }


def _floors(rows: list[dict[str, Any]], log: bool) -> list[dict[str, Any]]:
    pairs = dict.fromkeys((row["bucket"], row["floor_value"]) for row in rows if row["floor_value"] is not None)
    return [{"bucket": bucket, "floor_value": value} for bucket, value in pairs if value > 0 or not log]
