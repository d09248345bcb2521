"""Exact answers by arm, and beside it how the arms stand by other figures: do they tell the same story?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import streamlit as st

from dashboard import data
from dashboard.components.answer_table import AnswerTable
from dashboard.components.export import shown_chart
from dashboard.components.markup import Html, tag
from dashboard.figures import ANSWERS, FLIP, STRONG, Column, is_withheld, write_counted, write_value
from drift_runs.charts.exact_answers import exact_answers
from drift_runs.charts.palette import OUTLIER_LABELS
from drift_runs.charts.rank_slope import MOST_ARMS, rank_slope
from drift_runs.report.arm_rows import chart_rows

if TYPE_CHECKING:
    from dashboard.frame import Page
    from drift_runs.tracking.records import ArmRecord

WORDS = {"flip": "flip rate", "worst": "worst range p95", "strong": "strong overturns", "answers": "exact answers"}
_RANK_SCHEMA = pa.schema(
    [
        ("arm", pa.string()),
        ("figure", pa.string()),
        ("value", pa.float64()),
        ("shown", pa.string()),
        ("reason", pa.string()),
    ]
)


def compared(page: Page) -> tuple[Column, ...]:
    """The figures whose orders are set against each other."""
    return (FLIP, page.columns.worst, STRONG, ANSWERS)


def answer_charts(page: Page, answers: AnswerTable, arms: Sequence[ArmRecord]) -> None:
    """Both charts, arms in the order of the table."""
    left, right = st.columns(2, gap="medium")
    with left:
        st.html(tag("p", tag("b", "Exact answers by arm"), cls="dr-key"))
        references = {}
        for outliers in page.sets:
            found = answers.reference(answers.chosen, outliers)
            if found is not None and found.value is not None:
                references[outliers] = found.value
        chart = exact_answers(chart_rows(page, ANSWERS, list(arms)), references=references)
        name = f"{page.campaign.protocol_name}-exact-answers"
        shown_chart(chart, name=name, alt="exact answers by arm", key="exact-answers")
        key = "Points with their intervals. The solid line is the reference, the dashed one the floor."
        st.html(tag("p", key, cls="dr-key"))
    with right:
        _slopes(page, arms)


def _slopes(page: Page, arms: Sequence[ArmRecord]) -> None:
    over = "" if page.view.scope == "all" else " (over all scored positions, not the chosen panel alone)"
    st.html(tag("p", tag("b", "The arms' ranks by figure"), over, cls="dr-key"))
    if not 2 <= len(arms) <= MOST_ARMS:
        few = "It takes two arms to have an order." if len(arms) < 2 else "Too many arms for one picture: filter them."
        st.html(tag("p", few, cls="dr-say"))
        return
    for outliers in page.sets:
        rows, without = rank_rows(page, arms, outliers)
        if len(page.sets) > 1:
            st.html(tag("p", OUTLIER_LABELS[outliers], cls="dr-key"))
        if rows.num_rows:
            better = {WORDS[column.key]: "large" if column == ANSWERS else "small" for column in compared(page)}
            shown_chart(
                rank_slope(rows, better=better),
                name=f"{page.campaign.protocol_name}-ranks-{outliers}",
                alt=f"ranks of arms, {OUTLIER_LABELS[outliers]}",
                key=f"ranks-{outliers}",
            )
        if without:
            st.html(tag("p", f"No arm has a value of {', '.join(without)}, so it is not drawn.", cls="dr-key"))
    st.html(
        tag(
            "p",
            "The arm nearest to the reference is at the top. Tied arms share a point; the grey bar spans their ranks. "
            "Where two lines cross, the figures disagree on those arms.",
            cls="dr-key",
        )
    )


def rank_rows(page: Page, arms: Sequence[ArmRecord], outliers: str) -> tuple[pa.Table, list[str]]:
    """Rows for the chart of ranks, over all positions, and the figures that no arm has."""
    rows, without = [], []
    for column in compared(page):
        found = page.book.by_arm(column, "all", outliers)
        known = [arm for arm in arms if (figure := found.get(arm.arm)) is not None and not is_withheld(figure)]
        if not known:
            without.append(WORDS[column.key])
            continue
        for arm in arms:
            figure = found.get(arm.arm)
            there = figure is not None and not is_withheld(figure)
            shown = ""
            if there:
                shown = write_counted(figure) if column == ANSWERS else write_value(figure, column.unit)
            rows.append(
                {
                    "arm": arm.arm,
                    "figure": WORDS[column.key],
                    "value": figure.value if there else None,
                    "shown": shown,
                    "reason": figure.reason if figure is not None else "not measured",
                }
            )
    return pa.Table.from_pylist(rows, schema=_RANK_SCHEMA), without


def agreement_says(table: pa.Table, names: Mapping[str, str], *, outliers: str, lead: str = "") -> list[object]:
    """Which of the figures disagree, and on how many pairs of arms, in words.

    ``table``: schema ``AGREEMENT``. ``names``: ``spec/statistic`` of the figures -> what they are called.
    """
    found = {frozenset((row["left"], row["right"])): row for row in table.to_pylist() if row["outliers"] == outliers}
    rows = [(one, other, found.get(frozenset((one, other)))) for one, other in combinations(names, 2)]
    known = [(one, other, row) for one, other, row in rows if row is not None and row["tau"] is not None]
    if not known:
        words = "it takes three arms that have both figures and differ in each"
        return [f"{lead}Whether the figures put the arms in the same order is not said: {words}."]
    ordering = [key for key in names if any(key in (one, other) for one, other, _ in known)]
    differ = sorted((item for item in known if item[2]["discordant"]), key=lambda item: -item[2]["discordant"])
    agree = [(one, other) for one, other, row in known if not row["discordant"]]
    parts: list[object] = [lead]
    for at, (one, other, row) in enumerate(differ):
        parts += ["; " if at else "The figures disagree: ", tag("b", f"{names[one]} and {names[other]}")]
        parts.append(f" on {_pairs(row)}")
    parts.append(". " if differ else "")
    if differ and agree:
        words = "; ".join(f"{names[one]} and {names[other]}" for one, other in agree)
        parts.append(f"No two arms stand in opposite orders by {words}.")
    elif agree:
        parts.append(f"No two arms stand in opposite orders by any of {', '.join(names[key] for key in ordering)}")
        parts.append("; some are tied." if any(row["tied"] for _, _, row in known) else ".")
    if silent := [names[key] for key in names if key not in ordering]:
        parts.append(f" Too few arms have a value of {', '.join(silent)}, or they do not differ in it.")
    arms = {row["arms"] for _, _, row in known}
    parts.append(f" Arms in these orders: {min(arms)}" + (f" to {max(arms)}." if len(arms) > 1 else "."))
    return parts


def _pairs(row: dict[str, Any]) -> str:
    pairs = row["concordant"] + row["discordant"] + row["tied"]
    tied = f" ({row['tied']} tied)" if row["tied"] else ""
    return f"{row['discordant']} of {pairs} pairs of arms{tied}"


def agreement_html(page: Page) -> Html:
    """The sentence for each set of windows that is shown."""
    table = data.agreement(page.uri, page.campaign.run_id, page.run_ids)
    names = {f"{column.spec}/{column.statistic}": WORDS[column.key] for column in compared(page)}
    said = []
    for outliers in page.sets:
        lead = f"{OUTLIER_LABELS[outliers].capitalize()}: " if len(page.sets) > 1 else ""
        said.append(tag("p", agreement_says(table, names, outliers=outliers, lead=lead), cls="dr-say"))
    return tag("div", said)
