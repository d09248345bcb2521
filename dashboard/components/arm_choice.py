"""Which two to six arms are set side by side, which of them may be compared, and the verdict on it in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import streamlit as st

from dashboard.components.arm_order import ordered
from dashboard.components.markup import Html, tag
from dashboard.frame import choose_some, control
from drift_runs.measure.comparability import ComparabilityKey, compare_keys, key_from_tags, ranked_groups

if TYPE_CHECKING:
    from dashboard.frame import Page
    from drift_runs.tracking.records import ArmRecord

FEWEST, MOST = 2, 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The chosen arms, in the order in which they were chosen."""

    arms: tuple[ArmRecord, ...]
    together: tuple[ArmRecord, ...]
    """Those that may be compared with one another."""
    apart: Mapping[str, tuple[str, ...]]
    """Why each of the others may not, by its name."""

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(arm.arm for arm in self.arms)


def arm_choice(page: Page) -> Choice | None:
    """The control and what it chose; None, with the reason on the page, where there are not two arms."""
    there = {arm.arm: arm for role in ("candidate", "follow-up") for arm in page.arms(role, filtered=False)}
    if len(there) < FEWEST:
        words = "This campaign has one arm" if there else "This campaign has no complete arm"
        st.html(tag("p", f"{words}: nothing can be set beside it.", cls="dr-say"))
        return None
    chosen = choose_some("arms", list(there)) or _first(page, there)
    if len(chosen) > MOST:
        left = ", ".join(chosen[MOST:])
        st.html(tag("div", f"At most {MOST} arms stand side by side. Left out: {left}.", cls="dr-notes", role="alert"))
        chosen = chosen[:MOST]
    st.multiselect(
        f"Arms side by side ({FEWEST} to {MOST} of {len(there)})",
        list(there),
        max_selections=MOST,
        help="Without a choice the first two of the order that the overview has.",
        **control("arms", chosen),
    )
    if len(chosen) < FEWEST:
        st.html(tag("p", f"Choose another arm beside {chosen[0]}.", cls="dr-say"))
        return None
    return choice_of(tuple(there[name] for name in chosen))


def _first(page: Page, there: Mapping[str, ArmRecord]) -> tuple[str, ...]:
    """The first two that are ranked and pass the filters; any others where there are not two."""
    passing = [arm for arm in there.values() if page.passes(arm)]
    ranked = page.ranking().ranked
    order = ordered(page, [arm for arm in passing if arm.arm in ranked and arm.role == "candidate"])
    order += [arm for arm in ordered(page, passing) if arm not in order]
    order += [arm for arm in there.values() if arm not in order]
    return tuple(arm.arm for arm in order[:FEWEST])


def choice_of(arms: tuple[ArmRecord, ...]) -> Choice:
    """Sort chosen arms by what may be compared: the largest group that may stand together, and the others apart."""
    # Of groups of one size those with the campaign's own reference lead.
    keys = {arm.arm: key_from_tags(arm.key) for arm in sorted(arms, key=lambda arm: bool(arm.reference))}
    groups = ranked_groups(keys)
    first = keys[groups[0].arms[0]]
    apart = {name: why for group in groups[1:] for name, why in group.reasons.items()}
    unknown = compare_keys(first, first).reasons  # what is not known is not even equal to itself
    if unknown:
        apart |= {name: unknown for name in groups[0].arms}
    together = tuple(arm for arm in arms if arm.arm not in apart)
    return Choice(arms=arms, together=together, apart=apart)


def verdict(choice: Choice) -> Html:
    """May these arms be compared? In words, with every reason against it."""
    count = len(fields(ComparabilityKey))
    names = [arm.arm for arm in choice.together]
    lines = []
    if len(names) >= FEWEST:
        words = f"{_and(names)} may be compared: all {count} things that must be equal are."
        lines.append(tag("p", tag("b", "Comparable. "), words))
    elif names:
        words = f"None of these may be compared with another. The reasons are those against {names[0]}."
        lines.append(tag("p", tag("b", "Not comparable. "), words))
    else:
        words = "None of these may be compared: what is not known is not taken for equal."
        lines.append(tag("p", tag("b", "Not comparable. "), words))
    for name, reasons in choice.apart.items():
        lines.append(tag("p", tag("b", name), " stands apart: ", "; ".join(reasons), "."))
    lines += [
        tag("p", tag("b", arm.arm), " is a follow-up, outside the frozen protocol: it is never best or worst here.")
        for arm in choice.together
        if arm.role == "follow-up"
    ]
    return tag("div", lines, cls="dr-notes", data_say="verdict")


def _and(names: list[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"
