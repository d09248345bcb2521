"""Scripted environments: what a tool answers, looked up in a table. Nothing is run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from drift_runs.generate.calls import Call, WellFormed
from drift_runs.generate.syntaxes import parse, same_calls
from drift_runs.protocol.generation import Chat, Environment, ScriptedResult
from drift_runs.protocol.model import Protocol

TEXT = "{text}"


def environment_of(protocol: Protocol, window: str) -> Environment | None:
    """The environment of a window's futures; None: its tools answer nothing."""
    return next((found for found in protocol.environments if window in found.windows), None)


def answer(environment: Environment, recorded: Sequence[ScriptedResult], calls: Sequence[Call]) -> tuple[str, ...]:
    """What the tools answer to the calls of one turn, one text a call, in the order of the calls.

    A call is looked up by value (see ``syntaxes.same_calls``), in the environment's own results and, where it is
    ``recorded``, in those of the window's stream (see :func:`recorded_results`) after them. The first that fits is the
    answer; any other call has ``environment.otherwise``.
    """
    known = (*environment.results, *(recorded if environment.recorded else ()))
    return tuple(
        next((found.result for found in known if same_calls([_call_of(found)], [call])), environment.otherwise)
        for call in calls
    )


def _call_of(scripted: ScriptedResult) -> Call:
    return Call(name=scripted.tool, arguments=scripted.arguments, start=0, end=0)


def recorded_results(
    stream_text: str, syntax: str, chat: Chat, *, tools: Sequence[Mapping[str, Any]] = ()
) -> tuple[ScriptedResult, ...]:
    """The calls of a text and what its tools answered to them, in the order of the text.

    A turn of the assistant that holds well-formed calls and ends where ``chat.tool_turn`` begins is answered by the
    text in it. Several calls of one turn are answered by as many lines, or by as many such turns of the tool one behind
    the other; where there are more or fewer, nobody can say which answer is whose, and the turn is left out. So is a
    turn that does not end with one of ``chat.ends``. Of two equal calls the first counts: see :func:`answer`.
    ``tools``: the stream's, which give the values of some syntaxes their types.
    """
    found = []
    for turn, results in _exchanges(stream_text, chat):
        parsed = parse(syntax, turn, tools)
        if not isinstance(parsed, WellFormed):
            continue
        if len(results) == 1 and len(parsed.calls) > 1:
            results = results[0].split("\n")
        if len(results) == len(parsed.calls):
            found += [
                ScriptedResult(tool=call.name, arguments=dict(call.arguments), result=text)
                for call, text in zip(parsed.calls, results, strict=True)
            ]
    return tuple(found)


def _exchanges(text: str, chat: Chat) -> Iterator[tuple[str, list[str]]]:
    """Each turn of the assistant that a tool answers, without its end, and the answer in each turn of the tool."""
    before, after = chat.tool_turn.split(TEXT, 1)
    for piece in text.split(chat.assistant)[1:]:
        turn, end, rest = _cut(piece, chat.ends)
        rest += chat.assistant  # was cut off, and with it the end of the template
        inner = rest.removeprefix(before)
        if not end or not (rest.startswith(before) and inner.endswith(after)):
            continue
        *firsts, last = inner.removesuffix(after).split(before) if before else [inner.removesuffix(after)]
        cut = [_cut(first, chat.ends) for first in firsts]
        results = [*(found[0] for found in cut), last]
        # Anything else between them is a turn of somebody else.
        if all(found[1] and not found[2] for found in cut) and not _cut(last, chat.ends)[1]:
            yield turn, results


def _cut(text: str, ends: Sequence[str]) -> tuple[str, str, str]:
    """The text before the first end of a turn in it, that end, and what follows; an empty end where there is none."""
    found = [(at, end) for end in ends if (at := text.find(end)) >= 0]
    return text.partition(min(found)[1]) if found else (text, "", "")
