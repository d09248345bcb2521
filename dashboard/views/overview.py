"""Overview: which arm is worse, by how much, and is it noise."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pyarrow as pa
import streamlit as st

from dashboard import data, state
from dashboard.components.arm_table import arm_table, common_facets, csv_rows, ordered
from dashboard.components.cells import figure_cell, table
from dashboard.components.determinism import determinism_cells, determinism_csv, without_windows
from dashboard.components.export import csv_button
from dashboard.components.markup import Html, tag
from dashboard.figures import FLIP, FLIP_STRICT, KL_MEAN, OVERVIEW, STRONG_RATE, Column, is_withheld, write_value
from dashboard.frame import Page, chip, control, open_page, positions_control
from drift_runs.charts.flip_by_arm import flip_by_arm
from drift_runs.charts.kl_by_arm import kl_by_arm
from drift_runs.charts.palette import OUTLIER_LABELS, VERDICT_LABELS
from drift_runs.measure.determinism import DeterminismSummary, summarise_determinism

if TYPE_CHECKING:
    from drift_runs.tracking.records import ArmRecord

SORT_LABELS = {"arm": "arm", **{column.key: f"{column.header} ({column.spec})" for column in OVERVIEW}}
EXPORTED = (*OVERVIEW, FLIP_STRICT, STRONG_RATE)
ORDER_LABELS = {"desc": "largest first", "asc": "smallest first"}


def show() -> None:
    page = open_page("Overview")
    _controls(page)
    candidates = ordered(page, page.arms("candidate"))
    follow_ups = ordered(page, page.arms("follow-up"))
    everyone = [arm for arm in page.campaign.arms if arm.role == "candidate"]
    st.subheader("Candidates", anchor=False)
    _unfinished(page)
    if candidates:
        st.html(tag("p", _sentence(page, candidates), cls="dr-say"))
        hidden = len(everyone) - len(candidates)
        shown = f"{len(candidates)} of {len(everyone)} candidates." if hidden else ""
        st.html(arm_table(page, candidates, label="Candidates", caption=f"{shown} {_reading(page)}".strip()))
        csv_button(csv_rows(page, candidates, EXPORTED), name=_file(page, "candidates"), key="candidates")
        _charts(page, candidates, follow_ups)
    else:
        st.html(tag("p", "No candidate passes the filters." if everyone else "No candidate.", cls="dr-say"))
    if follow_ups:
        st.subheader("Follow-ups", anchor=False)
        st.html(tag("p", "Measured outside the frozen protocol: shown apart, not ranked with it.", cls="dr-say"))
        st.html(arm_table(page, follow_ups, label="Follow-ups"))
        csv_button(csv_rows(page, follow_ups, EXPORTED), name=_file(page, "follow-ups"), key="follow-ups")
    _floors(page)


def _file(page: Page, what: str) -> str:
    return f"{page.campaign.protocol_name}-v{page.campaign.protocol_version}-{what}-{page.view.outliers}"


def _controls(page: Page) -> None:
    positions_control(page)
    page.row.selectbox(
        "Sort by", state.SORTS, format_func=SORT_LABELS.__getitem__, width=215, **control("sort", page.view.sort)
    )
    page.row.segmented_control(
        "Order", state.ORDERS, format_func=ORDER_LABELS.__getitem__, required=True, **control("order", page.view.order)
    )


def _unfinished(page: Page) -> None:
    waiting = [arm for arm in page.campaign.arms if not arm.complete]
    if waiting:
        names = [[tag("b", arm.arm), f" ({arm.role}) "] for arm in waiting]
        st.html(tag("p", chip("incomplete", "warn"), " Not compared, because not complete: ", names, cls="dr-say"))


def _sentence(page: Page, arms: list[ArmRecord]) -> list[object]:
    """What is seen, in words, from the figures themselves."""
    outliers = page.view.outlier_sets[0]
    figures = {arm.arm: page.figure(arm.arm, KL_MEAN, outliers) for arm in arms}
    counts = Counter(figure.verdict for figure in figures.values() if figure and figure.verdict)
    parts: list[object] = []
    if counts:
        words = [f"{counts[verdict]} {VERDICT_LABELS[verdict]}" for verdict in VERDICT_LABELS if counts[verdict]]
        parts.append(f"By {KL_MEAN.spec} mean, of {len(arms)} candidates: {', '.join(words)}. ")
    there = {name: figure for name, figure in figures.items() if figure and figure.value is not None}
    if there:
        worst = max(there, key=lambda name: there[name].value)
        parts += ["The largest is ", tag("b", worst), f" with {write_value(there[worst], 'nats')} nats"]
        parts.append(f" ({OUTLIER_LABELS[outliers]})." if page.view.outliers == "both" else ".")
    return parts


def _reading(page: Page) -> str:
    """The rule by which to read a cell, with the floor and interval by name."""
    outliers = page.view.outlier_sets[0]
    arms = {arm.arm for arm in page.arms("candidate")}
    figures = [figure for name, figure in page.book.by_arm(KL_MEAN, page.view.scope, outliers).items() if name in arms]
    floors = sorted({figure.floor for figure in figures if figure.floor})
    intervals = sorted({figure.interval for figure in figures if figure.interval})
    notes = sorted({figure.reason for figure in figures if figure.reason})
    text = "A cell: value, [interval], floor; the verdict is decided on the paired difference of kl.full mean."
    if floors:
        text += f" Floor: {', '.join(floors)}."
    if intervals:
        text += f" Interval: {'; '.join(intervals)}."
    if len(notes) == 1:
        text += f" {notes[0]}."
    panels = [panel.name for panel in page.protocol.panels]
    if page.view.scope == "all" and len(panels) > 1:
        text += f" These figures pool the panels {' and '.join(panels)}: choose one under Positions."
    return f"{text} {common_facets(page)}".strip()


def chart_rows(page: Page, column: Column, arms: list[ArmRecord]) -> pa.Table:
    """Rows for the charts by arm, in the order of ``arms``, with the floor's own interval for its band."""
    rows = []
    for arm in arms:
        for outliers in page.view.outlier_sets:
            figure = page.figure(arm.arm, column, outliers)
            if figure is None:
                continue
            floor = page.figure(figure.floor, column, outliers) if figure.floor else None
            rows.append(
                {
                    "arm": arm.arm,
                    "group": arm.role,
                    "outliers": outliers,
                    "value": None if is_withheld(figure) else figure.value,
                    "low": figure.low,
                    "high": figure.high,
                    "n": figure.n,
                    "state": figure.state,
                    "verdict": figure.verdict,
                    "floor": figure.floor,
                    "floor_value": figure.floor_value,
                    "floor_low": floor.low if floor else None,
                    "floor_high": floor.high if floor else None,
                    "reason": figure.reason,
                }
            )
    return pa.Table.from_pylist(rows, schema=_CHART_SCHEMA)


