r"""Tokens as text that is safe to show: every character visible, and what cannot be shown as an escape.

A line feed is shown as ``\n``, a control or format character as ``\x1b`` or ``\u202e``, a byte that is no UTF-8 as
``\xff``, a backslash as ``\\``, an id that the dictionary does not have as ``\{70000}``. No two texts are shown alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

BEFORE_CHARACTERS = 160
AFTER_CHARACTERS = 80
_LONGEST = 4
"""Bytes of a character in UTF-8."""

_NAMED = {"\n": r"\n", "\r": r"\r", "\t": r"\t", "\\": r"\\"}


class Place(NamedTuple):
    """Characters of a passage, half-open."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class TokenText:
    """What the ids of a dictionary say."""

    tokens: Sequence[bytes]
    """The bytes of each id, in order."""

    def text(self, token: int) -> str:
        """One token, on its own: bytes of a character that it splits are shown as bytes."""
        return self.passage([token])

    def passage(self, ids: Sequence[int]) -> str:
        """Tokens in order; a character that they split between them is whole again."""
        return "".join(self._characters(ids))

    def place(self, ids: Sequence[int], at: int) -> Place:
        """Where in the passage of ``ids`` the token ``ids[at]`` stands, a character that it shares included."""
        whole = self._characters(ids)
        start = _equal_length(whole, self._characters(ids[:at]))
        after = _equal_length(whole[::-1], self._characters(ids[at + 1 :])[::-1])
        return Place(start, sum(map(len, whole)) - after)

    def before(self, ids: Sequence[int], position: int, characters: int = BEFORE_CHARACTERS) -> str:
        """The last characters of the text before a position."""
        start, held = position, 0
        # The first character may have lost its beginning: one more is read than is shown.
        while start > 0 and held < _LONGEST * (characters + 1):
            start -= 1
            held += self._bytes(ids[start])
        return "".join(self._characters(ids[start:position])[-characters:])

    def after(self, ids: Sequence[int], position: int, characters: int = AFTER_CHARACTERS) -> str:
        """The first characters of the text after the token at a position."""
        end, held = position + 1, 0
        while end < len(ids) and held < _LONGEST * (characters + 1):
            held += self._bytes(ids[end])
            end += 1
        return "".join(self._characters(ids[position + 1 : end])[:characters])

    def _bytes(self, token: int) -> int:
        return len(self.tokens[token]) if self._known(token) else 1

    def _known(self, token: int) -> bool:
        return 0 <= token < len(self.tokens)

    def _characters(self, ids: Sequence[int]) -> list[str]:
        """Each character as it is shown."""
        shown: list[str] = []
        run: list[bytes] = []
        for token in ids:
            if self._known(token):
                run.append(self.tokens[token])
                continue
            shown += _shown(b"".join(run))
            shown.append(rf"\{{{token}}}")
            run = []
        return shown + _shown(b"".join(run))


@dataclass(frozen=True, slots=True, kw_only=True)
class Texts:
    """A dictionary and the streams that were scored."""

    tokens: TokenText
    streams: Mapping[str, Sequence[int]]
    """Window to the ids of its whole stream."""


def _equal_length(left: Sequence[str], right: Sequence[str]) -> int:
    """Length of the characters that both begin with."""
    length = 0
    for one, other in zip(left, right, strict=False):
        if one != other:
            break
        length += len(one)
    return length


def _shown(data: bytes) -> list[str]:
    return [_visible(character) for character in data.decode("utf-8", "surrogateescape")]


def _visible(character: str) -> str:
    if character in _NAMED:
        return _NAMED[character]
    if character.isprintable():
        return character
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:  # how surrogateescape writes a byte that is no UTF-8
        return rf"\x{code - 0xDC00:02x}"
    if code < 0x80:
        return rf"\x{code:02x}"
    return rf"\u{code:04x}" if code < 0x10000 else rf"\U{code:08x}"
