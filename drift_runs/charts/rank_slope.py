"""Ranks of the arms by several figures, side by side: where lines cross, the figures disagree on two arms."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from drift_runs.charts import palette

if TYPE_CHECKING:
    import altair as alt
    import pyarrow as pa

COLUMNS = ("arm", "figure", "value", "shown", "reason")
"""What a table must have: one row an arm and figure. ``value`` is null where the figure is withheld, ``shown`` the
value as text. Figures stand in the order of the table."""

ROW_HEIGHT_PX = 34
_NAME_LIMIT_PX = 150
_DASHES = ([1, 0], [6, 3], [2, 2])
MOST_ARMS = len(palette.SERIES_COLOURS) * len(_DASHES)
"""Every hue with every dash is a line of its own; more than these cannot be told apart."""


class Place(NamedTuple):
    """Where an arm stands by one figure."""

    arm: str
    middle: float
    """Its rank, 1 is nearest to the reference; arms that are tied share the mean of their ranks."""
    slot: int
    """A rank of its own, also among arms that are tied: where its name is written."""
    tied: int
    """How many arms share ``middle``, itself included."""


def places_of(values: Sequence[tuple[str, float | None]], *, better: str) -> list[Place]:
    """Ranks of the arms that have a value, the best first; tied arms stay in the order given.

    ``better``: ``small`` for a figure of drift, ``large`` for one of success.
    """
    if better not in ("small", "large"):
        raise ValueError(f"better: expected small or large, not {better!r}")
    known = [(value if better == "small" else -value, arm) for arm, value in values if value is not None]
    known.sort(key=lambda pair: pair[0])
    places = []
    for slot, (key, arm) in enumerate(known, start=1):
        same = [at for at, (other, _) in enumerate(known, start=1) if other == key]
        places.append(Place(arm, sum(same) / len(same), slot, len(same)))
    return places


def rank_slope(table: pa.Table, *, better: dict[str, str]) -> alt.LayerChart:
    """Slope chart of the arms' ranks, rank 1 (nearest to the reference) at the top.

    Arms that are tied meet in one point, and a bar beside it spans their ranks. A withheld value leaves a gap in the
    arm's line, and the arm is named below the ranks of that figure. ``better``: figure -> ``small`` or ``large``.
    """
    import altair as alt

    missing = [column for column in COLUMNS if column not in table.column_names]
    if missing:
        raise ValueError(f"the table lacks {', '.join(missing)}")
    rows = table.to_pylist()
    figures = list(dict.fromkeys(row["figure"] for row in rows))
    arms = list(dict.fromkeys(row["arm"] for row in rows))
    points, absent = _points(rows, figures, better)
    segments = _segments(points, figures, arms)
    lowest = max((row["rank"] for row in absent), default=len(arms))
    x = alt.X(
        "figure:N",
        sort=figures,
        scale=alt.Scale(domain=figures, padding=0.12),
        # A word a line: in a narrow column the names of figures would run into each other.
        axis=alt.Axis(
            title=None,
            orient="top",
            labelAngle=0,
            labelOverlap=False,
            labelPadding=20,
            labelExpr="split(datum.label, ' ')",
            domain=False,
        ),
    )
    scale = alt.Scale(domain=[lowest + 0.6, 0.4], nice=False)

    def y(field: str) -> alt.Y:
        return alt.Y(f"{field}:Q", scale=scale, axis=None)

    hues = [palette.SERIES_COLOURS[at % len(palette.SERIES_COLOURS)] for at in range(len(arms))]
    dashes = [_DASHES[at // len(palette.SERIES_COLOURS) % len(_DASHES)] for at in range(len(arms))]
    colour = alt.Color("arm:N", scale=alt.Scale(domain=arms, range=hues), legend=None)
    dash = alt.StrokeDash("arm:N", scale=alt.Scale(domain=arms, range=dashes), legend=None)
    tooltip = [
        alt.Tooltip("arm:N"),
        alt.Tooltip("figure:N"),
        alt.Tooltip("shown:N", title="value"),
        alt.Tooltip("rank:Q", title="rank, 1 is nearest to the reference", format=".2~f"),
        alt.Tooltip("with_others:N", title="tied with"),
    ]
    drawn = alt.Chart(alt.Data(values=points)).encode(x=x)
    ties = [point for point in points if point["first_of_tie"] and point["tied"] > 1]
    layers: list[Any] = [
        alt.Chart(alt.Data(values=segments))
        .mark_line(strokeWidth=2.5, opacity=0.85)
        .encode(x=x, y=y("rank"), detail="segment:N", color=colour, strokeDash=dash),
        alt.Chart(alt.Data(values=ties))
        .mark_rule(color=palette.NEUTRAL, strokeWidth=7, strokeCap="round", opacity=0.55)
        .encode(x=x, y=y("from"), y2="to:Q"),
        drawn.mark_point(filled=True, size=90, opacity=1).encode(y=y("rank"), color=colour, tooltip=tooltip),
        alt.Chart(alt.Data(values=[point for point in points if point["first_of_tie"]]))
        .mark_text(fontSize=11, dy=-12, color=palette.NEUTRAL)
        .encode(x=x, y=y("from"), text="shown:N"),
    ]
    for at, align, dx in ((0, "right", -16), (-1, "left", 16)):
        ends = [point for point in points if figures and point["figure"] == figures[at]]
        layers.append(
            alt.Chart(alt.Data(values=ends))
            .mark_text(align=align, dx=dx, fontSize=12, fontWeight="bold", limit=_NAME_LIMIT_PX)
            .encode(x=x, y=y("slot"), text="arm:N", color=colour, tooltip=tooltip)
        )
    if absent:
        layers.append(
            alt.Chart(alt.Data(values=absent))
            .mark_text(fontSize=11, fontStyle="italic", color=palette.NEUTRAL, limit=190)
            .encode(
                x=x,
                y=y("rank"),
                text="words:N",
                tooltip=[alt.Tooltip("arm:N"), alt.Tooltip("figure:N"), alt.Tooltip("reason:N")],
            )
        )
    return alt.layer(*layers).properties(height=90 + ROW_HEIGHT_PX * max(lowest, 1), width="container")


def _points(
    rows: list[dict[str, Any]], figures: list[str], better: dict[str, str]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Arms that have a rank by a figure, and those that have none, which stand below all ranks."""
    arms = len({row["arm"] for row in rows})
    points, absent = [], []
    for figure in figures:
        here = [row for row in rows if row["figure"] == figure]
        shown = {row["arm"]: row["shown"] for row in here}
        places = places_of([(row["arm"], row["value"]) for row in here], better=better[figure])
        for place in places:
            together = [other for other in places if other.middle == place.middle]
            points.append(
                {
                    "arm": place.arm,
                    "figure": figure,
                    "rank": place.middle,
                    "slot": place.slot,
                    "tied": place.tied,
                    "from": together[0].slot,
                    "to": together[-1].slot,
                    "first_of_tie": place.slot == together[0].slot,
                    "with_others": ", ".join(other.arm for other in together if other.arm != place.arm) or "none",
                    "shown": shown[place.arm],
                }
            )
        without = [row for row in here if row["value"] is None]
        for at, row in enumerate(without, start=1):
            absent.append(
                {
                    "arm": row["arm"],
                    "figure": figure,
                    "rank": arms + at,
                    "words": f"{row['arm']}: withheld",
                    "reason": row["reason"],
                }
            )
    return points, absent


def _segments(points: list[dict[str, Any]], figures: list[str], arms: list[str]) -> list[dict[str, Any]]:
    """The two ends of every line between neighbouring figures; none where either end has no rank."""
    rank = {(point["arm"], point["figure"]): point["rank"] for point in points}
    ends = []
    for arm in arms:
        for left, right in pairwise(figures):
            if (arm, left) in rank and (arm, right) in rank:
                segment = f"{arm}/{figures.index(left)}"
                ends += [
                    {"arm": arm, "figure": name, "rank": rank[arm, name], "segment": segment} for name in (left, right)
                ]
    return ends
