"""Marks map to token positions exactly or not at all."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drift_runs.authoring.source import Mark
from drift_runs.authoring.spans import decode, token_spans
from drift_runs.errors import ProtocolError

TABLE = [b"a", b"bc", b"\n", "ü".encode(), b"\n\n"]


def test_known_answer() -> None:
    tokens = [0, 2, 1, 3, 0]
    spans = token_spans("a\nbcüa", tokens, TABLE, [Mark("code", "x", 2, 6)])
    assert [(span.start, span.end) for span in spans] == [(2, 4)]


def test_an_edge_inside_a_token_is_refused_with_the_token() -> None:
    with pytest.raises(ProtocolError, match=r"file\.txt: range 'x' has an edge inside the token b'bc'"):
        token_spans("abca", [0, 1, 0], TABLE, [Mark("code", "x", 2, 4)], where="file.txt")


def test_a_range_from_position_zero_is_refused() -> None:
    with pytest.raises(ProtocolError, match=r"range 'x' is \[0, 1\), .*; put a line of text"):
        token_spans("abc", [0, 1], TABLE, [Mark("code", "x", 0, 1)])


def test_an_empty_range_is_refused() -> None:
    with pytest.raises(ProtocolError, match=r"range 'x' is \[1, 1\)"):
        token_spans("abc", [0, 1], TABLE, [Mark("code", "x", 1, 1)])


def test_tokens_of_another_text_are_refused() -> None:
    with pytest.raises(ProtocolError, match="do not give the text back"):
        token_spans("abc", [0, 2], TABLE, [])


@given(st.lists(st.integers(0, len(TABLE) - 1), min_size=2, max_size=40), st.data())
def test_a_span_decodes_to_its_marked_bytes(tokens: list[int], data: st.DataObject) -> None:
    start = data.draw(st.integers(1, len(tokens) - 1))
    end = data.draw(st.integers(start + 1, len(tokens)))
    text = decode(tokens, TABLE).decode()
    mark = Mark("code", "x", len(decode(tokens[:start], TABLE)), len(decode(tokens[:end], TABLE)))
    (span,) = token_spans(text, tokens, TABLE, [mark])
    assert (span.start, span.end) == (start, end)
    assert decode(tokens[span.start : span.end], TABLE) == text.encode()[mark.start : mark.end]
