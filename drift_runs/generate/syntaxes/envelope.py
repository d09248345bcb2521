"""What the syntaxes have in common: something opens a call, it is read as far as the text goes, and it ends."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from drift_runs.generate.calls import Call, strict_json
from drift_runs.generate.json_prefix import Scan, scan


class Envelope(NamedTuple):
    """What encloses one call, or several in one array."""

    calls: tuple[Call, ...]
    """Empty unless it has ended and is sound."""
    end: int | None
    """Behind it. None: it is open where the text ends."""
    why: str
    """What is wrong with it for certain. Empty and ``end`` None: it is not finished."""


class Unfinished(Exception):
    """The text ends, and what is there can still become a call."""


class Fault(Exception):
    """What is there can never become a call."""

    def __init__(self, place: int, why: str, *, whole: bool = False) -> None:
        super().__init__(why)
        self.place = place
        """Offset from which on the end of the call is looked for."""
        self.whole = whole
        """Its JSON has ended there: only what it says is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Syntax:
    """One way of writing calls. Every function takes time linear in what it reads."""

    name: str
    find: Callable[[str, int], int | None]
    """Where the first call opens at or behind an offset that is inside none."""
    inside: Callable[[str, int], tuple[tuple[Call, ...], int]]
    """The calls of what opens at an offset, and the offset behind it. Raises ``Unfinished`` or ``Fault``."""
    recover: re.Pattern[str]
    """Where a faulty call ends: behind a match, or before it where its group ``open`` took part."""
    tagged: bool
    """A call ends with markup of its own, and not where its JSON does."""
    stray: re.Pattern[str] | None = None
    """Markup that has no business outside of a call."""
    between: str = ""
    """Characters besides white space that may stand between two calls."""
    typed: Callable[[Call, Sequence[Mapping[str, Any]]], Call] | None = None
    """For a syntax that writes values as bare texts: the call with values of the types that its tool declares."""

    def read(self, text: str, start: int) -> Envelope:
        """What opens at ``start``."""
        try:
            calls, end = self.inside(text, start)
        except Unfinished:
            return Envelope((), None, "")
        except Fault as fault:
            if fault.whole and not self.tagged:
                return Envelope((), fault.place, str(fault))
            found = self.recover.search(text, max(fault.place, start + 1))
            if found is None:
                return Envelope((), None, str(fault))
            before = "open" in found.re.groupindex and found["open"] is not None
            return Envelope((), found.start() if before else found.end(), str(fault))
        return Envelope(calls, end, "")

    def envelopes(self, text: str) -> Iterator[tuple[int, Envelope]]:
        """Every envelope of a text with the offset at which it opens, in order; only the last can be open."""
        place: int | None = 0
        while place is not None and (start := self.find(text, place)) is not None:
            envelope = self.read(text, start)
            yield start, envelope
            place = envelope.end


def expect(text: str, place: int, *words: str) -> tuple[str, int]:
    """Which of the words stands at ``place``, and the offset behind it."""
    for word in words:
        if text.startswith(word, place):
            return word, place + len(word)
    rest = text[place : place + max(map(len, words))]
    if place + len(rest) == len(text) and any(word.startswith(rest) for word in words):
        raise Unfinished
    raise Fault(place, f"no {' or '.join(words)} at character {place}")


def json_at(text: str, place: int) -> tuple[Any, int]:
    """The JSON object or array at ``place``, and the offset behind it."""
    found = scan(text, place)
    if found.fault is not None:
        raise Fault(found.fault, f"no JSON: {found.why}")
    if found.end is None:
        raise Unfinished
    try:
        return strict_json(text[place : found.end]), found.end
    except ValueError as error:
        raise Fault(found.end, f"no JSON: {error}", whole=True) from None


def calls_of(
    value: Any, span: tuple[int, int], at: int, *, keys: Sequence[str] = ("arguments",), extra: Sequence[str] = ()
) -> tuple[Call, ...]:
    """The calls that JSON is which has ended ``at`` an offset: one object, or an array of them.

    An object has ``name``, one of ``keys``, and ``extra`` keys or not. The calls stand at ``span``.
    """
    items = value if isinstance(value, list) else [value]
    if not items:
        raise Fault(at, "an array without a call", whole=True)
    return tuple(_call(item, span, at, keys, extra) for item in items)


def _call(value: Any, span: tuple[int, int], at: int, keys: Sequence[str], extra: Sequence[str]) -> Call:
    given = [key for key in keys if isinstance(value, dict) and key in value]
    if len(given) != 1 or set(value) - set(extra) != {"name", given[0]}:
        raise Fault(at, f"no object of name and {' or '.join(keys)} alone", whole=True)
    name, arguments = value["name"], value[given[0]]
    if not isinstance(name, str) or not isinstance(arguments, dict):
        raise Fault(at, f"name is no text or {given[0]} are no object", whole=True)
    return Call(name=name, arguments=arguments, start=span[0], end=span[1])


_BEHIND_FAULT = 64
"""Characters behind a fault in which a key may end that was begun before it."""


def find_json(
    text: str, place: int, opening: re.Pattern[str], is_call: Callable[[Scan, str], bool], named: re.Pattern[str]
) -> int | None:
    """Where JSON that is meant as a call begins, among other JSON and prose.

    ``opening`` finds the brackets to look at; what else it finds opens a call by itself. ``is_call`` decides by the
    keys, so that a broken call is found as well. What lies inside other JSON is none; inside JSON that is broken, which
    may be prose with a bracket, ``named`` finds the begin of what ``is_call`` takes for one.
    """
    while found := opening.search(text, place):
        start = found.start()
        if text[start] not in "{[":
            return start
        seen = scan(text, start)
        if is_call(seen, text[start]):
            return start
        if seen.fault is not None:
            begin = named.search(text, start + 1, seen.fault + _BEHIND_FAULT)
            if begin and begin.start() < seen.fault:
                return begin.start()
            place = max(seen.fault, start + 1)
        elif seen.end is None:
            return None
        else:
            place = seen.end
    return None


def has_call_keys(seen: Scan, mark: str) -> bool:
    """Whether the keys of an object, or of the objects in an array, are those of a call.

    ``name`` says so where it stands first, ``arguments`` and ``parameters`` anywhere. An object of data that begins
    with ``name`` cannot be told from a call without arguments, and counts as one.
    """
    level = 1 if mark == "{" else 2
    keys = [key for depth, key in seen.keys if depth == level]
    return keys[:1] == ["name"] or "arguments" in keys or "parameters" in keys
