"""Compare: two to six arms side by side, whether they differ, in which settings, and whether it is fair to ask."""

from __future__ import annotations

import streamlit as st

from dashboard import data
from dashboard.components.arm_agreement import agreement_section
from dashboard.components.arm_choice import Choice, arm_choice, verdict
from dashboard.components.arm_columns import columns_csv, sentence, side_by_side
from dashboard.components.arm_order import order_controls
from dashboard.components.arm_pairs import pairs_of, pairs_table
from dashboard.components.arm_settings import differing, settings_csv, settings_of, settings_table
from dashboard.components.arm_tasks import tasks_section
from dashboard.components.export import csv_button
from dashboard.components.markup import tag
from dashboard.frame import Page, choose, control, open_page, positions_control


def show() -> None:
    page = open_page("Compare")
    positions_control(page)
    order_controls(page)
    choice = arm_choice(page)
    if choice is not None:
        st.html(verdict(choice))
        rows = data.pairs(page.uri, page.campaign.run_id, page.run_ids).to_pylist()
        _columns(page, choice, rows)
        _pairs(page, choice, rows)
        if len(choice.together) > 1:
            tasks_section(page, choice.together)
        _settings(page, choice)
    agreement_section(page)


def _columns(page: Page, choice: Choice, rows: list[dict]) -> None:
    name = f"{page.campaign.protocol_name}-side-by-side-{page.view.outliers}"
    if len(choice.together) > 1:
        st.subheader("Side by side", anchor=False)
        column = page.columns.first
        paired = pairs_of(page, rows, f"{column.spec}/{column.statistic}", choice.names)
        st.html(tag("p", sentence(page, choice.together, paired), cls="dr-say", data_say="compare"))
        caption = (
            "A cell: value, [interval], floor, n. Best and worst are of the values alone, the nearest to and the "
            "furthest from the reference; whether two arms differ is decided below, and not by them."
        )
        st.html(side_by_side(page, choice.together, label="Side by side", judged=True, caption=caption))
        csv_button(columns_csv(page, choice.together), name=name, key="side-by-side")
    apart = [arm for arm in choice.arms if arm.arm in choice.apart or len(choice.together) < 2]
    if apart:
        st.subheader("Shown apart", anchor=False)
        st.html(tag("p", "Not comparable, for the reasons above: these figures have no order.", cls="dr-say"))
        st.html(side_by_side(page, apart, label="Shown apart", judged=False))
        csv_button(columns_csv(page, apart), name=f"{name}-apart", key="apart")


def _pairs(page: Page, choice: Choice, rows: list[dict]) -> None:
    st.subheader("Candidate against candidate", anchor=False)
    figures = list(dict.fromkeys(f"{row['spec']}/{row['statistic']}" for row in rows))
    if not rows:
        st.html(tag("p", _why_none(page), cls="dr-say"))
        return
    chosen = choose("figure", figures)
    st.selectbox(
        "Figure of the pairs",
        figures,
        format_func=lambda name: name.replace("/", " "),
        width=300,
        **control("figure", chosen),
    )
    pairs_table(page, rows, chosen, choice.names)


def _why_none(page: Page) -> str:
    arms = [arm for role in ("candidate", "follow-up") for arm in page.arms(role, filtered=False)]
    if sum(not arm.reference for arm in arms) < 2:
        return f"A pair needs two arms that were compared with {page.campaign.reference}."
    if not page.has_positions:
        return "No pairs: the source gives neither positions nor means by context, so nothing can be paired."
    return (
        "No pairs were computed. A campaign of an older version has none: drift run on the same store computes them "
        "from its rows."
    )


def _settings(page: Page, choice: Choice) -> None:
    st.subheader("In which settings they differ", anchor=False)
    facts = data.facts(page.uri, page.campaign.run_id, page.run_ids, page.campaign)
    settings = [settings_of(page, arm, facts) for arm in choice.arms]
    differ, equal = differing(settings)
    if differ:
        words = f"{len(differ)} of {len(differ) + len(equal)} settings that are known differ between these arms."
        st.html(tag("p", words, cls="dr-say", data_say="settings"))
        st.html(settings_table(differ, choice.arms, settings, label="Settings that differ"))
    else:
        st.html(tag("p", f"In none of {len(equal)} that are known.", cls="dr-say"))
    with st.expander(f"{len(equal)} equal settings not shown"):
        st.html(settings_table(equal, choice.arms[:1], settings[:1], label="Equal settings"))
    csv_button(
        settings_csv([*differ, *equal], choice.arms, settings),
        name=f"{page.campaign.protocol_name}-settings",
        key="settings",
    )


show()
