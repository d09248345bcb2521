"""Calls as they stand in an answer of OpenAI's interface, written out as JSON text.

An array of objects ``{"id", "type": "function", "function": {"name", "arguments"}}``, one such object alone, or a
message ``{"role", "content", "tool_calls": [...]}``. All but ``function`` and ``tool_calls`` may be missing.
``arguments`` is a text that is a JSON object, as the interface has it, or the object itself.

There is no tag. JSON is meant as a call when an object of it has a key ``function`` or ``tool_calls``, or ``arguments``
inside that: other JSON, and prose, is none.
"""

from __future__ import annotations

import re
from typing import Any

from drift_runs.generate.calls import Call, strict_json
from drift_runs.generate.json_prefix import Scan
from drift_runs.generate.syntaxes.envelope import Fault, Syntax, calls_of, find_json, json_at

_OPENING = re.compile(r"[\[{]")
_NAMED = re.compile(r'\{[ \t\r\n]*+"(?:function|tool_calls)"[ \t\r\n]*+:')


def _is_call(seen: Scan, _mark: str) -> bool:
    return any(
        (key in ("function", "tool_calls") and depth <= 2) or (key == "arguments" and depth <= 3)
        for depth, key in seen.keys
    )


def _find(text: str, place: int) -> int | None:
    return find_json(text, place, _OPENING, _is_call, _NAMED)


def _inside(text: str, start: int) -> tuple[tuple[Call, ...], int]:
    value, end = json_at(text, start)
    if isinstance(value, dict) and "tool_calls" in value:
        if set(value) - {"role", "content", "tool_calls"} or not isinstance(value["tool_calls"], list):
            raise Fault(end, "no message of role, content and an array of tool_calls alone", whole=True)
        value = value["tool_calls"]
    items = value if isinstance(value, list) else [value]
    if not items:
        raise Fault(end, "an array without a call", whole=True)
    return tuple(_call(item, (start, end)) for item in items), end


def _call(item: Any, span: tuple[int, int]) -> Call:
    if not isinstance(item, dict) or "function" not in item or set(item) - {"id", "type", "index", "function"}:
        raise Fault(span[1], "no object of id, type, index and function alone", whole=True)
    if item.get("type", "function") != "function":
        raise Fault(span[1], "type is not function", whole=True)
    function = item["function"]
    if not isinstance(function, dict):
        raise Fault(span[1], "function is no object", whole=True)
    if isinstance(function.get("arguments"), str):
        try:
            function = {**function, "arguments": strict_json(function["arguments"])}
        except ValueError as error:
            raise Fault(span[1], f"the text of arguments is no JSON: {error}", whole=True) from None
    return calls_of(function, span, span[1])[0]


OPENAI_JSON = Syntax(name="openai-json", find=_find, inside=_inside, tagged=False, recover=re.compile(r"(?!)"))
