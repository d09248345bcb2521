"""Protocol: what is frozen, by which digest, what was amended, and what is outside of it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlencode

import pyarrow.compute as pc
import streamlit as st

from dashboard import data, state
from dashboard.components import protocol_tables
from dashboard.components.cells import table
from dashboard.components.export import csv_button
from dashboard.components.markup import Html, tag
from dashboard.components.taken_from import taken_from
from dashboard.frame import Page, chip, open_page
from drift_runs.errors import DriftError
from drift_runs.measure.specs import base_of
from drift_runs.report.fields import safe_name

if TYPE_CHECKING:
    from dashboard.components.protocol_tables import Listing

NUMBERS = (
    *("windows", "documents", "scored positions", "length, tokens", "coverage"),
    *("ranges", "tokens that they span", "launches"),
)
MOST_COLUMNS = 6
"""A table of more columns scrolls in a narrow window: squeezed, its words would be broken letter by letter."""
LONG_CHARACTERS = 12
"""A text of more has room for a few words on a line."""


class Locked(NamedTuple):
    """What a lock says."""

    protocol_sha256: str
    files: dict[str, str]
    tool: str
    frozen_at: str


def show() -> None:
    page = open_page("Protocol")
    text = data.lock_text(page.uri, page.campaign.run_id, page.campaign.complete)
    lock = _read(text) if text is not None else None
    _sentence(page, lock, damaged=text is not None and lock is None)
    with st.container(horizontal=True):
        _downloads(page)
    _digests(page, lock)
    taken_from(page)
    _amendment(page)
    _follow_ups(page)
    protocol = page.protocol
    _listing(page, protocol_tables.panels(protocol))
    lengths = _lengths(page)
    caption = "Spans are half-open and count tokens of the window's stream. Coverage: scored positions over its length."
    if not lengths:
        caption += " The streams are not stored with this campaign, so no length is known."
    _listing(page, protocol_tables.windows(protocol, lengths), caption)
    _listing(page, protocol_tables.ranges(protocol), nothing="The protocol names no range.")
    _listing(
        page,
        protocol_tables.outliers(protocol),
        "Declared before any result. Every aggregate is given with and without them.",
        nothing="No window is declared as an outlier.",
    )
    _listing(page, protocol_tables.arms(protocol))
    _listing(
        page,
        protocol_tables.floors(protocol),
        "An arm against itself: what measuring alone does.",
        nothing="No floor: nothing says how far the reference lies from itself, and no verdict is given.",
    )
    _listing(page, protocol_tables.rules(protocol), "Everything that changes a number.")
    _listing(
        page,
        protocol_tables.generation(protocol),
        nothing="Nothing is written freely under this protocol: it has no branches, rollouts or tasks.",
    )
    _published(page)


def _lengths(page: Page) -> dict[str, int]:
    """Tokens of each window's stream; empty where the campaign stored none: the protocol's JSON holds no text."""
    streams = data.streams(page.uri, page.campaign.run_id, page.campaign.complete)
    counts = pc.list_value_length(streams["tokens"])
    return dict(zip(streams["window"].to_pylist(), counts.to_pylist(), strict=True))


def _read(text: str) -> Locked | None:
    """The parts of a lock that a page shows; None where it is damaged."""
    try:
        found: Any = json.loads(text)
        return Locked(
            protocol_sha256=str(found["protocol_sha256"]),
            files={str(name): str(digest) for name, digest in found["files"].items()},
            tool=f"{found['tool']['name']} {found['tool']['version']}",
            frozen_at=str(found["frozen_at"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _sentence(page: Page, lock: Locked | None, *, damaged: bool) -> None:
    protocol = page.protocol
    positions = sum(map(protocol_tables.scored_positions, protocol.windows))
    candidates = sum(arm.role == "candidate" for arm in protocol.arms)
    holds = (
        f"It holds {_many(len(protocol.windows), 'window')} with {positions:,} scored positions, "
        f"{_many(len(protocol.ranges), 'range')}, {_many(candidates, 'candidate')} and "
        f"{_many(len(protocol.floors), 'floor')}."
    )
    if damaged:
        first = "Its lock cannot be read, so nothing shows that it was frozen. "
    elif page.campaign.draft:
        first = "This protocol was not frozen: it may have been changed between the results and now. "
    elif lock is None:
        first = "It ran as frozen, but its lock was not stored with the campaign. "
    else:
        same = lock.protocol_sha256 == page.campaign.protocol_sha256
        first = (
            f"Frozen {lock.frozen_at}; what ran has the digest of the lock. "
            if same
            else "The lock is of another content than what ran. "
        )
    st.html(tag("p", first, holds, cls="dr-say", data_say="protocol"))


def _many(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def _digests(page: Page, lock: Locked | None) -> None:
    st.subheader("Digests and files", anchor=False)
    campaign, protocol = page.campaign, page.protocol
    pairs: list[tuple[str, str]] = [("protocol", campaign.protocol_sha256)]
    if protocol.dictionary is not None:
        pairs.append((f"token dictionary, {protocol.dictionary.size:,} entries", protocol.dictionary.sha256))
    if lock is not None:
        pairs += sorted(lock.files.items())
    body = [
        tag("tr", tag("th", name, scope="row"), tag("td", tag("code", digest), cls="dr-wrap"), data_file=name)
        for name, digest in pairs
    ]
    caption = f"SHA-256, as frozen by {lock.tool}." if lock is not None else "SHA-256. Without a lock no file has one."
    st.html(table(caption, [tag("th", word, scope="col") for word in ("what", "SHA-256")], body, label="Digests"))
    csv_button([{"what": name, "sha256": digest} for name, digest in pairs], name=_name(page, "digests"), key="digests")


def _downloads(page: Page) -> None:
    """The protocol as it was written, and its lock."""
    campaign = page.campaign
    try:
        written = data.protocol_text(page.uri, campaign.run_id, campaign.complete)
    except DriftError as error:
        st.html(tag("span", f"The protocol's file cannot be read: {error}", cls="dr-small"))
        return
    name = safe_name(campaign.protocol_name, "protocol")
    for label, text, ending, kind in (
        ("Protocol (TOML)", written, "toml", "application/toml"),
        ("Lock (JSON)", data.lock_text(page.uri, campaign.run_id, campaign.complete), "lock.json", "application/json"),
    ):
        st.download_button(
            label,
            text or "",
            file_name=f"{name}.{ending}",
            mime=kind,
            key=f"file.{ending}",
            on_click="ignore",
            icon=":material/download:",
            disabled=not text,
        )


def _amendment(page: Page) -> None:
    past = page.protocol.supersedes
    st.subheader("Amendments", anchor=False)
    if past is None:
        st.html(tag("p", "It supersedes no other protocol.", cls="dr-say"))
        return
    existed = "Results of the older one existed when it was made." if past.results_existed else "No results existed."
    st.html(
        tag(
            "div",
            tag(
                "p",
                "Supersedes ",
                tag("b", f"{past.name} version {past.version}"),
                ", digest ",
                tag("code", past.sha256),
            ),
            tag("p", tag("b", "What changed: "), past.changed),
            tag("p", tag("b", "Why: "), past.why),
            tag(
                "p",
                chip("results existed", "warn") if past.results_existed else chip("before results", "within"),
                " ",
                existed,
            ),
            cls="dr-notes",
            data_say="amendment",
        )
    )


def _follow_ups(page: Page) -> None:
    outside = [arm for arm in page.campaign.arms if arm.role == "follow-up"]
    st.subheader("Outside of it", anchor=False)
    if not outside:
        st.html(tag("p", "No arm was measured outside this protocol.", cls="dr-say"))
        return
    rows = [
        tag(
            "tr",
            tag("th", arm.arm, scope="row"),
            tag("td", chip("follow-up", "plain")),
            tag("td", arm.title, cls="dr-wrap"),
            tag("td", "measured" if arm.complete else "not complete"),
            data_arm=arm.arm,
        )
        for arm in outside
    ]
    head = [tag("th", word, scope="col") for word in ("arm", "what it is", "title", "state")]
    caption = "Measured beside the frozen protocol, which does not name them: never ranked as its candidates."
    st.html(table(caption, head, rows, label="Follow-ups"))


def _listing(page: Page, listing: Listing, caption: str = "", *, nothing: str = "") -> None:
    st.subheader(listing.label, anchor=False)
    if not listing.rows:
        st.html(tag("p", nothing, cls="dr-say"))
        return
    numbers = [word in NUMBERS for word in listing.head]
    head = [
        tag("th", word, scope="col", cls="dr-right" if number else None)
        for word, number in zip(listing.head, numbers, strict=True)
    ]
    body = []
    before = ""
    for row in listing.rows:
        # Rows of one table of the protocol follow each other: its name stands once.
        lead = "" if row[0] == before else row[0]
        body.append(tag("tr", _row((lead, *row[1:]), numbers), data_row=row[0]))
        before = row[0]
    st.html(table(caption, head, body, label=listing.label, wide=len(head) > MOST_COLUMNS))
    slug = safe_name(listing.label.lower(), "table")
    csv_button(listing.flat(), name=_name(page, slug), key=slug)


def _row(row: tuple[str, ...], numbers: list[bool]) -> list[Html]:
    cells = [tag("th", row[0], scope="row")]
    for value, number in zip(row[1:], numbers[1:], strict=True):
        if value == "declared outlier":
            cells.append(tag("td", chip(value, "outlier")))
        else:
            words = "dr-words" if len(value) > LONG_CHARACTERS else None
            cells.append(tag("td", value, cls="dr-num dr-right" if number else words))
    return cells


def _name(page: Page, what: str) -> str:
    return f"{page.campaign.protocol_name}-v{page.campaign.protocol_version}-{what}"


def _published(page: Page) -> None:
    """Published sources that give a figure of a definition that this campaign has, with links."""
    st.subheader("Published results of the same kind", anchor=False)
    try:
        sources = data.published()
    except DriftError as error:
        st.html(tag("div", tag("b", "Published results cannot be read."), " ", error, cls="dr-notes", role="alert"))
        return
    ours = {base_of(spec) for spec in page.book.specs}
    lines = []
    for source in sources:
        shared = {column.spec for found in source.tables for column in found.columns if base_of(column.spec) in ours}
        if shared:
            address = urlencode(state.encode(replace(page.view, source=source.name)), doseq=True)
            link = tag("a", source.title, href=f"published?{address}", target="_self")
            lines.append(tag("li", link, f", {source.date}: {', '.join(sorted(shared))}", data_source=source.name))
    if not lines:
        st.html(tag("p", "No published source gives a figure of a definition that this campaign has.", cls="dr-say"))
        return
    words = "Sources that give figures of the same definition. They are facts beside these, and never ranked with them."
    st.html(tag("div", tag("p", words, cls="dr-say"), tag("ul", lines)))


show()
