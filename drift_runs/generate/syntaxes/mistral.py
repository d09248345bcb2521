"""``[TOOL_CALLS]`` and what Mistral's tokenizers put behind it.

Up to version 7 of the tokenizer a JSON array of objects ``{"name", "arguments"}``, with or without ``id``. From
version 11 on, once for every call, ``[TOOL_CALLS]``, the name, ``[CALL_ID]`` and an identifier (some versions),
``[ARGS]`` and the JSON object of the arguments. ``[ARGS]`` may be missing, because some servers leave markup out.
"""

from __future__ import annotations

import re

from drift_runs.generate.calls import Call
from drift_runs.generate.json_prefix import skip_space
from drift_runs.generate.syntaxes.envelope import Fault, Syntax, Unfinished, calls_of, expect, json_at

OPEN = "[TOOL_CALLS]"
CALL_ID = "[CALL_ID]"
ARGS = "[ARGS]"
_NAME = re.compile(r"[^\s\[\]{}]*+")
_ID = re.compile(r"[A-Za-z0-9_-]*+")


def _find(text: str, place: int) -> int | None:
    start = text.find(OPEN, place)
    return start if start >= 0 else None


def _inside(text: str, start: int) -> tuple[tuple[Call, ...], int]:
    body = skip_space(text, start + len(OPEN))
    if body == len(text):
        raise Unfinished
    if text[body] == "[":
        items, end = json_at(text, body)
        return calls_of(items, (start, end), end, extra=("id",)), end
    found = _NAME.match(text, body)
    name = found[0] if found else ""
    if not name:
        raise Fault(body, f"no name behind {OPEN}")
    place = skip_space(text, body + len(name))
    word = ""
    if text.startswith("[", place):
        word, place = expect(text, place, CALL_ID, ARGS)
    if word == CALL_ID:
        found = _ID.match(text, place)
        _, place = expect(text, found.end() if found else place, ARGS)
    place = skip_space(text, place)
    if place == len(text):
        raise Unfinished
    if text[place] != "{":
        raise Fault(place, f"no arguments behind the name {name[:100]!r}")
    arguments, end = json_at(text, place)
    return (Call(name=name, arguments=arguments, start=start, end=end),), end


MISTRAL = Syntax(
    name="mistral",
    find=_find,
    inside=_inside,
    tagged=False,
    recover=re.compile(r"(?P<open>\[TOOL_CALLS\])"),
    stray=re.compile(r"\[ARGS\]|\[CALL_ID\]"),
)
