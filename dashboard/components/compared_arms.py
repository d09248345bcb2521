"""The arms of a chart: those that may be ranked together, and in words which are left out and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import streamlit as st

from dashboard.components.arm_order import ordered
from dashboard.components.markup import Html, tag
from dashboard.frame import chip

if TYPE_CHECKING:
    from dashboard.frame import Page
    from drift_runs.tracking.records import ArmRecord


class Compared(NamedTuple):
    """Candidates and follow-ups of a page, in its order."""

    listed: list[ArmRecord]
    """All that pass the filters: a table has them, marked."""
    drawn: list[ArmRecord]
    """Those that a chart sets against each other."""
    apart: str
    """What the chart does not hold and why, or why it must not rank; empty where there is nothing to say."""


def scored_arms(page: Page) -> list[ArmRecord]:
    """Candidates, then follow-ups, that have rows."""
    return [arm for role in ("candidate", "follow-up") for arm in ordered(page, page.arms(role, scored=True))]


def without_rows(page: Page) -> None:
    """Say which arms cannot be on a page of positions."""
    arms = [arm for role in ("candidate", "follow-up") for arm in page.arms(role) if not arm.scored]
    if arms:
        names = ", ".join(arm.arm for arm in arms)
        st.html(tag("p", f"Not on this page, because an engine that takes texts gives no rows: {names}.", cls="dr-key"))


def compared_arms(page: Page, what: str = "chart") -> Compared:
    """The page's arms that have rows; where nothing may be ranked all are drawn, and it is said."""
    arms = scored_arms(page)
    ranked = page.ranking().ranked
    drawn = [arm for arm in arms if arm.arm in ranked]
    left = [arm.arm for arm in arms if arm.arm not in ranked]
    if not left:
        return Compared(arms, drawn, "")
    if not drawn:
        return Compared(arms, arms, f"Not all is known that must be equal: rank no arms by this {what}.")
    return Compared(
        arms, drawn, f"Not in the {what}, because not comparable with its arms (Overview says why): {', '.join(left)}."
    )


def arm_cell(arm: ArmRecord, *, colour: str = "", rowspan: int = 1) -> Html:
    """The cell that names an arm, with its colour and with what sets it apart."""
    marks = [chip(arm.role)] if arm.role != "candidate" else []
    marks += [chip(f"against {arm.reference}", "plain", "Not comparable with the others.")] if arm.reference else []
    dot = f"background:{colour};display:inline-block;width:.7rem;height:.7rem;border-radius:50%;margin-right:.4rem"
    swatch = tag("span", style=dot) if colour else None
    below = tag("span", marks, cls="dr-line") if marks else None
    return tag("th", swatch, arm.arm, below, scope="row", rowspan=rowspan if rowspan > 1 else None)
