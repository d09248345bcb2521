"""A fenced block of JSON that is a call ``{"name", "arguments"}``, or an array of them.

The block is marked ``json``, ``tool_call`` or ``tool_calls``, or not at all; ``parameters`` is read like ``arguments``.
One marked as a tool call is one whatever is in it; any other is one when its keys are those of a call, and else data.
The closing fence stands behind the value, on its own line or not: three backticks inside a JSON string are part of it.
"""

from __future__ import annotations

import re

from drift_runs.generate.calls import Call
from drift_runs.generate.json_prefix import scan, skip_space
from drift_runs.generate.syntaxes.envelope import Syntax, calls_of, expect, has_call_keys, json_at

FENCE = "```"
# A fence of another language is one at the start of a line only: three backticks in a line are often quoted.
_OPENING = re.compile(r"```(?=[ \t]*+(?:json|tool_calls?)\b)|^[ \t]*+```", re.MULTILINE)
_LANGUAGE = re.compile(r"```[ \t]*+([^\s`{\[]*+)")
_CLOSING = re.compile(r"^[ \t]*+```+[ \t]*+$", re.MULTILINE)
_QUOTED = re.compile(r"[^\n]*?```")


def _find(text: str, place: int) -> int | None:
    while found := _OPENING.search(text, place):
        start = found.end() - len(FENCE)
        marked = _LANGUAGE.match(text, start)
        language = marked[1].lower() if marked else ""
        body = skip_space(text, marked.end() if marked else found.end())
        if language in ("tool_call", "tool_calls"):
            return start
        if language in ("json", "") and text[body : body + 1] in ("{", "["):
            seen = scan(text, body)
            if has_call_keys(seen, text[body]):
                return start
        closing = _QUOTED.match(text, found.end()) or _CLOSING.search(text, found.end())
        if closing is None:
            return None
        place = closing.end()
    return None


def _inside(text: str, start: int) -> tuple[tuple[Call, ...], int]:
    marked = _LANGUAGE.match(text, start)
    body = skip_space(text, marked.end() if marked else start + len(FENCE))
    value, end = json_at(text, body)
    fence = skip_space(text, end)
    calls = calls_of(value, (start, fence + len(FENCE)), end, keys=("arguments", "parameters"))
    return calls, expect(text, fence, FENCE)[1]


FENCED_JSON = Syntax(name="fenced-json", find=_find, inside=_inside, tagged=True, recover=re.compile(FENCE))
