"""Is a free-running answer right? One check of a protocol's task, with the reason where it is not.

What is checked is what the assistant wrote up to its end of turn, the token that ended it left out. Checks ``calls``,
``json`` and ``sql`` read the whole turn: what stood of it before the task's first token belongs to the answer, as it
belongs to the expected text. Checks ``literals`` and ``pattern`` read what was written from there on. Where a turn
holds one fenced block, ``json`` and ``sql`` take what is in the block, whatever stands around it.

An answer that the horizon cut has failed. Nothing that a model wrote is evaluated but SQL, in a database of its own.
"""

from __future__ import annotations

import re
import signal
import threading
import warnings
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from drift_runs.generate.calls import Call, Malformed, NoCall, TooSlow, misfit, strict_json, time_limit
from drift_runs.generate.checks_sql import Refused, Unbounded, query_rows, rows_difference
from drift_runs.generate.code_blocks import unfenced
from drift_runs.generate.future import CONTEXT, HORIZON, Scene
from drift_runs.generate.syntaxes import parse
from drift_runs.generate.values import difference, quoted, shortened
from drift_runs.generate.words import stands_alone
from drift_runs.protocol.generation import Task

PATTERN_LIMIT_S = 2.0
"""Processor time that one search may take: a sound pattern takes about a millisecond."""
PATTERN_CHARACTERS = 100_000
"""Of an answer that is searched: what a search keeps for going back grows with it."""

LITERAL_CHARACTERS = 1_000
"""Of an expected literal: one that repeats itself is looked for at every character of an answer."""


class Checked(NamedTuple):
    """What a check found."""

    passed: bool | None
    """None: it could not be decided."""
    reason: str
    """Why it failed or is not known; empty when it passed."""


class _Unknown(Exception):
    """The check itself is at fault: nothing is said of the answer."""


def check(task: Task, expected: str | None, answer: str, scene: Scene, *, ended: str) -> Checked:
    """Whether ``answer`` is what a task expects.

    Parameters
    ----------
    expected
        the text of the window's own answer where the task names one (``task.answer``), from the start of its turn or
        from the task on, with or without the token that ends it. None: ``task.expected`` says what is expected.
    answer
        what was written from ``tokens[:task.at]`` on; the token that ended the turn may be its last.
    scene
        the task's place: history up to ``task.at``, tools and call syntax of the window.
    ended
        ``turn``, ``structure``, ``horizon`` or ``context``. With ``horizon`` the answer has failed; with ``context``
        nobody knows what would have come within the horizon.
    """
    if ended == HORIZON:
        return Checked(False, f"cut by the horizon of {task.horizon_tokens:,} tokens: the turn did not end")
    if ended == CONTEXT:
        return Checked(None, "the engine's context ran out before the horizon")
    answer = _without_end(answer, scene)
    turn = scene.turn if scene.assistant else ""
    wanted = task.expected if expected is None else (_whole(_without_end(expected, scene), turn),)
    try:
        match task.check:
            case "calls":
                reason = _calls(turn + answer, wanted, scene)
            case "json":
                reason = _json(turn + answer, _only(wanted))
            case "sql":
                reason = _sql(turn + answer, _only(wanted), task)
            case "literals":
                reason = _literals(answer, task.expected, before=turn[-1:])
            case "pattern":
                reason = _pattern(answer, _only(task.expected))
    except _Unknown as unknown:
        return Checked(None, str(unknown))
    return Checked(not reason, reason)


def _without_end(text: str, scene: Scene) -> str:
    for token in scene.end_tokens:
        end = scene.read((token,))
        if end and text.endswith(end):
            return text[: -len(end)]
    return text


def _whole(expected: str, turn: str) -> str:
    """An expected answer may begin with its turn or with the task: what stood before belongs to it as to the other."""
    return expected if expected.startswith(turn) else turn + expected


def _only(texts: Sequence[str]) -> str:
    if len(texts) != 1:
        raise _Unknown(f"{len(texts)} texts are expected, and the check takes one")
    return texts[0]


def _calls(turn: str, wanted: Sequence[str], scene: Scene) -> str:
    expected = [call for text in wanted for call in _expected_calls(text, scene)]
    if not expected:
        raise _Unknown("no call is expected")
    found = parse(scene.syntax, turn, scene.tools)
    if isinstance(found, NoCall):
        return f"no call, expected {_names(expected)}"
    if isinstance(found, Malformed):
        return f"a malformed call at character {found.start}: {shortened(found.why, 200)}"
    # A window without tools has no schemas to hold a call against.
    for number, call in enumerate(found.calls, 1) if scene.tools else ():
        if reason := misfit(call, scene.tools):
            return f"call {number} fits no schema: {reason}"
    return calls_difference(found.calls, expected)


