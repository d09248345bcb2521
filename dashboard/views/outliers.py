"""Outliers: the windows that were declared before any result, on their own, and what leaving them out changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from dashboard.components.arm_table import figure_fields, ordered
from dashboard.components.cells import figure_cell, header_cell, table
from dashboard.components.export import csv_button
from dashboard.components.markup import Html, tag
from dashboard.figures import FLIP, FLIP_STRICT, KL_MEAN, KL_P95, WORST, Column
from dashboard.frame import Page, chip, open_page, positions_control

if TYPE_CHECKING:
    from drift_runs.tracking.records import ArmRecord

ONLY_COLUMNS = (FLIP, FLIP_STRICT, KL_MEAN, KL_P95)
BOTH_COLUMNS = (FLIP, KL_MEAN, KL_P95, WORST)


def show() -> None:
    page = open_page("Outliers")
    positions_control(page)
    _declared(page)
    if not page.campaign.outliers:
        return
    arms = [*ordered(page, page.arms("candidate")), *ordered(page, page.arms("follow-up")), *page.arms("floor")]
    _on_their_own(page, arms)
    _aggregates(page, arms)


def _declared(page: Page) -> None:
    st.subheader("Declared windows", anchor=False)
    declared = page.campaign.outliers
    if not declared:
        st.html(tag("p", "This protocol declares no outlier window: every figure is over all windows.", cls="dr-say"))
        return
    head = [tag("th", "window", scope="col"), tag("th", "reason, declared before any result", scope="col")]
    body = [tag("tr", tag("th", window, scope="row"), tag("td", reason, cls="dr-wrap")) for window, reason in declared]
    st.html(table("", head, body, label="Declared outlier windows"))
    rows = [{"window": window, "reason": reason} for window, reason in declared]
    csv_button(rows, name=f"{page.campaign.protocol_name}-declared-outliers", key="declared")


def _on_their_own(page: Page, arms: list[ArmRecord]) -> None:
    st.subheader("On their own", anchor=False)
    st.html(tag("p", "Figures over the declared windows and nothing else.", cls="dr-say"))
    head = [tag("th", "arm", scope="col"), *(header_cell(column) for column in ONLY_COLUMNS)]
    body = []
    for arm in arms:
        figures = [tag("td", _cell(page, arm, column, "only"), data_figure=column.key) for column in ONLY_COLUMNS]
        body.append(tag("tr", _name(arm), figures, data_arm=arm.arm))
    found = page.book.by_arm(KL_MEAN, page.view.scope, "only").values()
    notes = sorted({figure.reason for figure in found if figure.reason})
    caption = f"{notes[0]}." if len(notes) == 1 else ""
    st.html(table(caption, head, body, label="Declared windows on their own"))
    csv_button(
        _rows(page, arms, ONLY_COLUMNS, ("only",)), name=f"{page.campaign.protocol_name}-outliers-only", key="only"
    )


def _aggregates(page: Page, arms: list[ArmRecord]) -> None:
    st.subheader("Every aggregate with and without", anchor=False)
    st.html(tag("p", "Both are shown always; the set that the switch chooses is in full ink.", cls="dr-say"))
    first = [tag("th", "arm", scope="col", rowspan=2)]
    second = []
    for column in BOTH_COLUMNS:
        spec = tag("span", column.spec, cls="dr-line dr-spec")
        first.append(tag("th", column.header, spec, scope="colgroup", colspan=2))
        mark = chip("incl. outlier", "outlier") if _any(page, arms, column) else None
        second += [tag("th", "with ", mark, scope="col"), tag("th", "without", scope="col")]
    head = [tag("tr", first), tag("tr", second)]
    body = []
    for arm in arms:
        figures = [
            tag(
                "td",
                tag("div", _cell(page, arm, column, outliers), cls=_ink(page, outliers)),
                data_figure=column.key,
                data_outliers=outliers,
            )
            for column in BOTH_COLUMNS
            for outliers in ("with", "without")
        ]
        body.append(tag("tr", _name(arm), figures, data_arm=arm.arm))
    st.html(table("", head, body, label="Aggregates with and without outliers"))
    csv_button(
        _rows(page, arms, BOTH_COLUMNS, ("with", "without")),
        name=f"{page.campaign.protocol_name}-with-and-without",
        key="both",
    )


def _ink(page: Page, outliers: str) -> str | None:
    return None if outliers in page.view.outlier_sets else "dr-grey"


def _any(page: Page, arms: list[ArmRecord], column: Column) -> bool:
    return any(page.includes_outliers(arm.arm, column) for arm in arms)


def _name(arm: ArmRecord) -> Html:
    mark = chip(arm.role) if arm.role != "candidate" else None
    return tag("th", arm.arm, tag("span", mark, cls="dr-line") if mark else None, scope="row")


def _cell(page: Page, arm: ArmRecord, column: Column, outliers: str) -> list[Html | None]:
    return figure_cell(page.figure(arm.arm, column, outliers), column)


def _rows(page: Page, arms: list[ArmRecord], columns: tuple[Column, ...], sets: tuple[str, ...]) -> list[dict]:
    found = []
    for arm in arms:
        for outliers in sets:
            for column in columns:
                figure = page.figure(arm.arm, column, outliers)
                if figure is not None:
                    found.append({"arm": arm.arm, "role": arm.role, **figure_fields(figure)})
    return found


show()
