"""``<tool_call>``, a JSON object of ``name`` and ``arguments``, ``</tool_call>``: Hermes, Qwen 2.5 and Qwen 3.

White space around the object is free. Every call has tags of its own. A tag inside a JSON string is part of the string.
"""

from __future__ import annotations

import re

from drift_runs.generate.calls import Call
from drift_runs.generate.json_prefix import skip_space
from drift_runs.generate.syntaxes.envelope import Fault, Syntax, Unfinished, calls_of, json_at

OPEN = "<tool_call>"
CLOSE = "</tool_call>"


def _find(text: str, place: int) -> int | None:
    start = text.find(OPEN, place)
    return start if start >= 0 else None


def _inside(text: str, start: int) -> tuple[tuple[Call, ...], int]:
    body = skip_space(text, start + len(OPEN))
    value, end = json_at(text, body)
    close = skip_space(text, end)
    after = close + len(CLOSE)
    if not isinstance(value, dict):
        raise Fault(end, "no object of name and arguments alone")
    calls = calls_of(value, (start, after), end)
    if text.startswith(CLOSE, close):
        return calls, after
    if CLOSE.startswith(text[close:after]):
        raise Unfinished
    raise Fault(close, f"no {CLOSE} behind the object")


HERMES = Syntax(
    name="hermes",
    find=_find,
    inside=_inside,
    tagged=True,
    recover=re.compile(r"</tool_call>|(?P<open><tool_call>)"),
    stray=re.compile(r"</tool_call>"),
)
