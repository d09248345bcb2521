"""Decoding at a temperature with common noise, two arms side by side: how far they agree. METRICS, Sampled drift.

The readings are those of greedy rollouts, each the mean over the draws. The draws of one prompt share its text, so a
prompt with all of its draws is one cluster.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from drift_runs.errors import NotComparable
from drift_runs.generate.rollouts import RolloutComparison, Share, Sides, compare_rollouts, shares_over_prompts
from drift_runs.measure.resampler import Resampler


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledComparison:
    """Both arms' draws at one temperature. Counts are over prompts and draws."""

    temperature: float
    draws: tuple[RolloutComparison, ...]
    """One a draw, without intervals."""
    exact: Share
    prefix: Share
    agree: Share
    """Means over draws and prompts, with intervals over prompts."""

    @property
    def prompts(self) -> int:
        return len(self.draws[0].prompts)

    @property
    def rollouts(self) -> int:
        """Pairs that were compared."""
        return self.prompts * len(self.draws)

    @property
    def compared_by(self) -> str:
        return "id" if all(draw.compared_by == "id" for draw in self.draws) else "text"

    @property
    def exact_count(self) -> int:
        return sum(draw.exact_count for draw in self.draws)

    @property
    def prefix_tokens(self) -> int:
        return sum(draw.prefix_tokens for draw in self.draws)

    @property
    def tokens(self) -> int:
        return sum(draw.tokens for draw in self.draws)

    @property
    def first(self) -> tuple[tuple[int, int], ...]:
        """(step from 0, pairs) at which the first difference stands."""
        counts: Counter[int] = Counter()
        for draw in self.draws:
            counts.update(dict(draw.first))
        return tuple(sorted(counts.items()))

    @property
    def logprobs(self) -> int:
        return sum(draw.logprobs for draw in self.draws)

    @property
    def logprobs_excluded(self) -> int:
        return sum(draw.logprobs_excluded for draw in self.draws)

    @property
    def mean_abs_dlogprob_nats(self) -> float | None:
        """Over the tokens of all equal prefixes; None where no log-probability is known."""
        sums = [draw.mean_abs_dlogprob_nats * draw.logprobs for draw in self.draws if draw.mean_abs_dlogprob_nats]
        return math.fsum(sums) / self.logprobs if self.logprobs else None

    @property
    def loop(self) -> Sides:
        return sum((draw.loop for draw in self.draws), Sides(left=0, right=0, differ=0))

    @property
    def early_stop(self) -> Sides | None:
        found = [draw.early_stop for draw in self.draws if draw.early_stop is not None]
        return sum(found, Sides(left=0, right=0, differ=0)) if len(found) == len(self.draws) else None


def compare_sampled(
    left: pa.Table,
    right: pa.Table,
    *,
    temperature: float,
    resampler: Resampler | None = None,
    end_tokens: Collection[int] = (),
) -> SampledComparison:
    """Two tables of schema ``ROLLOUTS`` of one temperature, whose runs are the draws.

    ``NotComparable`` unless both sides have the same draws, every draw the same prompts.
    """
    numbers = sorted(set(left["run"].to_pylist()))
    others = sorted(set(right["run"].to_pylist()))
    where = f"sampled decoding at temperature {temperature:g}"
    if numbers != others or not numbers:
        raise NotComparable(
            f"draws {_listed(numbers)} on the left side and {_listed(others)} on the right",
            where=where,
            expected="the same draws, one or more",
        )
    draws = tuple(compare_rollouts(left, right, run=number, end_tokens=end_tokens) for number in numbers)
    prompts = {item.prompt: at for at, item in enumerate(draws[0].prompts)}
    sums = np.zeros((len(prompts), 3))
    for number, draw in zip(numbers, draws, strict=True):
        if {item.prompt for item in draw.prompts} != set(prompts):
            raise NotComparable(f"draw {number} has other prompts than draw {numbers[0]}", where=where)
        for item in draw.prompts:
            length = item.length_tokens
            sums[prompts[item.prompt]] += [item.exact, item.prefix_tokens / length, item.agreeing_tokens / length]
    exact, prefix, agree = shares_over_prompts(sums / len(draws), resampler)
    return SampledComparison(temperature=temperature, draws=draws, exact=exact, prefix=prefix, agree=agree)


def _listed(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers)) or "none"
