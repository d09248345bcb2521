"""Any figure of the arms, side by side and grouped by a facet: value, interval, and the floor as a band."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from drift_runs.charts import palette
from drift_runs.charts.log_axis import decades

if TYPE_CHECKING:
    import altair as alt
    import pyarrow as pa

COLUMNS = ("arm", "group", "facet", "outliers", "value", "low", "high", "n", "state", "verdict", "floor", "floor_value")
"""What a table must have. ``group`` is the arm's role, ``facet`` its value of the facet by which arms are grouped (all
empty: no groups); ``floor_low``, ``floor_high`` and ``reason`` are optional."""

HEIGHT_PX = 380
HATCH = "M-1,-1L1,-1L1,1L-1,1ZM-1,0L0,-1M-1,1L1,-1M0,1L1,0"
"""A square with strokes across it: what is withheld."""
_REASON_PX = 190
"""Length of a reason that is written upwards; the tooltip has all of it."""
_ASSUMED_WIDTH_PX = 620
"""Of the plot on a narrow page: what a group's name may take is cut by it."""


def figure_by_facet(
    table: pa.Table,
    *,
    title: str,
    log: bool,
    number_format: str,
    colours: Mapping[str, str],
    counted: str = "positions",
    domain: tuple[float, float] | None = None,
) -> alt.LayerChart:
    """Points with intervals in the order of the table, groups in the order of their first arm.

    A withheld value is a hatched grey mark at the foot of its place with the reason above it; a value that a log axis
    cannot hold says so there. ``title``: of the axis, with the unit. ``colours``: of the arms; one without is neutral.
    ``counted``: what ``n`` counts. ``domain``: the ends of a linear axis where they are known.
    """
    import altair as alt

    missing = [column for column in COLUMNS if column not in table.column_names]
    if missing:
        raise ValueError(f"the table lacks {', '.join(missing)}")
    rows = [_row(row, log=log) for row in table.to_pylist()]
    groups = list(dict.fromkeys(row["facet"] for row in rows))
    rows.sort(key=lambda row: groups.index(row["facet"]))
    order = list(dict.fromkeys(row["label"] for row in rows))
    sets = [label for key, label in palette.OUTLIER_LABELS.items() if any(row["key"] == key for row in rows)]
    y_scale, y_axis = _axis(rows, title, number_format, log=log, domain=domain, headroom=len(groups) > 1)

    def y(field: str) -> alt.Y:
        return alt.Y(f"{field}:Q", scale=y_scale, axis=y_axis)

    def x(field: str = "label", place: float = 0.5) -> alt.X:
        axis = alt.Axis(
            title=None,
            labelAngle=0 if len(order) <= 5 else -35,
            labelExpr="split(datum.label, ' ')",
            labelLimit=150,
            labelOverlap=False,
            ticks=False,
        )
        scale = alt.Scale(type="band", domain=order, padding=0)
        return alt.X(f"{field}:N", scale=scale, sort=order, axis=axis, bandPosition=place)

    offset = alt.XOffset("set:N", sort=sets, scale=alt.Scale(paddingOuter=0.35)) if len(sets) > 1 else alt.Undefined
    arms = list(dict.fromkeys(row["arm"] for row in rows))
    hues = [colours.get(arm, palette.NEUTRAL) for arm in arms]
    colour = alt.Color("arm:N", scale=alt.Scale(domain=arms, range=hues), legend=None)
    shape = alt.Shape(
        "set:N",
        scale=alt.Scale(domain=sets, range=[palette.OUTLIER_SHAPES[label] for label in sets]),
        legend=alt.Legend(title=None, orient="top", symbolFillColor=palette.NEUTRAL) if len(sets) > 1 else None,
    )
    base = alt.Chart(alt.Data(values=rows))
    drawn, absent = base.transform_filter("datum.drawn"), base.transform_filter("!datum.drawn")
    tooltip = _tooltip(number_format, counted)
    layers = [
        *_groups(rows, groups, order, x),
        *_floors(rows, y, number_format, log=log),
        drawn.mark_rule(strokeWidth=2.5).encode(x=x(), xOffset=offset, y=y("low"), y2="high:Q", color=colour),
        drawn.mark_point(filled=True, size=110, opacity=1).encode(
            x=x(), xOffset=offset, y=y("value"), color=colour, shape=shape, tooltip=tooltip
        ),
    ]
    if any(not row["drawn"] for row in rows):
        foot = alt.value("height")  # of the plot as it is drawn: a page takes the axis' labels from its height
        layers += [
            absent.mark_point(
                shape=HATCH, size=200, filled=False, stroke=palette.NEUTRAL, strokeWidth=1.2, yOffset=-12
            ).encode(x=x(), xOffset=offset, y=foot, tooltip=tooltip),
            absent.mark_text(
                align="left",
                angle=270,
                fontStyle="italic",
                color=palette.NEUTRAL,
                limit=_REASON_PX,
                yOffset=-26,
            ).encode(x=x(), xOffset=offset, y=foot, text="why:N", tooltip=tooltip),
        ]
    return alt.layer(*layers).properties(height=HEIGHT_PX, width="container")


def spans_decades(values: list[float | None]) -> bool:
    """Whether a log axis serves: nothing is negative, and the largest is ten times the smallest positive or more."""
    known = [value for value in values if value is not None]
    positive = [value for value in known if value > 0]
    return len(positive) > 1 and min(known) >= 0 and max(positive) >= 10 * min(positive)


