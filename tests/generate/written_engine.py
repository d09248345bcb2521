"""An engine that writes what it is told: for futures that no real model of this size would write."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

MARKUP = ("<|im_start|>", "<|im_end|>", "<tool_call>", "</tool_call>")
DICTIONARY: tuple[bytes, ...] = (
    *(name.encode() for name in MARKUP),
    *(bytes([byte]) for byte in range(32, 127)),
    b"\n",
    b"\xc3",
    b"\xa9",
)
END = DICTIONARY.index(b"<|im_end|>")
_PIECES = re.compile("(" + "|".join(map(re.escape, MARKUP)) + ")")


def ids(text: str, *, special: bool = True) -> list[int]:
    """A token a byte; with ``special`` one a name of markup."""
    found = []
    for piece in _PIECES.split(text) if special else [text]:
        whole = special and piece in MARKUP
        found += [DICTIONARY.index(part) for part in ([piece.encode()] if whole else _bytes(piece))]
    return found


def _bytes(text: str) -> list[bytes]:
    return [bytes([byte]) for byte in text.encode()]


ASSISTANT = "<|im_start|>assistant\n"


class WrittenEngine:
    """Prefers the tokens of its turns one after the other, each by ``margin`` over all others.

    ``turns``: what it writes behind the first token of the branch, and then behind each ``ASSISTANT`` that it reads;
    the last token of a turn again and again. ``changed``: what is done to a row of logits float32[columns] before it is
    returned, given how many were returned before.
    """

    def __init__(
        self,
        history: Sequence[int],
        *turns: str,
        room: int = 10_000,
        padding: int = 0,
        margin: float = 4.0,
        changed: Callable[[NDArray[np.float32], int], None] | None = None,
    ) -> None:
        self.history = list(history)
        self.turns = [ids(turn) for turn in turns]
        self.room = room
        self.padding = padding
        self.margin = margin
        self.changed = changed
        self.taken: list[int] = []
        """Tokens of the branch."""
        self._turn = 0
        self._place = -1
        self._reads = False

    def hold(self, tokens: Sequence[int], wanted: Sequence[int]) -> NDArray[np.float32]:
        raise AssertionError("the history of this engine is given to it")

    def branch(self, count: int) -> None:
        assert count == len(self.history)
        self.taken, self._turn, self._place, self._reads = [], 0, -1, False

    def append(self, token: int) -> NDArray[np.float32]:
        assert self.context_left > 0
        self.taken.append(token)
        opening = ids(ASSISTANT)
        if self._reads and self.taken[-len(opening) :] == opening:
            self._reads, self._turn, self._place = False, self._turn + 1, 0
        elif token == END:
            self._reads = True
        elif not self._reads:
            self._place += 1
        row = np.zeros(len(DICTIONARY) + self.padding, dtype=np.float32)
        turn = self.turns[min(self._turn, len(self.turns) - 1)]
        row[turn[min(self._place, len(turn) - 1)]] = self.margin
        row[len(DICTIONARY) :] = 50
        if self.changed is not None:
            self.changed(row, len(self.taken) - 1)
        return row

    def tokenize(self, text: str, *, special: bool = True) -> list[int]:
        return ids(text, special=special)

    @property
    def context_left(self) -> int:
        return self.room - len(self.taken)
