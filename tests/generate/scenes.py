"""A small dictionary, and texts made into scenes and futures with it."""

from __future__ import annotations

import json
from typing import Any

from drift_runs.generate.future import HORIZON, Future, Scene

MARKUP = ("<|im_start|>", "<|im_end|>", "<tool_call>", "</tool_call>", "<|endoftext|>")
BYTES = (*(bytes([value]) for value in range(256)), *(name.encode() for name in MARKUP))
"""A token a byte, and markup."""
WORDS = (*BYTES, b"54", b"32", b"port", b" port ", b" of ", "é".encode(), b"\n\n", b'": "', b'", "')
"""The same with tokens of several bytes, so that one text can be written in several ways."""
END = 257
ASSISTANT = "<|im_start|>assistant\n"
TOOLS = (
    {
        "type": "function",
        "function": {
            "name": "open_port",
            "parameters": {
                "type": "object",
                "properties": {"host": {"type": "string"}, "port": {"type": "number"}, "note": {"type": "string"}},
                "required": ["host", "port"],
                "additionalProperties": False,
            },
        },
    },
    {
        "name": "close_port",
        "parameters": {
            "type": "object",
            "properties": {"host": {"type": "string"}, "port": {"type": "integer"}},
            "required": ["host", "port"],
        },
    },
    {"name": "run", "parameters": {"type": "object", "properties": {"command": {"type": "string"}}}},
)
ASKED = (
    "<|im_start|>system\nThe database of db-3 listens on port 5432, its cache on 6379.<|im_end|>\n"
    "<|im_start|>user\nOpen the database.<|im_end|>\n"
)


def ids(text: str, dictionary: tuple[bytes, ...] = BYTES) -> list[int]:
    """Tokens of a text: at every place the longest that fits."""
    longest = sorted(range(len(dictionary)), key=lambda token: -len(dictionary[token]))
    raw, found = text.encode(), []
    while raw:
        token = next(token for token in longest if raw.startswith(dictionary[token]))
        found.append(token)
        raw = raw[len(dictionary[token]) :]
    return found


def scene(turn: str = "", *, asked: str = ASKED, dictionary: tuple[bytes, ...] = BYTES, **changed: Any) -> Scene:
    """A root behind ``turn``, which is what the assistant has written."""
    settings: dict[str, Any] = {
        "history": ids(f"{asked}{ASSISTANT}{turn}", dictionary),
        "dictionary": dictionary,
        "end_tokens": frozenset({END, 260}),
        "assistant": ASSISTANT,
        "tools": TOOLS,
        "syntax": "hermes",
        "sql_dialect": "sqlite",
    }
    return Scene(**{**settings, **changed})


def future(place: Scene, *pieces: str | list[int], ended: str = HORIZON) -> Future:
    """What follows: the assistant's text, an environment's answer, text, and so on, as text or tokens."""
    tokens: list[int] = []
    written: list[bool] = []
    for number, piece in enumerate(pieces):
        new = ids(piece, tuple(place.dictionary)) if isinstance(piece, str) else piece
        tokens += new
        written += [number % 2 == 0] * len(new)
    written[0] = False
    return Future(
        window="ports",
        position=len(place.history),
        first=tokens[0],
        best=tokens[0],
        tokens=tuple(tokens),
        written=tuple(written),
        logprobs=tuple(-0.5 if own else None for own in written),
        text=place.read(tokens),
        ended=ended,
        turns=(len(pieces) + 1) // 2,
    )


def call(name: str = "open_port", **arguments: Any) -> str:
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"


DATABASE = call(host="db-3", port=5432)
