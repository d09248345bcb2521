"""Byte spans of a text to token spans: exact, or an error that says where."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from drift_runs.authoring.source import Mark
from drift_runs.errors import ProtocolError


class TokenSpan(NamedTuple):
    """A range or an answer as half-open token positions ``[start, end)``."""

    kind: str
    """Kind of the range, form of the answer."""
    name: str
    start: int
    end: int


def decode(tokens: Sequence[int], token_bytes: Sequence[bytes]) -> bytes:
    """The bytes that the tokens stand for."""
    return b"".join(token_bytes[token] for token in tokens)


def token_spans(
    text: str,
    tokens: Sequence[int],
    token_bytes: Sequence[bytes],
    marks: Sequence[Mark],
    *,
    where: str = "",
    noun: str = "range",
) -> tuple[TokenSpan, ...]:
    """Token positions of each mark.

    Raises ``ProtocolError`` when the tokens do not give the text back, when a mark lies inside a token (the message
    quotes the token), when a span is empty, or when it holds position 0, which has no prediction.
    """
    whole = text.encode("utf-8")
    if decode(tokens, token_bytes) != whole:
        raise ProtocolError(
            "the tokens do not give the text back",
            where=where,
            expected="a tokenizer without normalisation",
            todo="change the text",
        )
    edges = np.concatenate([[0], np.cumsum([len(token_bytes[token]) for token in tokens], dtype=np.int64)])
    spans = []
    for mark in marks:
        ends = []
        for offset in (mark.start, mark.end):
            index = int(np.searchsorted(edges, offset))
            if edges[index] != offset:
                token = token_bytes[tokens[index - 1]]
                raise ProtocolError(
                    f"{noun} {mark.name!r} has an edge inside the token {token!r}",
                    where=where,
                    expected="edges where a token ends",
                    todo="move the directive to a line that is followed by neither a blank nor an indented line",
                )
            ends.append(index)
        start, end = ends
        if end <= start:
            raise ProtocolError(f"{noun} {mark.name!r} is [{start}, {end})", where=where, expected="one token or more")
        if start < 1:
            raise ProtocolError(
                f"{noun} {mark.name!r} is [{start}, {end}), and the first token of a text has no prediction",
                where=where,
                expected="a span from position 1 on",
                todo=f"put a line of text, or a chat turn, before the {noun}",
            )
        spans.append(TokenSpan(mark.kind, mark.name, start, end))
    return tuple(spans)
