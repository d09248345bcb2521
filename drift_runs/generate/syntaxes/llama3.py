"""JSON objects ``{"name", "parameters"}``, with or without ``<|python_tag|>`` before them: Llama 3.1 to 3.3.

Several are separated by semicolons. ``arguments`` is read like ``parameters``, and ``"type": "function"`` may stand
beside them: the models write both. JSON that has neither of these keys, and does not begin with ``name``, is no call.
Code behind the tag, which is how the built-in interpreter is called, is no call of this syntax and counts as malformed.
"""

from __future__ import annotations

import re

from drift_runs.generate.calls import Call
from drift_runs.generate.json_prefix import skip_space
from drift_runs.generate.syntaxes.envelope import Fault, Syntax, Unfinished, calls_of, find_json, has_call_keys, json_at

TAG = "<|python_tag|>"
_OPENING = re.compile(r"<\|python_tag\|>|\{")
_NAMED = re.compile(r'\{[ \t\r\n]*+"name"[ \t\r\n]*+:')
_NEXT = re.compile(r"[ \t\r\n]*+;[ \t\r\n]*+(?=\{)")


def _find(text: str, place: int) -> int | None:
    # Behind a call and a semicolon an object is meant as one whatever its keys.
    following = _NEXT.match(text, place) if place else None
    return following.end() if following else find_json(text, place, _OPENING, has_call_keys, _NAMED)


def _inside(text: str, start: int) -> tuple[tuple[Call, ...], int]:
    body = skip_space(text, start + len(TAG)) if text.startswith(TAG, start) else start
    if body == len(text):
        raise Unfinished
    if text[body] != "{":
        raise Fault(body, f"no JSON object behind {TAG}")
    value, end = json_at(text, body)
    if value.get("type", "function") != "function":
        raise Fault(end, "type is not function", whole=True)
    return calls_of(value, (start, end), end, keys=("parameters", "arguments"), extra=("type",)), end


LLAMA3 = Syntax(
    name="llama3",
    find=_find,
    inside=_inside,
    tagged=False,
    recover=re.compile(r"(?P<open><\|python_tag\|>)"),
    between=";",
)
