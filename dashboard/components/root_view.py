"""One root: both futures token by token, what they call side by side, and why the root has its outcome."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import streamlit as st

from dashboard import data
from dashboard.components.cells import table
from dashboard.components.export import csv_button
from dashboard.components.markup import Html, tag, visible
from dashboard.components.root_calls import calls_table
from dashboard.components.root_evidence import evidence_of, says
from dashboard.components.stream_viewer import HISTORY_TOKENS, History, Side, payload, stream_viewer
from dashboard.figures import write_number
from dashboard.frame import chip
from drift_runs.errors import StoreError
from drift_runs.generate.futures import futures_of
from drift_runs.generate.outcomes import PAIRS

if TYPE_CHECKING:
    from dashboard.frame import Page
    from drift_runs.generate.future import Future
    from drift_runs.tracking.records import ArmRecord

BRANCH, TOKEN, WEIGHTS = PAIRS
PAIR_WORDS = {
    BRANCH: "each side behind its own token",
    TOKEN: "the reference's weights behind both tokens",
    WEIGHTS: "both weights behind the reference's token",
}
KEY = "stream_viewer"


def root_view(page: Page, row: dict[str, Any]) -> None:
    """Draw the root of a row of ``OUTCOMES``: an arm, a pair, a window and a position."""
    arm = _arm_of(page, row["arm"])
    root = _root(page, arm, row)
    evidence = evidence_of(row)
    st.html(tag("p", says(row, evidence), cls="dr-say"))
    futures = _futures(page, arm, row, root)
    history, dictionary = _history(page, arm, row), _Bytes(page)
    stream_viewer(payload(history, *_sides(page, row, futures), dictionary), key=KEY)
    _csv(row, futures, dictionary, page)
    if calls := calls_table(evidence, reference=_against(page, arm), arm=row["arm"]):
        st.html(calls)
    st.html(_root_table(page, arm, row, root))


class _Bytes(Sequence[bytes]):
    """The bytes of each token of the page's campaign, read one by one: a dictionary has a hundred thousand of them."""

    def __init__(self, page: Page) -> None:
        found = data.dictionary(page.uri, page.campaign.run_id, page.campaign.complete)
        self.column = found["bytes"].combine_chunks()

    def __len__(self) -> int:
        return len(self.column)

    def __getitem__(self, token: Any) -> Any:
        return self.column[token].as_py()


def _arm_of(page: Page, name: str) -> ArmRecord | None:
    """The arm whose run holds an outcome: of a constrained decode the arm that it constrains."""
    held = {item.name: item.arm for item in page.protocol.constrained}
    return next((arm for arm in page.campaign.arms if arm.arm == held.get(name, name)), None)


def _against(page: Page, arm: ArmRecord | None) -> str:
    if arm is None:
        return page.campaign.reference
    floor = next((item for item in page.protocol.floors if item.name == arm.arm), None)
    return arm.reference or (floor.arm if floor is not None else page.campaign.reference)


def _root(page: Page, arm: ArmRecord | None, row: dict[str, Any]) -> dict[str, Any] | None:
    """The row of ``ROOTS``; None where it is not stored."""
    if arm is None:
        return None
    return _at(data.roots(page.uri, arm.run_id, arm.complete), row)


def _at(found: pa.Table, row: dict[str, Any]) -> dict[str, Any] | None:
    here = pc.and_(pc.equal(found["window"], row["window"]), pc.equal(found["position"], row["position"]))
    rows = found.filter(here).to_pylist()
    return rows[0] if rows else None


def _futures(
    page: Page, arm: ArmRecord | None, row: dict[str, Any], root: dict[str, Any] | None
) -> list[Future | None]:
    """Both futures of the row's pair; None where one is not stored, as of a constrained decode."""
    if arm is None or root is None:
        return [None, None]
    against = _against(page, arm)
    other = next((found for found in page.campaign.arms if found.arm == against), None)
    theirs = (page.campaign.run_id, page.campaign.complete) if other is None else (other.run_id, other.complete)
    mine = (arm.run_id, arm.complete)
    first, wrong = root["reference_top"], root["candidate_top"]
    wanted = {
        BRANCH: ((theirs, first), (mine, wrong)),
        TOKEN: ((theirs, first), (theirs, wrong)),
        WEIGHTS: ((theirs, first), (mine, first)),
    }[row["pair"]]
    texts = (row["reference_text"], row["candidate_text"])
    return [
        _future(data.futures(page.uri, *run), row, token, text)
        for (run, token), text in zip(wanted, texts, strict=True)
    ]


def _future(found: pa.Table, row: dict[str, Any], first: int, text: str) -> Future | None:
    """The future that was judged: its text tells it from that of another decode."""
    here = pc.and_(pc.equal(found["window"], row["window"]), pc.equal(found["position"], row["position"]))
    same = pc.and_(pc.and_(here, pc.equal(found["first"], first)), pc.equal(found["text"], text))
    futures = futures_of(found.filter(same))
    return futures[0] if futures else None


def _sides(page: Page, row: dict[str, Any], futures: list[Future | None]) -> tuple[Side, Side]:
    arm = _arm_of(page, row["arm"])
    against = _against(page, arm)
    mine = row["arm"]
    words = {
        BRANCH: ((against, "reference, behind its own token"), (mine, "candidate, behind its own token")),
        TOKEN: (
            (against, "reference's weights, behind the reference's token"),
            (f"{against} behind {mine}'s token", "reference's weights, behind the candidate's token"),
        ),
        WEIGHTS: (
            (against, "reference's weights, behind the reference's token"),
            (mine, "candidate's weights, behind the reference's token"),
        ),
    }[row["pair"]]
    made = [
        Side(
            name=name,
            says=says_,
            future=future,
            text=row[f"{side}_text"],
            ended=row[f"{side}_ended"],
            resync=row[f"resync_{side}"],
        )
        for (name, says_), future, side in zip(words, futures, ("reference", "candidate"), strict=True)
    ]
    return made[0], made[1]


