"""The tags of Qwen3-Coder: ``<tool_call><function=name><parameter=key>value</parameter></function></tool_call>``.

White space between tags is free; one line break behind ``<parameter=key>`` and one before ``</parameter>`` belong to
the markup and not to the value. The format has no escape: a value ends at the first ``</parameter>``, and one that
holds another tag of the format is malformed, because nobody can tell where it was meant to end. A call without its
outer tags is malformed too, although some servers guess them.

Values are texts. ``typed`` gives them the types that the tool declares: a parameter that may be a text, or of which
nothing is known, stays one; any other is read as JSON, with Python's ``True``, ``False`` and ``None`` besides, because
that is how the model's own template writes them. What cannot be read so stays a text, and then fits no schema.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from drift_runs.generate.calls import Call, strict_json
from drift_runs.generate.json_prefix import skip_space
from drift_runs.generate.syntaxes.envelope import Fault, Syntax, Unfinished, expect

OPEN = "<tool_call>"
CLOSE = "</tool_call>"
_FUNCTION = "<function="
_FUNCTION_END = "</function>"
_PARAMETER = "<parameter="
_PARAMETER_END = "</parameter>"
_NAME = re.compile(r"[^<>\r\n]*+")
_TAG = re.compile(r"</?tool_call>|<function=|</function>|<parameter=|</parameter>")
_BREAKS = re.compile(r"\A\r?\n|\r?\n\Z")
_PYTHON = {"True": True, "False": False, "None": None}


def _find(text: str, place: int) -> int | None:
    start = text.find(OPEN, place)
    return start if start >= 0 else None


def _inside(text: str, start: int) -> tuple[tuple[Call, ...], int]:
    _, place = expect(text, skip_space(text, start + len(OPEN)), _FUNCTION)
    name, place = _name(text, place)
    arguments: dict[str, str] = {}
    while True:
        word, place = expect(text, skip_space(text, place), _PARAMETER, _FUNCTION_END)
        if word == _FUNCTION_END:
            break
        key, place = _name(text, place)
        if key in arguments:
            raise Fault(place, f"parameter {key[:100]!r} is given twice")
        arguments[key], place = _value(text, place, key)
    _, end = expect(text, skip_space(text, place), CLOSE)
    return (Call(name=name, arguments=arguments, start=start, end=end),), end


def _name(text: str, place: int) -> tuple[str, int]:
    found = _NAME.match(text, place)
    end = found.end() if found else place
    if end == len(text):
        raise Unfinished
    if text[end] != ">" or not text[place:end].strip():
        raise Fault(end, f"no name and > at character {place}")
    return text[place:end].strip(), end + 1


def _value(text: str, place: int, key: str) -> tuple[str, int]:
    found = _TAG.search(text, place)
    if found is None:
        raise Unfinished
    if found[0] != _PARAMETER_END:
        raise Fault(found.start(), f"{found[0]} inside the value of {key[:100]!r}")
    return _BREAKS.sub("", text[place : found.start()]), found.end()


def typed(call: Call, tools: Sequence[Mapping[str, Any]]) -> Call:
    """The call with the types of its tool. ``tools``: see ``calls.misfit``."""
    kinds: dict[str, set[str]] = {}
    for properties in _properties(call.name, tools):
        for key, schema in properties.items():
            kinds.setdefault(key, set()).update(_kinds(schema))
    arguments = {key: _typed(value, kinds.get(key, set())) for key, value in call.arguments.items()}
    return Call(name=call.name, arguments=arguments, start=call.start, end=call.end)


def _properties(name: str, tools: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    for tool in tools:
        function = tool["function"] if isinstance(tool.get("function"), Mapping) else tool
        parameters = function.get("parameters") if function.get("name") == name else None
        properties = parameters.get("properties") if isinstance(parameters, Mapping) else None
        if isinstance(properties, Mapping):
            yield properties


def _kinds(schema: Any) -> set[str]:
    """Types that a schema names, of its alternatives too; a text where it names none."""
    if not isinstance(schema, Mapping):
        return {"string"}
    named = schema.get("type")
    found = {named} if isinstance(named, str) else {kind for kind in named or () if isinstance(kind, str)}
    for values in (schema.get("enum"), [schema["const"]] if "const" in schema else None):
        if isinstance(values, list) and not named:
            found |= {"string" if isinstance(value, str) else "null" if value is None else "other" for value in values}
    for word in ("anyOf", "oneOf"):
        if isinstance(schema.get(word), list):
            # One level: a schema that goes deeper says nothing that a bare text could answer to.
            for choice in schema[word]:
                kind = choice.get("type", "string") if isinstance(choice, Mapping) else "string"
                found |= {kind} if isinstance(kind, str) else set(map(str, kind))
    return found or {"string"}


def _typed(value: Any, kinds: set[str]) -> Any:
    if not isinstance(value, str) or not kinds:
        return value
    word = value.strip()
    if "null" in kinds and word in ("null", "None"):
        return None
    if "string" in kinds:
        return value
    if word in _PYTHON:
        return _PYTHON[word]
    try:
        return strict_json(word)
    except ValueError:
        return value


QWEN3_CODER = Syntax(
    name="qwen3-coder",
    find=_find,
    inside=_inside,
    tagged=True,
    recover=re.compile(r"</tool_call>|(?P<open><tool_call>)"),
    stray=re.compile(r"</tool_call>|<function=|</function>|<parameter=|</parameter>"),
    typed=typed,
)
