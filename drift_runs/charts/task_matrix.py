"""Tasks by arms: passed or failed as a mark and a word, on a ground that says how far the arm drifts there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from drift_runs.charts import palette

if TYPE_CHECKING:
    import altair as alt
    import pyarrow as pa

COLUMNS = ("task", "arm", "passed", "drift", "shown")
"""What a table must have, one row a task and arm, in the order of both axes. ``passed`` is null where a check could not
decide, ``drift`` the figure of the ground, null where it is not known; ``shown`` is that figure as text."""

ROW_HEIGHT_PX = 26
MARKS = {True: "\u2713 pass", False: "\u2717 fail", None: "? undecided"}


def task_matrix(table: pa.Table, *, drift_title: str) -> alt.LayerChart:
    """Heat map of a drift figure with pass or fail written into every cell; a grey cell has no figure.

    Failed is told by mark and word: the ground is the drift's alone.
    """
    import altair as alt

    missing = [column for column in COLUMNS if column not in table.column_names]
    if missing:
        raise ValueError(f"the table lacks {', '.join(missing)}")
    rows = table.to_pylist()
    highest = max((row["drift"] for row in rows if row["drift"] is not None), default=0.0)
    cells = [_cell(row, highest) for row in rows]
    tasks = list(dict.fromkeys(row["task"] for row in rows))
    arms = list(dict.fromkeys(row["arm"] for row in rows))
    x = alt.X("arm:N", sort=arms, axis=alt.Axis(title=None, orient="top", labelAngle=-30, labelLimit=120))
    y = alt.Y("task:N", sort=tasks, axis=alt.Axis(title=None, labelLimit=200))
    colour = alt.Color(
        "drift:Q",
        scale=alt.Scale(scheme=palette.SEQUENTIAL, domain=[0.0, highest or 1.0]),
        legend=alt.Legend(title=drift_title, orient="bottom", titleLimit=400, gradientLength=220),
    )
    tooltip = [
        alt.Tooltip("task:N"),
        alt.Tooltip("arm:N"),
        alt.Tooltip("words:N", title="task"),
        alt.Tooltip("shown:N", title=drift_title),
    ]
    base = alt.Chart(alt.Data(values=cells)).encode(x=x, y=y, tooltip=tooltip)
    layers = [
        base.mark_rect(stroke=palette.NEUTRAL, strokeWidth=0.5).encode(color=colour).transform_filter("datum.known"),
        base.mark_rect(stroke=palette.NEUTRAL, strokeWidth=0.5, color=palette.NEUTRAL, opacity=0.25).transform_filter(
            "!datum.known"
        ),
        base.mark_text(fontSize=11).encode(
            text="words:N",
            color=alt.Color("ink:N", scale=None),
        ),
    ]
    height = 190 + ROW_HEIGHT_PX * max(len(tasks), 1)
    return alt.layer(*layers).resolve_scale(color="independent").properties(height=height, width="container")


def _cell(row: dict[str, Any], highest: float) -> dict[str, Any]:
    drift = row["drift"]
    # Ink on the ground: the scheme's light end is its upper one. Where there is no ground, the neutral tone of both
    # themes.
    if drift is None:
        ink = palette.NEUTRAL
    else:
        ink = "#111111" if highest and drift / highest > 0.55 else "#ffffff"
    return {
        **{name: row[name] for name in COLUMNS},
        "known": drift is not None,
        "words": MARKS[row["passed"]],
        "ink": ink,
    }
