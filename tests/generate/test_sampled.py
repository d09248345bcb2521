"""Draws at a temperature: the mean over draws of every reading, prompts as clusters."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from drift_runs.errors import NotComparable
from drift_runs.generate.rollouts import Sides, compare_rollouts
from drift_runs.generate.sampled import compare_sampled
from drift_runs.measure.resampler import Resampler
from drift_runs.schema import ROLLOUTS


def draws(*rows: tuple[str, int, list[int]], logprob: float = -1.0) -> pa.Table:
    return pa.Table.from_pylist(
        [
            {
                "prompt": prompt,
                "run": run,
                "tokens": [str(token) for token in ids],
                "token_ids": ids,
                "logprobs": [logprob] * len(ids),
            }
            for prompt, run, ids in rows
        ],
        schema=ROLLOUTS,
    )


LEFT = draws(("p", 0, [5, 6, 7, 8]), ("q", 0, [5, 5, 1, 5]), ("p", 1, [9, 6, 7, 8]), ("q", 1, [4, 5, 6, 7]))
RIGHT = draws(
    ("q", 0, [5, 5, 1, 5]), ("p", 0, [5, 6, 0, 8]), ("p", 1, [1, 6, 7, 8]), ("q", 1, [4, 5, 6, 7]), logprob=-1.5
)


def test_by_hand():
    found = compare_sampled(LEFT, RIGHT, temperature=0.7, end_tokens=[1])
    assert (found.prompts, found.rollouts, found.tokens, found.compared_by) == (2, 4, 16, "id")
    assert (found.exact_count, found.prefix_tokens) == (2, 2 + 4 + 0 + 4)
    assert found.exact.value == 0.5 and found.exact.low is None
    assert found.prefix.value == (2 / 4 + 1 + 0 + 1) / 4
    assert found.agree.value == (3 / 4 + 1 + 3 / 4 + 1) / 4
    assert found.first == ((0, 1), (2, 1))
    assert found.early_stop == Sides(left=1, right=2, differ=1)
    assert found.loop == Sides(left=0, right=0, differ=0)
    assert (found.mean_abs_dlogprob_nats, found.logprobs) == (0.5, 10)
    assert compare_sampled(LEFT, RIGHT, temperature=0.7).early_stop is None


def test_one_draw_is_a_comparison_of_rollouts():
    left = LEFT.filter(pa.compute.equal(LEFT["run"], 1))
    right = RIGHT.filter(pa.compute.equal(RIGHT["run"], 1))
    resampler = Resampler(seed=3, resamples=300)
    found = compare_sampled(left, right, temperature=1.0, resampler=resampler)
    plain = compare_rollouts(left, right, run=1, resampler=resampler)
    for name in ("exact", "prefix", "agree", "exact_count", "first", "mean_abs_dlogprob_nats", "loop"):
        assert getattr(found, name) == getattr(plain, name)


def test_draws_of_a_prompt_are_one_cluster():
    generator = np.random.default_rng(8)
    rows = [(f"p{prompt}", draw, [prompt, 1, 2, 3]) for prompt in range(30) for draw in range(4)]
    spoilt = [(name, draw, ids if int(name[1:]) % 3 else [99, *ids[1:]]) for name, draw, ids in rows]
    left, right = draws(*rows), draws(*spoilt)
    found = compare_sampled(left, right, temperature=1.0, resampler=Resampler(seed=1, resamples=2000))
    assert found.exact.value == pytest.approx(2 / 3)
    # All draws of a prompt say the same, so 120 rollouts tell as much as 30 prompts.
    counts = generator.multinomial(30, [1 / 30] * 30, size=20_000)
    means = counts @ np.array([bool(prompt % 3) for prompt in range(30)]) / 30
    low, high = np.quantile(means, [0.025, 0.975])
    assert (found.exact.low, found.exact.high) == pytest.approx((low, high), abs=0.035)
    assert found.exact.standard_error == pytest.approx(np.sqrt(2 / 9 / 29), rel=1e-9)


@pytest.mark.parametrize(
    ("right", "words"),
    [
        (draws(("p", 0, [1]), ("q", 0, [1])), "draws 0, 1 on the left side and 0 on the right"),
        (ROLLOUTS.empty_table(), "draws 0, 1 on the left side and none on the right"),
    ],
)
def test_other_draws_are_not_compared(right: pa.Table, words: str):
    with pytest.raises(NotComparable, match=words):
        compare_sampled(LEFT, right, temperature=0.7)


def test_other_prompts_are_not_compared():
    rows = (("p", 0, [1]), ("q", 1, [1]))
    with pytest.raises(NotComparable, match="draw 1 has other prompts than draw 0"):
        compare_sampled(draws(*rows), draws(*rows), temperature=0.7)
    with pytest.raises(NotComparable, match="lacks the prompt"):
        compare_sampled(LEFT, draws(("p", 0, [1]), ("p", 1, [1])), temperature=0.7)
