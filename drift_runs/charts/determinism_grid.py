"""Which windows two executions agree on to the byte: windows by floor, a filled mark where they do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from drift_runs.charts import palette

if TYPE_CHECKING:
    import altair as alt
    import pyarrow as pa

COLUMNS = ("floor", "window", "rows", "rows_identical", "identical", "first_difference", "expected", "holds")
"""What a table must have: windows in the order of the table. ``holds``: yes, no, or empty where nothing
was expected."""

ROW_HEIGHT_PX = 26
COLUMN_WIDTH_PX = 78


def determinism_grid(table: pa.Table, *, floors: Sequence[str]) -> alt.LayerChart:
    """Windows as rows, floors as columns: a filled circle where every row is identical, a hollow one where not.

    ``floors``: every column, in order. A floor that did not run on a window has no mark there. Where the outcome is
    not what the protocol expects, the mark is red and a cross stands beside it, so that colour alone says nothing.
    """
    import altair as alt

    missing = [column for column in COLUMNS if column not in table.column_names]
    if missing:
        raise ValueError(f"the table lacks {', '.join(missing)}")
    rows = [_row(row) for row in table.to_pylist()]
    floors = list(floors)
    windows = list(dict.fromkeys(row["window"] for row in rows))
    x = alt.X(
        "floor:N",
        sort=floors,
        scale=alt.Scale(domain=floors),
        axis=alt.Axis(title=None, orient="top", labelAngle=0, labelLimit=COLUMN_WIDTH_PX + 30, labelOverlap=False),
    )
    y = alt.Y(
        "window:N", sort=windows, scale=alt.Scale(domain=windows), axis=alt.Axis(title=None, grid=True, labelLimit=220)
    )
    colour = alt.condition("datum.holds === 'no'", alt.value(palette.ABOVE), alt.value(palette.WITH_OUTLIERS))
    tooltip = [
        alt.Tooltip("window:N"),
        alt.Tooltip("floor:N"),
        alt.Tooltip("words:N", title="rows identical"),
        alt.Tooltip("where:N", title="first difference"),
        alt.Tooltip("expected:N", title="the protocol expects"),
    ]
    base = alt.Chart(alt.Data(values=rows)).encode(x=x, y=y, tooltip=tooltip)
    return alt.layer(
        base.transform_filter("datum.identical").mark_point(filled=True, size=130, opacity=1).encode(color=colour),
        base.transform_filter("!datum.identical")
        .mark_point(filled=False, size=130, strokeWidth=2, opacity=1)
        .encode(color=colour),
        base.transform_filter("datum.holds === 'no'").mark_text(text="✕", fontSize=11, color=palette.ABOVE, dx=14),
    ).properties(height=50 + ROW_HEIGHT_PX * max(len(windows), 1), width=max(len(floors), 1) * (COLUMN_WIDTH_PX + 40))


def _row(row: dict[str, Any]) -> dict[str, Any]:
    first = row["first_difference"]
    return {
        **{name: row[name] for name in COLUMNS},
        "words": f"{row['rows_identical']:,} of {row['rows']:,}",
        "where": "none" if first is None else f"position {first:,}",
    }
