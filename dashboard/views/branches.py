"""Branches: what becomes of a flip when nobody is pulled back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from dashboard import state
from dashboard.components.branched import Branched, Followed, Root, RootTexts
from dashboard.components.call_pairs_shown import calls_table
from dashboard.components.export import csv_button, shown_chart
from dashboard.components.listed_rows import token_words
from dashboard.components.markup import Html, tag
from dashboard.components.outcome_table import OutcomeTable, outcome_chip
from dashboard.components.root_detail import judgement, texts_table, tokens_sentence
from dashboard.components.root_list import csv_rows, filters, opened_root, root_list, walk_buttons
from dashboard.components.stream_viewer import shown_futures
from dashboard.frame import Page, control, open_page, positions_control
from drift_runs.charts.outcomes_by_arm import OUTCOME_WORDS, outcomes_by_arm

PAIR_LABELS = {"branch": "branch and follow", "token": "the token alone", "weights": "the weights alone"}
PAIR_WORDS = {
    "branch": "Each side goes on behind its own token with its own weights, and nobody is pulled back: what a user of "
    "either would have got. This pair gives a root its outcome.",
    "token": "The reference's weights go on behind both tokens: what the wrong token does by itself, when whoever "
    "writes on is sound.",
    "weights": "Both sides' weights go on behind the reference's token: what the other weights do although the token "
    "was right.",
}


def show() -> None:
    page = open_page("Branches")
    page.row.segmented_control(
        "Pair of futures",
        state.PAIRS,
        format_func=PAIR_LABELS.__getitem__,
        required=True,
        help="Which two of the four futures of a root are set against each other.",
        **control("pair", page.view.pair),
    )
    if page.has_positions:
        positions_control(page)
    branched = Branched(page)
    if not branched.names:
        st.html(tag("div", _nothing(page), cls="dr-say"))
        return
    st.html(tag("p", tag("b", PAIR_LABELS[branched.pair]), ": ", PAIR_WORDS[branched.pair], cls="dr-say"))
    if bounds := branched.bounds():
        st.html(
            tag("div", tag("b", "Bounded below its protocol: "), "; ".join(bounds), cls="dr-notes", data_bounds="true")
        )
    arms = branched.followed()
    if not arms:
        st.html(tag("p", "No arm whose roots were followed passes the filters.", cls="dr-say"))
        return
    _outcomes(page, branched, arms)
    _roots(page, branched, arms)


def _nothing(page: Page) -> list[Html]:
    """Why there are no branches, and what to do."""
    if page.campaign.imported:
        return [tag("p", "Nothing was followed: the rows were made by another tool, and no engine was run here.")]
    if page.protocol.branches is None:
        return [
            tag("p", "This protocol follows no flips: it has no table ", tag("code", "[branches]"), "."),
            tag("p", "A protocol that asks for them is frozen under a new version, and run:"),
            tag("pre", "drift freeze PROTOCOL.toml\ndrift run PROTOCOL.toml"),
        ]
    return [
        tag("p", "The protocol asks for branches, and this campaign has none yet."),
        tag("p", "The same command goes on behind what is there, and follows the flips:"),
        tag("pre", f"drift run protocols/{page.campaign.protocol_name}.toml"),
    ]


def _outcomes(page: Page, branched: Branched, arms: Sequence[Followed]) -> None:
    st.subheader("What became of the roots", anchor=False)
    found = OutcomeTable(branched, arms)
    if not found.arms:
        st.html(tag("p", _absent(branched), cls="dr-say"))
        return
    sentence = tag("p", found.sentence(), cls="dr-say", data_sentence="outcomes")
    st.html(sentence)
    if found.absent:
        words = f"Without this pair: {', '.join(found.absent)}. {_why_absent(branched)}"
        st.html(tag("p", words, cls="dr-key", data_absent=" ".join(found.absent)))
    if lone := _without_root(branched, arms):
        words = (
            f"Without a root: {', '.join(lone)}. The grammar allows the text before none of them, or it did not run."
        )
        st.html(tag("p", words, cls="dr-key"))
    name = f"{page.campaign.protocol_name}-outcomes-{branched.pair}-{page.view.outliers}"
    words = "Stacked bars of outcomes by arm, the null marked with a circle; the table below has the same counts."
    shown_chart(outcomes_by_arm(found.chart_rows()), name=name, alt=words, key="outcomes")
    st.html(found.html())
    csv_button(found.csv_rows(), name=name, key="outcomes")
    with st.expander("What the outcomes mean"):
        meant = [tag("li", outcome_chip(outcome), f" {words}.") for outcome, words in OUTCOME_WORDS.items()]
        st.html(
            tag(
                "div",
                tag("p", "The first that applies, in this order:"),
                tag("ul", meant),
                tag(
                    "p",
                    "A future that repeats itself, or whose literals differ, is marked as such. Tokens until they run "
                    "together: by Kaplan and Meier over roots that ran together and those that were cut before.",
                ),
                cls="dr-say",
            )
        )


def _without_root(branched: Branched, arms: Sequence[Followed]) -> list[str]:
    """Constrained decodes that the protocol declares for these arms and that followed nothing."""
    shown = {one.name for one in arms}
    declared = branched.page.protocol.constrained
    return [decode.name for decode in declared if decode.arm in shown and decode.name not in branched.names]


def _why_absent(branched: Branched) -> str:
    if branched.pair == "branch":
        return "Nothing was followed there."
    return (
        "Floors and constrained decodes are followed behind their own token only; of a candidate it says that the run "
        "left out futures from the other side's token."
    )


def _absent(branched: Branched) -> str:
    return (
        f"No arm has futures of this pair ({PAIR_LABELS[branched.pair]}). {_why_absent(branched)} "
        "A run without that bound adds them."
    )


def _roots(page: Page, branched: Branched, arms: Sequence[Followed]) -> None:
    st.subheader("Roots", anchor=False)
    names = {one.name: one for one in arms}
    shown = page.view.arm if page.view.arm in names else next(iter(names))
    one = names[shown]
    st.selectbox("Arm", list(names), format_func=lambda name: _arm_label(names[name]), width=420, **_arm(shown))
    every = branched.roots(one)
    texts = branched.texts()
    if not every:
        st.html(tag("p", _no_roots(branched, one), cls="dr-say"))
        return
    found = filters(page, every)
    if not texts.dictionary or not texts.streams:
        what = "The streams' token ids" if texts.dictionary else "The bytes of the tokens"
        words = f"{what} are not stored with this campaign: an older version ran it. 'text not stored' stands for them."
        st.html(tag("p", words, cls="dr-key"))
    if not found.roots:
        st.html(tag("p", f"None of {found.total:,} explored roots passes the filters.", cls="dr-say"))
        return
    opened = opened_root(found.roots, every)
    root_list(found, texts, opened.key)
    base = f"{page.campaign.protocol_name}-{one.name}-{branched.pair}-{page.view.outliers}"
    with st.container(horizontal=True, vertical_alignment="center"):
        st.html(tag("span", "These roots with their outcomes", cls="dr-key"), width="content")
        csv_button(csv_rows(found.roots, texts), name=f"{base}-roots", key="roots")
        st.html(tag("span", "and both futures of each", cls="dr-key"), width="content")
        csv_button(_future_rows(branched, one, found.roots), name=f"{base}-futures", key="futures")
    _opened(branched, one, opened, found.roots, texts)


def _arm(shown: str) -> dict[str, object]:
    return control("arm", shown)


def _arm_label(one: Followed) -> str:
    if one.constrained:
        return f"{one.name} (constrained, weights of {one.record.arm})"
    return f"{one.name} (null)" if one.null else one.name


def _no_roots(branched: Branched, one: Followed) -> str:
    if one.name in branched.names and branched.pair != "branch":
        return f"{one.name} has no futures of this pair. {_why_absent(branched)}"
    return f"No root of {one.name} lies in these positions and windows."


def _opened(branched: Branched, one: Followed, root: Root, passing: Sequence[Root], texts: RootTexts) -> None:
    st.subheader(f"Root {root.outcome['window']} / {root.outcome['position']:,}", anchor=False)
    walk_buttons(passing, root)
    reference = branched.reference_of(one)
    names = (reference, _candidate_name(branched.pair, one, reference))
    weights = one.record.arm if one.constrained else one.name
    st.html(tokens_sentence(root, branched.measured(one, root), texts, (reference, weights)))
    if root.outcome["outlier"]:
        reason = dict(branched.page.campaign.outliers).get(root.outcome["window"], "")
        st.html(tag("div", tag("b", "Declared outlier window. "), reason, cls="dr-notes"))
    st.html(judgement(root, names))
    _futures(branched, one, root, texts, names)
    calls = root.evidence.get("calls") or ()
    st.markdown("**Parsed calls**")
    if calls:
        st.html(calls_table(calls, reference=names[0], candidate=names[1]))
    else:
        st.html(tag("p", "Neither future holds a tool call that parses.", cls="dr-say"))


def _candidate_name(pair: str, one: Followed, reference: str) -> str:
    if pair == "token":
        return f"{reference} behind the token of {one.name}"
    return f"{one.name} behind the token of {reference}" if pair == "weights" else one.name


def _futures(branched: Branched, one: Followed, root: Root, texts: RootTexts, names: tuple[str, str]) -> None:
    """Both token streams where they are stored, else both texts."""
    left, right = branched.pair_of(one, root)
    if one.constrained:
        st.html(tag("p", _first_of_constrained(one, root, right, texts), cls="dr-key", data_constrained="first"))
    if left is None or (right is None and not one.constrained) or not texts.dictionary:
        st.html(tag("p", "The tokens of these futures are not stored; their texts are.", cls="dr-key"))
        st.html(texts_table(root, names))
        return
    window, position = root.outcome["window"], root.outcome["position"]
    shown_futures(
        history=texts.history(window, position),
        dictionary=texts.dictionary,
        reference=left,
        candidate=right,
        reference_name=names[0],
        candidate_name=names[1],
        outcome=root.outcome,
        key="branches.viewer",
    )


def _first_of_constrained(one: Followed, root: Root, future: Mapping[str, Any] | None, texts: RootTexts) -> list[Any]:
    """With which token a constrained decode began: its grammar chose it, and not the root."""
    free = root.row.get("candidate_top")
    if future is None:
        return [
            "Of this constrained decode the text alone is stored, and its first token is what the grammar let it "
            f"choose: it need not be the token of {one.record.arm} above."
        ]
    token = tag("span", token_words(texts.token(future["first"]), future["first"]), cls="dr-token")
    if future["first"] == free:
        return ["Its grammar allows the token of ", tag("b", one.record.arm), ", and it begins with it: ", token, "."]
    behind = f", and not the token of {one.record.arm} above." if free is not None else "."
    return ["Its first token is what the grammar let it choose: ", token, behind]


def _future_rows(branched: Branched, one: Followed, roots: Sequence[Root]) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for root in roots:
        for side, found in zip(("reference", "candidate"), branched.pair_of(one, root), strict=True):
            outcome = root.outcome
            rows.append(
                {
                    "arm": one.name,
                    "pair": branched.pair,
                    "window": outcome["window"],
                    "position": outcome["position"],
                    "side": side,
                    "first": None if found is None else found["first"],
                    "best": None if found is None else found["best"],
                    "tokens": outcome[f"{side}_tokens"],
                    "ended": outcome[f"{side}_ended"],
                    "turns": None if found is None else found["turns"],
                    "ids": None if found is None else " ".join(map(str, found["tokens"])),
                    "text": outcome[f"{side}_text"],
                }
            )
    return rows


show()
