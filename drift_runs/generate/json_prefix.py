"""Strict JSON as far as a text goes: an object or array has ended, can still be completed, or never can.

One pass without recursion, in time linear in what is read. A value that has ended may still be refused by
``calls.strict_json`` for what is no matter of grammar: a number that no float holds, half a character.
"""

from __future__ import annotations

import json
import re
from typing import NamedTuple

DEPTH = 256
"""Objects and arrays inside one another that are read."""
KEYS_DEPTH = 3
"""Keys are reported down to this depth."""

_SPACE = re.compile(r"[ \t\r\n]*+")
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u[0-9A-Fa-f]{4}))*+')
_HALF_ESCAPE = re.compile(r"\\(?:u[0-9A-Fa-f]{0,3})?\Z")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?+(?:[eE][+-]?[0-9]++)?+")
_HALF_NUMBER = re.compile(r"(?:\.|[eE][+-]?)\Z")
_WORD = re.compile(r"-?[A-Za-z]{0,10}")
_CONSTANTS = ("true", "false", "null")


class Scan(NamedTuple):
    """What is known of the value. Offsets are in characters of the text; one of ``end`` and ``fault`` is None."""

    end: int | None
    """Behind the value. None: it has not ended."""
    fault: int | None
    """Where the first character stands that no JSON can have there. None: there is none."""
    why: str
    keys: tuple[tuple[int, str], ...]
    """Depth and name of each key, in order; the outermost object has depth 1. A key counts once its quote is closed."""


class _Open(Exception):
    """The text ends here."""


class _Fault(Exception):
    def __init__(self, place: int, why: str) -> None:
        super().__init__(why)
        self.place = place


def scan(text: str, start: int) -> Scan:
    """The object or array that begins at ``start``."""
    keys: list[tuple[int, str]] = []
    try:
        end = _container(text, start, keys)
    except _Open:
        return Scan(None, None, "", tuple(keys))
    except _Fault as fault:
        return Scan(None, fault.place, f"{fault} at character {fault.place}", tuple(keys))
    return Scan(end, None, "", tuple(keys))


def skip_space(text: str, place: int) -> int:
    """The offset of the first character from ``place`` on that is no white space of JSON."""
    found = _SPACE.match(text, place)
    return found.end() if found else place


def _container(text: str, start: int, keys: list[tuple[int, str]]) -> int:
    names: list[set[str] | None] = []  # of each object that is open; None for an array
    place, first = start, False
    if start < len(text) and text[start] not in "{[":
        raise _Fault(start, f"{text[start]!r} in place of an object or array")
    while True:
        # Here a value or a key begins, or, behind an opening bracket, the end of an empty container.
        place = skip_space(text, place)
        mark = _mark(text, place)
        inside = names[-1] if names else None
        if first and mark == ("]" if inside is None else "}"):
            names.pop()
            place += 1
        else:
            if inside is not None:
                place = _key(text, place, inside, len(names), keys)
                mark = _mark(text, place)
            first = mark in "{["
            if first:
                if len(names) == DEPTH:
                    raise _Fault(place, "nested too deeply")
                names.append(set() if mark == "{" else None)
                place += 1
                continue
            place = _scalar(text, place)
        # Here a value has ended.
        while names:
            place = skip_space(text, place)
            mark = _mark(text, place)
            close = "]" if names[-1] is None else "}"
            if mark == close:
                names.pop()
            elif mark != ",":
                raise _Fault(place, f"{mark!r} in place of a comma or {close}")
            place += 1
            if mark == ",":
                break
        if not names:
            return place
        first = False


def _mark(text: str, place: int) -> str:
    if place >= len(text):
        raise _Open
    return text[place]


def _key(text: str, place: int, names: set[str], depth: int, keys: list[tuple[int, str]]) -> int:
    """Read a key and its colon; where the value begins."""
    if text[place] != '"':
        raise _Fault(place, f"{text[place]!r} in place of a key")
    end = _string(text, place)
    raw = text[place:end]
    name = json.loads(raw) if "\\" in raw else raw[1:-1]
    if name in names:
        raise _Fault(place, f"key {ascii_short(name)} is given twice,")
    names.add(name)
    if depth <= KEYS_DEPTH:
        keys.append((depth, name))
    place = skip_space(text, end)
    if _mark(text, place) != ":":
        raise _Fault(place, f"{text[place]!r} in place of a colon")
    return skip_space(text, place + 1)


def _string(text: str, place: int) -> int:
    found = _STRING.match(text, place)
    assert found is not None  # the caller saw the quote
    end = found.end()
    if _mark(text, end) == '"':
        return end + 1
    if text[end] != "\\":
        raise _Fault(end, f"{text[end]!r} inside a text")
    if _HALF_ESCAPE.match(text, end):
        raise _Open
    raise _Fault(end, "an escape that JSON has not")


def _scalar(text: str, place: int) -> int:
    if text[place] == '"':
        return _string(text, place)
    if found := _NUMBER.match(text, place):
        end = found.end()
        # At the end of the text a number may go on.
        if end == len(text) or _HALF_NUMBER.match(text, end):
            raise _Open
        return end
    found = _WORD.match(text, place)
    word = found[0] if found else ""
    if word in _CONSTANTS:
        return place + len(word)
    if word and place + len(word) == len(text) and (word == "-" or any(name.startswith(word) for name in _CONSTANTS)):
        raise _Open
    if word in ("NaN", "Infinity", "-Infinity"):
        raise _Fault(place, f"{word} is no number of JSON,")
    raise _Fault(place, f"{text[place]!r} in place of a value")


def ascii_short(text: str) -> str:
    """A text in quotes for a message; a file may say a megabyte."""
    return repr(text) if len(text) <= 200 else f"{text[:200]!r}…"
