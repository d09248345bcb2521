"""Range kind by arm: the figure as colour and number, with n in every cell."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from drift_runs.charts import palette

if TYPE_CHECKING:
    import altair as alt
    import pyarrow as pa

COLUMNS = ("arm", "kind", "value", "n", "state", "reason", "shown", "verdict")
"""``shown`` is the value as text, rounded to what is known; ``state`` is ``firm``, ``indicative`` or ``withheld``."""

CELL_HEIGHT_PX = 40
TALL_PX = 52
"""Of a row in which a third line says that a cell is indicative."""
LABEL_LINE_PX = 12
NARROW_PX = 70
"""Cells below this width have smaller letters, and names of arms break at their hyphens too."""
MOST_ARMS_LEVEL = 12
"""With more arms than this their names are slanted."""


def range_heatmap(
    table: pa.Table, *, title: str, log: bool = True, domain: tuple[float, float] | None = None
) -> alt.LayerChart:
    """Heat map with kinds as rows and arms as columns, both in the order of the table.

    Firm cells are filled. Indicative cells are greyed, with a dashed edge and the word. Withheld cells have no
    colour, a dotted edge and say *withheld*. ``domain`` fixes the colour scale, so that two maps can be compared.
    """
    import altair as alt

    missing = [column for column in COLUMNS if column not in table.column_names]
    if missing:
        raise ValueError(f"the table lacks {', '.join(missing)}")
    rows = table.to_pylist()
    low, high = domain or value_domain(rows)
    cells = [_cell(row, low, high, log=log) for row in rows]
    arms = list(dict.fromkeys(cell["arm"] for cell in cells))
    kinds = list(dict.fromkeys(cell["kind"] for cell in cells))
    level = len(arms) <= MOST_ARMS_LEVEL
    tall = any(cell["state"] == "indicative" for cell in cells)
    x = alt.X(
        "arm:N",
        sort=arms,
        scale=alt.Scale(paddingInner=0.04),
        # A label on lines of its own words; slanted only where there is no room, because a slanted last one is cut off.
        axis=alt.Axis(
            title=None,
            orient="top",
            labelAngle=0 if level else -30,
            labelExpr=_LINES if level else "datum.label",
            labelOverlap=not level,
            labelLimit=180,
            labelLineHeight=LABEL_LINE_PX,
            labelFontSize=alt.ExprRef(_narrow(9, 11)),
            # Lines go down from the first one: a label of two begins higher, or its second one is on the first row.
            labelPadding=_padding() if level else 4,
        ),
    )
    y = alt.Y(
        "kind:N", sort=kinds, scale=alt.Scale(paddingInner=0.06), axis=alt.Axis(title="range kind", labelLimit=160)
    )
    base = alt.Chart(alt.Data(values=cells)).encode(x=x, y=y)
    tooltip = [
        alt.Tooltip("arm:N"),
        alt.Tooltip("kind:N", title="range kind"),
        alt.Tooltip("shown:N", title=title),
        alt.Tooltip("n:Q", title="positions", format=","),
        alt.Tooltip("state:N"),
        alt.Tooltip("verdict:N", title="verdict against the floor"),
        alt.Tooltip("reason:N", title="note"),
    ]
    colour = alt.Color(
        "value:Q",
        scale=alt.Scale(type="log" if log else "linear", scheme=palette.SEQUENTIAL, domain=[low, high], clamp=True),
        legend=alt.Legend(
            title=title, orient="bottom", gradientLength=280, gradientOpacity=1, format=".2~g", labelOverlap=True
        ),
    )
    firm, indicative, withheld = (
        base.transform_filter(f"datum.state === '{state}'") for state in ("firm", "indicative", "withheld")
    )
    ink = (
        alt.when("datum.ink === 'light'")
        .then(alt.value("#ffffff"))
        .when("datum.ink === 'dark'")
        .then(alt.value("#101418"))
        .otherwise(alt.value(palette.NEUTRAL))
    )
    return alt.layer(
        firm.mark_rect(cornerRadius=3).encode(color=colour, tooltip=tooltip),
        # Grey below and half the colour above: paler than a firm cell, and the same on a light and a dark page.
        indicative.mark_rect(fill=palette.NEUTRAL, cornerRadius=3),
        indicative.mark_rect(opacity=0.45, cornerRadius=3).encode(color=colour, tooltip=tooltip),
        indicative.mark_rect(
            fillOpacity=0, stroke="#ffffff", strokeOpacity=0.7, strokeWidth=1, strokeDash=[5, 4], cornerRadius=3
        ).encode(tooltip=tooltip),
        withheld.mark_rect(
            fill=palette.NEUTRAL, fillOpacity=0.1, stroke=palette.NEUTRAL, strokeDash=[1, 3], cornerRadius=3
        ).encode(tooltip=tooltip),
        base.mark_text(dy=-14 if tall else -8, fontSize=alt.ExprRef(_narrow(9, 13)), fontWeight="bold").encode(
            text="shown:N", color=ink, tooltip=tooltip
        ),
        base.mark_text(dy=3 if tall else 9, fontSize=alt.ExprRef(_narrow(9, 11)), lineBreak="\n", lineHeight=12).encode(
            text="under:N", color=ink, tooltip=tooltip
        ),
    ).properties(height=150 + (TALL_PX if tall else CELL_HEIGHT_PX) * max(len(kinds), 1), width="container")


def _narrow(small: int, usual: int) -> str:
    """A size in pixels that follows the width of a cell."""
    return f"bandwidth('x') < {NARROW_PX} ? {small} : {usual}"


_LINES = f"split(bandwidth('x') < {NARROW_PX} ? replace(datum.label, regexp('-', 'g'), '- ') : datum.label, ' ')"


def _padding() -> dict[str, Any]:
    """Of a label, by its lines: the first test that holds counts."""
    tests = [{"test": f"length({_LINES}) > {lines}", "value": 4 + LABEL_LINE_PX * lines} for lines in (3, 2, 1)]
    return {"condition": tests, "value": 4}


def value_domain(rows: list[dict[str, Any]]) -> tuple[float, float]:
    """Smallest and largest positive value, so that a log colour scale is defined; (0.001, 1) when there is none."""
    positive = [row["value"] for row in rows if row["value"] is not None and row["value"] > 0]
    if not positive:
        return 0.001, 1.0
    low, high = min(positive), max(positive)
    return (low, high) if high > low else (low / 2, low * 2)


def _cell(row: dict[str, Any], low: float, high: float, *, log: bool) -> dict[str, Any]:
    value = row["value"]
    state = row["state"] if value is not None else "withheld"
    return {
        **{key: row[key] for key in ("arm", "kind", "n", "reason")},
        "value": max(value, low) if value is not None and log else value,
        "verdict": palette.VERDICT_LABELS.get(row["verdict"], ""),
        "state": state,
        "shown": row["shown"] if state != "withheld" else "withheld",
        "under": f"n {row['n']:,}" + ("\nindicative" if state == "indicative" else ""),
        "ink": _ink(value, low, high, log=log) if state != "withheld" else "grey",
    }


def _ink(value: float, low: float, high: float, *, log: bool) -> str:
    """Black on the brighter part of the scale, white on the rest: the one that has more contrast."""
    clamped = min(max(value, low), high)
    share = math.log(clamped / low) / math.log(high / low) if log else (clamped - low) / (high - low)
    return "dark" if share > 0.45 else "light"
