"""Answers that are calls: which tools they may use, whether a text is valid, and whether it can still become so.

Valid: calls and white space alone, each of which parses and fits the schema of a tool that the conversation offers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ops_tasks.tasks import Task

from drift_runs.generate.tools import CLOSE, OPEN, Call, WellFormed, misfit, parse_calls

Tools = Sequence[Mapping]
_SPACE = " \t\r\n"
_NAME = re.compile(r'\{\s*"name"\s*:\s*("(?:[^"\\]|\\.)*")')


class CallVerdict(NamedTuple):
    """What a text that should be calls is."""

    valid: bool
    right_tool: bool
    """Valid, and it names the expected tools in their order."""
    same_call: bool
    """Also the same arguments; how they are written and in which order does not matter."""


def calls_in(text: str) -> tuple[Call, ...]:
    """The calls of an expected answer; none where it is no call."""
    found = parse_calls(text)
    return found.calls if isinstance(found, WellFormed) else ()


def tools_for(task: Task, turn: int) -> Tools:
    """The tools that the answer at ``task.turns[turn]`` may use: those offered, and the one that an error renamed.

    An error may say that a tool or an argument has another name. The schema under that name is the shown one with the
    name put in its place.
    """
    expected = calls_in(task.turns[turn].text)
    if not expected or task.turns[turn - 1].role != "tool" or not misfit(expected[0], task.tools):
        return task.tools
    (failed,) = calls_in(task.turns[turn - 2].text)
    (shown,) = [tool["function"] for tool in task.tools if tool["function"]["name"] == failed.name]
    renamed = dict(zip(failed.arguments, expected[0].arguments, strict=True))
    parameters = shown["parameters"]
    function = {
        **shown,
        "name": expected[0].name,
        "parameters": {
            **parameters,
            "properties": {renamed.get(name, name): kind for name, kind in parameters["properties"].items()},
            "required": [renamed.get(name, name) for name in parameters["required"]],
        },
    }
    return (*task.tools, {"type": "function", "function": function})


def judge(text: str, expected: str, tools: Tools) -> CallVerdict:
    """A finished text in place of the ``expected`` calls."""
    calls = calls_in(text)
    place, beside = 0, ""
    for call in calls:
        beside += text[place : call.start]
        place = call.end
    beside += text[place:]
    if not calls or beside.strip(_SPACE) or any(misfit(call, tools) for call in calls):
        return CallVerdict(False, False, False)
    wanted = calls_in(expected)
    right = [call.name for call in calls] == [call.name for call in wanted]
    same = right and [call.arguments for call in calls] == [call.arguments for call in wanted]
    return CallVerdict(True, right, same)


def is_lost(text: str, tools: Tools) -> bool:
    """Whether no continuation of ``text`` is valid. False where that is not sure, so that writing goes on."""
    names = {tool["function"]["name"] for tool in tools}
    place = 0
    while True:
        place = _behind_space(text, place)
        if not text.startswith(OPEN, place):
            return not OPEN.startswith(text[place:])
        start = _behind_space(text, place + len(OPEN))
        if start == len(text):
            return False
        end = _object_end(text, start)
        if end is None:
            named = _NAME.match(text, start)
            return text[start] != "{" or (named is not None and _text_of(named[1]) not in names)
        found = parse_calls(f"{OPEN}{text[start:end]}{CLOSE}")
        if not isinstance(found, WellFormed) or misfit(found.calls[0], tools):
            return True
        place = _behind_space(text, end)
        if not text.startswith(CLOSE, place):
            return not CLOSE.startswith(text[place:])
        place += len(CLOSE)


def _behind_space(text: str, place: int) -> int:
    while place < len(text) and text[place] in _SPACE:
        place += 1
    return place


def _object_end(text: str, start: int) -> int | None:
    """Behind the bracket that closes the object at ``start``; None where it is not closed yet."""
    depth, in_string, escaped = 0, False, False
    for place in range(start, len(text)):
        letter = text[place]
        if in_string:
            in_string = escaped or letter != '"'
            escaped = letter == "\\" and not escaped
        elif letter == '"':
            in_string = True
        elif letter in "{[":
            depth += 1
        elif letter in "}]":
            depth -= 1
            if depth <= 0:
                return place + 1
    return None


def _text_of(literal: str) -> str | None:
    """What a JSON string says; None where it is none."""
    try:
        return json.loads(literal)
    except ValueError:
        return None
