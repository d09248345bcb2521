"""Where the rollouts of an arm part from the reference's: a histogram by step, one row an arm."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from drift_runs.charts import palette

if TYPE_CHECKING:
    import altair as alt
    import pyarrow as pa

COLUMNS = ("arm", "step", "prompts", "n")
"""What a table must have, one row an arm and step at which some prompts part. ``step`` counts from 0; it is null in the
row of the prompts that never part. ``n``: prompts of the arm."""

ROW_HEIGHT_PX = 30
MOST_BARS = 64
"""Longer rollouts have several steps to a bar, or a bar would be too thin to be seen."""


def first_difference(table: pa.Table, *, steps: int, colours: Mapping[str, str]) -> alt.LayerChart:
    """Bars over the steps of a rollout, their height the share of the arm's prompts, and at the right, in words, how
    many never part.

    ``steps``: tokens of a rollout. ``colours``: arm -> its colour; an arm that has none is neutral.
    """
    import altair as alt

    missing = [column for column in COLUMNS if column not in table.column_names]
    if missing:
        raise ValueError(f"the table lacks {', '.join(missing)}")
    if steps < 1:
        raise ValueError(f"steps: expected 1 or more, not {steps}")
    rows = table.to_pylist()
    arms = list(dict.fromkeys(row["arm"] for row in rows))
    bars = _bars(rows, steps)
    highest = max((bar["share"] for bar in bars), default=1.0)
    y = alt.Y("arm:N", sort=arms, scale=alt.Scale(domain=arms), axis=alt.Axis(title=None, labelLimit=200))
    # Room at the right for the words: a quarter of the axis.
    scale = alt.Scale(domain=[0, steps * 1.25], nice=False)
    ticks = [step for step in range(0, steps, max(steps // 8, 1))]
    axis = alt.Axis(title="step of the first difference, tokens from 0", values=ticks, grid=False)
    hues = [colours.get(arm, palette.NEUTRAL) for arm in arms]
    colour = alt.Color("arm:N", scale=alt.Scale(domain=arms, range=hues), legend=None)
    size = alt.Size(
        "share:Q", scale=alt.Scale(domain=[0, highest], range=[0, ROW_HEIGHT_PX * 0.85], zero=True), legend=None
    )
    tooltip = [
        alt.Tooltip("arm:N"),
        alt.Tooltip("first:Q", title="from step"),
        alt.Tooltip("last:Q", title="to step"),
        alt.Tooltip("prompts:Q", title="prompts that part here", format=","),
        alt.Tooltip("n:Q", title="of", format=","),
    ]
    drawn = alt.Chart(alt.Data(values=bars))
    words = alt.Chart(alt.Data(values=_never(rows, arms, steps)))
    layers = [
        drawn.mark_bar(opacity=0.9).encode(
            x=alt.X("from:Q", scale=scale, axis=axis), x2="to:Q", y=y, size=size, color=colour, tooltip=tooltip
        ),
        words.mark_text(align="left", dx=6, color=palette.NEUTRAL, fontSize=12).encode(
            x=alt.X("at:Q", scale=scale, axis=axis), y=y, text="words:N"
        ),
    ]
    height = 60 + ROW_HEIGHT_PX * max(len(arms), 1)
    return alt.layer(*layers).properties(height=height, width="container")


def _bars(rows: list[dict[str, Any]], steps: int) -> list[dict[str, Any]]:
    """The counts, some steps of a long rollout together."""
    width = -(-steps // MOST_BARS)
    found: dict[tuple[str, int], dict[str, Any]] = {}
    for row in rows:
        if row["step"] is None:
            continue
        begin = row["step"] // width * width
        bar = found.setdefault(
            (row["arm"], begin),
            {
                "arm": row["arm"],
                "from": begin,
                "to": begin + width - 0.08 * width,
                "first": begin,
                "last": min(begin + width, steps) - 1,
                "prompts": 0,
                "n": row["n"],
            },
        )
        bar["prompts"] += row["prompts"]
    for bar in found.values():
        bar["share"] = bar["prompts"] / bar["n"]
    return list(found.values())


def _never(rows: list[dict[str, Any]], arms: list[str], steps: int) -> list[dict[str, Any]]:
    counts = {row["arm"]: (row["prompts"], row["n"]) for row in rows if row["step"] is None}
    return [
        {"arm": arm, "at": steps, "words": f"{counts[arm][0]:,} of {counts[arm][1]:,} never"}
        for arm in arms
        if arm in counts
    ]
