"""What a task is, and the exact text that a model reads and is asked to write."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Literal

KINDS = (
    "tool-call",
    "multi-tool",
    "recovery",
    "no-call",
    "question",
    "json",
    "literal-copy",
    "cli",
    "sql",
    "container",
    "shell",
    "chat",
)
"""What is reported apart."""

Split = Literal["train", "values", "templates"]
"""``values``: templates and tools of training with held-out literals; ``templates``: templates and tools that training
never sees, with held-out literals too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One chat turn. Every turn of the assistant is an answer that is trained and judged."""

    role: Literal["system", "user", "assistant", "tool"]
    text: str
    literals: tuple[str, ...] = ()
    """Of an answer: what must come over letter by letter, as written there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One conversation with the answers that are expected."""

    kind: str
    template: str
    turns: tuple[Turn, ...]
    tools: tuple[dict, ...] = ()
    """Function schemas (``{"type": "function", "function": {...}}``) that the system turn offers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A stretch of the rendered text."""

    text: str
    answer: int | None
    """Index of the answer it belongs to (its end of turn included); None for what the model is given."""


def pieces(task: Task) -> tuple[Piece, ...]:
    """The conversation in ChatML, cut where answers begin and end. Joined, the pieces are the text to tokenise."""
    made, given, answer = [], "", 0
    for turn in task.turns:
        given += f"<|im_start|>{turn.role}\n"
        if turn.role == "assistant":
            made += [Piece(text=given, answer=None), Piece(text=f"{turn.text}<|im_end|>", answer=answer)]
            given, answer = "\n", answer + 1
        else:
            given += f"{turn.text}<|im_end|>\n"
    return tuple(made)


def tool_line(tool: dict) -> str:
    """A tool as the system turn shows it: the function alone, on one line."""
    return json.dumps(tool["function"], ensure_ascii=False)


def call_text(name: str, arguments: dict[str, object]) -> str:
    """One call as it must be written."""
    body = json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False)
    return f"<tool_call>\n{body}\n</tool_call>"


def simple(
    kind: str, template: str, request: str, answer: str, *, literals: tuple[object, ...] = (), system: str = ""
) -> Task:
    """A task of one request and one answer."""
    head = (Turn(role="system", text=system),) if system else ()
    said = tuple(str(literal) for literal in literals if str(literal) in answer)
    return Task(
        kind=kind,
        template=template,
        turns=(*head, Turn(role="user", text=request), Turn(role="assistant", text=answer, literals=said)),
    )