def _expected_calls(text: str, scene: Scene) -> Sequence[Call]:
    found = parse(scene.syntax, text, scene.tools)
    if isinstance(found, NoCall):
        raise _Unknown(f"the expected text holds no call of the syntax {scene.syntax}")
    if isinstance(found, Malformed):
        raise _Unknown(f"the expected call is malformed: {shortened(found.why, 200)}")
    for call in found.calls if scene.tools else ():
        if reason := misfit(call, scene.tools):
            raise _Unknown(f"the expected call fits no schema: {reason}")
    return found.calls


def calls_difference(found: Sequence[Call], expected: Sequence[Call]) -> str:
    """Why calls are not the expected ones by value, in any order; empty where they are."""
    left = list(expected)
    others = []
    for number, call in enumerate(found, 1):
        at = next((at for at, one in enumerate(left) if not _difference(call, one)), None)
        if at is None:
            others.append((number, call))
        else:
            del left[at]
    if others and left:
        number, call = others[0]
        same_tool = next((one for one in left if one.name == call.name), None)
        if same_tool is None:
            return f"call {number} is of another tool: {quoted(call.name)}, expected {_names(left)}"
        return f"call {number}, {shortened(call.name)}, has another value: {_difference(call, same_tool)}"
    if others:
        return f"{len(others):,} calls more than expected: {_names([call for _, call in others])}"
    return f"{len(left):,} of {len(expected):,} expected calls missing: {_names(left)}" if left else ""


def _difference(found: Call, expected: Call) -> str:
    return "another tool" if found.name != expected.name else difference(found.arguments, expected.arguments)


def _names(calls: Sequence[Call]) -> str:
    counts = Counter(call.name for call in calls)
    return shortened(", ".join(f"{name} {count} times" if count > 1 else name for name, count in counts.items()), 200)


def _json(turn: str, wanted: str) -> str:
    try:
        expected = strict_json(unfenced(wanted).strip())
    except ValueError as error:
        raise _Unknown(f"the expected text is no JSON: {shortened(str(error), 200)}") from None
    try:
        found = strict_json(unfenced(turn).strip())
    except ValueError as error:
        return f"no JSON: {shortened(str(error), 200)}"
    return difference(found, expected)


def _sql(turn: str, wanted: str, task: Task) -> str:
    try:
        expected = query_rows(unfenced(wanted), task.fixture)
    except Refused as refused:
        raise _Unknown(f"expected rows are not known: {refused}") from None
    try:
        found = query_rows(unfenced(turn), task.fixture)
    except Unbounded as unbounded:
        raise _Unknown(str(unbounded)) from None
    except Refused as refused:
        return str(refused)
    return rows_difference(found, expected, ordered=task.ordered)


def _literals(answer: str, literals: Sequence[str], *, before: str) -> str:
    if not literals or "" in literals:
        raise _Unknown(f"{'an empty' if literals else 'no'} literal is expected")
    if any(len(literal) > LITERAL_CHARACTERS for literal in literals):
        raise _Unknown(f"a literal of more than {LITERAL_CHARACTERS:,} characters is expected")
    missing = [literal for literal in literals if not stands_alone(literal, before + answer, len(before))]
    named = shortened(", ".join(quoted(literal) for literal in missing), 300)
    return f"{len(missing):,} of {len(literals):,} literals missing: {named}" if missing else ""


def _pattern(answer: str, pattern: str) -> str:
    # The signal that ends a search reaches the main thread alone: elsewhere a hostile pattern would never end.
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        raise _Unknown("a pattern is searched where its time can be limited: in the main thread of a process")
    if len(answer) > PATTERN_CHARACTERS:
        raise _Unknown(f"the answer has {len(answer):,} characters, and {PATTERN_CHARACTERS:,} are searched at most")
    try:
        with time_limit(PATTERN_LIMIT_S), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = re.compile(pattern).search(answer)
    except TooSlow:
        raise _Unknown(f"the pattern takes more than {PATTERN_LIMIT_S:g} s on this answer") from None
    except (re.error, RecursionError, OverflowError, MemoryError) as error:
        raise _Unknown(f"the pattern cannot be applied: {shortened(str(error), 200)}") from None
    return "" if found else f"the pattern {shortened(pattern)} is not found"
