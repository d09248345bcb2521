"""Parsed calls of two futures side by side, argument by argument, with what differs marked. All of it is untrusted."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dashboard.components.cells import table
from dashboard.components.markup import Html, tag, visible
from dashboard.frame import chip

MOST_ROWS = 200
"""Arguments of one pair that are shown; more are counted, and in the CSV."""
LONGEST = 600
"""Characters of one value that are shown."""

Path = tuple[str | int, ...]
_NAME = "min-width:8rem"
_TEXT = "min-width:11rem"
"""So that on a narrow screen a name is not broken letter by letter, and both sides stand beside each other."""


def calls_table(calls: Sequence[Mapping[str, Any]], *, reference: str, candidate: str) -> Html:
    """Pairs of calls as ``outcomes.Outcome.evidence`` has them."""
    head = [tag("th", words, scope="col") for words in ("call", "place", reference, candidate, "")]
    body = [row for number, pair in enumerate(calls, start=1) for row in _pair(number, pair)]
    equal = sum(bool(pair.get("equal")) for pair in calls)
    pairs = "pair" if len(calls) == 1 else "pairs"
    caption = (
        f"{len(calls):,} {pairs} of calls, {equal:,} equal by value. Numbers and texts are compared as values; "
        "the order of keys does not count."
    )
    return table(caption, head, body, label="Calls")


def _pair(number: int, pair: Mapping[str, Any]) -> Iterator[Html]:
    sides = [pair.get("reference"), pair.get("candidate")]
    names = [_name(side) for side in sides]
    differ = names[0] != names[1]
    state = "equal" if pair.get("equal") else "differs"
    rows = list(_rows(pair, sides))
    if not pair.get("equal") and not pair.get("settled", True):
        state = "open"
    attributes = {"data_call": number, "data_state": state}
    marks = {
        "equal": chip("equal call", "within"),
        "differs": chip("another call", "above"),
        "open": chip("not settled", "warn", "The other side was cut before it could answer for this call."),
    }
    yield tag(
        "tr",
        tag("th", f"{number}", scope="rowgroup", rowspan=1 + len(rows), style="min-width:2rem"),
        tag("td", "tool", cls="dr-small"),
        [
            tag("td", _marked(name, differ, kind), cls="dr-text", style=_TEXT)
            for name, kind in zip(names, _KINDS, strict=True)
        ],
        tag("td", marks[state]),
        **attributes,
    )
    yield from (tag("tr", cells, **attributes, data_place=place) for place, cells in rows)


_KINDS = ("dr-within", "dr-above")


def _rows(pair: Mapping[str, Any], sides: Sequence[Mapping[str, Any] | None]) -> Iterator[tuple[str, list[Html]]]:
    """One row an argument that either side has, in order; what differs is marked."""
    if all(side is None for side in sides):
        return
    leaves = [dict(_leaves(side["arguments"])) if side is not None else {} for side in sides]
    differing = [tuple(one["path"]) for one in pair.get("differences", ())]
    paths = list(dict.fromkeys([*leaves[0], *leaves[1]]))
    both = all(side is not None for side in sides)
    for path in paths[:MOST_ROWS]:
        marked = both and any(path[: len(one)] == one or one[: len(path)] == path for one in differing)
        cells = [tag("td", _place(path), cls="dr-token dr-small", style=_NAME)]
        for found, kind in zip(leaves, _KINDS, strict=True):
            words = _value(found[path]) if path in found else ("" if both and not marked else "none")
            cells.append(tag("td", _marked(words, marked, kind), cls="dr-text", style=_TEXT))
        cells.append(tag("td", chip("differs", "above") if marked else None))
        yield _place(path), cells
    if len(paths) > MOST_ROWS:
        words = f"{MOST_ROWS:,} of {len(paths):,} arguments are shown; the CSV has all."
        yield "more", [tag("td", words, colspan=4, cls="dr-small")]


def _leaves(value: Any) -> Iterator[tuple[Path, Any]]:
    """The values that hold no others, with their paths, in order. Empty objects and lists are values."""
    stack: list[tuple[Path, Any]] = [((), value)]
    while stack:
        path, found = stack.pop()
        inner: list[tuple[Path, Any]] = []
        if isinstance(found, Mapping):
            inner = [((*path, key), item) for key, item in found.items()]
        elif isinstance(found, list):
            inner = [((*path, at), item) for at, item in enumerate(found)]
        if inner:
            stack.extend(reversed(inner))
        else:
            yield path, found


def _place(path: Path) -> str:
    words = "".join(f"[{part}]" if isinstance(part, int) else f".{visible(part)}" for part in path)
    return words.removeprefix(".") or "arguments"


def _value(value: Any) -> str:
    """A value as JSON on one line, everything in it to be seen; a long one is cut, and says how long it is."""
    words = visible(json.dumps(value, ensure_ascii=False))
    return words if len(words) <= LONGEST else f"{words[:LONGEST]}… ({len(words):,} characters)"


def _name(side: Mapping[str, Any] | None) -> str:
    if side is None:
        return "no call"
    turn = side.get("turn")
    behind = f", turn {turn + 1}" if isinstance(turn, int) and turn else ""
    return f"{visible(str(side['name']))}{behind}"


def _marked(words: str, marked: bool, kind: str) -> Html | str:
    return tag("b", words, cls=kind) if marked and words else words
