"""Grow a conversation step by step: a step stays when the reference passes every answer of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from ops_tasks.tasks import Task, Turn, pieces
from ops_tasks.values import Values

from drift_runs.engines.llama_cpp import LlamaCpp
from drift_runs.errors import Inconclusive, NonFiniteLogits
from drift_runs.generate.loops import loop_report
from drift_runs.measure.literals import literal_marks
from ops_windows.wanted import Wanted, begin

LEAST_SCORED = 210
MOST_SCORED = 235
"""Every arm reads every token of every window, so a window ends soon after it is long enough."""
MOST_TOKENS = 800
HEAD_TOKENS, TOOL_TOKENS = 45, 75
"""Most tokens of the system turn: so many, and so many for each tool that it offers."""
SCORED_SHARE = 0.36
"""Least share of a chat's request and answer that the answer is: every arm reads the requests too."""
FRUITLESS = 40
"""Steps in a row that the reference misses before the conversation is begun anew."""
UNFIT = 400
"""Steps in a row that would make it too long or repeat itself, likewise."""
BEGUN = 1000
"""Conversations that are begun before a window is given up."""


@dataclass(slots=True, kw_only=True)
class Counts:
    """Answers that were drawn, those of dropped conversations included, and those that the reference passed."""

    drawn: int = 0
    passed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A finished conversation."""

    wanted: Wanted
    turns: tuple[Turn, ...]
    tools: tuple[dict, ...]
    tokens: tuple[int, ...]
    answers: tuple[tuple[int, int], ...]
    """Half-open positions of each answer, its end of turn included."""
    p1: tuple[float, ...]
    """The reference's best probability at each scored position, in order."""
    literal: tuple[bool, ...]
    """Which scored positions lie in a literal that occurs earlier."""
    counts: Counts

    @property
    def scored(self) -> int:
        return sum(end - start for start, end in self.answers)


class _Part(NamedTuple):
    tokens: list[int]
    answers: list[tuple[int, int]]
    """Positions inside ``tokens``."""


@dataclass(slots=True, kw_only=True)
class _Grown:
    """A conversation so far; what the engine holds as history is ``tokens``."""

    turns: list[Turn]
    tokens: list[int] = field(default_factory=list)
    answers: list[tuple[int, int]] = field(default_factory=list)

    @property
    def scored_tokens(self) -> list[int]:
        return [token for start, end in self.answers for token in self.tokens[start:end]]


def grow(engine: LlamaCpp, wanted: Wanted, seed: int, number: int, table: list[bytes], *, most_answers: int) -> Window:
    """The window ``number`` of a seed: the same for the same reference.

    A step that would make the scored text repeat itself or the window too long is drawn again and is not counted.

    Raises ``Inconclusive`` when ``most_answers`` were drawn and no conversation is long enough.
    """
    values = Values(np.random.default_rng([seed, number]), held_out=True)
    counts = Counts()
    for _ in range(BEGUN):
        if counts.drawn >= most_answers:
            break
        drawn = begin(wanted, values)
        grown = _Grown(turns=list(drawn.opening))
        if len(engine.tokenize("".join(turn.text for turn in grown.turns))) > most_opening(wanted):
            continue
        engine.reset()
        fruitless = unfit = 0
        for step in drawn.steps:
            part = _part(engine, grown, step.turns)
            if _too_much(grown, part, wanted):
                unfit += 1
            elif _passes(engine, grown, part, counts):
                fruitless = unfit = 0
                at = len(grown.tokens)
                grown.tokens += part.tokens
                grown.answers += [(at + start, at + end) for start, end in part.answers]
                grown.turns += step.turns
                drawn.taken.append(step.uses)
            else:
                fruitless += 1
            if len(grown.scored_tokens) >= LEAST_SCORED or counts.drawn >= most_answers:
                break
            if fruitless >= FRUITLESS or unfit >= UNFIT:
                break
        if len(grown.scored_tokens) < LEAST_SCORED:
            continue
        grown.tokens += engine.tokenize("\n")
        if (window := _window(engine, wanted, grown, drawn.tools, counts, table)) is not None:
            return window
    raise Inconclusive(
        f"of {counts.drawn} answers the reference passes {counts.passed}, and no conversation is long enough",
        where=wanted.name,
        expected=f"{LEAST_SCORED} scored tokens",
        todo="train the adapter longer, or raise --most-answers",
    )


def most_opening(wanted: Wanted) -> int:
    """Tokens that the opening of a conversation may have; a chat has none."""
    return HEAD_TOKENS + TOOL_TOKENS * wanted.tools


def _part(engine: LlamaCpp, grown: _Grown, turns: list[Turn]) -> _Part:
    """A step in tokens, with what stands between it and the history."""
    opening = grown.turns if not grown.tokens else []
    parts = pieces(Task(kind="", template="", turns=(*opening, *turns)))
    tokens: list[int] = engine.tokenize("\n") if grown.tokens else []
    answers = []
    for piece in parts:
        start = len(tokens)
        tokens += engine.tokenize(piece.text)
        if piece.answer is not None:
            answers.append((start, len(tokens)))
    return _Part(tokens, answers)


def _too_much(grown: _Grown, part: _Part, wanted: Wanted) -> bool:
    answers = [token for start, end in part.answers for token in part.tokens[start:end]]
    scored = grown.scored_tokens + answers
    return (
        (not wanted.tools and len(answers) < SCORED_SHARE * len(part.tokens))
        or len(scored) > MOST_SCORED
        or len(grown.tokens) + len(part.tokens) > MOST_TOKENS
        or loop_report(scored).is_loop
    )


def _passes(engine: LlamaCpp, grown: _Grown, part: _Part, counts: Counts) -> bool:
    """Whether the reference prefers every token of the part's answers; if not, the history is as before."""
    positions = [position for start, end in part.answers for position in range(start, end)]
    logits = engine.extend(part.tokens, [position - 1 for position in positions])
    if not np.isfinite(logits).all():
        raise NonFiniteLogits("a logit is NaN or infinite", where=f"position {len(grown.tokens)}")
    right = dict(zip(positions, logits.argmax(axis=1) == np.asarray(part.tokens)[positions], strict=True))
    exact = [all(right[position] for position in range(start, end)) for start, end in part.answers]
    counts.drawn += len(exact)
    counts.passed += sum(exact)
    if all(exact):
        return True
    if grown.tokens:
        engine.rewind(len(grown.tokens))
    else:
        engine.reset()
    return False


def _window(
    engine: LlamaCpp, wanted: Wanted, grown: _Grown, tools: tuple[dict, ...], counts: Counts, table: list[bytes]
) -> Window | None:
    """The finished window, read all at once as recording and every campaign read it; None where a near tie turned."""
    positions = [position for start, end in grown.answers for position in range(start, end)]
    best: list[float] = []
    for block in engine.score(grown.tokens, positions):
        if (block.logits.argmax(axis=1) != np.asarray(grown.tokens)[block.positions]).any():
            return None
        logits = block.logits.astype(np.float64)
        best += (1 / np.exp(logits - logits.max(axis=1, keepdims=True)).sum(axis=1)).tolist()
    marks = literal_marks([table[token] for token in grown.tokens])
    return Window(
        wanted=wanted,
        turns=tuple(grown.turns),
        tools=tools,
        tokens=tuple(grown.tokens),
        answers=tuple(grown.answers),
        p1=tuple(best),
        literal=tuple(marks[positions].tolist()),
        counts=counts,
    )
