"""Values of JSON against each other: numbers by value, keys in any order, and where the first difference stands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_QUOTED_CHARACTERS = 80

_Place = tuple["_Place", object] | None
"""Parent and key: written out for a difference alone, as a deep value has long places."""


def same_value(left: Any, right: Any) -> bool:
    """Two values of JSON are equal: 1 is 1.0, true is not 1; the order of keys is free, that of lists counts."""
    return not difference(left, right)


def difference(found: Any, expected: Any) -> str:
    """The first difference in words, as ``port: 5433, expected 5432``; empty where there is none.

    Takes time linear in the values and no recursion: a text may nest as deep as its parser goes.
    """
    stack: list[tuple[_Place, Any, Any]] = [(None, found, expected)]
    while stack:
        place, one, other = stack.pop()
        if isinstance(one, Mapping) and isinstance(other, Mapping):
            for key in other:
                if key not in one:
                    return f"{_written((place, key))} is missing"
            for key in one:
                if key not in other:
                    return f"{_written((place, key))} is not expected"
            stack.extend(((place, key), one[key], other[key]) for key in reversed(other))
        elif _is_list(one) and _is_list(other):
            if len(one) != len(other):
                return f"{_prefix(place)}{len(one)} entries, expected {len(other)}"
            stack.extend(((place, at), one[at], other[at]) for at in range(len(one) - 1, -1, -1))
        elif not _same_scalar(one, other):
            return f"{_prefix(place)}{quoted(one)}, expected {quoted(other)}"
    return ""


def quoted(value: Any) -> str:
    """A value as a reason shows it: what a model wrote may be a megabyte, and nested a thousand times."""
    if isinstance(value, Mapping):
        return f"an object of {len(value)} keys"
    if _is_list(value):
        return f"a list of {len(value)} entries"
    # A number of thousands of digits has no text in Python, and one of hundreds needs none here.
    if isinstance(value, int) and value.bit_length() > 256:
        return f"a number of {value.bit_length()} bits"
    return shortened(repr(value))


def shortened(text: str, characters: int = _QUOTED_CHARACTERS) -> str:
    """The start of a text, with a mark where it was cut."""
    return text if len(text) <= characters else f"{text[:characters]}…"


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple)


def _same_scalar(one: Any, other: Any) -> bool:
    if _is_number(one) and _is_number(other):
        return one == other
    # None, True and texts; a container beside anything else is of another type.
    return type(one) is type(other) and one == other


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _prefix(place: _Place) -> str:
    return f"{_written(place)}: " if place else ""


def _written(place: _Place) -> str:
    keys: list[str] = []
    while place:
        place, key = place
        keys.append(str(key))
    return shortened(".".join(reversed(keys)))
