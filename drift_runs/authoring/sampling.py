"""Draw a continuation token by token: greedy, or seeded sampling over the full distribution."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from drift_runs.errors import NonFiniteLogits


class Continues(Protocol):
    """The part of an engine that goes on from a history."""

    def start(self, tokens: Sequence[int]) -> NDArray[np.float32]: ...

    def append(self, token: int) -> NDArray[np.float32]: ...


def window_generator(seed: int, window: str) -> np.random.Generator:
    """A generator of its own for each window, so that recording one again changes no other."""
    key = int.from_bytes(hashlib.sha256(window.encode("utf-8")).digest()[:8], "big")
    return np.random.default_rng([seed, key])


def draw(logits: NDArray[np.float32], generator: np.random.Generator, *, temperature: float, top_p: float = 1.0) -> int:
    """One token id from raw logits float32[V].

    Temperature 0 takes the largest logit, the lowest id on a tie. Otherwise: softmax(logits / temperature) in float64,
    cut to the smallest set of best tokens whose mass is ``top_p`` or more (order by mass, then id), one uniform number
    through the inverse of the cumulated mass in that order.
    """
    if temperature == 0:
        return int(np.argmax(logits))
    scaled = logits.astype(np.float64) / temperature
    mass = np.exp(scaled - scaled.max())
    mass /= mass.sum()
    order = np.lexsort((np.arange(len(mass)), -mass))
    cumulated = np.cumsum(mass[order])
    kept = min(int(np.searchsorted(cumulated, top_p)) + 1, len(order))
    chosen = int(np.searchsorted(cumulated[:kept], generator.random() * cumulated[kept - 1], side="right"))
    return int(order[min(chosen, kept - 1)])


def continue_from(
    engine: Continues,
    prompt: Sequence[int],
    generator: np.random.Generator,
    *,
    most_tokens: int,
    temperature: float,
    top_p: float = 1.0,
    masked: Collection[int] = (),
    ends: Callable[[int], bool] = lambda _token: False,
    progress: Callable[[int], None] = lambda _done: None,
) -> list[int]:
    """Up to ``most_tokens`` ids after ``prompt``; a token for which ``ends`` holds is kept and is the last.

    ``masked`` ids are never drawn. ``progress`` is called with the number of tokens so far.

    Raises ``NonFiniteLogits`` with the position.
    """
    never = np.asarray(sorted(masked), dtype=np.int64)
    written: list[int] = []
    logits = engine.start(prompt)
    while True:
        if not np.all(np.isfinite(logits)):
            raise NonFiniteLogits("a logit is NaN or infinite", where=f"position {len(prompt) + len(written)}")
        if never.size:
            logits = logits.copy()
            logits[never] = -np.inf
        token = draw(logits, generator, temperature=temperature, top_p=top_p)
        written.append(token)
        progress(len(written))
        if len(written) == most_tokens or ends(token):
            return written
        logits = engine.append(token)
