"""The explored roots of one arm as a list: filters, pages, and one click to each root."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import streamlit as st

from dashboard import state
from dashboard.components.branched import OUTSIDE, Root, RootTexts
from dashboard.components.listed_rows import token_words
from dashboard.components.markup import Html, tag, visible
from dashboard.components.outcome_table import outcome_chip
from dashboard.frame import chip, choose_some, control
from drift_runs.charts.outcomes_by_arm import OUTCOME_WORDS
from drift_runs.measure.flips import BANDS

if TYPE_CHECKING:
    from dashboard.frame import Page

AT_ONCE = 10
"""Roots of one page of the list."""
NOT_STORED = "text not stored"
WHY_WORDS: Mapping[str, str] = {
    "strong": "strong overturn",
    "drawn": "drawn in its range",
    "every": "every flip is followed",
    "floor": "where other arms' roots are",
}
LITERAL_WORDS = {"any": "any", "yes": "in a literal", "no": "not in one"}
_FIELDS: tuple[tuple[str, str], ...] = (("outcome", "Outcome"), ("band", "Confidence band"), ("kind", "Range kind"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Filtered:
    """The roots that pass, and how many there are."""

    roots: Sequence[Root]
    total: int


def filters(page: Page, roots: Sequence[Root]) -> Filtered:
    """Draw the filters and return what passes them. Choices that no root has are offered with a count of 0."""
    read: Mapping[str, Callable[[Root], str]] = {
        "outcome": lambda root: root.outcome["outcome"],
        "band": lambda root: root.band,
        "kind": lambda root: root.kind,
    }
    kinds = dict.fromkeys([*(span.kind for span in page.protocol.ranges), *(root.kind for root in roots)])
    offered: Mapping[str, Sequence[str]] = {"outcome": list(OUTCOME_WORDS), "band": BANDS, "kind": list(kinds)}
    passing = list(roots)
    row = st.container(horizontal=True)
    for name, label in _FIELDS:
        counts = Counter(map(read[name], roots))
        chosen = choose_some(name, offered[name])
        row.multiselect(
            label,
            offered[name],
            format_func=lambda value, counts=counts: f"{_word(value)} ({counts[value]:,})",
            placeholder="any",
            width=250,
            **_own(name, chosen),
        )
        if chosen:
            passing = [root for root in passing if read[name](root) in chosen]
    literal = state.current().literal
    row.segmented_control(
        "Token", state.LITERALS, format_func=LITERAL_WORDS.__getitem__, required=True, **_own("literal", literal)
    )
    if literal != "any":
        passing = [root for root in passing if root.row.get("literal") is (literal == "yes")]
    return Filtered(roots=passing, total=len(roots))


def root_list(found: Filtered, texts: RootTexts, opened: str) -> None:
    """Draw one page of the list; the root that is open is marked."""
    pages = max(1, -(-len(found.roots) // AT_ONCE))
    at = _page_number(pages)
    first = (at - 1) * AT_ONCE
    shown = found.roots[first : first + AT_ONCE]
    number = len(found.roots)
    of = f"{number:,} explored" if number == found.total else f"{number:,} that pass, of {found.total:,} explored"
    words = (
        f"Roots {first + 1:,} to {first + len(shown):,} of {of}, in the order in which they were explored. "
        "Press one to see both futures."
    )
    st.html(tag("p", words, cls="dr-key", data_shown=len(shown), data_passing=len(found.roots), data_total=found.total))
    with st.container(height=470 if len(shown) > 5 else "content", border=True):
        for root in shown:
            button, card = st.columns([0.2, 0.8], vertical_alignment="center", gap="small")
            button.button(
                _plain(f"{root.outcome['window']} {root.outcome['position']:,}"),
                key=f"root.{root.key}",
                type="primary" if root.key == opened else "secondary",
                on_click=open_root,
                args=(root.key,),
                width="stretch",
                wrap=True,
            )
            card.html(root_card(root, texts, opened=root.key == opened))
    if pages > 1:
        # Of its own key on every page: a default and a value of the session do not go together.
        key = f"list.shown.{at}"
        st.pagination(pages, default=at, key=key, on_change=_turned, args=(key,))


def root_card(root: Root, texts: RootTexts, *, opened: bool = False) -> Html:
    """One root: where, the text in front of it, both tokens with their probabilities, and what became of it."""
    outcome = root.outcome
    marks = [outcome_chip(outcome["outcome"])]
    if outcome["literal"]:
        marks.append(chip("other literal", "warn", "What changed is a literal: a number, a path, a name."))
    if outcome["loop"]:
        marks.append(chip("loop", "warn", "The candidate's future repeats itself."))
    marks += [chip("in a literal", "plain")] if root.row.get("literal") else []
    marks += [chip("outlier window", "outlier")] if outcome["outlier"] else []
    range_ = f"{outcome['range']} ({outcome['kind']})" if outcome["range"] else "outside every range"
    band = f"{root.band} band, " if root.band else ""
    return tag(
        "div",
        tag(
            "div",
            text_before(texts, outcome["window"], outcome["position"]),
            " ",
            *token_pair(root, texts),
            cls="dr-text",
            style="max-width:none;min-width:0",
        ),
        tag("div", marks, tag("span", outcome["rule"], cls="dr-small")),
        tag(
            "div",
            f"{range_}; {band}{WHY_WORDS.get(outcome['why'], outcome['why'])}",
            cls="dr-small",
        ),
        data_root=root.key,
        data_outcome=outcome["outcome"],
        data_outlier=str(outcome["outlier"]).lower(),
        data_open="true" if opened else None,
    )


def text_before(texts: RootTexts, window: str, position: int) -> Html:
    """The last characters in front of a root, everything in them to be seen."""
    before = texts.before(window, position)
    if before is None:
        return tag("span", NOT_STORED, cls="dr-grey")
    return tag("span", visible(before) or "(the beginning of the text)")


def token_pair(root: Root, texts: RootTexts) -> list[Any]:
    """The reference's token and the candidate's, each with its own side's probability."""
    row = root.row
    if not row:
        return [tag("span", "tokens not stored", cls="dr-grey")]
    parts: list[Any] = []
    for who, kind in (("reference", "dr-within"), ("candidate", "dr-above")):
        token, p1 = f"{who}_top", f"{who}_p1"
        words = token_words(texts.token(row[token]), row[token])
        parts.append(tag("b", words, cls=kind, title=f"{who}'s best token, id {row[token]}"))
        title = f"{who}'s probability of it"
        parts.append(tag("span", f" {probability(row[p1])} ", cls="dr-small dr-num", title=title))
    return parts


