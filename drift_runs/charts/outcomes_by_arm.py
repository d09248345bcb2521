"""What became of the roots of each arm: one bar an arm, whole at 100 %, a part an outcome; the null below."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from drift_runs.charts import palette
from drift_runs.generate.outcomes import OUTCOMES

if TYPE_CHECKING:
    import altair as alt
    import pyarrow as pa

COLUMNS = ("arm", "label", "null", "outcome", "count", "explored")
"""What a table must have, one row an arm and outcome, arms in the order in which they are drawn. ``label`` is what the
axis says of the arm; ``null`` is true for a floor; ``explored``: roots of the arm, the sum of its counts."""

OUTCOME_COLOURS: Mapping[str, str] = {
    "both-malformed": "#8d6e4f",
    "malformed": palette.ABOVE,
    "reference-malformed": "#7a7fb5",
    "no-call": "#c8415b",
    "unasked-call": "#b0569f",
    "wrong-call": "#a58b00",
    "recovers": palette.WITHIN,
    "changes": "#2f86c6",
    "unresolved": palette.NEUTRAL,
}
"""One an outcome; the counts stand in the bars and the words in the legend, so that nothing hangs on a hue."""

OUTCOME_WORDS: Mapping[str, str] = {
    "both-malformed": "both sides write a broken structure",
    "malformed": "the candidate breaks a structure, the reference does not",
    "reference-malformed": "the reference breaks a structure, the candidate does not",
    "no-call": "the reference calls a tool, the candidate does not",
    "unasked-call": "the candidate calls a tool, the reference does not",
    "wrong-call": "the candidate calls another tool, or with other values",
    "recovers": "it comes to the same: equal calls, equal text, or the streams run together with the same literals",
    "changes": "it comes to something else: another text, or another literal",
    "unresolved": "the tokens that a future may write ran out first",
}
"""What each outcome says, in the order of ``OUTCOMES``."""

NULL_MARK = "○"
"""Stands before the name of a floor on the axis."""
ROW_HEIGHT_PX = 27
_AROUND_PX = 130
"""Axis, its title and two lines of the legend: the height of a page's chart holds them too."""
_GAP = 0.0018
"""Share that is left free behind each part: neighbours of like colours stay two."""
_NAMED_FROM = 0.035
"""Share from which a part has room for its count."""


def outcomes_by_arm(table: pa.Table) -> alt.LayerChart:
    """Stacked bars of the share of explored roots, in the order of ``OUTCOMES``, with the count in each part.

    An arm without an explored root has no bar and says so.
    """
    import altair as alt

    missing = [column for column in COLUMNS if column not in table.column_names]
    if missing:
        raise ValueError(f"the table lacks {', '.join(missing)}")
    rows = table.to_pylist()
    parts = _parts(rows)
    labels = list(dict.fromkeys(_axis_label(row) for row in rows))
    there = [outcome for outcome in OUTCOMES if any(part["outcome"] == outcome for part in parts)]
    y = alt.Y("label:N", sort=labels, axis=alt.Axis(title=None, labelLimit=260, labelOverlap=False))
    scale = alt.Scale(domain=[0.0, 1.0], nice=False)
    axis = alt.Axis(title="share of explored roots, %", format=".3~%", tickCount=6)
    colour = alt.Color(
        "outcome:N",
        scale=alt.Scale(domain=there, range=[OUTCOME_COLOURS[outcome] for outcome in there]),
        sort=there,
        legend=alt.Legend(title=None, orient="top", columns=5, labelLimit=240, symbolType="square"),
    )
    tooltip = [
        alt.Tooltip("arm:N"),
        alt.Tooltip("outcome:N"),
        alt.Tooltip("words:N", title="says"),
        alt.Tooltip("count:Q", title="roots", format=","),
        alt.Tooltip("explored:Q", title="of explored", format=","),
        alt.Tooltip("share:Q", title="share", format=".3~%"),
    ]
    base = alt.Chart(alt.Data(values=parts))
    layers: list[Any] = [
        base.mark_bar(height={"band": 0.72}).encode(
            x=alt.X("start:Q", scale=scale, axis=axis), x2="until:Q", y=y, color=colour, tooltip=tooltip
        ),
        base.transform_filter("datum.named")
        .mark_text(color="#ffffff", fontSize=11, fontWeight="bold")
        .encode(
            x=alt.X("middle:Q", scale=scale, axis=axis), y=y, text=alt.Text("count:Q", format=","), tooltip=tooltip
        ),
    ]
    if empty := [{"label": _axis_label(row), "says": "no root"} for row in rows if not row["explored"]]:
        layers.append(
            alt.Chart(alt.Data(values=empty))
            .mark_text(align="left", dx=4, fontStyle="italic", color=palette.NEUTRAL)
            .encode(x=alt.value(0), y=y, text="says:N")
        )
    return alt.layer(*layers).properties(height=_AROUND_PX + ROW_HEIGHT_PX * max(len(labels), 1), width="container")


def _axis_label(row: Mapping[str, Any]) -> str:
    return f"{NULL_MARK} {row['label']}" if row["null"] else str(row["label"])


def _parts(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each arm's outcomes that any root has, with the ends of its part of the bar. ``ValueError`` for another one."""
    found = []
    begun: dict[str, int] = {}
    order = {outcome: at for at, outcome in enumerate(OUTCOMES)}
    unknown = sorted({row["outcome"] for row in rows} - set(order))
    if unknown:
        raise ValueError(f"no outcome is called {', '.join(unknown)}")
    for row in sorted(rows, key=lambda row: order[row["outcome"]]):
        if not row["count"]:
            continue
        label = _axis_label(row)
        start, share = begun.get(label, 0), row["count"] / row["explored"]
        begun[label] = start + row["count"]
        left = start / row["explored"]
        found.append(
            {
                **{name: row[name] for name in ("arm", "outcome", "count", "explored")},
                "label": label,
                "words": OUTCOME_WORDS[row["outcome"]],
                "share": share,
                "start": left,
                "end": left + share,
                "until": max(left, left + share - _GAP),
                "middle": left + share / 2,
                "named": share >= _NAMED_FROM,
            }
        )
    return found
