"""Overview: which arm is worse, by how much, and is it noise."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import streamlit as st

from dashboard.components.arm_facets import common_facets, own_facets
from dashboard.components.arm_floors import determinism_words, floors_section
from dashboard.components.arm_generated import bounds, generation_sentences, not_over_these
from dashboard.components.arm_order import group_control, order_controls, ordered
from dashboard.components.arm_plot import figure_plot
from dashboard.components.arm_sizes import size_section
from dashboard.components.arm_table import arm_table, csv_rows
from dashboard.components.decisions import decisions_panel
from dashboard.components.export import csv_button
from dashboard.components.machine_table import machines_section
from dashboard.components.markup import tag
from dashboard.figures import FLIP_STRICT, STRONG_RATE, Column, write_value
from dashboard.frame import Page, Ranking, chip, open_page, positions_control
from drift_runs.charts.palette import OUTLIER_LABELS, VERDICT_LABELS

if TYPE_CHECKING:
    from drift_runs.tracking.records import ArmRecord


def show() -> None:
    page = open_page("Overview")
    positions_control(page)
    order_controls(page)
    group_control(page)
    ranking = page.ranking()
    everyone = [arm for arm in page.campaign.arms if arm.role == "candidate"]
    complete = page.arms("candidate")
    candidates = ordered(page, [arm for arm in complete if arm.arm in ranking.ranked])
    follow_ups = ordered(page, page.arms("follow-up"))
    exported = (
        page.columns.overview if page.columns.free_running else (*page.columns.overview, FLIP_STRICT, STRONG_RATE)
    )
    st.subheader("Candidates", anchor=False)
    _unfinished(page)
    if candidates:
        st.html(tag("p", _sentence(page, candidates), cls="dr-say", data_say="candidates"))
        shown = f"{len(complete)} of {_candidates(len(everyone))}." if len(complete) < len(everyone) else ""
        st.html(arm_table(page, candidates, label="Candidates", caption=f"{shown} {_reading(page)}".strip()))
        csv_button(csv_rows(page, candidates, exported), name=_file(page, "candidates"), key="candidates")
    else:
        st.html(tag("p", _why_none(everyone, complete), cls="dr-say"))
    _not_comparable(page, ranking, [arm for arm in complete if arm.arm not in ranking.ranked], exported)
    if follow_ups:
        st.subheader("Follow-ups", anchor=False)
        st.html(tag("p", "Measured outside the frozen protocol: shown apart, not ranked with it.", cls="dr-say"))
        _arms_with_reasons(page, ranking, follow_ups, label="Follow-ups")
        csv_button(csv_rows(page, follow_ups, exported), name=_file(page, "follow-ups"), key="follow-ups")
    _launches(page)
    floors_section(page, name=_file(page, "floors"))
    machines_section(page, name=_file(page, "machines"))
    if not page.columns.free_running:
        together = [*candidates, *(arm for arm in follow_ups if arm.arm in ranking.ranked)]
        figure_plot(page, together)
        size_section(page, together)
    decisions_panel(page)


def _why_none(everyone: list[ArmRecord], complete: list[ArmRecord]) -> str:
    if complete:
        return "No candidate is ranked: not all is known that must be equal before two arms may be."
    return "No candidate passes the filters." if everyone else "No candidate."


def _not_comparable(page: Page, ranking: Ranking, arms: list[ArmRecord], exported: tuple[Column, ...]) -> None:
    """Candidates that may not stand in the ranking, each with the reasons."""
    if not arms:
        return
    st.subheader("Not comparable with these" if ranking.ranked else "Not ranked", anchor=False)
    say = "Something other than the arm itself differs, so no order is given between these and those above."
    if not ranking.ranked:
        say = "What is not known is not taken for equal. Figures are shown by name, and in no order of size."
    st.html(tag("p", say, cls="dr-say"))
    arms = sorted(arms, key=lambda arm: arm.arm)
    _arms_with_reasons(page, ranking, arms, label="Not comparable with these")
    rows = [
        {**row, "not_comparable": "; ".join(ranking.reasons.get(str(row["arm"]), ()))}
        for row in csv_rows(page, arms, exported)
    ]
    csv_button(rows, name=_file(page, "not-comparable"), key="not-comparable")


def _arms_with_reasons(page: Page, ranking: Ranking, arms: list[ArmRecord], *, label: str) -> None:
    """A table of arms; reasons that all of several share are said once above it, others have a column."""
    reasons = {arm.arm: ranking.reasons[arm.arm] for arm in arms if arm.arm in ranking.reasons}
    shared = set(reasons.values())
    caption = ""
    if len(shared) == 1 and len(reasons) == len(arms) > 1:
        caption = f"All of them: {'; '.join(shared.pop())}."
        reasons = {}
    st.html(arm_table(page, arms, label=label, caption=caption, reasons=reasons))


def _launches(page: Page) -> None:
    launches = page.arms("launch")
    if launches:
        names = ", ".join(arm.arm for arm in launches)
        st.html(
            tag(
                "p",
                f"Further launches of arms above, under Measures with the mean over launches: {names}.",
                cls="dr-key",
            )
        )


def _file(page: Page, what: str) -> str:
    return f"{page.campaign.protocol_name}-v{page.campaign.protocol_version}-{what}-{page.view.outliers}"


def _unfinished(page: Page) -> None:
    waiting = [arm for arm in page.campaign.arms if not arm.complete]
    if waiting:
        names = [[tag("b", arm.arm), f" ({arm.role}) "] for arm in waiting]
        st.html(tag("p", chip("incomplete", "warn"), " Not compared, because not complete: ", names, cls="dr-say"))


def _sentence(page: Page, arms: list[ArmRecord]) -> list[object]:
    """What is seen, in words, from the figures themselves."""
    outliers = page.sets[0]
    column = page.columns.first
    figures = {arm.arm: page.figure(arm.arm, column, outliers) for arm in arms}
    counts = Counter(figure.verdict for figure in figures.values() if figure and figure.verdict)
    parts: list[object] = []
    if counts:
        words = [f"{counts[verdict]} {VERDICT_LABELS[verdict]}" for verdict in VERDICT_LABELS if counts[verdict]]
        parts.append(f"By {page.columns.headline} mean, of {_candidates(len(arms))}: {', '.join(words)}. ")
    there = {name: figure for name, figure in figures.items() if figure and figure.value is not None}
    if there:
        worst = (min if page.columns.free_running else max)(there, key=lambda name: there[name].value)
        unit = " nats" if column.unit == "nats" else " of the continuations equal in full"
        lead = "The least equal is " if page.columns.free_running else "The largest is "
        parts += [lead, tag("b", worst), f" with {write_value(there[worst], column.unit)}{unit}"]
        parts.append(f" ({OUTLIER_LABELS[outliers]})." if page.view.outliers == "both" else ".")
    parts += [f" {words}" for words in generation_sentences(page, [arm.arm for arm in arms])]
    if words := determinism_words(page, outliers):
        parts.append(f" Run again: {words[0].lower()}{words[1:]}")
    return parts


def _candidates(count: int) -> str:
    return "1 candidate" if count == 1 else f"{count} candidates"


def _reading(page: Page) -> str:
    """The rule by which to read a cell, with the floor and interval by name."""
    outliers = page.sets[0]
    arms = {arm.arm for arm in page.arms("candidate")}
    found = page.book.by_arm(page.columns.first, page.view.scope, outliers)
    figures = [figure for name, figure in found.items() if name in arms]
    floors = sorted({figure.floor for figure in figures if figure.floor})
    intervals = sorted({figure.interval for figure in figures if figure.interval})
    notes = sorted({figure.reason for figure in figures if figure.reason})
    headline = page.columns.headline
    text = f"A cell: value, [interval], floor; the verdict is decided on the paired difference of {headline} mean."
    if page.columns.free_running:
        text = "A cell: value, [interval]. Continuations run freely: one different token changes all that follow."
    if floors:
        text += f" Floor: {', '.join(floors)}."
    if intervals:
        text += f" Interval: {'; '.join(intervals)}."
    if len(notes) == 1:
        text += f" {notes[0]}."
    panels = [panel.name for panel in page.protocol.panels]
    if page.view.scope == "all" and len(panels) > 1:
        text += f" These figures pool the panels {' and '.join(panels)}: choose one under Positions."
    if page.campaign.reference_run:
        text += " The reference's rows came from another run, so there is no floor of it and no verdict."
    if bounded := bounds(page):
        text += f" Generation was bounded: {'; '.join(bounded)}."
    return " ".join(part for part in (text, not_over_these(page), own_facets(page), common_facets(page)) if part)


show()
