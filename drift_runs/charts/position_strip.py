"""One range, position by position: how far the arm drifts along the text, its flips, and the floor's maximum."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from drift_runs.charts import palette
from drift_runs.charts.log_axis import decades

if TYPE_CHECKING:
    import altair as alt
    import pyarrow as pa

COLUMNS = ("position", "nats", "flip", "infinite", "token")
"""What a table must have. ``nats`` is null where the divergence is infinite or was not measured."""

HEIGHT_PX = 190
_LOWEST_SHARE = 1e-5
"""Of the largest value: what lies below is drawn at the foot."""


def position_strip(table: pa.Table, *, spec: str, colour: str, floor_maximum_nats: float | None) -> alt.LayerChart:
    """Stems along the positions of a range, on a log axis.

    A flip is a filled diamond on its stem. An infinite value stands at the top as a cross; a position that was not
    measured stands below the axis as a grey bar; a value of zero, or too small for the axis, is a stub at the foot. The
    grey line is the largest value of the floor in the range.
    """
    import altair as alt

    missing = [column for column in COLUMNS if column not in table.column_names]
    if missing:
        raise ValueError(f"the table lacks {', '.join(missing)}")
    values = [value for value in table["nats"].to_pylist() if value is not None and value > 0]
    if floor_maximum_nats and floor_maximum_nats > 0:
        values.append(floor_maximum_nats)
    high = max(values, default=1.0) * 1.5
    low = max(min(values, default=high / 100), high * _LOWEST_SHARE) / 1.5
    rows = [_row(row, low, high) for row in table.to_pylist()]
    places = [row["position"] for row in rows]
    ends = [min(places, default=0) - 1, max(places, default=1) + 1]
    x = alt.X(
        "position:Q",
        scale=alt.Scale(domain=ends, nice=False),
        axis=alt.Axis(title="position in the window, tokens", format=",d", tickMinStep=1),
    )
    scale = alt.Scale(type="log", domain=[low, high], nice=False, clamp=True)
    axis = alt.Axis(title=f"{spec}, nats (log axis)", format=".2~g", values=decades(low, high))
    y = alt.Y("drawn:Q", scale=scale, axis=axis)
    tooltip = [
        alt.Tooltip("position:Q", format=","),
        alt.Tooltip("token:N"),
        alt.Tooltip("words:N", title=f"{spec}, nats"),
        alt.Tooltip("flips:N", title="flip"),
    ]
    base = alt.Chart(alt.Data(values=rows)).encode(x=x)
    known = base.transform_filter("datum.drawn !== null")
    layers: list[Any] = [
        known.mark_rule(color=colour, strokeWidth=1.4, opacity=0.8).encode(
            y=alt.Y("foot:Q", scale=scale, axis=axis), y2="drawn:Q", tooltip=tooltip
        ),
        base.transform_filter("datum.flips === 'yes' && datum.drawn !== null")
        .mark_point(shape="diamond", filled=True, size=70, color=palette.ABOVE, opacity=1)
        .encode(y=y, tooltip=tooltip),
        base.transform_filter("datum.infinite")
        .mark_point(shape="cross", filled=True, size=70, color=palette.ABOVE, opacity=1)
        .encode(y=alt.value(6), tooltip=tooltip),
        base.transform_filter("datum.drawn === null && !datum.infinite")
        .mark_tick(color=palette.NEUTRAL, thickness=2, size=8, orient="vertical")
        .encode(y=alt.value(HEIGHT_PX - 4), tooltip=tooltip),
    ]
    if floor_maximum_nats is not None and floor_maximum_nats > 0:
        line = alt.Chart(alt.Data(values=[{"drawn": floor_maximum_nats, "what": "floor's maximum in this range"}]))
        layers.append(
            line.mark_rule(color=palette.FLOOR, strokeWidth=2, strokeDash=[5, 3]).encode(
                y=y, tooltip=[alt.Tooltip("what:N", title="line"), alt.Tooltip("drawn:Q", title="nats", format=".3~g")]
            )
        )
    return alt.layer(*layers).properties(height=HEIGHT_PX, width="container")


def _row(row: dict[str, Any], low: float, high: float) -> dict[str, Any]:
    value = row["nats"]
    known = value is not None and math.isfinite(value)
    return {
        "position": row["position"],
        "token": row["token"],
        "infinite": bool(row["infinite"]),
        "foot": low,
        "drawn": min(max(value, low * 1.05), high) if known else None,
        "words": f"{value:.3g}" if known else "infinite" if row["infinite"] else "not measured",
        "flips": {True: "yes", False: "no", None: "not known"}[row["flip"]],
    }
