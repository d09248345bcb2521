"""Expected answers as tasks: what an arm that writes freely must say where the reference gives its answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from drift_runs.authoring.record import Recorded
from drift_runs.authoring.spans import TokenSpan
from drift_runs.measure.literals import repeated_spans
from drift_runs.protocol.generation import Task

ROOM = 2
"""A free answer may take so many times the tokens of the expected one ..."""
ROOM_TOKENS = 32
"""... and these beside it, before it counts as one that does not end."""


def tasks_of(recorded: Recorded, token_bytes: Sequence[bytes]) -> Iterator[Task]:
    """A task for each answer of a window that can be checked, in order."""
    for answer in recorded.layout.answers:
        common = {
            "name": answer.name,
            "window": recorded.window.name,
            "at": answer.start,
            "horizon_tokens": ROOM * (answer.end - answer.start) + ROOM_TOKENS,
        }
        match answer.kind:
            case "call":
                yield Task(**common, check="calls", answer=answer.name)
            case "json":
                yield Task(**common, check="json", answer=answer.name)
            case _:
                if literals := _copied(recorded.stream.tokens, answer, token_bytes):
                    yield Task(**common, check="literals", expected=literals)


def _copied(tokens: Sequence[int], answer: TokenSpan, token_bytes: Sequence[bytes]) -> tuple[str, ...]:
    """Literals of an answer that stand before it, each once: of two that lie in one another the longer one."""
    before = b"".join(token_bytes[token] for token in tokens[: answer.start])
    text = before + b"".join(token_bytes[token] for token in tokens[answer.start : answer.end])
    inside = [(start, end) for start, end in repeated_spans(text) if start >= len(before)]
    inside = [(start, end) for start, end in inside if text.find(text[start:end], 0, len(before)) >= 0]
    outer = [one for one in inside if not any(_within(one, other) for other in inside)]
    return tuple(dict.fromkeys(text[start:end].decode("utf-8", "replace") for start, end in outer))


def _within(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return one != other and other[0] <= one[0] and one[1] <= other[1]
