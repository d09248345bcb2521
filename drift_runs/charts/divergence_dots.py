"""Every definition of divergence by arm: how far apart they lie, and which could not be measured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from drift_runs.charts import palette
from drift_runs.charts.log_axis import decades
from drift_runs.measure.specs import DIVERGENCES, base_of

if TYPE_CHECKING:
    import altair as alt
    import pyarrow as pa

COLUMNS = ("arm", "spec", "value", "low", "high", "n")
"""What a table must have: means in nats, arms in the order of the table."""

ROW_HEIGHT_PX = 34


def divergence_dots(table: pa.Table) -> alt.LayerChart:
    """Dot plot on a log axis, a mark and a colour for each definition.

    A mean that is not positive cannot be drawn there: it is left out of the picture, and the table beside it has it.
    """
    import altair as alt

    missing = [column for column in COLUMNS if column not in table.column_names]
    if missing:
        raise ValueError(f"the table lacks {', '.join(missing)}")
    rows = [_row(row) for row in table.to_pylist() if row["value"] is not None and row["value"] > 0]
    arms = list(dict.fromkeys(table["arm"].to_pylist()))
    place = {item.base: at for at, item in enumerate(DIVERGENCES)}
    specs = sorted({row["spec"] for row in rows}, key=lambda spec: (place[base_of(spec)], spec))
    marks = [place[base_of(spec)] for spec in specs]
    x_scale = alt.Scale(type="log", nice=False, domain=_domain(rows))
    y = alt.Y("arm:N", sort=arms, scale=alt.Scale(domain=arms), axis=alt.Axis(title=None, labelLimit=240))
    offset = alt.YOffset("spec:N", sort=specs)
    colour = alt.Color(
        "spec:N",
        scale=alt.Scale(domain=specs, range=[palette.SERIES_COLOURS[at] for at in marks]),
        legend=alt.Legend(title=None, orient="top", columns=3) if specs else None,
    )
    shape = alt.Shape("spec:N", scale=alt.Scale(domain=specs, range=[palette.SERIES_SHAPES[at] for at in marks]))
    tooltip = [
        alt.Tooltip("arm:N"),
        alt.Tooltip("spec:N", title="definition"),
        alt.Tooltip("value:Q", title="mean, nats", format=".3~g"),
        alt.Tooltip("low:Q", title="interval from", format=".3~g"),
        alt.Tooltip("high:Q", title="to", format=".3~g"),
        alt.Tooltip("n:Q", title="positions", format=","),
    ]
    ticks = decades(*_domain(rows))
    axis = alt.Axis(title="mean of each definition, nats (log axis)", format=".2~g", values=ticks)
    base = alt.Chart(alt.Data(values=rows)).encode(y=y, yOffset=offset, color=colour)
    return alt.layer(
        base.transform_filter("datum.low !== null")
        .mark_rule(strokeWidth=1.5)
        .encode(x=alt.X("low:Q", scale=x_scale, axis=axis), x2="high:Q"),
        base.mark_point(filled=True, size=70, opacity=1).encode(
            x=alt.X("value:Q", scale=x_scale, axis=axis), shape=shape, tooltip=tooltip
        ),
    ).properties(height=110 + ROW_HEIGHT_PX * max(len(arms), 1), width="container")


def _row(row: dict[str, Any]) -> dict[str, Any]:
    low, high = row["low"], row["high"]
    if low is not None and low <= 0:
        # An interval that reaches zero has no left end here: it is drawn from the point upwards.
        low = row["value"]
    return {**{name: row[name] for name in ("arm", "spec", "value", "n")}, "low": low, "high": high}


def _domain(rows: list[dict[str, Any]]) -> list[float]:
    numbers = [row[name] for row in rows for name in ("value", "low", "high") if row[name] is not None]
    return [min(numbers) / 1.6, max(numbers) * 1.6] if numbers else [1e-6, 1.0]
