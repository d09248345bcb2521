"""Outliers: the windows that were declared before any result, on their own, and what leaving them out changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from dashboard import data
from dashboard.components.arm_table import figure_fields
from dashboard.components.cells import figure_cell, header_cell, table
from dashboard.components.compared_arms import arm_cell, scored_arms, without_rows
from dashboard.components.export import csv_button
from dashboard.components.markup import Html, tag
from dashboard.components.with_without import pair_rows, pair_words, pairs_of, pairs_table
from dashboard.figures import FLIP, FLIP_STRICT, Column, write_number
from dashboard.frame import Page, chip, open_page, positions_control

if TYPE_CHECKING:
    from drift_runs.tracking.records import ArmRecord


RULES = {
    "floor_multiple": "a floor's mean is more than a multiple of the other windows' median",
    "volatile_rows": "a floor has at least so many volatile positions",
}


def show() -> None:
    page = open_page("Outliers")
    positions_control(page)
    _declared(page)
    _proposed(page)
    if not page.campaign.outliers:
        return
    arms = [*scored_arms(page), *page.arms("floor")]
    without_rows(page)
    _on_their_own(page, arms)
    _aggregates(page, arms)


def _only_columns(page: Page) -> tuple[Column, ...]:
    return (FLIP, FLIP_STRICT, page.columns.mean, page.columns.p95)


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


def _proposed(page: Page) -> None:
    """What the protocol's rule would have proposed: for the next version of the protocol, never for these figures."""
    rows = data.proposals(page.uri, page.campaign.run_id, page.run_ids).to_pylist()
    st.subheader("Proposed windows", anchor=False)
    rule = page.protocol.outlier_rule
    said = (
        f"The rule of the protocol: a floor's mean in a window is more than {rule.floor_multiple:g} times the median "
        f"of the other windows, or a floor has {rule.volatile_rows:,} volatile positions there or more. A proposal "
        "that is made after results is marked post hoc. It changes no figure of this protocol: only a window that the "
        "protocol declares is ever left out."
    )
    st.html(tag("p", said, cls="dr-say"))
    if not rows:
        floors = page.arms("floor")
        none = (
            "No window is proposed."
            if floors
            else "Nothing can be proposed: the rule looks at floors, and none is here."
        )
        st.html(tag("p", none, cls="dr-say"))
        return
    words = ("window", "rule", "floor")
    head = [tag("th", word, scope="col") for word in words]
    head += [tag("th", word, scope="col", cls="dr-right") for word in ("value", "threshold", "others' median")]
    head += [tag("th", "why", scope="col")]
    body = []
    for row in rows:
        marks = [chip("post hoc", "warn", "Made after results: it changes no figure.")] if row["post_hoc"] else []
        marks += [chip("declared already", "outlier")] if row["declared"] else []
        unit = "count" if row["rule"] == "volatile_rows" else "nats"
        body.append(
            tag(
                "tr",
                tag("th", row["window"], tag("span", marks, cls="dr-line"), scope="row"),
                tag("td", RULES.get(row["rule"], row["rule"]), tag("span", row["spec"], cls="dr-line dr-spec")),
                tag("td", row["floor"]),
                tag("td", write_number(row["value"], unit), cls="dr-num dr-right dr-value"),
                tag("td", write_number(row["threshold"], unit), cls="dr-num dr-right"),
                tag("td", _median(row, unit), cls="dr-num dr-right"),
                tag("td", row["reason"], cls="dr-wrap"),
                data_window=row["window"],
            )
        )
    st.html(table("", head, body, label="Proposed windows"))
    csv_button(rows, name=f"{page.campaign.protocol_name}-proposed-outliers", key="proposed")


def _median(row: dict, unit: str) -> str:
    return "" if row["others_median"] is None else write_number(row["others_median"], unit)


def _on_their_own(page: Page, arms: list[ArmRecord]) -> None:
    st.subheader("On their own", anchor=False)
    st.html(tag("p", "Figures over the declared windows and nothing else.", cls="dr-say"))
    head = [tag("th", "arm", scope="col"), *(header_cell(column) for column in _only_columns(page))]
    body = []
    for arm in arms:
        figures = [
            tag("td", _cell(page, arm, column, "only"), data_figure=column.key) for column in _only_columns(page)
        ]
        body.append(tag("tr", arm_cell(arm, colour=page.colours.get(arm.arm, "")), figures, data_arm=arm.arm))
    found = page.book.by_arm(page.columns.mean, page.view.scope, "only").values()
    notes = sorted({figure.reason for figure in found if figure.reason})
    caption = f"{notes[0]}." if len(notes) == 1 else ""
    st.html(table(caption, head, body, label="Declared windows on their own"))
    csv_button(
        _rows(page, arms, _only_columns(page), ("only",)),
        name=f"{page.campaign.protocol_name}-outliers-only",
        key="only",
    )


def _aggregates(page: Page, arms: list[ArmRecord]) -> None:
    st.subheader("Every aggregate with and without", anchor=False)
    pairs = pairs_of(page, arms)
    said = (
        "Both are shown always; the set that the switch chooses is in full ink. No interval is given of a difference: "
    )
    said += "the two share all other windows."
    st.html(tag("p", pair_words(pairs, page.columns.mean), cls="dr-say"))
    st.html(tag("p", said, cls="dr-key"))
    st.html(pairs_table(page, pairs))
    csv_button(pair_rows(pairs), name=f"{page.campaign.protocol_name}-with-and-without", key="both")


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
