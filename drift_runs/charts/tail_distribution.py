"""The tail of a divergence: the share of positions at or above each size, one line an arm, the floors in grey."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

from drift_runs.charts import palette
from drift_runs.charts.log_axis import decades
from drift_runs.measure.quantiles import FIRM_FROM, INDICATIVE_FROM

if TYPE_CHECKING:
    import altair as alt
    import pyarrow as pa

COLUMNS = ("arm", "group", "nats", "count", "n")
"""What a table must have: one row a step, ascending. ``group`` is ``arm`` or ``floor``; ``count`` values are at or
above ``nats``."""

HEIGHT_PX = 380
_FLOOR_DASHES = ([6, 3], [2, 2], [8, 3, 2, 3], [1, 3])
_LEAST_DECADES = 2.0


def tail_distribution(
    table: pa.Table,
    *,
    spec: str,
    colours: dict[str, str],
    domain: tuple[float, float] | None = None,
    share_from: float | None = None,
) -> alt.LayerChart:
    """Complementary distribution on two log axes.

    A line is thin where fewer than 100 positions lie at or above, and ends where fewer than 10 do: a page withholds a
    quantile that rests on so few, and a line would show it. ``colours``: arm -> colour, the page's own. ``domain`` and
    ``share_from`` are given where two of these charts must compare.
    """
    import altair as alt

    missing = [column for column in COLUMNS if column not in table.column_names]
    if missing:
        raise ValueError(f"the table lacks {', '.join(missing)}")
    rows = drawn_rows(table)
    arms = list(dict.fromkeys(row["arm"] for row in rows if row["group"] == "arm"))
    floors = list(dict.fromkeys(row["arm"] for row in rows if row["group"] == "floor"))
    low, high = domain or nats_domain(rows)
    least = share_from or min((row["share"] for row in rows), default=1e-3)
    names = [*arms, *floors]
    x = alt.X(
        "nats:Q",
        scale=alt.Scale(type="log", domain=[low, high], nice=False),
        axis=alt.Axis(title=f"{spec} of a position, nats (log axis)", format=".2~g", values=decades(low, high)),
    )
    y = alt.Y(
        "share:Q",
        scale=alt.Scale(type="log", domain=[least * 0.8, 1.0], nice=False),
        axis=alt.Axis(
            title="share of positions at or above (log axis)", format=".2~%", values=decades(least * 0.8, 1.0)
        ),
    )
    colour = alt.Color(
        "arm:N",
        scale=alt.Scale(domain=names, range=[colours.get(name, palette.FLOOR) for name in names]),
        # One legend for hue and dash; a name that is long would push the picture off the page.
        legend=alt.Legend(title=None, orient="right", symbolType="stroke", symbolStrokeWidth=3, labelLimit=170),
    )
    dashes = [[1, 0]] * len(arms) + [_FLOOR_DASHES[at % len(_FLOOR_DASHES)] for at in range(len(floors))]
    dash = alt.StrokeDash("arm:N", scale=alt.Scale(domain=names, range=dashes), legend=None)
    tooltip = [
        alt.Tooltip("arm:N"),
        alt.Tooltip("nats:Q", title="nats", format=".3~g"),
        alt.Tooltip("share:Q", title="share at or above", format=".3~%"),
        alt.Tooltip("count:Q", title="positions at or above", format=","),
        alt.Tooltip("n:Q", title="of", format=","),
    ]
    base = alt.Chart(alt.Data(values=rows)).encode(x=x, y=y, color=colour, strokeDash=dash)
    return alt.layer(
        base.transform_filter(f"datum.count >= {FIRM_FROM}").mark_line(strokeWidth=2.4, clip=True),
        # From the last firm step on, so that the thin part begins where the full one ends.
        base.transform_filter("datum.thin").mark_line(strokeWidth=1.1, opacity=0.75, clip=True),
        base.mark_point(filled=True, size=120, opacity=0.001, clip=True).encode(tooltip=tooltip),
    ).properties(height=HEIGHT_PX, width="container")


def drawn_rows(table: pa.Table) -> list[dict[str, Any]]:
    """Steps that are drawn, with their share; ``thin``: fewer than 100 positions, or the step before these."""
    rows = [
        {**row, "share": row["count"] / row["n"], "thin": row["count"] < FIRM_FROM}
        for row in table.to_pylist()
        if row["count"] >= INDICATIVE_FROM and row["n"]
    ]
    for row, after in pairwise(rows):
        if row["arm"] == after["arm"] and after["thin"]:
            row["thin"] = True
    return rows


def nats_domain(rows: list[dict[str, Any]]) -> tuple[float, float]:
    """Both ends of the axis in nats: from where the first arm has lost a hundredth, because what lies below is noise;
    at least two decades, also where nothing is drawn."""
    if not rows:
        return 1e-6, 1.0
    high = max(row["nats"] for row in rows) * 1.15
    of_arms = [row for row in rows if row["group"] == "arm"] or rows
    low = min(row["nats"] for row in of_arms if row["share"] <= 0.99 or row["count"] == row["n"])
    low = max(low, high * 1e-8)
    return min(low, high / 10**_LEAST_DECADES), high
