"""Whether an expected answer has the form that it is declared with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from drift_runs.errors import ProtocolError
from drift_runs.generate.tools import Malformed, NoCall, misfit, parse_calls, strict_json
from drift_runs.protocol.load import LoadedProtocol
from drift_runs.protocol.model import Answer, Stream
from drift_runs.protocol.problems import Problems

TURN_START = "<|im_start|>"
TURN_END = "<|im_end|>"


class FormReport(NamedTuple):
    """What is known of the forms of a protocol's answers."""

    errors: tuple[ProtocolError, ...]
    unknown: tuple[str, ...]
    """Answers of form ``call`` or ``json`` whose text cannot be told from their stream."""


def form_report(loaded: LoadedProtocol) -> FormReport:
    """Hold every answer of a protocol against the form it is declared with."""
    problems = Problems(loaded.path.name, loaded.content)
    unknown = []
    for index, answer in enumerate(loaded.protocol.answers):
        if answer.form == "text":
            continue
        stream = loaded.streams[answer.window]
        text = answer_text(stream, answer)
        if text is None:
            unknown.append(answer.name)
        elif reason := form_problem(answer.form, text, stream.tools):
            problems.add(("answers", index), reason, expected=expected_of(answer.form))
    return FormReport(tuple(problems.errors), tuple(unknown))


def expected_of(form: str) -> str:
    """What an answer of a form is, for a message."""
    if form == "call":
        return "<tool_call> blocks alone, a line break between two, that fit schemas of the stream's tools"
    return "one JSON value" if form == "json" else "any text"


def form_problem(form: str, text: str, tools: Iterable[Mapping[str, Any]]) -> str:
    """Why ``text`` is no answer of ``form``; empty when it is one.

    ``text``: the answer up to its end of turn. ``call``: calls alone, each in lines of its own, every one of which fits
    a schema among ``tools``. ``json``: one JSON value. ``text``: anything.
    """
    if form == "json":
        try:
            strict_json(text)
        except ValueError as error:
            return f"no JSON: {error}"
    if form != "call":
        return ""
    parsed = parse_calls(text)
    if isinstance(parsed, NoCall):
        return "no tool call"
    if isinstance(parsed, Malformed):
        return f"malformed at character {parsed.start}: {parsed.why}"
    tools = tuple(tools)
    place = 0
    for number, call in enumerate(parsed.calls, 1):
        if text[place : call.start] != ("\n" if place else ""):
            return f"text beside the calls, before call {number}"
        if reason := misfit(call, tools):
            return f"call {number} fits no schema: {reason}"
        place = call.end
    return "text behind the last call" if place != len(text) else ""


def answer_text(stream: Stream, answer: Answer) -> str | None:
    """The text of an answer that is a whole turn of the assistant in ChatML, its end token left out.

    None where it cannot be told: a stream has its ids and its text and no dictionary, so the turn is found by counting
    end tokens, of which the text must show as many.
    """
    if answer.end > len(stream.tokens):
        return None
    end_token = stream.tokens[answer.end - 1]
    pieces = stream.text.split(TURN_END)
    if stream.tokens.count(end_token) != len(pieces) - 1:
        return None
    turn = pieces[stream.tokens[: answer.end].count(end_token) - 1].rpartition(TURN_START)[2]
    head, newline, text = turn.partition("\n")
    return text if head == "assistant" and newline else None