def _history(page: Page, arm: ArmRecord | None, row: dict[str, Any]) -> History:
    """The tokens before the root: of the stream, or where it is not stored those of the scored positions."""
    position = row["position"]
    streams = data.streams(page.uri, page.campaign.run_id, page.campaign.complete)
    found = streams.filter(pc.equal(streams["window"], row["window"]))
    if found.num_rows:
        tokens = found["tokens"][0].values[max(position - HISTORY_TOKENS, 0) : position].to_pylist()
        return History(tokens=tokens, position=position)
    tokens = _scored_before(page, arm, row)
    missing = (
        f"The stream is not stored with this campaign: of the {position:,} tokens before the root only the "
        f"{len(tokens):,} scored ones just before it are known."
    )
    return History(tokens=tokens, position=position, missing=missing)


def _scored_before(page: Page, arm: ArmRecord | None, row: dict[str, Any]) -> list[int]:
    rows = _scored(page, arm, row["window"])
    known = {} if rows is None else dict(zip(rows["position"].to_pylist(), rows["token"].to_pylist(), strict=True))
    tokens: list[int] = []
    for position in range(row["position"] - 1, max(row["position"] - HISTORY_TOKENS, 0) - 1, -1):
        if known.get(position) is None:
            break
        tokens.insert(0, known[position])
    return tokens


def _scored(page: Page, arm: ArmRecord | None, window: str) -> pa.Table | None:
    """The scored positions of a window; None where they are not stored."""
    if arm is None:
        return None
    try:
        return data.window_rows(page.uri, arm.run_id, window, arm.complete)
    except StoreError:
        return None


def _root_table(page: Page, arm: ArmRecord | None, row: dict[str, Any], root: dict[str, Any] | None) -> Html:
    """What both sides gave the two tokens at the root."""
    scored = _scored(page, arm, row["window"])
    position = None if scored is None else _at(scored.cast(_plain(scored.schema)), row)
    words = _Bytes(page)
    lines = []
    for side, own, other in (
        ("reference", "reference_p1", "p_of_candidate_top"),
        ("candidate", "candidate_p1", "q_of_reference_top"),
    ):
        name = _against(page, arm) if side == "reference" else (arm.arm if arm is not None else row["arm"])
        top = None if root is None else root[f"{side}_top"]
        cells = [
            tag("td", _token(words, top), cls="dr-token", data_figure="top"),
            _number(None if root is None else root[own], "p1"),
            _number(None if position is None else position[other], "other"),
        ]
        margin = None if position is None or side == "candidate" else position["reference_margin"]
        cells.append(_number(margin, "margin") if side == "reference" else tag("td", "not stored", cls="dr-small"))
        lines.append(tag("tr", tag("th", name, " ", chip(side), scope="row"), cells, data_arm=name, data_side=side))
    head = [
        tag("th", word, scope="col")
        for word in ("at the root", "best token", "its probability p1", "the other side's token", "margin p1 - p2")
    ]
    where = f"Window {row['window']}, position {row['position']:,}"
    where += f", range {row['range']} ({row['kind']})" if row["range"] else ", outside every range"
    return table(f"{where}.", head, lines, label="At the root")


def _plain(found: pa.Schema) -> pa.Schema:
    """Dictionary columns as what they hold, which can be compared with a value."""
    return pa.schema(
        [
            pa.field(field.name, field.type.value_type if pa.types.is_dictionary(field.type) else field.type)
            for field in found
        ]
    )


def _token(words: _Bytes, token: int | None) -> str:
    if token is None:
        return "not stored"
    known = 0 <= token < len(words)
    shown = visible(words[token].decode("utf-8", "backslashreplace"), spaces=True) if known else ""
    return f"{shown} ({token})" if shown else f"({token})"


def _number(value: float | None, figure: str) -> Html:
    if value is None:
        return tag("td", "not stored", cls="dr-small", data_figure=figure)
    return tag("td", write_number(value, "share"), cls="dr-num", data_figure=figure)


def _csv(row: dict[str, Any], futures: list[Future | None], words: _Bytes, page: Page) -> None:
    """Both futures, a row a token; of one whose tokens are not stored its text in one row."""
    lines = [
        line
        for side, future in zip(("reference", "candidate"), futures, strict=True)
        for line in _lines(row, side, future, words)
    ]
    name = f"{page.campaign.protocol_name}-{row['arm']}-{row['window']}-{row['position']}-{row['pair']}-futures"
    csv_button(lines, name=name, key="futures")


def _lines(row: dict[str, Any], side: str, future: Future | None, words: _Bytes) -> Iterator[dict[str, object]]:
    place = {name: row[name] for name in ("arm", "pair", "window", "position")} | {"side": side}
    if future is None:
        blank = dict.fromkeys(("at", "token", "written", "logprob_nats", "alternatives", "alternative_logprobs_nats"))
        yield {**place, **blank, "text": row[f"{side}_text"]}
        return
    for at, token in enumerate(future.tokens):
        known = 0 <= token < len(words)
        ids = None if future.top_ids is None else " ".join(map(str, future.top_ids[at]))
        values = None if future.top_logprobs is None else " ".join(map(repr, future.top_logprobs[at]))
        yield {
            **place,
            "at": at,
            "token": token,
            "written": future.written[at],
            "logprob_nats": future.logprobs[at],
            "alternatives": ids,
            "alternative_logprobs_nats": values,
            "text": words[token].decode("utf-8", "backslashreplace") if known else "",
        }
