"""Floors: an arm against itself, whether its rows are identical, and what generation does between two executions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from dashboard import data
from dashboard.components.arm_generated import counted_words, shown_columns
from dashboard.components.arm_table import csv_rows
from dashboard.components.cells import figure_cell, header_cell, table
from dashboard.components.determinism import determinism_cells, determinism_csv, without_windows
from dashboard.components.export import csv_button
from dashboard.components.markup import Html, tag
from dashboard.figures import FLIP, FLIP_STRICT, Column
from drift_runs.measure.determinism import DeterminismSummary, summarise_determinism

if TYPE_CHECKING:
    from dashboard.frame import Page
    from drift_runs.tracking.records import ArmRecord


def floors_section(page: Page, *, name: str) -> None:
    """Draw the section; nothing for a campaign without floors. ``name``: of the CSV file."""
    floors = page.arms("floor")
    if not floors:
        return
    st.subheader("Floors", anchor=False)
    st.html(tag("p", _sentence(page, floors), cls="dr-say", data_say="floors"))
    sets = page.sets
    several = any(arm.reference for arm in floors)
    measured = page.columns.measured if page.columns.free_running else (FLIP, FLIP_STRICT, page.columns.mean)
    generated = shown_columns(page)
    head = [tag("th", words, scope="col") for words in ("floor", "kind", "rows must be")]
    head += [tag("th", "of", scope="col")] if several else []
    head += [tag("th", "outliers", scope="col")] if len(sets) > 1 else []
    head += [tag("th", words, scope="col") for words in ("rows identical", "windows identical", "largest difference")]
    head += [header_cell(column) for column in measured]
    head += [tag("th", "n", scope="col", cls="dr-right")]
    head += [header_cell(column) for column in generated]
    body, rows = [], []
    for arm in floors:
        span = len(sets) if len(sets) > 1 else None
        for index, outliers in enumerate(sets):
            lead = [
                tag("th", arm.arm, tag("span", arm.title, cls="dr-line dr-title"), scope="row", rowspan=span),
                tag("td", arm.floor_kind, rowspan=span),
                tag("td", arm.rows_expected, rowspan=span),
            ]
            lead += [tag("td", arm.reference or page.campaign.reference, rowspan=span)] if several else []
            mark = [tag("td", outliers)] if len(sets) > 1 else []
            same = determinism_cells(arm.rows_expected, determinism_of(page, arm, outliers))
            cells = [mark, same, _cells(page, arm, measured, generated, outliers)]
            body.append(tag("tr", lead if index == 0 else [], *cells, data_arm=arm.arm, data_outliers=outliers))
        rows += [
            {**row, **determinism_csv(determinism_of(page, arm, str(row["outliers"])))}
            for row in csv_rows(page, [arm], (*measured, *generated))
        ]
    st.html(table("", head, body, label="Floors", wide=True, compact=True))
    csv_button(rows, name=name, key="floors")


def _cells(
    page: Page, arm: ArmRecord, measured: tuple[Column, ...], generated: tuple[Column, ...], outliers: str
) -> list[Html]:
    found = {column: page.figure(arm.arm, column, outliers) for column in (*measured, *generated)}
    n = next((f"{found[column].n:,}" for column in reversed(measured) if found[column] is not None), "")
    return [
        *(tag("td", figure_cell(found[column], column), data_figure=column.key) for column in measured),
        tag("td", n, cls="dr-num dr-right"),
        *(
            tag(
                "td",
                figure_cell(found[column], column, counted=counted_words(page, arm.arm, column, outliers)),
                data_figure=column.key,
            )
            for column in generated
        ),
    ]


def determinism_words(page: Page, outliers: str) -> str:
    """Which of the page's floors are the same to the byte; empty where none was judged."""
    found = {arm.arm: determinism_of(page, arm, outliers) for arm in page.arms("floor")}
    judged = [name for name, summary in found.items() if summary.rows]
    if not judged:
        return ""
    same = [name for name in judged if found[name].identical]
    other = [name for name in judged if name not in same]
    said = f"Identical to the byte: {', '.join(same) or 'none'}"
    return f"{said}; not identical: {', '.join(other)}." if other else f"{said}."


def _sentence(page: Page, floors: list[ArmRecord]) -> str:
    """How many floors are identical to the byte, and which one refutes that they had to be."""
    found = {arm.arm: determinism_of(page, arm, page.sets[0]) for arm in floors}
    judged = [arm for arm in floors if found[arm.arm].rows]
    refuted = [arm.arm for arm in judged if arm.rows_expected == "identical" and not found[arm.arm].identical]
    said = "An arm against itself: what the measuring alone does. Never subtracted from a candidate's figure."
    if words := determinism_words(page, page.sets[0]):
        said += f" {words}"
    if refuted:
        said += f" Determinism is refuted by {', '.join(refuted)}, whose rows had to be identical."
    return said


def determinism_of(page: Page, arm: ArmRecord, outliers: str) -> DeterminismSummary:
    """Whether two executions agree to the byte, over the windows of the chosen set."""
    found = data.determinism(page.uri, arm.run_id, arm.complete)
    declared = [] if outliers == "with" else [window for window, _ in page.campaign.outliers]
    return summarise_determinism(without_windows(found, declared))
