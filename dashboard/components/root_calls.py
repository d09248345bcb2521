"""The calls of two futures side by side, argument by argument, with what differs marked."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from dashboard.components.cells import table
from dashboard.components.markup import Html, tag, visible
from dashboard.frame import chip

SHOWN_CHARACTERS = 1_500
"""Of one value; the rest is counted in its place, and the CSV has the text of both futures whole."""


def calls_table(evidence: Mapping[str, Any], *, reference: str, arm: str) -> Html | None:
    """A table of the compared calls of a judgement's evidence; None where neither side was read as calls."""
    pairs = evidence.get("calls") or []
    if not pairs:
        return None
    head = [tag("th", words, scope="col") for words in ("call", "part", reference, arm)]
    body = [line for at, pair in enumerate(pairs) for line in _pair(at, pair)]
    differs = sum(not pair["equal"] for pair in pairs)
    settled = "all are equal by value" if not differs else f"{differs:,} of {len(pairs):,} differ"
    calls = f"{len(pairs):,} call{'s' if len(pairs) != 1 else ''}"
    return table(f"What the futures call, as parsed: {calls} compared, {settled}.", head, body, label="Calls")


def _pair(at: int, pair: Mapping[str, Any]) -> list[Html]:
    sides = [pair["reference"], pair["candidate"]]
    changed = {path[0] for path in (one["path"] for one in pair["differences"]) if path}
    whole = any(not one["path"] for one in pair["differences"])
    turn = next((side["turn"] for side in sides if side is not None), 0)
    mark = chip("equal", "within") if pair["equal"] else chip("differs", "above")
    more = None if pair["settled"] else tag("span", "a side was cut: more may follow", cls="dr-line dr-small dr-wrap")
    parts = _parts(sides)
    first = tag("th", f"{at + 1}, turn {(turn or 0) + 1} ", mark, more, scope="row", rowspan=len(parts) + 1)
    names = [side and side["name"] for side in sides]
    lines = [_line(first, "tool", names, differs=names[0] != names[1], at=at)]
    for part in parts:
        values = [_value(side, part) for side in sides]
        lines.append(_line(None, part, values, differs=whole or part in changed, at=at))
    return lines


def _parts(sides: list[Mapping[str, Any] | None]) -> list[str]:
    """Names of the arguments of both sides, the reference's first; one name where a side's are no object."""
    found = [side["arguments"] for side in sides if side is not None]
    if all(isinstance(arguments, Mapping) for arguments in found):
        return list(dict.fromkeys(name for arguments in found for name in arguments))
    return [""]


def _value(side: Mapping[str, Any] | None, part: str) -> str | None:
    if side is None:
        return None
    arguments = side["arguments"]
    if not isinstance(arguments, Mapping):
        return json.dumps(arguments, ensure_ascii=False)
    if part == "":
        return json.dumps(arguments, ensure_ascii=False)
    return json.dumps(arguments[part], ensure_ascii=False) if part in arguments else None


def _line(first: Html | None, part: str, values: list[str | None], *, differs: bool, at: int) -> Html:
    cells = [tag("td", _shown(value, differs=differs), cls="dr-text dr-above") for value in values]
    return tag(
        "tr",
        first,
        tag("td", visible(part) or "arguments", cls="dr-token"),
        cells,
        data_call=at,
        data_differs="yes" if differs else None,
    )


def _shown(value: str | None, *, differs: bool) -> Html:
    if value is None:
        return tag("span", "none", cls="dr-small")
    words = visible(value[:SHOWN_CHARACTERS])
    left = len(value) - SHOWN_CHARACTERS
    more = tag("span", f" … {left:,} more characters", cls="dr-small") if left > 0 else None
    return tag("span", tag("b", words) if differs else words, more)
