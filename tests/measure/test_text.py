"""Tokens as text: nothing raw, nothing ambiguous."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drift_runs.measure.text import TokenText


def shown(data: bytes) -> str:
    return TokenText([data]).text(0)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b" the", " the"),
        (b"", ""),
        ("naïve 東京 😀".encode(), "naïve 東京 😀"),
        (b"a\nb\tc\r", r"a\nb\tc\r"),
        (b"\\n", r"\\n"),
        (b"\x1b[2J\x00\x7f", r"\x1b[2J\x00\x7f"),
        (b"\xff\xc3", r"\xff\xc3"),
        ("a\u00a0b\u200d\u202e\u2028".encode(), r"a\u00a0b\u200d\u202e\u2028"),
        ("\U000e0001".encode(), r"\U000e0001"),
        (b"\xed\xa0\x80", r"\xed\xa0\x80"),
    ],
)
def test_what_is_shown(data: bytes, text: str) -> None:
    assert shown(data) == text


def test_a_character_that_tokens_split_is_whole_in_a_passage() -> None:
    texts = TokenText([b"\xe6\x9d", b"\xb1", b"!"])
    assert texts.text(0) == r"\xe6\x9d" and texts.passage([0, 1, 2]) == "東!"


def test_an_id_that_is_not_in_the_dictionary() -> None:
    texts = TokenText([b"a", b"\xe6"])
    assert texts.text(7) == r"\{7}" and texts.text(-1) == r"\{-1}" and texts.passage([0, 7, 1]) == r"a\{7}\xe6"


def test_before_and_after_leave_the_token_out() -> None:
    texts = TokenText([b"a", b"b", b"\n", b"d"])
    ids = [0, 1, 2, 3, 1]
    assert texts.before(ids, 2) == "ab" and texts.after(ids, 2) == "db"
    assert texts.before(ids, 0) == "" and texts.after(ids, 4) == ""
    assert texts.before(ids, 4, characters=2) == r"\nd" and texts.after(ids, 0, characters=2) == r"b\n"


def test_where_a_token_stands_in_a_passage() -> None:
    texts = TokenText([b"a", b"\n", b"\xe6\x9d", b"\xb1b", b""])
    ids = [0, 1, 2, 3, 0, 4, 0]  # shown as a\\n東baa
    assert texts.passage(ids) == r"a\n東baa"
    assert [texts.place(ids, at) for at in range(7)] == [(0, 1), (1, 3), (3, 4), (3, 5), (5, 6), (6, 6), (6, 7)]


@given(st.text(st.sampled_from("aé東😀"), min_size=1, max_size=8), st.data())
def test_a_place_holds_every_character_that_the_token_has_a_byte_of(text: str, data: st.DataObject) -> None:
    whole = text.encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=6)))
    edges = [0, *cuts, len(whole)]
    texts = TokenText([whole[start:end] for start, end in pairwise(edges)])
    owner = [at for at, letter in enumerate(text) for _ in letter.encode()]
    for at, (start, end) in enumerate(pairwise(edges)):
        place = texts.place(range(len(edges) - 1), at)
        held = sorted(set(owner[start:end]))
        assert place.start <= place.end
        assert not held or place == (held[0], held[-1] + 1)


def test_a_long_token_is_cut() -> None:
    texts = TokenText(["é".encode() * 1000, b"x"])
    assert texts.before([0, 1], 1) == "é" * 160 and texts.after([1, 0], 0) == "é" * 80


TOKENS = st.lists(st.one_of(st.binary(max_size=4), st.text(max_size=4).map(str.encode)), min_size=1, max_size=12)


@given(tokens=TOKENS, data=st.data())
def test_nothing_raw_is_shown_and_bytes_come_back(tokens: list[bytes], data: st.DataObject) -> None:
    ids = data.draw(st.lists(st.integers(0, len(tokens) - 1), max_size=20))
    passage = TokenText(tokens).passage(ids)
    assert passage.isprintable()
    assert raw(passage) == b"".join(tokens[token] for token in ids)


@given(
    text=st.text(alphabet="aé東😀\n\\\x1b", max_size=400),
    cuts=st.lists(st.integers(0, 1600), max_size=30),
    at=st.integers(0),
)
def test_before_is_the_end_of_all_that_comes_before(text: str, cuts: list[int], at: int) -> None:
    """However the tokens cut the text, also within characters."""
    data = text.encode()
    edges = sorted({0, *(min(cut, len(data)) for cut in cuts), len(data)})
    tokens = [data[a:b] for a, b in pairwise(edges)] or [b""]
    ids = list(range(len(tokens)))
    position = at % len(tokens)
    texts = TokenText(tokens)
    assert texts.passage(ids[:position]).endswith(texts.before(ids, position, characters=10))
    assert texts.passage(ids[position + 1 :]).startswith(texts.after(ids, position, characters=10))
    assert texts.before(ids, position, characters=2000) == texts.passage(ids[:position])


def raw(passage: str) -> bytes:
    """The bytes that a passage stands for."""
    escapes = re.compile(r"\\(?:([nrt\\])|x([0-9a-f]{2})|u([0-9a-f]{4})|U([0-9a-f]{8}))")
    parts, end = [], 0
    for escape in escapes.finditer(passage):
        parts.append(passage[end : escape.start()].encode())
        name, byte, *code = escape.groups()
        if name:
            parts.append({"n": b"\n", "r": b"\r", "t": b"\t", "\\": b"\\"}[name])
        else:
            parts.append(bytes.fromhex(byte) if byte else chr(int(code[0] or code[1], 16)).encode())
        end = escape.end()
    parts.append(passage[end:].encode())
    assert "\\" not in "".join(part.decode("utf-8", "ignore") for part in parts[::2])
    return b"".join(parts)
