"""What the token-stream viewer is given: pieces that can only be read, and both futures split where they join."""

from __future__ import annotations

import json
import math
import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.components.stream_viewer import History, Side, payload
from dashboard.components.stream_viewer.payload import STEPS
from dashboard.components.stream_viewer.pieces import BREAK, BYTES, SIGN, TEXT, pieces, plain
from drift_runs.generate.future import Future
from drift_runs.tracking import reader
from tests.campaigns import Campaign
from tests.ui.conftest import OpenApp

DICTIONARY = [b"", *(bytes([code]) for code in range(1, 200))]


def future(tokens: list[int], probabilities: list[float | None], **more: Any) -> Future:
    return Future(
        window="w",
        position=3,
        first=tokens[0],
        best=tokens[0],
        tokens=tuple(tokens),
        written=tuple(value is not None for value in probabilities),
        logprobs=tuple(None if value is None else (math.log(value) if value else -math.inf) for value in probabilities),
        text="",
        ended="turn",
        turns=1,
        **more,
    )


def made(left: Future, right: Future, i: int | None = None, j: int | None = None) -> dict[str, Any]:
    sides = [
        Side(name=name, says="", future=one, ended=one.ended, resync=at)
        for name, one, at in (("f16", left, i), ("q4_0", right, j))
    ]
    return payload(History(tokens=[1, 2], position=2), *sides, DICTIONARY)


def ids(tokens: list[dict[str, Any]]) -> list[int]:
    return [token["sides"][0][1]["id"] for token in tokens]


@given(st.binary(max_size=40))
def test_no_piece_holds_anything_that_steers_a_reader(data: bytes) -> None:
    for kind, text in pieces(data):
        assert kind in (TEXT, SIGN, BYTES, BREAK)
        for letter in text:
            assert letter == " " if letter.isspace() else unicodedata.category(letter) not in ("Cc", "Cf", "Cs", "Co")
            assert kind == BYTES or not letter.isspace()


@given(st.binary(max_size=40))
def test_every_byte_that_is_no_character_is_there_in_hexadecimal(data: bytes) -> None:
    found = " ".join(text for kind, text in pieces(data) if kind == BYTES)
    held = [
        f"{ord(one) - 0xDC00:02X}" for one in data.decode("utf-8", "surrogateescape") if 0xDC80 <= ord(one) <= 0xDCFF
    ]
    assert found.split() == held


def test_blanks_line_ends_and_marks_are_signs() -> None:
    assert pieces(b" a\n") == [(SIGN, "\u2423"), (TEXT, "a"), (SIGN, "\u21b5"), (BREAK, "")]
    assert pieces("\u202e\x1b[31m".encode()) == [(SIGN, "\\u202e"), (SIGN, "\\u001b"), (TEXT, "[31m")]
    assert pieces("あ".encode()[:2]) == [(BYTES, "E3 81")]
    assert pieces("😀".encode()) == [(TEXT, "😀")] and pieces(b"") == []
    assert plain(pieces(b"<b>\xff")) == "<b>bytes FF"


def test_a_probability_is_the_stored_one_and_the_colour_is_its_step() -> None:
    sure = [1.0, 0.99, 0.95, 0.5, 0.1, 0.0]
    shown = made(future([5, 6, 7, 8, 9, 10, 11], [None, *sure]), future([6], [None]))["sides"][0]["tokens"]
    assert [token["step"] for token in shown] == [None, 0, 0, 1, 2, 3, 4]
    assert [token["sides"][0][1]["p"] for token in shown[1:]] == pytest.approx(sure)
    assert shown[-1]["sides"][0][1]["nats"] is None, "JSON has no minus infinity"
    assert [edge for edge, _ in STEPS] == sorted((edge for edge, _ in STEPS), reverse=True)
    assert shown[0]["root"] and shown[0]["given"] and not shown[1]["given"]


def test_what_runs_together_again_stands_once_with_both_sides() -> None:
    left = future([5, 30, 31, 32], [None, 0.9, 0.8, 0.7])
    right = future([6, 7, 30, 31, 32, 33], [None, 0.5, 0.4, 0.3, 0.2, 0.99])
    found = made(left, right, 1, 2)
    assert [ids(side["tokens"]) for side in found["sides"]] == [[5], [6, 7]]
    assert ids(found["joined"]) == [30, 31, 32] and found["joins"]
    assert [ids(side["rest"]) for side in found["sides"]] == [[], [33]]
    assert [[at for at, _ in token["sides"]] for token in found["joined"]] == [[0, 1]] * 3
    assert [token["step"] for token in found["joined"]] == [3, 3, 3], "the less sure of both"
    apart = made(left, right)
    assert not apart["joins"] and [len(side["tokens"]) for side in apart["sides"]] == [4, 6]


def test_alternatives_are_those_stored_and_absent_is_not_empty() -> None:
    stored = future([5, 6], [None, 0.6], top_ids=((), (6, 7)), top_logprobs=((), (math.log(0.6), math.log(0.3))))
    (_, token) = made(stored, future([6, 7], [None, 0.5]))["sides"][0]["tokens"]
    alternatives = token["sides"][0][1]["alternatives"]
    assert [one["id"] for one in alternatives] == [6, 7]
    assert [one["p"] for one in alternatives] == pytest.approx([0.6, 0.3])
    (_, older) = made(stored, future([6, 7], [None, 0.5]))["sides"][1]["tokens"]
    assert older["sides"][0][1]["alternatives"] is None


def test_a_side_without_tokens_shows_its_text_and_all_of_it_is_json() -> None:
    side = Side(name="held", says="", future=None, text="a\u202e\ud800", ended="horizon")
    found = payload(
        History(tokens=[999], position=900), Side(name="f16", says="", future=future([5], [None])), side, DICTIONARY
    )
    assert found["sides"][1]["text"][1] == [SIGN, "\\u202e"] and found["sides"][1]["count"] is None
    assert found["history"]["tokens"] == [[(SIGN, "\\{999}")]]
    json.dumps(found, allow_nan=False).encode()


def test_the_page_hands_over_the_stored_tokens_and_alternatives(generated_store: Campaign, open_app: OpenApp) -> None:
    (record,) = generated_store.records()
    run_id = next(arm.run_id for arm in record.arms if arm.arm == "q4_0")
    root = reader.load_roots(generated_store.uri, run_id).to_pylist()[0]
    place = (root["window"], root["position"])
    app = open_app(generated_store.root, "views/branches.py", v="1", arm="q4_0", root="/".join(map(str, place)))
    (viewer,) = app.get("bidi_component")
    found = json.loads(viewer.proto.json)
    for at, (run, first) in enumerate(((record.run_id, "reference_top"), (run_id, "candidate_top"))):
        rows = reader.load_futures(generated_store.uri, run).to_pylist()
        (stored,) = [row for row in rows if (row["window"], row["position"], row["first"]) == (*place, root[first])]
        every = [*found["sides"][at]["tokens"], *found["joined"], *found["sides"][at]["rest"]]
        shown = [dict(token["sides"])[at] for token in every]
        assert [token["id"] for token in shown] == stored["tokens"]
        assert [token["nats"] for token in shown] == stored["logprobs"]
        assert [[one["id"] for one in token["alternatives"]] for token in shown] == stored["top_ids"]
    streams = reader.load_streams(generated_store.uri, record.run_id).to_pylist()
    (tokens,) = [row["tokens"] for row in streams if row["window"] == place[0]]
    assert len(found["history"]["tokens"]) == len(tokens[: place[1]][-200:]) and not found["history"]["missing"]