def probability(value: float | None) -> str:
    """A probability to four places; what is smaller says so."""
    if value is None:
        return "not known"
    return "under 0.0001" if 0 < value < 0.0001 else f"{value:.4f}"


def open_root(key: str, at: int | None = None) -> None:
    """Open a root; ``at``: its place among those that pass, so that the list turns to its page."""
    values = {"root": key}
    if at is not None:
        values["shown"] = str(at // AT_ONCE + 1)
    state.change(**values)


def opened_root(roots: Sequence[Root], every: Sequence[Root]) -> Root | None:
    """The root of the view, or the first that passes; says so where a link asked for one that does not exist."""
    if not roots:
        return None
    wanted = state.current().root
    found = next((root for root in roots if root.key == wanted), None)
    if found is not None:
        return found
    if wanted != state.ANY and wanted not in {root.key for root in every}:
        words = f"root = {wanted[:60]} in the link is not among these roots; showing {roots[0].key}."
        st.html(tag("div", words, cls="dr-notes", role="alert"))
    state.settle(state.Decoded(replace(state.current(), root=roots[0].key), ()))
    return roots[0]


def walk_buttons(roots: Sequence[Root], opened: Root) -> None:
    """Previous and next among the roots that pass."""
    keys = [root.key for root in roots]
    at = keys.index(opened.key)
    row = st.container(horizontal=True, vertical_alignment="center")
    for words, icon, to in (
        ("previous root", ":material/chevron_left:", at - 1),
        ("next root", ":material/chevron_right:", at + 1),
    ):
        there = 0 <= to < len(keys)
        row.button(
            words,
            icon=icon,
            key=f"walk.{words}",
            disabled=not there,
            on_click=open_root,
            args=(keys[to], to) if there else (opened.key, at),
        )
    row.html(tag("span", f"Root {at + 1:,} of {len(keys):,} that pass the filters", cls="dr-small", data_at=at + 1))


def csv_rows(roots: Sequence[Root], texts: RootTexts) -> list[dict[str, object]]:
    """Every root with its outcome, the evidence included as it is stored."""
    rows = []
    for root in roots:
        outcome, row = root.outcome, root.row
        place = {name: outcome[name] for name in ("arm", "pair", "window", "position", "document", "panel", "range")}
        rows.append(
            {
                **place,
                "kind": outcome["kind"],
                "outlier": outcome["outlier"],
                "band": root.band,
                "in_literal": row.get("literal"),
                "before": texts.before(outcome["window"], outcome["position"]),
                "reference_top": row.get("reference_top"),
                "reference_token": texts.token(row.get("reference_top")),
                "reference_p1": row.get("reference_p1"),
                "candidate_top": row.get("candidate_top"),
                "candidate_token": texts.token(row.get("candidate_top")),
                "candidate_p1": row.get("candidate_p1"),
                **{name: value for name, value in outcome.items() if name not in (*place, "kind", "outlier")},
            }
        )
    return rows


def _word(value: str) -> str:
    return "outside every range" if value == OUTSIDE else value


def _plain(words: str) -> str:
    """A label in which Markdown finds nothing."""
    return "".join(f"\\{mark}" if mark in "\\`*_{}[]<>()#+!|~:$" else mark for mark in words)


def _page_number(pages: int) -> int:
    """The view's page of the list, one that exists."""
    wanted = state.current().shown
    at = int(wanted) if wanted.isascii() and wanted.isdigit() else 1
    kept = min(max(at, 1), pages)
    if str(kept) != wanted:
        state.settle(state.Decoded(replace(state.current(), shown=str(kept)), ()))
    return kept


def _own(name: str, value: object) -> dict[str, object]:
    """As ``control``: a filter that changes begins the list at its first page."""
    return control(name, value) | {"on_change": _filtered, "args": (name,)}


def _filtered(name: str) -> None:
    value = st.session_state[f"control.{name}"]
    if value is not None:
        state.change(**{name: value, "shown": "1"})


def _turned(key: str) -> None:
    state.change(shown=str(st.session_state[key]))
