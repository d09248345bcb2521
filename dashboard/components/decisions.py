"""What was decided about each arm, the history of it, and the form that adds to it."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlencode

import streamlit as st

from dashboard import data, state
from dashboard.components.cells import table
from dashboard.components.export import csv_button
from dashboard.components.markup import Html, tag
from dashboard.frame import chip
from drift_runs.errors import DriftError
from drift_runs.report.decided import decision_rows, decisions_sentence, when
from drift_runs.tracking.decisions import (
    DECISIONS,
    MAX_NAME_CHARACTERS,
    MAX_REASON_CHARACTERS,
    Decision,
    decide,
    is_view,
)

if TYPE_CHECKING:
    from dashboard.frame import Page
    from drift_runs.tracking.decisions import History
    from drift_runs.tracking.records import ArmRecord

KINDS = {"accepted": "within", "rejected": "above", "needs more": "inconclusive"}
_NAME = "drift.decision.name"
_SAID = "drift.decision.said"


def decisions_panel(page: Page) -> None:
    """The section on decisions: a table of what counts now, every earlier entry, and the form."""
    arms = [*page.arms("candidate", filtered=False), *page.arms("follow-up", filtered=False)]
    if not arms:
        return
    st.subheader("Decisions", anchor=False)
    try:
        history = data.decisions(page.uri, page.campaign.run_id, page.run_ids, page.campaign)
    except DriftError as error:
        st.html(tag("div", tag("b", "Decisions cannot be read."), " ", error, cls="dr-notes", role="alert"))
        return
    st.html(tag("p", decisions_sentence([arm.arm for arm in arms], history), cls="dr-say", data_say="decisions"))
    st.html(table("", _head("arm"), _rows(arms, history), label="Decisions"))
    if history.damaged:
        words = f"Entries that cannot be read and are left out: {', '.join(history.damaged)}."
        st.html(tag("div", words, cls="dr-notes", role="alert"))
    if history.entries:
        with st.expander(f"Every decision ({len(history.entries)})"):
            st.html(table("", _head("arm", "no."), [_entry(entry) for entry in history.entries], label="All decisions"))
            csv_button(
                decision_rows(history.entries),
                name=f"{page.campaign.protocol_name}-v{page.campaign.protocol_version}-decisions",
                key="decisions",
            )
    _form(page, arms)


def _head(*first: str) -> list[Html]:
    return [tag("th", word, scope="col") for word in (*first, "decision", "reason", "by", "when", "view")]


def _rows(arms: list[ArmRecord], history: History) -> list[Html]:
    current = history.current()
    rows = []
    for arm in arms:
        title = tag("span", arm.title, cls="dr-line dr-title dr-wrap") if arm.title and arm.title != arm.arm else None
        lead = tag("th", arm.arm, title, scope="row")
        entry = current.get(arm.arm)
        cells = _cells(entry) if entry else [tag("td", "open", colspan=5, cls="dr-grey")]
        rows.append(tag("tr", lead, cells, data_arm=arm.arm, data_decision=entry.decision if entry else "open"))
    return rows


def _entry(entry: Decision) -> Html:
    lead = [tag("th", entry.arm, scope="row"), tag("td", entry.number, cls="dr-num dr-right")]
    return tag("tr", lead, _cells(entry), data_arm=entry.arm, data_decision=entry.decision)


def _cells(entry: Decision) -> list[Html]:
    link = tag("a", "open", href=entry.view, target="_self") if is_view(entry.view) else None
    return [
        tag("td", chip(entry.decision, KINDS[entry.decision])),
        tag("td", entry.reason, cls="dr-wrap dr-decided"),
        tag("td", entry.name, cls="dr-wrap"),
        tag("td", when(entry.time_ms), cls="dr-num"),
        tag("td", link),
    ]


def _form(page: Page, arms: list[ArmRecord]) -> None:
    said = st.session_state.pop(_SAID, None)
    if said is not None:
        words, wrong = said
        st.html(tag("div", words, cls="dr-notes", role="alert" if wrong else "status", data_say="decided"))
    names = [arm.arm for arm in arms]
    with st.expander("Decide about an arm", expanded=bool(said and said[1])), st.form("decision", border=False):
        first, second, third = st.columns([2, 2, 2], vertical_alignment="bottom")
        chosen = page.view.arm if page.view.arm in names else names[0]
        first.selectbox("Arm", names, index=names.index(chosen), key="decision.arm")
        second.segmented_control("Decision", DECISIONS, key="decision.decision")
        third.text_input(
            "Your name",
            value=st.session_state.get(_NAME, ""),
            max_chars=MAX_NAME_CHARACTERS,
            key="decision.name",
            help="It is kept with the decision, and shown to everybody who opens this store.",
        )
        st.text_area("Reason", max_chars=MAX_REASON_CHARACTERS, key="decision.reason", height=90)
        st.form_submit_button("Record the decision", on_click=_submitted, args=(page,))


def _submitted(page: Page) -> None:
    """Write what the form says; what is wrong with it is said in words above the form, and nothing typed is lost."""
    arm, decision = st.session_state["decision.arm"], st.session_state["decision.decision"]
    name, reason = st.session_state["decision.name"], st.session_state["decision.reason"]
    st.session_state[_NAME] = name
    missing = [
        words
        for words, there in (("a decision", decision), ("a reason", reason.strip()), ("your name", name.strip()))
        if not there
    ]
    if missing:
        st.session_state[_SAID] = (f"Nothing was recorded: {_joined(missing)} is missing.", True)
        return
    view = f"?{urlencode(state.encode(page.view), doseq=True)}"
    try:
        entry = decide(
            page.uri,
            page.campaign,
            arm,
            decision=decision,
            reason=reason,
            name=name,
            view=view if is_view(view) else "",
        )
    except DriftError as error:
        st.session_state[_SAID] = (f"Nothing was recorded: {error}", True)
        return
    data.decisions.clear()
    st.session_state["decision.reason"] = ""
    st.session_state["decision.decision"] = None
    st.session_state[_SAID] = (f"Recorded: {entry.arm} is {entry.decision}, by {entry.name}.", False)


def _joined(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
