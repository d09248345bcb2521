"""Rollouts from an engine: so many tokens behind a prompt, chosen greedily or with common noise."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from drift_runs.errors import ConfigError, NonFiniteLogits
from drift_runs.generate.coupled import choose as choose_with
from drift_runs.generate.coupled import dictionary_logits, gumbel
from drift_runs.generate.listed import Listed, Row, best_of
from drift_runs.schema import ROLLOUTS


class Continues(Protocol):
    """The part of an engine that goes on from a history."""

    def start(self, tokens: Sequence[int]) -> Row: ...

    def append(self, token: int) -> Row: ...


Choose = Callable[[NDArray[np.float64], int], int]
"""From the logits of the dictionary's tokens float64[size], and the step from 0, to a token id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rolled:
    """What an engine wrote behind one prompt."""

    token_ids: tuple[int, ...]
    logprobs: tuple[float | None, ...]
    """Natural logarithm of each token's probability at temperature 1, over the dictionary; None of an end that a server
    did not name."""


def greedy(logits: NDArray[np.float64], step: int) -> int:
    """The largest logit, the lowest id on a tie."""
    return int(np.argmax(logits))


def sampled(*, seed: int, prompt: str, draw: int, temperature: float) -> Choose:
    """A choice at a temperature with the common noise of one prompt and draw. METRICS, Sampled drift."""

    def choice(logits: NDArray[np.float64], step: int) -> int:
        return choose_with(logits, temperature, gumbel(seed, prompt, draw, step, len(logits)))

    return choice


def roll(
    engine: Continues,
    ids: Sequence[int],
    *,
    tokens: int,
    choose: Choose = greedy,
    size: int | None = None,
    stop: Collection[int] = (),
) -> Rolled:
    """``tokens`` tokens behind the prompt ``ids``. An end token is an ordinary token: every rollout is as long.

    But one of ``stop`` is the last: there are servers that write nothing behind it.

    ``size``: entries of the dictionary, where the engine returns more columns; padding has no part in the choice nor
    in the log-probabilities. ``NonFiniteLogits`` with the step; ``ConfigError`` for no tokens.
    """
    if tokens < 1:
        raise ConfigError(f"a rollout of {tokens} tokens", expected="1 or more")
    token_ids: list[int] = []
    logprobs: list[float | None] = []
    row = engine.start(ids)
    while True:
        step = len(token_ids)
        if isinstance(row, Listed):
            token, logprob = _listed(row, choose, size)
        else:
            try:
                logits = dictionary_logits(row, len(row) if size is None else size)
            except NonFiniteLogits as error:
                raise NonFiniteLogits(error.what, where=f"step {step}, behind {len(ids) + step} tokens") from None
            token = choose(logits, step)
            logprob = _logprob(logits, token)
        token_ids.append(token)
        logprobs.append(logprob)
        if len(token_ids) == tokens or token in stop:
            return Rolled(token_ids=tuple(token_ids), logprobs=tuple(logprobs))
        row = engine.append(token)


def _listed(row: Listed, choose: Choose, size: int | None) -> tuple[int, float | None]:
    if choose is not greedy:
        raise ConfigError("common noise needs logits, and this engine lists entries", expected="greedy decoding")
    token = best_of(row, row.ids[0] + 1 if size is None else size)
    return token, row.best_logprob


def rolled_table(rolled: Iterable[tuple[str, Rolled]], dictionary: Sequence[bytes], *, run: int = 0) -> pa.Table:
    """Table ``ROLLOUTS`` of prompts by name and what was written behind each; ``run``: the number of the draw."""
    rows = [
        {
            "prompt": prompt,
            "run": run,
            # A token may end inside a character: the ids are what counts, the texts are for people.
            "tokens": [dictionary[token].decode("utf-8", "replace") for token in written.token_ids],
            "token_ids": list(written.token_ids),
            "logprobs": list(written.logprobs),
        }
        for prompt, written in rolled
    ]
    return pa.Table.from_pylist(rows, schema=ROLLOUTS)


def _logprob(logits: NDArray[np.float64], token: int) -> float:
    best = logits.max()
    # Not math.fsum: pairwise summation keeps 15 digits and costs a hundredth.
    return float(logits[token] - best - np.log(np.exp(logits - best).sum()))
