"""Greedy rollouts of two arms from the same prompts: how far they agree. METRICS, Divergence-300 @32.

No published formula exists for the figure of that name, so every reading is given: ``rollout.exact``,
``rollout.prefix``, ``rollout.agree`` and ``rollout.first``. Beside them stands what a rate of agreement hides: in how
many rollouts of each side an end token was written early, and in how many the text repeats itself.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from drift_runs.errors import NotComparable
from drift_runs.generate.loops import loop_report
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
    left_stop: int | None = None
    """Step of the first end token; None: none was written, or end tokens are not known."""
    right_stop: int | None = None
    left_loops: bool = False
    """It repeats itself before its first end token: behind one, what is written has no meaning."""
    right_loops: bool = False

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
class Sides:
    """In how many rollouts of each side something was found."""

    left: int
    right: int
    differ: int
    """Pairs of rollouts of which it is not told alike."""

    def __add__(self, other: Sides) -> Sides:
        return Sides(left=self.left + other.left, right=self.right + other.right, differ=self.differ + other.differ)


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
    loop: Sides
    """Rollouts that repeat themselves, see ``loops``; ``differ``: one of the two does."""
    early_stop: Sides | None = None
    """Rollouts with an end token, which is an ordinary token in them; ``differ``: the first ones stand at different
    steps, or one side has none. None: end tokens or ids are not known."""

    @property
    def tokens(self) -> int:
        """Steps of all prompts, each as long as its longer side."""
        return sum(item.length_tokens for item in self.prompts)


def compare_rollouts(
    left: pa.Table,
    right: pa.Table,
    *,
    run: int = 0,
    resampler: Resampler | None = None,
    end_tokens: Collection[int] = (),
) -> RolloutComparison:
    """Two tables of schema ``ROLLOUTS``, the rollouts of one ``run``, in the order of ``left``'s prompts.

    Intervals are cluster bootstraps over prompts, given when there is a ``resampler`` and more than one prompt.
    ``end_tokens``: ids that end a turn; without them, or where a side gives no ids, early stops are not counted.
    ``NotComparable`` unless the prompts of both sides match one to one. Where one side writes nothing behind an end
    token, hand both of them over as :func:`up_to_end` cuts them.
    """
    ours, theirs = _by_prompt(left, run, "left"), _by_prompt(right, run, "right")
    reasons = prompt_reasons(tuple(ours), tuple(theirs))
    if reasons:
        raise NotComparable("; ".join(reasons), where=f"rollouts of run {run}", expected="the same prompts")
    by_id = all(row["token_ids"] is not None for rows in (ours, theirs) for row in rows.values())
    prompts, gaps, excluded = [], [], 0
    for prompt, one in ours.items():
        other = theirs[prompt]
        found = _agreement(prompt, one, other, "token_ids" if by_id else "tokens", end_tokens if by_id else ())
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
    exact, prefix, agree = shares_over_prompts(shares, resampler)
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
        loop=_sides([(item.left_loops, item.right_loops) for item in prompts]),
        early_stop=_stops(prompts) if by_id and end_tokens else None,
    )


def up_to_end(rollouts: pa.Table, ends: Collection[str]) -> pa.Table:
    """A table of schema ``ROLLOUTS`` with each rollout as far as its first end token, that included.

    ``ends``: what end tokens say.
    """
    rows = []
    for row in rollouts.to_pylist():
        if (step := first_end(row["tokens"], ends)) is not None:
            lists = {name: row[name] for name in ("tokens", "token_ids", "logprobs") if row[name] is not None}
            row |= {name: values[: step + 1] for name, values in lists.items()}
        rows.append(row)
    return pa.Table.from_pylist(rows, schema=rollouts.schema)


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


def first_end(tokens: Sequence[object], end_tokens: Collection[object]) -> int | None:
    """Step of the first end token, from 0; None where there is none."""
    return next((step for step, token in enumerate(tokens) if token in end_tokens), None)


def _stops(prompts: Sequence[PromptAgreement]) -> Sides:
    return Sides(
        left=sum(item.left_stop is not None for item in prompts),
        right=sum(item.right_stop is not None for item in prompts),
        differ=sum(item.left_stop != item.right_stop for item in prompts),
    )


def _sides(found: Sequence[tuple[bool, bool]]) -> Sides:
    return Sides(
        left=sum(one for one, _ in found),
        right=sum(other for _, other in found),
        differ=sum(one != other for one, other in found),
    )


def _loops(tokens: Sequence[object]) -> bool:
    """Ids or texts: what repeats is the same under any names."""
    number = {token: at for at, token in enumerate(dict.fromkeys(tokens))}
    return loop_report([number[token] for token in tokens]).is_loop


def _agreement(prompt: str, one: dict, other: dict, column: str, end_tokens: Collection[int]) -> PromptAgreement:
    left, right = one[column], other[column]
    same = [a == b for a, b in zip(left, right, strict=False)]
    left_stop, right_stop = first_end(left, end_tokens), first_end(right, end_tokens)
    return PromptAgreement(
        prompt=prompt,
        left_tokens=len(left),
        right_tokens=len(right),
        prefix_tokens=same.index(False) if False in same else len(same),
        agreeing_tokens=sum(same),
        left_stop=left_stop,
        right_stop=right_stop,
        left_loops=_loops(left[:left_stop]),
        right_loops=_loops(right[:right_stop]),
    )


def _differences(left: list | None, right: list | None, count: int) -> list[float]:
    """|difference| of the first ``count`` log-probabilities, where both sides know one."""
    if left is None or right is None:
        return []
    pairs = zip(left[:count], right[:count], strict=True)
    return [abs(a - b) for a, b in pairs if a is not None and b is not None and math.isfinite(a - b)]


def shares_over_prompts(shares: NDArray[np.float64], resampler: Resampler | None) -> list[Share]:
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