def _tooltip(number_format: str, counted: str) -> list[alt.Tooltip]:
    import altair as alt

    return [
        alt.Tooltip("label:N", title="arm"),
        alt.Tooltip("facet:N", title="group"),
        alt.Tooltip("set:N", title="windows"),
        alt.Tooltip("value:Q", title="value", format=number_format),
        alt.Tooltip("low:Q", title="interval from", format=number_format),
        alt.Tooltip("high:Q", title="to", format=number_format),
        alt.Tooltip("n:Q", title=counted, format=","),
        alt.Tooltip("state:N"),
        alt.Tooltip("floor:N", title="floor"),
        alt.Tooltip("floor_value:Q", title="floor value", format=number_format),
        alt.Tooltip("verdict:N", title="verdict"),
        alt.Tooltip("why:N", title="note"),
    ]


def _row(row: dict[str, Any], *, log: bool) -> dict[str, Any]:
    value, low, high = row["value"], row["low"], row["high"]
    drawn = value is not None and (not log or value > 0)
    why = row.get("reason") or ""
    if value is None:
        why = f"withheld: {why}" if why else "withheld"
    elif not drawn:
        why = "0: not on a log axis"
    if log and low is not None and low <= 0:
        low = value  # the interval reaches zero, which a log axis has not: it is drawn from the point upwards
    return {
        **{key: row[key] for key in ("arm", "facet", "value", "n", "state", "floor", "floor_value")},
        "label": row["arm"] + (" (follow-up)" if row["group"] == "follow-up" else ""),
        "key": row["outliers"],
        "set": palette.OUTLIER_LABELS[row["outliers"]],
        "low": low if drawn else None,
        "high": high if drawn else None,
        "verdict": palette.VERDICT_LABELS.get(row["verdict"], ""),
        "drawn": drawn,
        "why": why,
        "floor_low": row.get("floor_low"),
        "floor_high": row.get("floor_high"),
    }


def _axis(
    rows: list[dict[str, Any]],
    title: str,
    number_format: str,
    *,
    log: bool,
    domain: tuple[float, float] | None,
    headroom: bool,
) -> tuple[alt.Scale, alt.Axis]:
    import altair as alt

    of_points = [row[name] for row in rows if row["drawn"] for name in ("value", "low", "high")]
    of_floors = [row[name] for row in rows for name in ("floor_value", "floor_low", "floor_high")]
    numbers = [number for number in (*of_points, *of_floors) if number is not None and (not log or number > 0)]
    if log:
        low, high = (min(numbers), max(numbers)) if numbers else (1e-6, 1.0)
        # Room at the top for the names of groups, at the foot so that no point stands on the axis.
        span = high / low
        low, high = low / max(span**0.06, 1.3), high * max(span ** (0.14 if headroom else 0.05), 1.3)
        scale = alt.Scale(type="log", domain=[low, high], nice=False)
        return scale, alt.Axis(title=f"{title} (log axis)", format=number_format, values=decades(low, high))
    low, high = domain or (min([0.0, *numbers]), max([0.0, *numbers]))
    if high <= low:
        high = low + 1.0
    # A domain that is known is not widened, but for the names of groups.
    room = (high - low) * (0.13 if headroom else 0.0 if domain else 0.06)
    scale = alt.Scale(domain=[low - (room if low < 0 else 0.0), high + room], nice=False)
    return scale, alt.Axis(title=title, format=number_format, tickCount=6, labelOverlap=True)


def _groups(rows: list[dict[str, Any]], groups: list[str], order: list[str], x: Any) -> list[alt.Chart]:
    """Every second group shaded and each named at the top; nothing where there is one group."""
    import altair as alt

    if len(groups) < 2:
        return []
    spans = []
    for at, group in enumerate(groups):
        inside = [label for label in order if any(row["label"] == label and row["facet"] == group for row in rows)]
        width = _ASSUMED_WIDTH_PX * len(inside) / len(order)
        longest = max(int(width / 6.5), 3)
        name = group or "not said"
        name = name if len(name) <= longest else name[: longest - 1] + "…"
        spans.append({"group": group, "name": name, "first": inside[0], "last": inside[-1], "shaded": at % 2 == 1})
    base = alt.Chart(alt.Data(values=spans))
    tooltip = [alt.Tooltip("group:N")]
    return [
        base.transform_filter("datum.shaded")
        .mark_rect(color=palette.NEUTRAL, opacity=0.1)
        .encode(x=x("first", 0.0), x2=alt.X2("last:N", bandPosition=1.0), y=alt.value(0), y2=alt.value("height")),
        base.mark_text(
            align="left", baseline="top", dx=5, dy=4, fontWeight="bold", fontSize=12, color=palette.NEUTRAL
        ).encode(x=x("first", 0.0), y=alt.value(0), text="name:N", tooltip=tooltip),
    ]


def _floors(rows: list[dict[str, Any]], y: Any, number_format: str, *, log: bool) -> list[alt.Chart]:
    """A band over each floor's interval and a dashed rule at its value, once for each floor and set of windows."""
    import altair as alt

    floors: dict[tuple[str, str], dict[str, Any]] = {}
    for row in rows:
        value = row["floor_value"]
        if not row["floor"] or value is None or (log and value <= 0):
            continue
        low, high = row["floor_low"], row["floor_high"]
        if low is None or high is None:
            low = high = value
        low = max(low, value * 1e-3) if log else low
        floors.setdefault((row["floor"], row["key"]), {"floor": row["floor"], "low": low, "value": value, "high": high})
    if not floors:
        return []
    data = alt.Chart(alt.Data(values=list(floors.values())))
    tooltip = [alt.Tooltip("floor:N", title="floor"), alt.Tooltip("value:Q", title="value", format=number_format)]
    return [
        data.mark_rect(color=palette.FLOOR, opacity=0.25).encode(y=y("low"), y2="high:Q", tooltip=tooltip),
        data.mark_rule(color=palette.FLOOR, strokeDash=[5, 3], strokeWidth=2).encode(y=y("value"), tooltip=tooltip),
    ]
