"""Answers: which arm would still write what the protocol expects, to the letter, and where the others go wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import streamlit as st

from dashboard import data
from dashboard.components.answer_charts import agreement_html, answer_charts
from dashboard.components.answer_rows import lost_rows, lost_table
from dashboard.components.answer_table import AnswerTable
from dashboard.components.arm_order import order_controls
from dashboard.components.compared_arms import scored_arms, without_rows
from dashboard.components.export import csv_button
from dashboard.components.listed_rows import listed_table
from dashboard.components.markup import tag
from dashboard.figures import ANSWERS, split_scope, write_counted
from dashboard.frame import SHOWN_ROLES, Page, control, open_page, positions_control
from drift_runs.charts.palette import OUTLIER_LABELS

if TYPE_CHECKING:
    from drift_runs.tracking.records import ArmRecord

SHOWN_ROWS = 200  # more are in the CSV: a page of thousands of texts is not read


def show() -> None:
    page = open_page("Answers")
    positions_control(page)
    order_controls(page)
    arms = scored_arms(page)
    without_rows(page)
    answers = AnswerTable(page, [*arms, *page.arms("floor")])
    _figures(page, answers, arms)
    names = [arm.arm for role in SHOWN_ROLES for arm in page.arms(role, scored=True)]
    if not names:
        st.html(tag("p", "No arm passes the filters.", cls="dr-say"))
        return
    st.subheader("What one arm gets wrong", anchor=False)
    chosen = page.view.arm if page.view.arm in names else names[0]
    st.selectbox("Arm", names, width=215, **control("arm", chosen))
    arm = next(arm for arm in page.campaign.arms if arm.arm == chosen and arm.complete)
    if page.protocol.answers:
        _lost(page, arm)
    _overturned_literals(page, arm)


def _figures(page: Page, answers: AnswerTable, arms: list[ArmRecord]) -> None:
    st.subheader("Exact answers", anchor=False)
    if not page.protocol.answers:
        st.html(tag("p", "The protocol of this campaign expects no answers, so none can be exact.", cls="dr-say"))
        return
    if not answers:
        words = "No answers were judged when these arms were measured. drift measure judges them and prints the counts."
        st.html(tag("p", words, cls="dr-say"))
        return
    st.html(
        tag(
            "p",
            "Exact: at every position of the expected answer the arm's best token is the answer's own, so that decoded "
            "greedily from the same history it would write the answer to the letter. Lost: the reference would, the "
            "arm would not. Gained: the other way round.",
            cls="dr-say",
        )
    )
    st.html(tag("p", _sentence(page, answers, arms), cls="dr-say"))
    st.html(answers.html(_caption(page, answers)))
    csv_button(answers.csv_rows(), name=f"{_file(page)}-answers-{page.view.outliers}", key="answers")
    ranked = page.ranking().ranked
    drawn = [arm for arm in arms if arm.arm in ranked] or arms
    if not drawn:
        return
    st.subheader("Does it agree with the other figures?", anchor=False)
    st.html(agreement_html(page))
    answer_charts(page, answers, drawn)


def _file(page: Page) -> str:
    return f"{page.campaign.protocol_name}-v{page.campaign.protocol_version}"


def _sentence(page: Page, answers: AnswerTable, arms: list[ArmRecord]) -> list[object]:
    """What is seen, in words, from the figures themselves."""
    outliers = page.sets[0]
    parts: list[object] = []
    reference = answers.reference(answers.chosen, outliers)
    if reference is not None:
        parts.append(f"The reference would write {write_counted(reference)} to the letter. ")
    found = {arm.arm: answers.figure(arm.arm, ANSWERS, answers.chosen, outliers) for arm in arms}
    known = {name: figure for name, figure in found.items() if figure is not None and figure.value is not None}
    if known:
        fewest = min(figure.value for figure in known.values())
        names = [name for name, figure in known.items() if figure.value == fewest]
        counted = " and ".join(dict.fromkeys(write_counted(known[name]) for name in names))
        verb = "has" if len(names) == 1 else "have"
        parts += [tag("b", ", ".join(names)), f" {verb} the smallest share of the arms shown: {counted}"]
        parts.append(f" ({OUTLIER_LABELS[outliers]})." if len(page.sets) > 1 else ".")
    return parts


def _caption(page: Page, answers: AnswerTable) -> str:
    """What is the same in every cell."""
    sets = page.sets[0]
    found = [answers.figure(arm.arm, ANSWERS, answers.chosen, sets) for arm in answers.arms]
    intervals = sorted({figure.interval for figure in found if figure is not None and figure.interval})
    notes = sorted({figure.reason for figure in found if figure is not None and figure.reason and figure.interval})
    text = "A cell: exact/judged, share, [interval], floor."
    if intervals:
        text += f" Interval: {'; '.join(intervals)}."
    if len(notes) == 1:
        text += f" {notes[0]}."
    kinds = [answers.figure(arm.arm, ANSWERS, ("kind", kind), sets) for arm in answers.arms for kind in answers.kinds]
    if any(figure is not None and figure.value in (0.0, 1.0) for figure in (*found, *kinds)):
        text += " A share of all or none has no interval: its resamples are all alike."
    if answers.chosen != ("all", "all"):
        text += " Kinds of range are over all answers, not the chosen panel alone."
    return text


def _lost(page: Page, arm: ArmRecord) -> None:
    everything = data.answers(page.uri, arm.run_id, arm.complete).to_pylist()
    st.subheader(f"Lost answers of {arm.arm}", anchor=False)
    if not everything:
        words = "This arm has none listed: no window of its own holds one, or none was judged when it was measured."
        st.html(tag("p", words, cls="dr-say"))
        return
    kept = [row for row in everything if _chosen(page, row)]
    lost = lost_rows(kept)
    gained = sum(row["exact"] is True and row["reference_exact"] is False for row in kept)
    unknown = sum(row["exact"] is None for row in kept)
    against = arm.reference or page.campaign.reference
    words = (
        f"{len(lost):,} of {_count(sum(row['reference_exact'] is True for row in kept))} that {against} would write."
    )
    words += f" {gained:,} gained." if gained else ""
    words += f" {unknown:,} not judged: a best token is not known." if unknown else ""
    if not lost:
        st.html(tag("p", f"None is lost: {words}", cls="dr-say"))
        return
    shown = lost[:SHOWN_ROWS]
    words += " Broken literals come first, then what the reference was surer of."
    words += f" The first {len(shown):,} are shown, the CSV has all." if len(shown) < len(lost) else ""
    st.html(lost_table(shown, words))
    csv_button(lost, name=f"{_file(page)}-{arm.arm}-lost-answers-{page.view.outliers}", key="lost")


def _chosen(page: Page, row: dict[str, Any]) -> bool:
    """Whether an answer or a position is among the chosen windows and positions."""
    if page.sets == ("without",) and row["outlier"]:
        return False
    panels = {window.name: window.panel for window in page.protocol.windows}
    return page.view.scope == "all" or split_scope(page.view.scope) == ("panel", panels.get(row["window"]))


def _count(answers: int) -> str:
    return f"{answers:,} answer" if answers == 1 else f"{answers:,} answers"


def _overturned_literals(page: Page, arm: ArmRecord) -> None:
    st.subheader(f"Strong overturns in literals of {arm.arm}", anchor=False)
    bands = page.protocol.bands
    st.html(
        tag(
            "p",
            f"The reference gave its best token {bands.strong_from:g} or more inside a number, an address, a path or a "
            "name that stands earlier in the text, and the arm would have written another.",
            cls="dr-say",
        )
    )
    listed = data.listed(page.uri, arm.run_id, arm.complete).to_pylist()
    if not listed:
        words = "No rows were listed for this arm." if page.has_positions else "The source gives no positions."
        st.html(tag("p", words, cls="dr-say"))
        return
    everywhere = [row for row in listed if row["list"] == "strong_overturn"]
    overturns = [row for row in everywhere if _chosen(page, row)]
    kept = [row for row in overturns if row["literal"]]
    cut = _cut(everywhere)
    if not kept:
        st.html(tag("p", f"None. {cut}".strip(), cls="dr-say"))
        return
    caption = f"{len(kept):,} of {len(overturns):,} listed strong overturns lie in a literal. {cut}".strip()
    st.html(listed_table(kept, caption, label="Strong overturns in literals"))
    csv_button(kept, name=f"{_file(page)}-{arm.arm}-literal-overturns-{page.view.outliers}", key="literal-overturns")


def _cut(overturns: list[dict[str, Any]]) -> str:
    """What the list does not hold."""
    of = max((row["of"] for row in overturns), default=0)
    return f"The list was cut: the arm has {of:,} strong overturns in all." if of > len(overturns) else ""


show()
