"""One figure of each arm on several machines: a panel an arm, a mark a machine, with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from drift_runs.charts import palette

if TYPE_CHECKING:
    import altair as alt
    import pyarrow as pa

COLUMNS = ("arm", "machine", "value", "low", "high", "n", "state", "reason")
"""What a table must have. ``machine``: a name that no other machine has; ``value`` is null where it is withheld."""

PANEL_WIDTH_PX = 145
PANEL_HEIGHT_PX = 190
PANELS_BESIDE = 3
"""As many as a window 1024 pixels wide holds: panels have a width of their own, and a page cannot shrink them."""
_HEADROOM = 1.08


def machines_by_arm(table: pa.Table, *, machines: Sequence[str], axis_title: str, number_format: str) -> alt.FacetChart:
    """Panels in the order of the table, marks in the order of ``machines``, which may be more than an arm ran on.

    Every panel has an axis of its own, which begins at zero: the question is how far the machines lie from each other
    within an arm, and arms lie orders of magnitude apart. What is withheld keeps its place and says so. A machine has
    a colour and a shape, and its place from the left is the same in every panel.
    """
    import altair as alt

    missing = [column for column in COLUMNS if column not in table.column_names]
    if missing:
        raise ValueError(f"the table lacks {', '.join(missing)}")
    rows = table.to_pylist()
    arms = list(dict.fromkeys(row["arm"] for row in rows))
    machines = list(machines)
    rows = [_row(row, top) for row, top in zip(rows, _tops(rows), strict=True)]
    x = alt.X("machine:N", scale=alt.Scale(domain=machines), axis=None)
    scale = alt.Scale(zero=True, nice=True)
    axis = alt.Axis(title=None, format=number_format, tickCount=4, labelOverlap=True)

    def y(field: str) -> alt.Y:
        return alt.Y(f"{field}:Q", scale=scale, axis=axis)

    marks = [_mark(at) for at in range(len(machines))]
    colour = alt.Color(
        "machine:N",
        scale=alt.Scale(domain=machines, range=[colour for colour, _ in marks]),
        legend=alt.Legend(title=None, orient="top", direction="vertical", columns=1, labelLimit=620),
    )
    shape = alt.Shape("machine:N", scale=alt.Scale(domain=machines, range=[shape for _, shape in marks]))
    tooltip = [
        alt.Tooltip("arm:N"),
        alt.Tooltip("machine:N"),
        alt.Tooltip("value:Q", title="value", format=number_format),
        alt.Tooltip("low:Q", title="interval from", format=number_format),
        alt.Tooltip("high:Q", title="to", format=number_format),
        alt.Tooltip("n:Q", title="n", format=","),
        alt.Tooltip("state:N"),
        alt.Tooltip("why:N", title="note"),
    ]
    base = alt.Chart()
    layers: list[Any] = [
        # Holds the axis open where every value is zero.
        base.mark_point(opacity=0, tooltip=None).encode(x=x, y=y("top")),
        base.transform_filter("datum.low !== null")
        .mark_rule(strokeWidth=2.5)
        .encode(x=x, y=y("low"), y2="high:Q", color=colour),
        base.transform_filter("datum.drawn")
        .mark_point(filled=True, size=100, opacity=1)
        .encode(x=x, y=y("value"), color=colour, shape=shape, tooltip=tooltip),
    ]
    if any(not row["drawn"] for row in rows):
        layers.append(
            base.transform_filter("!datum.drawn")
            .mark_text(angle=270, align="left", fontStyle="italic", color=palette.NEUTRAL, limit=PANEL_HEIGHT_PX)
            .encode(x=x, y=alt.value(PANEL_HEIGHT_PX - 4), text=alt.value("withheld"), tooltip=tooltip)
        )
    panel = alt.layer(*layers).properties(width=PANEL_WIDTH_PX, height=PANEL_HEIGHT_PX)
    header = alt.Header(title=None, labelFontWeight="bold", labelLimit=PANEL_WIDTH_PX, labelAnchor="start")
    return (
        panel.properties(data=alt.Data(values=rows))
        .facet(facet=alt.Facet("arm:N", sort=arms, header=header), columns=min(len(arms), PANELS_BESIDE) or 1)
        .resolve_scale(y="independent")
        .properties(title=alt.Title(axis_title, anchor="start", fontSize=12, fontWeight="normal"))
    )


def _mark(at: int) -> tuple[str, str]:
    """Colour and shape of the ``at``-th machine; the seventh has the first one's colour and another shape."""
    count = len(palette.SERIES_COLOURS)
    return palette.SERIES_COLOURS[at % count], palette.SERIES_SHAPES[(at + at // count) % len(palette.SERIES_SHAPES)]


def _tops(rows: list[dict[str, Any]]) -> list[float]:
    """The upper end of each row's panel: a little above the largest number in it.

    A panel of zeros has that of the panel with the smallest one, so that a zero stands at the foot of an axis.
    """
    largest: dict[str, float] = {}
    for row in rows:
        numbers = [row[name] for name in ("value", "low", "high") if row[name] is not None]
        largest[row["arm"]] = max([largest.get(row["arm"], 0.0), *numbers])
    otherwise = min((number for number in largest.values() if number > 0), default=1.0)
    return [(largest[row["arm"]] or otherwise) * _HEADROOM for row in rows]


def _row(row: dict[str, Any], top: float) -> dict[str, Any]:
    drawn = row["value"] is not None
    whole = drawn and row["low"] is not None and row["high"] is not None
    return {
        **{name: row[name] for name in ("arm", "machine", "value", "n", "state")},
        "low": row["low"] if whole else None,
        "high": row["high"] if whole else None,
        "drawn": drawn,
        "top": top,
        "why": row["reason"] or ("" if whole else "no interval" if drawn else "withheld"),
    }
