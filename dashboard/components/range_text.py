"""One range along its text: how far an arm drifts at each position, as a strip and in the text itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import streamlit as st

from dashboard import data
from dashboard.components.cells import table
from dashboard.components.export import csv_button, shown_chart
from dashboard.components.listed_rows import token_words
from dashboard.components.markup import Html, tag
from dashboard.components.passage import SHEET, Mark, legend, marks_of, passage
from dashboard.figures import Column, write_number
from dashboard.frame import Page, chip, choose, control
from drift_runs.charts.position_strip import position_strip
from drift_runs.errors import StoreError
from drift_runs.measure.specs import BY_BASE, base_of
from drift_runs.measure.text import TokenText

if TYPE_CHECKING:
    from drift_runs.protocol.model import Range
    from drift_runs.tracking.records import ArmRecord

COLOURINGS = {"divergence": "divergence", "flip": "flips"}
SHOWN_TOKENS = 1500
"""Tokens of a page: a browser has one element for each."""
LARGEST = 10
_STRIP = pa.schema(
    [
        ("position", pa.int64()),
        ("nats", pa.float64()),
        ("flip", pa.bool_()),
        ("infinite", pa.bool_()),
        ("token", pa.string()),
    ]
)


class _Bytes(Sequence[bytes]):
    """A stored dictionary as a sequence: only the tokens that are asked for become bytes."""

    def __init__(self, stored: pa.Table) -> None:
        self._column = stored["bytes"].combine_chunks()

    def __len__(self) -> int:
        return len(self._column)

    def __getitem__(self, at):
        return self._column[at].as_py()


def range_text(page: Page, arm: ArmRecord) -> None:
    """Choose a range of one arm and read it; reads the positions of one window."""
    declared = page.protocol.outlier_windows
    ranges = [item for item in page.protocol.ranges if page.sets != ("without",) or item.window not in declared]
    st.subheader("The text of one range", anchor=False)
    if not ranges:
        why = "every range lies in a declared outlier window" if page.protocol.ranges else "the protocol has no ranges"
        st.html(tag("p", f"There is no text to show: {why}.", cls="dr-say"))
        return
    by_name = {item.name: item for item in ranges}
    chosen = by_name[choose("span", list(by_name))]
    row = st.container(horizontal=True)
    row.selectbox(
        "Range",
        list(by_name),
        format_func=lambda name: f"{name} ({by_name[name].kind})",
        width=320,
        **control("span", chosen.name),
    )
    row.segmented_control(
        "Colour by",
        list(COLOURINGS),
        format_func=COLOURINGS.__getitem__,
        required=True,
        **control("colouring", page.view.colouring),
    )
    try:
        everything = data.window_rows(page.uri, arm.run_id, chosen.window, arm.complete)
    except StoreError:
        words = f"The positions of {chosen.window} were not kept for {arm.arm}, so its text cannot be shown."
        st.html(tag("p", words, cls="dr-say"))
        return
    position = everything["position"]
    inside = pc.and_(pc.greater_equal(position, chosen.start), pc.less(position, chosen.end))
    rows = everything.filter(inside).sort_by("position").to_pylist()
    if not rows:
        st.html(tag("p", "No position of this range was scored.", cls="dr-say"))
        return
    stored = data.dictionary(page.uri, page.campaign.run_id, page.campaign.complete)
    tokens = TokenText(_Bytes(stored)) if stored.num_rows else None
    spec = page.columns.headline
    marks = marks_of(rows, BY_BASE[base_of(spec)].column, tokens)
    _header(page, arm, chosen, marks)
    _strip(page, arm, chosen, marks)
    _text(page, marks, tokens is not None)
    _largest(page, marks)
    _csv(page, arm, chosen, marks)


def _header(page: Page, arm: ArmRecord, item: Range, marks: list[Mark]) -> None:
    """What is seen, in words: how many positions, where the largest divergence stands, how many flips."""
    spec = page.columns.headline
    known = [mark for mark in marks if mark.nats is not None]
    flips = sum(bool(mark.flip) for mark in marks)
    length = item.end - item.start
    parts: list[object] = [
        tag("b", f"{arm.arm} in {item.name}"),
        f" ({item.kind}, window {item.window}, positions {item.start:,} to {item.end - 1:,}): ",
        f"{len(marks):,} of {length:,} positions scored, {flips:,} flips. ",
    ]
    infinite = sum(mark.infinite for mark in marks)
    if infinite:
        parts.append(f"{infinite:,} positions are infinite. ")
    if missing := len(marks) - len(known) - infinite:
        parts.append(f"{missing:,} positions have no {spec}. ")
    if known:
        worst = max(known, key=lambda mark: mark.nats or 0.0)
        total = sum(max(mark.nats or 0.0, 0.0) for mark in known)
        share = (worst.nats or 0.0) / total if total > 0 else 0.0
        parts += [
            f"The largest {spec} is ",
            tag("b", f"{write_number(worst.nats or 0.0, 'nats')} nats", data_figure="largest"),
            f" at position {worst.position:,}",
            f", {write_number(share, 'share')} of the range's total." if total > 0 else ".",
        ]
    if item.window in page.protocol.outlier_windows:
        parts += [" ", chip("incl. outlier", "outlier", "This window is declared as an outlier.")]
    st.html(tag("p", parts, cls="dr-say", data_range_text=item.name, data_arm=arm.arm))


def _strip(page: Page, arm: ArmRecord, item: Range, marks: list[Mark]) -> None:
    spec = page.columns.headline
    floor_name, floor = _floor_maximum(page, arm, item)
    strip = pa.Table.from_pylist(
        [
            {
                "position": mark.position,
                "nats": mark.nats,
                "flip": mark.flip,
                "infinite": mark.infinite,
                "token": token_words(mark.text, mark.token),
            }
            for mark in marks
        ],
        schema=_STRIP,
    )
    colour = page.colours.get(arm.arm, "#8a8f98")
    shown_chart(
        position_strip(strip, spec=spec, colour=colour, floor_maximum_nats=floor),
        name=f"{page.campaign.protocol_name}-{arm.arm}-{item.name}",
        alt=f"{spec} along the positions of {item.name} for {arm.arm}",
    )
    if floor is None:
        said = "No floor stands beside this range."
    elif floor <= 0:
        said = f"The floor {floor_name} is 0 at every position of this range, so it has no line."
    else:
        above = sum((mark.nats or 0.0) > floor for mark in marks)
        said = (
            f"Dashed grey: the largest value of the floor {floor_name} in this range, {write_number(floor, 'nats')} "
            f"nats; {above:,} of {len(marks):,} positions lie above it."
        )
    st.html(tag("p", f"Diamonds are flips. {said}", cls="dr-key"))


def _floor_maximum(page: Page, arm: ArmRecord, item: Range) -> tuple[str, float | None]:
    """The floor beside the range's maximum; the window's, where the range's own figure is not shown."""
    column = Column(key="max", header="", spec=page.columns.headline, statistic="max", unit="nats")
    for kind, scope in (("range", item.name), ("window", item.window)):
        for outliers in ("with", "only"):
            figure = page.book.by_scope(column, kind, outliers).get((arm.arm, scope))
            if figure is not None and figure.floor:
                return figure.floor, figure.floor_value
    return "", None


