"""Kendall's tau of the arms' order between every two figures: do they tell the same story?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from drift_runs.charts import palette

if TYPE_CHECKING:
    import altair as alt
    import pyarrow as pa

CELL_HEIGHT_PX = 34
_LIMIT_OF_DARK_INK = 0.55


def tau_heatmap(table: pa.Table) -> alt.LayerChart:
    """Heat map of one set of rows of schema ``AGREEMENT``: figures by figures, tau and the number of arms in a cell.

    Two hues and white between them, so that agreement and disagreement differ in hue and no relation is pale. A tau
    that is null leaves its cell empty, with a dotted edge.
    """
    import altair as alt

    cells = [cell for row in table.to_pylist() for cell in _cells(row)]
    figures = list(dict.fromkeys([*table["left"].to_pylist(), *table["right"].to_pylist()]))
    x = alt.X(
        "left:N",
        sort=figures,
        axis=alt.Axis(title=None, orient="top", labelAngle=-90, labelLimit=190, labelOverlap=False),
    )
    y = alt.Y("right:N", sort=figures, axis=alt.Axis(title=None, labelLimit=220))
    tooltip = [
        alt.Tooltip("left:N", title="figure"),
        alt.Tooltip("right:N", title="and"),
        alt.Tooltip("shown:N", title="Kendall's tau"),
        alt.Tooltip("arms:Q", title="arms"),
        alt.Tooltip("concordant:Q", title="pairs in the same order"),
        alt.Tooltip("discordant:Q", title="in the opposite order"),
        alt.Tooltip("tied:Q", title="tied"),
        alt.Tooltip("reason:N", title="note"),
    ]
    ink = (
        alt.when("datum.ink === 'light'")
        .then(alt.value("#ffffff"))
        .when("datum.ink === 'dark'")
        .then(alt.value("#101418"))
        .otherwise(alt.value(palette.NEUTRAL))
    )
    base = alt.Chart(alt.Data(values=cells)).encode(x=x, y=y)
    known, unknown = base.transform_filter("datum.tau !== null"), base.transform_filter("datum.tau === null")
    return alt.layer(
        known.mark_rect(cornerRadius=3).encode(
            color=alt.Color(
                "tau:Q",
                scale=alt.Scale(domain=[-1, 0, 1], range=[palette.ABOVE, "#f2f2f2", palette.WITH_OUTLIERS]),
                legend=alt.Legend(title="Kendall's tau", orient="bottom", gradientLength=200, format=".1f"),
            ),
            tooltip=tooltip,
        ),
        unknown.mark_rect(
            fill=palette.NEUTRAL, fillOpacity=0.08, stroke=palette.NEUTRAL, strokeDash=[1, 3], cornerRadius=3
        ).encode(tooltip=tooltip),
        base.mark_text(fontSize=12).encode(text="shown:N", color=ink, tooltip=tooltip),
    ).properties(height=250 + CELL_HEIGHT_PX * max(len(figures), 1), width="container")


def _cells(row: dict[str, Any]) -> list[dict[str, Any]]:
    """A row as two cells, one on each side of the diagonal."""
    tau = row["tau"]
    cell = {
        **{name: row[name] for name in ("tau", "arms", "concordant", "discordant", "tied", "reason")},
        "shown": "none" if tau is None else f"{tau:.2f}",
        "ink": "grey" if tau is None else "light" if abs(tau) > _LIMIT_OF_DARK_INK else "dark",
    }
    return [
        {**cell, "left": row["left"], "right": row["right"]},
        {**cell, "left": row["right"], "right": row["left"]},
    ]
