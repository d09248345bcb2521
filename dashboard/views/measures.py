"""Measures: everything that was computed of one arm, and why what is absent is absent."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import streamlit as st

from dashboard.components.by_scope import by_confidence, by_length, by_marks, by_text
from dashboard.components.cells import table
from dashboard.components.divergence_forms import divergence_forms
from dashboard.components.markup import tag
from dashboard.components.measure_lists import EXACT_ANSWERS, FLIPS, LAUNCH_WORDS, ROLLOUT_WORDS, SHARPNESS, SUPPORT
from dashboard.components.measures import LAUNCHES, measure_table
from dashboard.components.shown import Shown, section, shown_csv
from dashboard.figures import write_interval, write_value
from dashboard.frame import SHOWN_ROLES, Page, chip, control, open_page, positions_control
from drift_runs.charts.palette import OUTLIER_LABELS

if TYPE_CHECKING:
    from drift_runs.tracking.records import ArmRecord


def show() -> None:
    page = open_page("Measures")
    positions_control(page)
    arms = [arm for arm in page.campaign.arms if arm.complete]
    names = [name for name in _order(page) if any(arm.arm == name for arm in arms)]
    if not names:
        st.html(tag("p", "No arm is complete.", cls="dr-say"))
        return
    chosen = page.view.arm if page.view.arm in names else names[0]
    page.row.selectbox("Arm", names, width=215, **control("arm", chosen))
    arm = next(arm for arm in arms if arm.arm == chosen)
    shown = Shown(page, arm)
    _lead(page, arm, shown)
    if not shown.here:
        st.html(tag("p", _nothing(page), cls="dr-say"))
        return
    if not page.columns.free_running:
        divergence_forms(page, shown)
    section(shown, "Best K and padding", SUPPORT, "support", SUPPORT_SAYS)
    _sharpness(shown)
    section(shown, "Flips", FLIPS, "flips", FLIPS_SAY)
    section(shown, "Expected answers", EXACT_ANSWERS, "answers", ANSWERS_SAY)
    by_confidence(page, shown)
    if not page.columns.free_running:
        by_length(page, shown)
        by_marks(page, shown)
    by_text(page, shown)
    _launches(shown)
    _rollouts(shown)
    _rest(shown)
    _source(page, arm)


FLIPS_SAY = "A flip is a counterfactual root: another greedy token on the same history, and not yet another answer."
ANSWERS_SAY = (
    "Answers that the protocol expects are counted here, and not positions. The page Answers shows the lost ones."
)
SUPPORT_SAYS = (
    "What the definitions over the best K tokens leave out. Padding columns lie beyond the tokenizer's entries: they "
    "are dropped before anything is computed."
)


def _order(page: Page) -> list[str]:
    return [arm.arm for role in SHOWN_ROLES for arm in page.campaign.arms if arm.role == role]


def _nothing(page: Page) -> str:
    if page.view.scope != "all":
        return "This arm has no figure over these positions."
    return "This arm has no figure: its run stored none."


def _lead(page: Page, arm: ArmRecord, shown: Shown) -> None:
    against = arm.reference or page.campaign.reference
    marks = [chip(arm.role)] if arm.role != "candidate" else []
    what = f" against {against}."
    kinds = sorted({figure.interval for figure in shown.here if figure.interval})
    key = f"Intervals: {'; '.join(kinds)}." if kinds else "No figure here has an interval."
    st.html(
        tag(
            "div",
            tag(
                "p", tag("b", arm.arm), " ", marks, f" {arm.title}" if arm.title != arm.arm else "", what, cls="dr-say"
            ),
            tag(
                "p",
                f"{key} The percentile interval stands first; BCa, the t interval on the log of cluster means and the "
                "clustered standard error stand below it where they were computed.",
                cls="dr-key",
            ),
        )
    )


def _sharpness(shown: Shown) -> None:
    found = shown.find(SHARPNESS)
    if not found:
        return
    st.subheader("Entropy and likelihood beside the divergence", anchor=False)
    for outliers in shown.sets:
        st.html(tag("p", _flatter(shown, outliers), cls="dr-say"))
    st.html(measure_table(found, label="Entropy and likelihood", sets=shown.sets))
    shown_csv(shown, [figure for _, figure in found], "entropy")


def _flatter(shown: Shown, outliers: str) -> list[object]:
    """Whether the candidate is flatter or sharper than the reference, in words."""
    for spec in ("full", "topk@"):
        gap = shown.one(f"dentropy.{spec}", "mean", outliers)
        above = shown.one(f"entropy.{spec}", "windows_above", outliers)
        if gap is None or gap.value is None:
            continue
        word = "flatter than" if gap.value > 0 else "sharper than" if gap.value < 0 else "as flat as"
        ends = write_interval(gap, "nats")
        sure = ends and gap.low is not None and gap.high is not None and (gap.low > 0 or gap.high < 0)
        parts: list[object] = [
            f"{OUTLIER_LABELS[outliers].capitalize()}: the candidate is ",
            tag("b", word),
            f" the reference: its entropy differs by {write_value(gap, 'nats')} nats {ends}".rstrip(),
        ]
        if above is not None and above.value is not None:
            parts.append(f", and is higher in {above.value:,.0f} of {above.n:,} windows")
        parts.append("." if sure else ". The interval holds 0." if ends else ". There is no interval.")
        return parts
    return ["Which side is flatter is not said: the difference of entropy was not computed."]


def _launches(shown: Shown) -> None:
    found = []
    for figure in shown.find_all(lambda figure: LAUNCHES in figure.statistic):
        statistic, _, end = figure.statistic.partition(LAUNCHES)
        found.append((f"{statistic}, {LAUNCH_WORDS.get(end, end)}", figure))
    if not found:
        return
    st.subheader("Launches", anchor=False)
    launches = [arm.arm for arm in shown.page.arms("launch") if arm.arm.rpartition("#")[0] == shown.arm.arm]
    others = f" Each launch is an arm of its own in the list above: {', '.join(launches)}." if launches else ""
    st.html(tag("p", f"The arm in fresh processes, on the same positions: nothing is pooled.{others}", cls="dr-say"))
    st.html(measure_table(found, label="Launches", sets=shown.sets, floor=False))
    shown_csv(shown, [figure for _, figure in found], "launches")


def _rollouts(shown: Shown) -> None:
    found = [(figure.spec, figure) for figure in shown.find_all(lambda figure: figure.spec.startswith("rollout."))]
    if not found:
        return
    place = {spec: at for at, spec in enumerate(ROLLOUT_WORDS)}
    found.sort(key=lambda pair: place.get(pair[0], len(place)))
    st.subheader("Rollouts", anchor=False)
    says = (
        "Free-running continuations against the reference's. No formula of such a figure was published, so every "
        "reading is given: all tokens equal, length of the equal prefix, positionwise agreement, and the first "
        "difference."
    )
    st.html(tag("p", says, cls="dr-say"))
    st.html(
        measure_table(
            [(ROLLOUT_WORDS.get(spec, spec), figure) for spec, figure in found], label="Rollouts", sets=shown.sets
        )
    )
    shown_csv(shown, [figure for _, figure in found], "rollouts")
    steps = shown.page.book.rows(arm=shown.arm.arm, scope_kind="step", outliers=shown.sets[0])
    if steps:
        head = [tag("th", "first difference at step", scope="col"), tag("th", "prompts", scope="col", cls="dr-right")]
        body = [
            tag(
                "tr",
                tag("th", figure.scope, scope="row"),
                tag("td", f"{figure.value:,.0f} of {figure.n:,}", cls="dr-num dr-right"),
                data_step=figure.scope,
            )
            for figure in steps
            if figure.value is not None
        ]
        st.html(tag("div", table("", head, body, label="First difference"), cls="dr-narrow"))
        shown_csv(shown, steps, "first-difference")


def _rest(shown: Shown) -> None:
    rest = [(figure.spec, figure) for figure in shown.rest()]
    if rest:
        with st.expander(f"Other figures ({len(rest)})"):
            st.html(measure_table(rest, label="Other figures", sets=shown.sets))
            shown_csv(shown, [figure for _, figure in rest], "other")


def _source(page: Page, arm: ArmRecord) -> None:
    """What an imported file says of itself: too long for a column, and never a setting of ours."""
    if not page.campaign.imported or not arm.settings:
        return
    try:
        facts = json.loads(arm.settings)
    except ValueError:
        facts = None
    if not isinstance(facts, dict):
        facts = {"settings": arm.settings}
    with st.expander("What the file says of itself"):
        rows = [
            tag("tr", tag("th", name, scope="row"), tag("td", value, cls="dr-wrap")) for name, value in facts.items()
        ]
        st.html(table("", [tag("th", word, scope="col") for word in ("fact", "value")], rows, label="Source facts"))


show()
