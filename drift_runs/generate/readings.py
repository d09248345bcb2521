"""A future read as turns of the assistant: what it calls, turn by turn, and what is at fault in it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from drift_runs.generate.calls import Call, Malformed, NoCall, misfit
from drift_runs.generate.future import STRUCTURE, TURN, Future, Scene
from drift_runs.generate.structures import Structure, end_of, problem
from drift_runs.generate.syntaxes import closed, opened, parse

UNPARSED = "does not parse"
UNFIT = "fits no schema"
LEFT_OPEN = "was left open at the end of the turn"


class Fault(NamedTuple):
    """The first thing that is wrong with a future's structures."""

    kind: str
    """``UNPARSED``, ``UNFIT`` or ``LEFT_OPEN``."""
    turn: int
    """Counted from 0."""
    why: str
    """The parser's message, or the schema's."""


class Turn(NamedTuple):
    """One turn of the assistant."""

    text: str
    """Without its end token. The first one whole: what the history holds of it, then the future's own."""
    begins: int
    """Characters of the text that the history holds."""
    calls: tuple[Call, ...]
    """The sound ones that are the future's own, in order; offsets in ``text``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What one future says.

    Compared is, where the root lies in a call, the text from where that call opens to the future's end; else every call
    of the turn that does not end before the root. Later turns count whole. A call that the horizon cut is no call yet,
    and is no fault while it can still become one.
    """

    turns: tuple[Turn, ...]
    ended: bool
    """With its turn or structure: nothing was cut."""
    silent: bool
    """No further call can follow. A future that stopped behind another structure might have called afterwards."""
    fault: Fault | None


class Opening(NamedTuple):
    """What futures of one root have in common."""

    turn: bytes
    """What the history holds of the assistant's turn."""
    structure: Structure
    start: int
    """Offset in characters of the turn from which calls are read."""
    broken: bool
    """A call opens there that the history has broken: calls are read from where it ends."""


def opening(scene: Scene, structure: Structure) -> Opening:
    """Where calls are read from. What is at fault in the history already is no fault of a future."""
    history = b"".join(scene.dictionary[token] for token in scene.history)
    turn = history.rpartition(scene.assistant.encode())[2] if scene.assistant else history
    if structure.kind == "call":
        return Opening(turn, structure, structure.start, False)
    text = turn.decode("utf-8", "replace")
    open_at = opened(scene.syntax, text)
    if open_at is not None:
        return Opening(turn, structure, open_at, True)
    faulty = isinstance(parse(scene.syntax, text), Malformed)
    return Opening(turn, structure, len(text) if faulty else 0, False)


def read(scene: Scene, begun: Opening, future: Future) -> Reading:
    """The calls of a future and its first fault. Tools have a say where the scene has any."""
    ended = future.ended in (TURN, STRUCTURE)
    written = turn_tokens(future, scene.end_tokens)
    turns: list[Turn] = []
    fault = None
    for number, tokens in enumerate(written):
        complete = ended or number + 1 < len(written)
        before = begun.turn if number == 0 else b""
        raw = before + b"".join(scene.dictionary[token] for token in tokens)
        text = raw.decode("utf-8", "replace")
        begins = len(before.decode("utf-8", "replace"))
        start = begun.start if number == 0 else 0
        if number == 0 and begun.broken:
            behind = closed(scene.syntax, text, start)
            start = len(text) if behind is None else behind
        calls, wrong = _calls(scene, text, start, begins, complete)
        turns.append(Turn(text, begins, calls))
        if number == 0 and begun.structure.kind not in ("", "call"):
            wrong = _structure_fault(scene, begun.structure, text, complete, future.ended) or wrong
        if fault is None and wrong is not None:
            fault = Fault(wrong[0], number, wrong[1])
    return Reading(
        turns=tuple(turns),
        ended=ended,
        silent=future.ended == TURN or (future.ended == STRUCTURE and begun.structure.kind in ("", "call")),
        fault=fault,
    )


def turn_tokens(future: Future, end_tokens: frozenset[int]) -> list[tuple[int, ...]]:
    """The assistant's own tokens by turn, end tokens left out.

    What was not written stands between two turns, except the first token. Where the future stops with an environment's
    answer, a turn without a token follows.
    """
    turns: list[list[int]] = [[]]
    answered = False
    for at, (token, written) in enumerate(zip(future.tokens, future.written, strict=True)):
        if at and not written:
            answered = True
            continue
        if answered:
            turns.append([])
            answered = False
        turns[-1].append(token)
    if answered:
        turns.append([])
    return [tuple(tokens[:-1] if tokens and tokens[-1] in end_tokens else tokens) for tokens in turns]


def _calls(
    scene: Scene, text: str, start: int, begins: int, complete: bool
) -> tuple[tuple[Call, ...], tuple[str, str] | None]:
    """The sound calls of ``text[start:]`` that end behind ``begins``, and the first fault: its kind and why."""
    parsed = parse(scene.syntax, text[start:], scene.tools)
    if isinstance(parsed, NoCall):
        return (), None
    wrong = None
    if isinstance(parsed, Malformed) and (complete or not parsed.unfinished):
        wrong = (LEFT_OPEN if parsed.unfinished else UNPARSED, parsed.why)
    found = parsed.before if isinstance(parsed, Malformed) else parsed.calls
    moved = (replace(call, start=start + call.start, end=start + call.end) for call in found)
    # A call in which the root lies ends behind it; whatever ends before was the history's.
    calls = tuple(call for call in moved if call.end > begins)
    if scene.tools:
        reasons = (misfit(call, scene.tools) for call in calls)
        if reason := next(filter(None, reasons), ""):
            wrong = (UNFIT, reason)
    return calls, wrong


def _structure_fault(
    scene: Scene, structure: Structure, text: str, complete: bool, ended: str
) -> tuple[str, str] | None:
    why = problem(structure, text, scene, complete=complete)
    if not why:
        return None
    left_open = complete and ended == TURN and end_of(structure, text, scene) is None
    return (LEFT_OPEN if left_open else UNPARSED), why
