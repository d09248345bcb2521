"""Fenced blocks of a text as far as it goes: which is open, in which language, and where it ends.

A fence is three backticks or tildes or more at the start of a line, however far it is indented: models put blocks into
lists. The word behind the opening fence is the language. As many marks or more, alone on a line, close the block; they
do so at once where they end the text, although another character could still follow.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

_OPENING = re.compile(r"^([ \t]*+)(`{3,}+|~{3,}+)[ \t]*+([^\s`{]*+)[^`\n]*+\n", re.MULTILINE)
_CLOSING = re.compile(r"^[ \t]*+(`{3,}+|~{3,}+)[ \t]*+\r?$", re.MULTILINE)


class Block(NamedTuple):
    """Offsets are in characters of the text."""

    start: int
    """Of the opening line."""
    language: str
    """In small letters; empty where none is named."""
    body: str
    """The lines between the fences as far as they are there, the indentation of the opening fence taken off."""
    end: int | None
    """Behind the closing marks. None: the block is open."""


def block_at(text: str, start: int) -> Block | None:
    """The block whose opening line starts at ``start``."""
    opening = _OPENING.match(text, start)
    if opening is None:
        return None
    indent, marks, language = opening.groups()
    closing = next(
        (found for found in _CLOSING.finditer(text, opening.end()) if found[1].startswith(marks)),
        None,
    )
    body = text[opening.end() : closing.start() if closing else len(text)]
    if indent:
        body = re.sub(rf"^[ \t]{{1,{min(len(indent), 100)}}}", "", body, flags=re.MULTILINE)
    return Block(start, language.lower(), body, closing.end(1) if closing else None)


def open_block(text: str, spans: Sequence[tuple[int, int]] = ()) -> Block | None:
    """The block that is open where the text ends. What looks like a fence inside one of the ascending spans is none."""
    place = 0
    left = list(reversed(spans))
    while opening := _OPENING.search(text, place):
        while left and left[-1][1] <= opening.start():
            left.pop()
        if left and left[-1][0] <= opening.start():
            place = left[-1][1]
            continue
        block = block_at(text, opening.start())
        if block is None or block.end is None:
            return block
        place = block.end
    return None
