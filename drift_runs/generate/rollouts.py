"""Greedy rollouts of two arms from the same prompts: how far they agree. METRICS, Divergence-300 @32.

No published formula exists for the figure of that name, so every reading is given: ``rollout.exact``,
``rollout.prefix``, ``rollout.agree`` and ``rollout.first``.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from drift_runs.errors import NotComparable
from drift_runs.measure.intervals import intervals_of_sums
from drift_runs.measure.resampler import Resampler


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptAgreement:
    """One prompt's two rollouts."""

    prompt: str
    left_tokens: int
    right_tokens: int
    prefix_tokens: int
    """Equal tokens from the start."""
    agreeing_tokens: int
    """Steps at which both have the same token."""

    @property
    def length_tokens(self) -> int:
        """Of the longer one: a step that one side does not have is a difference."""
        return max(self.left_tokens, self.right_tokens)

    @property
    def exact(self) -> bool:
        """Every token equal, and the same number of them: a different length is a divergence."""
        return self.left_tokens == self.right_tokens == self.prefix_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """A share of prompts, or a mean of shares, with its interval over prompts."""

    value: float
    low: float | None
    high: float | None
    bca_low: float | None
    bca_high: float | None
    standard_error: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutComparison:
    """Both arms' rollouts of one run."""

    run: int
    compared_by: str
    """``id`` where both sides give token ids, else ``text``: two ids with one text then count as equal."""
    prompts: tuple[PromptAgreement, ...]
    exact_count: int
    exact: Share
    prefix_tokens: int
    """Sum of the equal prefixes."""
    prefix: Share
    """Mean over prompts of prefix / length."""
    agree: Share
    """Mean over prompts of the share of equal steps."""
    first: tuple[tuple[int, int], ...]
    """(step from 0, prompts) at which the first difference stands; exact prompts are in none."""
    mean_abs_dlogprob_nats: float | None
    """Mean |difference| of the log-probabilities of the tokens of the equal prefixes; None where none is known."""
    logprobs: int
    """Tokens that this is the mean of."""
    logprobs_excluded: int
    """Tokens of the equal prefixes that have no log-probability on either side."""

    @property
    def tokens(self) -> int:
        """Steps of all prompts, each as long as its longer side."""
        return sum(item.length_tokens for item in self.prompts)


def compare_rollouts(
    left: pa.Table, right: pa.Table, *, run: int = 0, resampler: Resampler | None = None
) -> RolloutComparison:
    """Two tables of schema ``ROLLOUTS``, the rollouts of one ``run``, in the order of ``left``'s prompts.

    Intervals are cluster bootstraps over prompts, given when there is a ``resampler`` and more than one prompt.
    ``NotComparable`` unless the prompts of both sides match one to one.
    """
    ours, theirs = _by_prompt(left, run, "left"), _by_prompt(right, run, "right")
    reasons = prompt_reasons(tuple(ours), tuple(theirs))
    if reasons:
        raise NotComparable("; ".join(reasons), where=f"rollouts of run {run}", expected="the same prompts")
    by_id = all(row["token_ids"] is not None for rows in (ours, theirs) for row in rows.values())
    prompts, gaps, excluded = [], [], 0
    for prompt, one in ours.items():
        other = theirs[prompt]
        found = _agreement(prompt, one, other, "token_ids" if by_id else "tokens")
        prompts.append(found)
        known = _differences(one["logprobs"], other["logprobs"], found.prefix_tokens)
        gaps += known
        excluded += found.prefix_tokens - len(known)
    shares = np.array(
        [
            [item.exact, item.prefix_tokens / item.length_tokens, item.agreeing_tokens / item.length_tokens]
            for item in prompts
        ],
        dtype=np.float64,
    )
    exact, prefix, agree = _shares(shares, resampler)
    firsts = Counter(item.prefix_tokens for item in prompts if not item.exact)
    return RolloutComparison(
        run=run,
        compared_by="id" if by_id else "text",
        prompts=tuple(prompts),
        exact_count=sum(item.exact for item in prompts),
        exact=exact,
        prefix_tokens=sum(item.prefix_tokens for item in prompts),
        prefix=prefix,
        agree=agree,
        first=tuple(sorted(firsts.items())),
        mean_abs_dlogprob_nats=math.fsum(gaps) / len(gaps) if gaps else None,
        logprobs=len(gaps),
        logprobs_excluded=excluded,
    )


def prompt_reasons(left: tuple[str, ...], right: tuple[str, ...]) -> tuple[str, ...]:
    """Why two lists of prompts do not match one to one; empty when they do, in whatever order."""
    reasons = []
    for side, missing in (
        ("left", [p for p in right if p not in set(left)]),
        ("right", [p for p in left if p not in set(right)]),
    ):
        if missing:
            more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
            reasons.append(f"the {side} side lacks the prompt {missing[0][:60]!r}{more}")
    return tuple(reasons)


def _by_prompt(table: pa.Table, run: int, side: str) -> dict[str, dict]:
    rows = table.filter(pc.equal(table["run"], run)).to_pylist()
    if not rows:
        runs = sorted(set(table["run"].to_pylist()))
        raise NotComparable(
            f"the {side} side has no run {run}", expected=f"one of {', '.join(map(str, runs))}" if runs else "a rollout"
        )
    found: dict[str, dict] = {}
    for row in rows:
        if row["prompt"] in found:
            raise NotComparable(f"the {side} side has the prompt {row['prompt'][:60]!r} twice in run {run}")
        if not row["tokens"]:
            raise NotComparable(f"the {side} side has no token after {row['prompt'][:60]!r}", expected="a rollout")
        found[row["prompt"]] = row
    return found


def _agreement(prompt: str, one: dict, other: dict, column: str) -> PromptAgreement:
    left, right = one[column], other[column]
    same = [a == b for a, b in zip(left, right, strict=False)]
    return PromptAgreement(
        prompt=prompt,
        left_tokens=len(left),
        right_tokens=len(right),
        prefix_tokens=same.index(False) if False in same else len(same),
        agreeing_tokens=sum(same),
    )


def _differences(left: list | None, right: list | None, count: int) -> list[float]:
    """|difference| of the first ``count`` log-probabilities, where both sides know one."""
    if left is None or right is None:
        return []
    pairs = zip(left[:count], right[:count], strict=True)
    return [abs(a - b) for a, b in pairs if a is not None and b is not None and math.isfinite(a - b)]


def _shares(shares: np.ndarray, resampler: Resampler | None) -> list[Share]:
    """Means of the columns of float64[prompts, m]; every prompt is a cluster."""
    means = shares.mean(axis=0)
    nothing = np.full(len(means), np.nan)
    ends = [nothing] * 5
    if resampler is not None and len(shares) > 1:
        found = intervals_of_sums(shares, np.ones_like(shares), resampler)
        ends = [*found.percentile, *found.bca, found.standard_error]
    return [
        Share(
            value=float(means[at]),
            **{
                name: float(end[at]) if np.isfinite(end[at]) else None
                for name, end in zip(("low", "high", "bca_low", "bca_high", "standard_error"), ends, strict=True)
            },
        )
        for at in range(len(means))
    ]
