"""A continuation from a root, and what is known of the root that it continues."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

STRUCTURE = "structure"
TURN = "turn"
HORIZON = "horizon"
CONTEXT = "context"


@dataclass(frozen=True, slots=True, kw_only=True)
class Future:
    """One row of table ``FUTURES``: a first token that was given and what one engine wrote behind it."""

    window: str
    position: int
    first: int
    best: int
    """What these weights would have chosen in place of ``first``."""
    tokens: tuple[int, ...]
    """From ``first`` on, environment's answers included."""
    written: tuple[bool, ...]
    """False: ``first``, and what an environment answered."""
    logprobs: tuple[float | None, ...]
    text: str
    ended: str
    """``structure``, ``turn``, ``horizon`` or ``context``. With ``turn`` the end token is the last of ``tokens``."""
    turns: int
    top_ids: tuple[tuple[int, ...], ...] | None = None
    """The best few tokens at each written one, the largest logit first; empty at the others. None: not stored."""
    top_logprobs: tuple[tuple[float, ...], ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A root's place: everything that its futures are read against."""

    history: Sequence[int]
    """``tokens[:position]`` of the window's stream."""
    dictionary: Sequence[bytes]
    """The bytes of each id; markup by its name, as it is written in a text."""
    end_tokens: frozenset[int]
    """Ids that end a turn."""
    assistant: str
    """What a turn of the assistant begins behind; empty: the text has no turns."""
    tools: tuple[Mapping[str, Any], ...]
    """JSON schemas of the tools that the text may call."""
    syntax: str
    """See ``protocol.generation.Syntax``."""
    sql_dialect: str

    @property
    def text(self) -> str:
        """The history's text; bytes that are no UTF-8 as U+FFFD."""
        return self.read(self.history)

    @property
    def turn(self) -> str:
        """What the assistant has written of its turn at the root; the whole history where it has no turns."""
        if not self.assistant:
            return self.text
        return self.text.rpartition(self.assistant)[2]

    def read(self, tokens: Sequence[int]) -> str:
        """The text of some tokens."""
        return b"".join(self.dictionary[token] for token in tokens).decode("utf-8", "replace")
