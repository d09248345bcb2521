"""Fenced blocks of a text as far as it goes: which is open, in which language, and where it ends.

A fence is three backticks or tildes or more at the start of a line. The word behind the opening fence is the language;
behind backticks no other may stand in that line. As many marks or more, alone on a line, close the block; they do so at
once where they end the text, although another character could still follow.

Two questions are asked of a text, and they differ in how far a fence may be indented. What a future writes is looked
for in any block, because models put blocks into lists. Whether an answer is one block is decided as Markdown does it:
four blanks make a line code of another kind.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple


class _Found(NamedTuple):
    """Offsets are in characters of the text."""

    start: int
    indent: str
    language: str
    inside: tuple[int, int] | None
    """The lines between the fences as far as they are there, half-open. None: the opening line has not ended."""
    end: int | None


class _Fences:
    """The one reader of fences. ``indent``: a pattern of what may stand before one."""

    def __init__(self, indent: str) -> None:
        self._opening = re.compile(
            rf"^({indent})(`{{3,}}+(?![^`\n]*+`)|~{{3,}}+)[ \t]*+([^\s`{{]*+)[^\n]*+(\n|\Z)", re.MULTILINE
        )
        self._closing = re.compile(rf"^{indent}(`{{3,}}+|~{{3,}}+)[ \t]*+\r?$", re.MULTILINE)

    def opening(self, text: str, place: int) -> re.Match[str] | None:
        """The first opening line that starts at ``place`` or behind it."""
        return self._opening.search(text, place)

    def at(self, text: str, start: int) -> _Found | None:
        """The block whose opening line starts at ``start``."""
        opening = self._opening.match(text, start)
        return None if opening is None else self.block(text, opening)

    def block(self, text: str, opening: re.Match[str]) -> _Found:
        indent, marks, language, line_end = opening.groups()
        if not line_end:
            return _Found(opening.start(), indent, language, None, None)
        closings: Iterator[re.Match[str]] = self._closing.finditer(text, opening.end())
        closing = next((found for found in closings if found[1].startswith(marks)), None)
        inside = (opening.end(), closing.start() if closing else len(text))
        return _Found(opening.start(), indent, language, inside, closing.end(1) if closing else None)


_ANYWHERE = _Fences(r"[ \t]*+")
_AS_MARKDOWN = _Fences(r"[ ]{0,3}+")


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
    found = _ANYWHERE.at(text, start)
    return None if found is None else _block(text, found)


def open_block(text: str, spans: Sequence[tuple[int, int]] = ()) -> Block | None:
    """The block that is open where the text ends. What looks like a fence inside one of the ascending spans is none."""
    place = 0
    left = list(reversed(spans))
    while opening := _ANYWHERE.opening(text, place):
        while left and left[-1][1] <= opening.start():
            left.pop()
        if left and left[-1][0] <= opening.start():
            place = left[-1][1]
            continue
        found = _ANYWHERE.block(text, opening)
        if found.end is None:
            return _block(text, found)
        place = found.end
    return None


def unfenced(text: str) -> str:
    """What is in the one fenced block of a text; the text itself where it has none, several, or one that stays open."""
    opening = _AS_MARKDOWN.opening(text, 0)
    found = None if opening is None else _AS_MARKDOWN.block(text, opening)
    if found is None or found.inside is None or found.end is None or _AS_MARKDOWN.opening(text, found.end):
        return text
    return text[slice(*found.inside)].removesuffix("\n")


def _block(text: str, found: _Found) -> Block | None:
    if found.inside is None:
        return None
    body = text[slice(*found.inside)]
    if found.indent:
        body = re.sub(rf"^[ \t]{{1,{min(len(found.indent), 100)}}}", "", body, flags=re.MULTILINE)
    return Block(found.start, found.language.lower(), body, found.end)
