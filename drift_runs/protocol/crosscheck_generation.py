"""What the tables of generation demand of each other and of the rest of a protocol."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from drift_runs.protocol.canonical import canonical_json
from drift_runs.protocol.crosscheck import unique
from drift_runs.protocol.generation import Branches, Environment, Rollouts, Task
from drift_runs.protocol.model import LOGIT_ENGINES, Answer, Protocol, Stream
from drift_runs.protocol.problems import Loc, Problems, did_you_mean, one_of, shown
from drift_runs.protocol.prompts import ReadPrompts

_TEXT = "{text}"
_FORMS = {"calls": "call", "json": "json", "sql": "text"}
"""Checks that may take an answer of the window as what is expected, and the form of such an answer."""


def check_generation(problems: Problems, protocol: Protocol, streams: Mapping[str, Stream], read: ReadPrompts) -> None:
    """Add every contradiction to ``problems``: a setting without effect is one, because somebody meant it to have one.

    ``streams`` and ``read`` are what could be read; only what needs a missing file is skipped.
    """
    for table in ("environments", "tasks", "constrained"):
        unique(problems, table, [item.name for item in getattr(protocol, table)])
    _chat(problems, protocol)
    _branches(problems, protocol)
    _environments(problems, protocol)
    _tasks(problems, protocol, streams)
    _constrained(problems, protocol, streams)
    _rollouts(problems, protocol, read)
    _sampled(problems, protocol, read)


def _chat(problems: Problems, protocol: Protocol) -> None:
    chat = protocol.chat
    if chat is None:
        return
    for key in ("tool_turn", "user_turn", "system_turn"):
        template = getattr(chat, key)
        if template and template.count(_TEXT) != 1:
            problems.add(("chat", key), f"{_TEXT} stands in it {template.count(_TEXT)} times", expected="once")
        if key != "system_turn" and not template.endswith(chat.assistant):
            problems.add(
                ("chat", key),
                f"{shown(template[-len(chat.assistant) :])} at its end is not where a turn of the assistant begins",
                expected=f"an end of {shown(chat.assistant)} (chat.assistant)",
            )
    for index, end in enumerate(chat.ends):
        if not end or end in chat.ends[:index]:
            problems.add(
                ("chat", "ends", index), f"{shown(end)} is named twice" if end else "no text", expected="each end once"
            )


def _branches(problems: Problems, protocol: Protocol) -> None:
    branches = protocol.branches
    if branches is None:
        return
    if branches.turns > 1 and not protocol.environments:
        problems.add(
            ("branches", "turns"),
            f"{branches.turns} turns, and no environment answers a call",
            expected="1, or [[environments]]",
        )
    _dialect(problems, branches.sql_dialect)
    room = protocol.capture.context_tokens
    longest = max((end for window in protocol.windows for _, end in window.scored), default=0)
    if longest + branches.horizon_tokens > room:
        problems.add(
            ("branches", "horizon_tokens"),
            f"{branches.horizon_tokens} tokens behind position {longest - 1}, the last that is scored, do not fit",
            expected=f"at most {max(room - longest, 0)} tokens, or a larger capture.context_tokens than {room}",
        )


def _dialect(problems: Problems, name: str) -> None:
    if name == Branches.model_fields["sql_dialect"].default:
        return  # known to be one: sqlglot takes half a second to import
    import difflib

    from sqlglot import Dialects

    known = sorted(dialect.value for dialect in Dialects if dialect.value)
    if name not in known:
        near = difflib.get_close_matches(name.casefold(), known, n=3, cutoff=0.5)
        problems.add(
            ("branches", "sql_dialect"),
            f"sqlglot has no dialect {shown(name)}",
            expected=one_of(near or known, len(known)),
            todo=did_you_mean(name, known),
        )


def _environments(problems: Problems, protocol: Protocol) -> None:
    windows = [window.name for window in protocol.windows]
    owners: dict[str, str] = {}
    for index, environment in enumerate(protocol.environments):
        loc: Loc = ("environments", index)
        if protocol.chat is None:
            problems.add(loc, "nothing says how a turn of a tool is written", expected="[chat]")
        if protocol.branches is None:
            problems.add(loc, "nothing is followed that it could answer", expected="[branches]")
        elif protocol.branches.turns == 1:
            problems.add(
                loc, "a future of one turn ends before its calls are answered", expected="branches.turns of 2 or more"
            )
        if not environment.windows:
            problems.add((*loc, "windows"), "no window is named", expected="one or more")
        for number, name in enumerate(environment.windows):
            here = (*loc, "windows", number)
            if name not in windows:
                problems.unknown(here, "window", name, windows)
            elif name in owners:
                problems.add(
                    here, f"{shown(name)} belongs to environment {shown(owners[name])}", expected="one environment each"
                )
            owners.setdefault(name, environment.name)
        _results(problems, loc, environment)


def _results(problems: Problems, loc: Loc, environment: Environment) -> None:
    seen: dict[bytes, int] = {}
    for number, result in enumerate(environment.results):
        first = seen.setdefault(canonical_json([result.tool, result.arguments]), number)
        if first != number:
            problems.add(
                (*loc, "results", number),
                f"the call of results[{first}] again: the first is the one that answers",
                expected="each call once",
            )


def _tasks(problems: Problems, protocol: Protocol, streams: Mapping[str, Stream]) -> None:
    windows = {window.name: window for window in reversed(protocol.windows)}
    answers = {answer.name: answer for answer in reversed(protocol.answers)}
    room = protocol.capture.context_tokens
    for index, task in enumerate(protocol.tasks):
        loc: Loc = ("tasks", index)
        window = windows.get(task.window)
        if window is None:
            problems.unknown((*loc, "window"), "window", task.window, windows)
        else:
            starts = sorted(
                {start for start, _ in window.scored}
                | {one.start for one in answers.values() if one.window == task.window}
            )
            stream = streams.get(task.window)
            if stream is not None and task.at >= len(stream.tokens):
                problems.add(
                    (*loc, "at"), f"{task.at} is beyond the stream", expected=f"at most {len(stream.tokens) - 1}"
                )
            elif task.at not in starts:
                problems.add(
                    (*loc, "at"),
                    f"nothing that is written begins at {task.at} of window {shown(task.window)}",
                    expected=f"the start of a scored span or answer: {_few(starts)}",
                )
        if task.at + task.horizon_tokens > room:
            problems.add(
                (*loc, "horizon_tokens"),
                f"{task.horizon_tokens} tokens behind {task.at} do not fit",
                expected=f"at most {max(room - task.at, 0)} (capture.context_tokens is {room})",
            )
        _expected(problems, loc, task, answers)


def _expected(problems: Problems, loc: Loc, task: Task, answers: Mapping[str, Answer]) -> None:
    """What is expected is there, once, in the form that the check needs."""
    if task.answer:
        _answer(problems, loc, task, answers)
    elif not task.expected:
        options = "expected, or an answer" if task.check in _FORMS else "expected"
        problems.add((*loc, "expected"), f"check {shown(task.check)} with nothing to expect", expected=options)
    if task.answer and task.expected:
        problems.add((*loc, "expected"), "given beside an answer", expected="one of the two")
    if task.check in ("pattern", "sql", "json") and len(task.expected) > 1:
        problems.add((*loc, "expected"), f"{len(task.expected)} texts for one {task.check}", expected="one text")
    for number, text in enumerate(task.expected):
        here = (*loc, "expected", number)
        if not text.strip():
            problems.add(here, "no text", expected="some text")
        elif reason := _PARSERS.get(task.check, _anything)(text):
            problems.add(here, reason, expected=_EXPECTED[task.check])
    if task.check == "sql" and not task.fixture.strip():
        problems.add((*loc, "fixture"), "no table for the query", expected="SQL that makes the tables")
    for key in ("fixture", "ordered"):
        if task.check != "sql" and getattr(task, key):
            problems.add((*loc, key), f"check {shown(task.check)} has no use for it", expected="no such key")


def _answer(problems: Problems, loc: Loc, task: Task, answers: Mapping[str, Answer]) -> None:
    here = (*loc, "answer")
    if task.check not in _FORMS:
        problems.add(here, f"check {shown(task.check)} takes no answer", expected="expected")
        return
    own = {name: answer for name, answer in answers.items() if answer.window == task.window}
    answer = answers.get(task.answer)
    if answer is None:
        problems.unknown(here, "answer", task.answer, own)
    elif answer.window != task.window:
        problems.add(
            here,
            f"{shown(task.answer)} belongs to window {shown(answer.window)}",
            expected=f"an answer of window {shown(task.window)}",
        )
    elif answer.start != task.at:
        problems.add(
            here, f"{shown(task.answer)} begins at {answer.start}, the task at {task.at}", expected="one place for both"
        )
    elif answer.form != _FORMS[task.check]:
        problems.add(
            here,
            f"{shown(task.answer)} is of form {shown(answer.form)}",
            expected=f"form {shown(_FORMS[task.check])} for check {shown(task.check)}",
        )


def _anything(text: str) -> str:
    return ""


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except (re.error, RecursionError, OverflowError) as error:
        return f"no regular expression: {error or 'nested too deeply'}"
    return ""


def _json(text: str) -> str:
    def refuse(word: str) -> float:
        raise ValueError(f"{word} is no number of JSON")

    try:
        json.loads(text, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        return f"no JSON: {error}"
    return ""


_PARSERS: dict[str, Callable[[str], str]] = {"pattern": _pattern, "json": _json}
_EXPECTED = {"pattern": "a regular expression of Python", "json": "one JSON value"}


def _constrained(problems: Problems, protocol: Protocol, streams: Mapping[str, Stream]) -> None:
    arms = {arm.name: arm for arm in protocol.arms}
    taken = {item.name.casefold(): "a floor" for item in protocol.floors}
    taken |= {item.name.casefold(): "an arm" for item in protocol.arms}
    for index, constrained in enumerate(protocol.constrained):
        loc: Loc = ("constrained", index)
        if noun := taken.get(constrained.name.casefold()):
            problems.add((*loc, "name"), f"{noun} is named {shown(constrained.name)} too", expected="a name of its own")
        arm = arms.get(constrained.arm)
        if arm is None:
            problems.unknown((*loc, "arm"), "arm", constrained.arm, arms)
        elif arm.role == "reference":
            problems.add(
                (*loc, "arm"),
                f"{shown(arm.name)} is the reference: roots are where an arm leaves it, so it has none of its own",
                expected="a candidate",
            )
        elif arm.engine not in LOGIT_ENGINES:
            problems.add(
                (*loc, "arm"),
                f"a grammar needs logits, and engine {shown(arm.engine)} gives none",
                expected=f"an arm of {' or '.join(LOGIT_ENGINES)}",
            )
        if protocol.branches is None:
            unheld = ": the answers to tasks are not held to a grammar" if protocol.tasks else ""
            problems.add(loc, f"no future is followed that it could hold{unheld}", expected="[branches]")
        if constrained.grammar == "tools" and streams and not any(stream.tools for stream in streams.values()):
            problems.add((*loc, "grammar"), "no stream offers a tool", expected="tools in a stream, or 'json'")


def _rollouts(problems: Problems, protocol: Protocol, read: ReadPrompts) -> None:
    rollouts, ids = protocol.rollouts, read.ids
    if rollouts is None:
        return
    if read.prompts is not None and rollouts.subset == "quick":
        _quick(problems, ("rollouts", "subset"), read)
    if ids is None:
        return
    here = ("rollouts", "ids")
    again = "write them again with drift record"
    if (found := read.digests.get(rollouts.prompts)) is not None and found != ids.prompts_sha256:
        problems.add(
            here,
            f"{rollouts.ids} belongs to another state of {rollouts.prompts}: sha256 {ids.prompts_sha256[:12]}…",
            expected=f"{found[:12]}…",
            todo=again,
        )
    if protocol.dictionary is not None:
        if ids.dictionary_sha256 != protocol.dictionary.sha256:
            problems.add(
                here,
                f"{rollouts.ids} is of another dictionary: sha256 {ids.dictionary_sha256[:12]}…",
                expected=f"{protocol.dictionary.sha256[:12]}… (dictionary.sha256)",
                todo=again,
            )
        _below(problems, here, rollouts, ids.ids, protocol.dictionary.size)
    if read.prompts is not None:
        names = [prompt.name for prompt in read.prompts.prompts]
        for what, missing in (
            ("has no ids of prompt", [name for name in names if name not in ids.ids]),
            ("has ids of a prompt that is not in the panel:", [name for name in ids.ids if name not in set(names)]),
        ):
            if missing:
                problems.add(here, f"{rollouts.ids} {what} {_few(map(shown, missing))}", todo=again)
    _fits(problems, ("rollouts", "tokens"), rollouts.tokens, ids.ids, protocol)


def _below(problems: Problems, loc: Loc, rollouts: Rollouts, ids: Mapping[str, Sequence[int]], size: int) -> None:
    for name, tokens in ids.items():
        if not tokens:
            problems.add(loc, f"{rollouts.ids} gives prompt {shown(name)} no token", expected="one or more")
        elif max(tokens) >= size:
            problems.add(
                loc,
                f"id {max(tokens)} of prompt {shown(name)} in {rollouts.ids} is beyond the dictionary",
                expected=f"ids below {size} (dictionary.size)",
            )


def _fits(problems: Problems, loc: Loc, tokens: int, ids: Mapping[str, Sequence[int]], protocol: Protocol) -> None:
    name, longest = max(((name, len(ids)) for name, ids in ids.items()), key=lambda one: one[1], default=("", 0))
    room = protocol.capture.context_tokens
    if longest + tokens > room:
        problems.add(
            loc,
            f"{tokens} tokens behind the {longest} of prompt {shown(name)} do not fit",
            expected=f"at most {max(room - longest, 0)} (capture.context_tokens is {room})",
        )


def _quick(problems: Problems, loc: Loc, read: ReadPrompts) -> None:
    if read.prompts is not None and not any(prompt.quick for prompt in read.prompts.prompts):
        problems.add(loc, "no prompt belongs to the quick subset", expected="'all', or prompts with quick = true")


def _sampled(problems: Problems, protocol: Protocol, read: ReadPrompts) -> None:
    sampled = protocol.sampled
    if sampled is None:
        return
    if protocol.rollouts is None:
        problems.add(("sampled",), "nothing says what is sampled behind", expected="[rollouts]: prompts and their ids")
        return
    for index, temperature in enumerate(sampled.temperatures):
        if temperature in sampled.temperatures[:index]:
            problems.add(("sampled", "temperatures", index), f"{temperature:g} is given twice", expected="each once")
    if sampled.prompts == "quick":
        _quick(problems, ("sampled", "prompts"), read)
    if read.ids is not None:
        _fits(problems, ("sampled", "tokens"), sampled.tokens, read.ids.ids, protocol)


def _few(items: Iterable[object], limit: int = 8) -> str:
    words = [str(item) for item in items]
    return ", ".join(words[:limit]) + (f" and {len(words) - limit} more" if len(words) > limit else "")