_CHART_SCHEMA = pa.schema(
    [
        ("arm", pa.string()),
        ("group", pa.string()),
        ("outliers", pa.string()),
        ("value", pa.float64()),
        ("low", pa.float64()),
        ("high", pa.float64()),
        ("n", pa.int64()),
        ("state", pa.string()),
        ("verdict", pa.string()),
        ("floor", pa.string()),
        ("floor_value", pa.float64()),
        ("floor_low", pa.float64()),
        ("floor_high", pa.float64()),
        ("reason", pa.string()),
    ]
)


def _charts(page: Page, candidates: list[ArmRecord], follow_ups: list[ArmRecord]) -> None:
    arms = candidates + follow_ups
    st.html(
        tag(
            "p",
            "Points with their intervals, in the order of the table; the dashed line is the floor, the grey band its "
            "own interval. Follow-ups stand last.",
            cls="dr-key",
        )
    )
    left, right = st.columns(2)
    with left:
        st.altair_chart(kl_by_arm(chart_rows(page, KL_MEAN, arms)), alt="kl.full mean by arm")
    with right:
        st.altair_chart(flip_by_arm(chart_rows(page, FLIP, arms)), alt="flip rate by arm")


def _floors(page: Page) -> None:
    floors = page.arms("floor")
    if not floors:
        return
    st.subheader("Floors", anchor=False)
    st.html(
        tag(
            "p",
            "The reference against itself: what the measuring alone does. Never subtracted from a candidate's figure.",
            cls="dr-say",
        )
    )
    sets = page.view.outlier_sets
    head = [tag("th", words, scope="col") for words in ("floor", "kind", "rows must be")]
    head += [tag("th", "outliers", scope="col")] if len(sets) > 1 else []
    head += [tag("th", words, scope="col") for words in ("rows identical", "windows identical", "largest difference")]
    columns = (FLIP, FLIP_STRICT, KL_MEAN)
    head += [
        tag("th", column.header, tag("span", column.spec, cls="dr-line dr-spec"), scope="col") for column in columns
    ]
    head += [tag("th", "n", scope="col", cls="dr-right")]
    body, rows = [], []
    for arm in floors:
        for index, outliers in enumerate(sets):
            found = determinism_of(page, arm, outliers)
            lead = [
                tag("th", arm.arm, tag("span", arm.title, cls="dr-line dr-title"), scope="row", rowspan=len(sets)),
                tag("td", arm.floor_kind, rowspan=len(sets)),
                tag("td", arm.rows_expected, rowspan=len(sets)),
            ]
            mark = [tag("td", outliers)] if len(sets) > 1 else []
            cells = [mark, determinism_cells(arm.rows_expected, found), _floor_cells(page, arm, columns, outliers)]
            body.append(tag("tr", lead if index == 0 else [], *cells))
        rows += [
            {**row, **determinism_csv(determinism_of(page, arm, row["outliers"]))}
            for row in csv_rows(page, [arm], columns)
        ]
    st.html(table("", head, body, label="Floors"))
    csv_button(rows, name=_file(page, "floors"), key="floors")


def _floor_cells(page: Page, arm: ArmRecord, columns: tuple[Column, ...], outliers: str) -> list[Html]:
    cells = []
    n = ""
    for column in columns:
        figure = page.figure(arm.arm, column, outliers)
        n = f"{figure.n:,}" if figure else n
        cells.append(tag("td", figure_cell(figure, column), data_figure=column.key))
    return [*cells, tag("td", n, cls="dr-num dr-right")]


def determinism_of(page: Page, arm: ArmRecord, outliers: str) -> DeterminismSummary:
    """Whether two executions agree to the byte, over the windows of the chosen set."""
    found = data.determinism(page.uri, arm.run_id, arm.complete)
    declared = [] if outliers == "with" else [window for window, _ in page.campaign.outliers]
    return summarise_determinism(without_windows(found, declared))


show()