def _text(page: Page, marks: list[Mark], known: bool) -> None:
    st.html(f"<style>{SHEET}</style>")
    shown = marks
    if len(marks) > SHOWN_TOKENS:
        pages = [str(number) for number in range(1, -(-len(marks) // SHOWN_TOKENS) + 1)]
        chosen = choose("shown", pages)
        st.selectbox(
            f"Part of the text ({len(pages)} parts of {SHOWN_TOKENS:,} tokens)", pages, **control("shown", chosen)
        )
        start = (int(chosen) - 1) * SHOWN_TOKENS
        shown = marks[start : start + SHOWN_TOKENS]
        st.html(tag("p", f"Tokens {start + 1:,} to {start + len(shown):,} of {len(marks):,}.", cls="dr-key"))
    if not known:
        st.html(
            tag("p", "What the tokens say is not known: no dictionary was stored. Ids stand for them.", cls="dr-key")
        )
    st.html(legend(page.view.colouring))
    st.html(passage(shown, spec=page.columns.headline, colouring=page.view.colouring))


def _largest(page: Page, marks: list[Mark]) -> None:
    """The positions with the most divergence, in a table that needs no pointing."""
    known = sorted((mark for mark in marks if mark.nats is not None), key=lambda mark: -(mark.nats or 0.0))
    shown = [*(mark for mark in marks if mark.infinite), *known][:LARGEST]
    if not shown:
        return
    words = (
        "position",
        "text",
        f"{page.columns.headline}, nats",
        "reference's best",
        "candidate's best",
        "P and Q of the text",
    )
    head = [tag("th", word, scope="col") for word in words]
    body = [_largest_row(mark) for mark in shown]
    caption = (
        f"The {len(shown)} largest of {len(marks):,} positions; the CSV has all. P is the reference's probability, "
        "Q the candidate's."
    )
    st.html(table(caption, head, body, label="Largest positions of the range"))


def _largest_row(mark: Mark) -> Html:
    marks = [chip("strict flip" if mark.strict else "flip")] if mark.flip else []
    return tag(
        "tr",
        tag(
            "th", f"{mark.position:,}", tag("span", marks, cls="dr-line") if marks else None, scope="row", cls="dr-num"
        ),
        tag("td", token_words(mark.text, mark.token), cls="dr-token"),
        tag(
            "td", "infinite" if mark.nats is None else write_number(mark.nats, "nats"), cls="dr-num", data_figure="nats"
        ),
        tag(
            "td",
            tag("span", token_words(mark.reference_text, None), cls="dr-token"),
            _pair(mark.reference_p1, mark.q_of_reference_top),
        ),
        tag(
            "td",
            tag("span", token_words(mark.candidate_text, None), cls="dr-token"),
            _pair(mark.p_of_candidate_top, mark.candidate_p1),
        ),
        tag("td", _pair(mark.p, mark.q)),
        data_position=mark.position,
    )


def _pair(p: float | None, q: float | None) -> Html:
    said = [f"{name} {value:.4f}" for name, value in (("P", p), ("Q", q)) if value is not None]
    return tag("span", ", ".join(said) or "not known", cls="dr-line dr-small dr-num")


def _csv(page: Page, arm: ArmRecord, item: Range, marks: list[Mark]) -> None:
    rows = [
        {
            "arm": arm.arm,
            "range": item.name,
            "window": item.window,
            "position": mark.position,
            "token": mark.token,
            "text": mark.text,
            "spec": page.columns.headline,
            "divergence_nats": mark.nats,
            "infinite": mark.infinite,
            "flip": mark.flip,
            "flip_strict": mark.strict,
            "p_of_token": mark.p,
            "q_of_token": mark.q,
            "reference_best": mark.reference_text,
            "p_of_reference_best": mark.reference_p1,
            "q_of_reference_best": mark.q_of_reference_top,
            "candidate_best": mark.candidate_text,
            "p_of_candidate_best": mark.p_of_candidate_top,
            "q_of_candidate_best": mark.candidate_p1,
        }
        for mark in marks
    ]
    csv_button(rows, name=f"{page.campaign.protocol_name}-{arm.arm}-{item.name}", key="range-text")
