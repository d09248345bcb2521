"""What a model would answer in a conversation whose earlier turns are the expected ones.

Teacher-forced: one pass over the whole conversation gives, at every token of every answer, the token that the model
prefers. An answer is exact when it prefers the expected one at all of them, its end of turn included: that is what
greedy decoding would then write, for as long as it agrees it has read the same tokens. Where it does not agree, its
answer goes on from the token that it preferred; that is decoded for calls alone, and no further than they may be valid.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from ops_tasks.tasks import Task, pieces

from drift_runs.engines.llama_cpp import LlamaCpp
from drift_runs.errors import EngineError
from ops_evaluation.call_answers import CallVerdict, calls_in, is_lost, judge, tools_for

WRITTEN_TOKENS = 200
"""Tokens that an answer may have from where it leaves the expected one."""


class Encoded(NamedTuple):
    """A conversation in tokens."""

    tokens: list[int]
    answers: list[tuple[int, int]]
    """Half-open positions of each answer, its end of turn included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerRow:
    """One answer, in numbers that may be added up."""

    conversation: int
    """Conversations are the clusters of every interval."""
    kind: str
    tokens: int
    right_tokens: int
    """At which the model prefers the expected token."""
    literals: int
    """Occurrences of literals."""
    right_literals: int
    """All of whose tokens the model prefers."""
    is_call: bool
    valid: bool
    right_tool: bool
    same_call: bool
    """These three are False where ``is_call`` is."""
    written_tokens: int
    """Decoded to know that."""

    @property
    def exact(self) -> bool:
        return self.right_tokens == self.tokens


def encode(task: Task, engine: LlamaCpp) -> Encoded:
    tokens: list[int] = []
    answers = []
    for piece in pieces(task):
        start = len(tokens)
        tokens += engine.tokenize(piece.text)
        if piece.answer is not None:
            answers.append((start, len(tokens)))
    return Encoded(tokens, answers)


def preferred(engine: LlamaCpp, encoded: Encoded) -> dict[int, int]:
    """The model's most probable token at every position of the answers; the lowest id where several are."""
    positions = [position for start, end in encoded.answers for position in range(start, end)]
    found: dict[int, int] = {}
    for block in engine.score(encoded.tokens, positions):
        best = block.logits.argmax(axis=1)
        if not np.isfinite(block.logits[np.arange(len(best)), best]).all():
            raise EngineError("the model returned no numbers", where=engine.model_file.name)
        found.update(zip(block.positions.tolist(), best.tolist(), strict=True))
    return found


def answer_rows(engine: LlamaCpp, task: Task, conversation: int, table: list[bytes]) -> list[AnswerRow]:
    """Judge every answer of a task. ``table``: the bytes of each token."""
    encoded = encode(task, engine)
    best = preferred(engine, encoded)
    turns = [at for at, turn in enumerate(task.turns) if turn.role == "assistant"]
    rows = []
    # From the last to the first: to go on from the middle of an answer cuts off what was read after it.
    for (start, end), turn in reversed(list(zip(encoded.answers, turns, strict=True))):
        expected = task.turns[turn].text
        is_right = [best[position] == encoded.tokens[position] for position in range(start, end)]
        sizes = [len(table[token]) for token in encoded.tokens[start:end]]
        spans = literal_spans(expected, task.turns[turn].literals)
        copied = sum(all(is_right[at] for at in _touching(sizes, span)) for span in spans)
        verdict, written = CallVerdict(False, False, False), 0
        is_call = bool(calls_in(expected))
        if is_call and all(is_right):
            verdict = CallVerdict(True, True, True)
        elif is_call:
            first_wrong = start + is_right.index(False)
            tools = tools_for(task, turn)
            prefix = b"".join(table[token] for token in encoded.tokens[start:first_wrong])
            text, written = _written(engine, prefix, first_wrong, best[first_wrong], table, tools)
            verdict = judge(text, expected, tools) if text is not None else verdict
        rows.append(
            AnswerRow(
                conversation=conversation,
                kind=task.kind,
                tokens=end - start,
                right_tokens=sum(is_right),
                literals=len(spans),
                right_literals=copied,
                is_call=is_call,
                **verdict._asdict(),
                written_tokens=written,
            )
        )
    return rows[::-1]


def _written(
    engine: LlamaCpp, prefix: bytes, position: int, token: int, table: list[bytes], tools: tuple
) -> tuple[str | None, int]:
    """The whole answer that the model writes from ``token`` at ``position`` on, and how many tokens were decoded.

    None where it cannot be valid any more, or does not end.
    """
    engine.rewind(position)
    text = prefix
    for count in range(WRITTEN_TOKENS):
        if engine.ends_generation(token):
            return text.decode("utf-8", "replace"), count
        text += table[token]
        if is_lost(text.decode("utf-8", "replace"), tools):
            return None, count
        token = int(engine.append(token).argmax())
    return None, WRITTEN_TOKENS


def literal_spans(text: str, literals: tuple[str, ...]) -> list[tuple[int, int]]:
    """Where the literals stand in an answer: half-open offsets in bytes of UTF-8, none inside another.

    A literal that runs on in letters or digits is a part of something else and not an occurrence.
    """
    found = set()
    for literal in filter(None, dict.fromkeys(literals)):
        bounded = ("(?<![0-9A-Za-z])" if literal[0].isalnum() else "") + re.escape(literal)
        bounded += "(?![0-9A-Za-z])" if literal[-1].isalnum() else ""
        for match in re.finditer(bounded, text):
            found.add((len(text[: match.start()].encode()), len(text[: match.end()].encode())))
    return sorted(span for span in found if not any(_inside(span, other) for other in found))


def _inside(span: tuple[int, int], other: tuple[int, int]) -> bool:
    return span != other and other[0] <= span[0] and span[1] <= other[1]


def _touching(sizes: list[int], span: tuple[int, int]) -> list[int]:
    """Which of the tokens, of so many bytes each, hold a byte of ``span``."""
    ends = np.cumsum(sizes)
    return np.flatnonzero((ends > span[0]) & (ends - sizes < span[1])).tolist()
