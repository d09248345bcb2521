"""A language model that is a table: what it writes after which history, letter by letter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from drift_runs.engines.base import ScoredBlock

START, END = b"<|im_start|>", b"<|im_end|>"


class Scripted:
    """Stands in for the engine. ``writes``: a history's last words to what follows them; else it writes ``~``."""

    model_file = Path("scripted")

    def __init__(self, writes: Mapping[str, str]) -> None:
        self.table = [START, END, *(bytes([code]) for code in (9, 10, *range(32, 127)))]
        self._ids = {token: at for at, token in enumerate(self.table)}
        self._writes = writes
        self._history: list[int] = []
        self.read_tokens = 0

    def token_bytes(self) -> list[bytes]:
        return self.table

    def tokenize(self, text: str, *, special: bool = True) -> list[int]:
        found, rest = [], text.encode("ascii")
        while rest:
            token = next((name for name in (START, END) if special and rest.startswith(name)), rest[:1])
            found.append(self._ids[token])
            rest = rest[len(token) :]
        return found

    def ends_generation(self, token: int) -> bool:
        return token == 1

    def score(self, tokens: Sequence[int], positions: Sequence[int]) -> Iterator[ScoredBlock]:
        self._history = list(tokens[: positions[-1]])
        self.read_tokens += len(self._history)
        rows = np.stack([self._row(tokens[:position]) for position in positions])
        yield ScoredBlock(np.asarray(positions, dtype=np.int32), rows)

    def rewind(self, count: int) -> None:
        assert 1 <= count <= len(self._history)
        self._history = self._history[:count]

    def append(self, token: int) -> NDArray[np.float32]:
        self._history.append(token)
        self.read_tokens += 1
        return self._row(self._history)

    def _row(self, history: Sequence[int]) -> NDArray[np.float32]:
        text = b"".join(self.table[token] for token in history).decode()
        logits = np.zeros(len(self.table), dtype=np.float32)
        logits[self.tokenize(self._next(text))[0]] = 1
        return logits

    def _next(self, text: str) -> str:
        for given, written in self._writes.items():
            _before, found, tail = text.rpartition(given)
            if found and written.startswith(tail):
                return written[len(tail) :] or "~"
        return "~"
