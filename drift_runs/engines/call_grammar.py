"""Grammars in llguidance's variant of Lark: what may stand between the tags of a tool call, and a JSON value."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any

ANY_ORDER_KEYS = 4
"""Arguments of so many keys may come in any order, because their orders can be listed; of more, in the schema's."""

JSON = """start: SPACE? value SPACE?
value: %json {}
SPACE: /[ \\t\\r\\n]+/
"""
"""One JSON value."""


def hermes_body(tools: Sequence[Mapping[str, Any]]) -> str:
    """What follows ``<tool_call>``: a call of one of the tools, ``</tool_call>``, and text that opens no other call.

    The text is there for tokens that go on behind the tag. ``ValueError`` when a schema cannot be written as JSON.
    """
    rules = [
        "start: SPACE? call SPACE? CLOSE TEXT?",
        f"call: {' | '.join(f'tool_{at}' for at in range(len(tools)))}",
        "SPACE: /[ \\t\\r\\n]+/",
        'CLOSE: "</tool_call>"',
        "TEXT: /(?s:.)+/ & ~/(?s:.*)<tool_call>(?s:.*)/",
    ]
    for at, tool in enumerate(tools):
        function = function_of(tool)
        name, arguments = f'"\\"name\\"" SPACE? ":" SPACE? name_{at}', f'"\\"arguments\\"" SPACE? ":" SPACE? given_{at}'
        rules.append(f"tool_{at}: {_object(name, arguments)} | {_object(arguments, name)}")
        rules.append(f"name_{at}: %json {written_schema({'const': function['name']})}")
        rules.append(f"given_{at}: %json {written_schema(any_order(arguments_schema(function)))}")
    return "\n".join(rules) + "\n"


def function_of(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    """The tool's own table: a tool may stand under the key ``function``."""
    inner = tool.get("function")
    return inner if isinstance(inner, Mapping) else tool


def arguments_schema(function: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of a call's arguments, which are an object whatever the tool's parameters say."""
    schema = function.get("parameters", True)
    if isinstance(schema, bool):
        return {"type": "object"} if schema else {"type": "object", "allOf": [False]}
    # What llguidance would read as leave to drop keywords that it does not know.
    plain = {key: value for key, value in schema.items() if key != "x-guidance"}
    kind = plain.get("type", "object")
    if kind == "object" or (isinstance(kind, list) and "object" in kind):
        return {**plain, "type": "object"}
    return {"allOf": [plain, {"type": "object"}]}  # no object fits it, and the grammar's maker says so


def any_order(schema: dict[str, Any]) -> dict[str, Any]:
    """The same schema with its properties in every order, where they are few: a grammar has them in the order given."""
    properties = schema.get("properties")
    if (
        not isinstance(properties, dict)
        or not 2 <= len(properties) <= ANY_ORDER_KEYS
        or "$ref" in written_schema(schema)
    ):
        return schema
    orders = itertools.permutations(properties.items())
    return {"anyOf": [{**schema, "properties": dict(order)} for order in orders]}


def _object(first: str, second: str) -> str:
    return f'"{{" SPACE? {first} SPACE? "," SPACE? {second} SPACE? "}}"'


def written_schema(schema: Any) -> str:
    """As JSON; ``ValueError`` for what is none."""
    try:
        return json.dumps(schema, allow_nan=False)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except TypeError as error:
        raise ValueError(str(error)) from None
