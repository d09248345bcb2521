"""Common noise: a draw of softmax, the same on both sides, and a function of its place alone."""

from __future__ import annotations

import hashlib
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from drift_runs.errors import ConfigError, NonFiniteLogits
from drift_runs.generate.coupled import choose, gumbel

LOW_64 = 2**64 - 1


def philox(key: tuple[int, int], counter: tuple[int, int, int, int]) -> tuple[int, ...]:
    """Philox 4x64 with 10 rounds in whole numbers (Salmon et al. 2011)."""
    a, b, c, d = counter
    k, m = key
    for _ in range(10):
        high_a, low_a = divmod(a * 0xD2E7470EE14C6C93, 2**64)
        high_c, low_c = divmod(c * 0xCA5A826395121157, 2**64)
        a, b, c, d = high_c ^ b ^ k, low_c, high_a ^ d ^ m, low_a
        k, m = (k + 0x9E3779B97F4A7C15) & LOW_64, (m + 0xBB67AE8584CAA73B) & LOW_64
    return a, b, c, d


def by_hand(seed: int, prompt: str, draw: int, step: int, token: int) -> float:
    """The number of one token, as the docstring says it."""
    digest = hashlib.sha256(f"drift.gumbel/1\n{seed}\n{draw}\n{prompt}".encode()).digest()
    key = int.from_bytes(digest[:8], "little"), int.from_bytes(digest[8:16], "little")
    word = philox(key, (token // 4 + 1, step, 0, 0))[token % 4]
    return -math.log(-math.log(((word >> 12) + 0.5) / 2**52))


def softmax(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    mass = np.exp(logits - logits.max())
    return mass / mass.sum()


@pytest.mark.parametrize(
    ("seed", "prompt", "draw", "step"), [(0, "p", 0, 0), (7, "", 2, 31), (2**40, "Wie spät?\nJetzt", 63, 5000)]
)
def test_every_number_is_the_function_of_its_place_that_is_described(seed: int, prompt: str, draw: int, step: int):
    found = gumbel(seed, prompt, draw, step, 41)
    assert found.dtype == np.float64
    for token in (0, 1, 3, 4, 17, 40):
        assert found[token] == pytest.approx(by_hand(seed, prompt, draw, step, token), rel=1e-14)


@settings(deadline=None)
@given(st.integers(0, 2**63), st.text(max_size=8), st.integers(0, 63), st.integers(0, 300), st.integers(1, 500))
def test_the_numbers_are_finite_and_do_not_depend_on_the_size(seed, prompt, draw, step, size):
    whole = gumbel(seed, prompt, draw, step, 500)
    assert np.isfinite(whole).all()
    assert np.array_equal(gumbel(seed, prompt, draw, step, size), whole[:size])


def test_the_ends_of_the_uniform_numbers_are_finite():
    for word in (0, LOW_64):
        uniform = ((word >> 12) + 0.5) / 2**52
        assert 0 < uniform < 1 and math.isfinite(-math.log(-math.log(uniform)))


def test_no_part_of_the_key_is_forgotten():
    places = [(0, "p", 0, 0), (1, "p", 0, 0), (0, "q", 0, 0), (0, "p", 1, 0), (0, "p", 0, 1), (0, "0\np", 0, 0)]
    assert len({gumbel(*place, 4).tobytes() for place in places}) == len(places)


def test_the_draws_are_those_of_softmax():
    logits = np.array([2.0, 1.0, 0.0, -1.0, 0.5, -np.inf], dtype=np.float32)
    for temperature in (0.7, 1.5):
        expected = softmax(logits.astype(np.float64) / temperature)
        steps = 20_000
        drawn = [choose(logits, temperature, gumbel(11, "chi", 0, step, 6)) for step in range(steps)]
        counts = np.bincount(drawn, minlength=6)
        assert counts[5] == 0
        statistic = ((counts[:5] - steps * expected[:5]) ** 2 / (steps * expected[:5])).sum()
        assert statistic < 18.47  # 4 degrees of freedom, 0.1 %


def test_steps_and_tokens_are_not_related():
    table = np.stack([gumbel(3, "p", 0, step, 64) for step in range(512)])
    assert abs(np.corrcoef(table[:-1].ravel(), table[1:].ravel())[0, 1]) < 0.02
    assert abs(np.corrcoef(table[:, :-1].ravel(), table[:, 1:].ravel())[0, 1]) < 0.02
    assert table.mean() == pytest.approx(np.euler_gamma, abs=0.03)
    assert table.var() == pytest.approx(math.pi**2 / 6, rel=0.03)


def common_agreement(p: NDArray[np.float64], q: NDArray[np.float64]) -> float:
    """Chance that common noise chooses alike: exponential clocks, of which i must win on both sides."""
    ratio = np.maximum(p[None, :] / p[:, None], q[None, :] / q[:, None])
    return float((1 / ratio.sum(axis=1)).sum())


def uniform_agreement(p: NDArray[np.float64], q: NDArray[np.float64]) -> float:
    """Chance that one uniform number through both cumulated distributions chooses alike."""
    ends, others = np.cumsum(p), np.cumsum(q)
    low = np.maximum(np.r_[0, ends[:-1]], np.r_[0, others[:-1]])
    return float(np.maximum(np.minimum(ends, others) - low, 0).sum())


def test_near_rows_choose_alike_far_more_often_than_with_other_dice():
    generator = np.random.default_rng(5)
    reference = generator.normal(0, 2, 2000)
    candidate = reference + generator.normal(0, 0.05, 2000)
    p, q = softmax(reference), softmax(candidate)
    steps = 1500
    differ = 0
    for step in range(steps):
        noise = gumbel(1, "near", 0, step, 2000)
        differ += choose(reference, 1.0, noise) != choose(candidate, 1.0, noise)
    expected = 1 - common_agreement(p, q)
    assert differ / steps == pytest.approx(expected, abs=4 * math.sqrt(expected / steps))
    assert 1 - uniform_agreement(p, q) > 10 * expected
    assert 1 - float(p @ q) > 15 * expected


@settings(deadline=None)
@given(st.lists(st.floats(-20, 20, width=32), min_size=1, max_size=40), st.floats(0.05, 5), st.integers(0, 99))
def test_equal_logits_choose_alike_and_padding_changes_nothing(values, temperature, step):
    logits = np.array(values, dtype=np.float32)
    noise = gumbel(1, "p", 0, step, len(logits))
    chosen = choose(logits, temperature, noise)
    assert choose(logits.copy(), temperature, gumbel(1, "p", 0, step, len(logits))) == chosen
    assert choose(np.append(logits, np.float32([1e9, np.nan])), temperature, noise) == chosen
    assert choose(logits + np.float32(0), temperature, noise) == chosen


def test_the_lowest_id_wins_a_tie():
    assert choose(np.zeros(5, dtype=np.float32), 1.0, np.zeros(5)) == 0
    assert choose(np.array([0, 1, 1], dtype=np.float32), 0.5, np.array([0.0, 0.25, 0.25])) == 1


def test_a_small_temperature_is_greedy_in_the_end():
    logits = np.array([0.0, 3.0, 2.9], dtype=np.float32)
    assert {choose(logits, 1e-3, gumbel(1, "p", 0, step, 3)) for step in range(200)} == {1}


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_logits_that_are_none_are_refused(bad: float):
    with pytest.raises(NonFiniteLogits):
        choose(np.array([0, bad, 1], dtype=np.float32), 1.0, np.zeros(3))


def test_what_else_is_refused():
    with pytest.raises(NonFiniteLogits, match="no token"):
        choose(np.full(3, -np.inf, dtype=np.float32), 1.0, np.zeros(3))
    with pytest.raises(ConfigError, match="2 logits"):
        choose(np.zeros(2, dtype=np.float32), 1.0, np.zeros(3))
    for temperature in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(ConfigError, match="temperature"):
            choose(np.zeros(3, dtype=np.float32), temperature, np.zeros(3))
    with pytest.raises(ConfigError, match="draw -1"):
        gumbel(0, "p", -1, 0, 3)
