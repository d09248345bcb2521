"""Rank correlations: known answers, naive ones, and a bootstrap that is the one of written-out resamples."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drift_runs.generate.ranks import RankSums, resampled, resampled_sums, spearman
from drift_runs.measure.agreement import kendall_tau
from drift_runs.measure.resampler import Resampler

NUMBERS = st.integers(-3, 3).map(float)


def mid_ranks(values: np.ndarray) -> np.ndarray:
    return np.array([(values < one).sum() + ((values == one).sum() + 1) / 2 for one in values])


def naive_spearman(x: np.ndarray, y: np.ndarray) -> float:
    left, right = mid_ranks(x), mid_ranks(y)
    if (left == left[0]).all() or (right == right[0]).all():
        return np.nan
    return float(np.corrcoef(left, right)[0, 1])


def naive_tau(x: np.ndarray, y: np.ndarray) -> float:
    agree = in_x = in_y = 0
    for one, other in combinations(range(len(x)), 2):
        by_x, by_y = np.sign(x[one] - x[other]), np.sign(y[one] - y[other])
        agree, in_x, in_y = agree + by_x * by_y, in_x + abs(by_x), in_y + abs(by_y)
    return agree / np.sqrt(in_x * in_y) if in_x and in_y else np.nan


def test_known_answers():
    """By hand: ranks 1 2 3 4 against 2 1 4 3 have squared differences of 4 in all: 1 - 6 * 4 / 60."""
    assert spearman(np.arange(4.0), np.array([2.0, 1, 4, 3])) == pytest.approx(0.6)
    assert spearman(np.arange(5.0), np.arange(5.0) ** 3) == pytest.approx(1)
    assert spearman(np.arange(5.0), -np.arange(5.0)) == pytest.approx(-1)
    # Failures at the two largest of four: mid-ranks 1.5 1.5 3.5 3.5, covariance 4 over sqrt(5 * 4).
    assert spearman(np.arange(4.0), np.array([0.0, 0, 1, 1])) == pytest.approx(4 / np.sqrt(20))


@pytest.mark.parametrize("x", [[], [1.0], [2.0, 2.0, 2.0]])
def test_where_there_is_no_order(x):
    assert spearman(np.array(x), np.arange(float(len(x)))) is None
    assert spearman(np.arange(float(len(x))), np.array(x)) is None


def test_what_is_not_finite_is_refused():
    with pytest.raises(ValueError, match="finite"):
        spearman(np.array([1.0, np.nan]), np.array([1.0, 2.0]))


@settings(deadline=None)
@given(st.lists(st.tuples(NUMBERS, NUMBERS), min_size=2, max_size=12))
def test_the_naive_ones(drawn):
    x, y = np.array(drawn).T
    one = np.ones((1, 1))
    sums = RankSums(x, y, np.zeros(len(x), dtype=np.int32), 1)
    assert sums.spearmans(one)[0] == pytest.approx(naive_spearman(x, y), nan_ok=True)
    assert sums.taus(one)[0] == pytest.approx(naive_tau(x, y), nan_ok=True)
    tau = kendall_tau(x, y)
    assert sums.taus(one)[0] == pytest.approx(np.nan if tau is None else tau, nan_ok=True)


@settings(deadline=None)
@given(st.lists(st.tuples(NUMBERS, NUMBERS, st.integers(0, 3)), min_size=2, max_size=10), st.integers(0, 99))
def test_a_resample_is_its_clusters_written_out(drawn, seed):
    x, y, index = (np.array(column) for column in zip(*drawn, strict=True))
    counts = np.random.default_rng(seed).multinomial(4, [0.25] * 4, size=5).astype(float)
    sums = RankSums(x, y, index.astype(np.int32), 4)
    taus, rhos = sums.taus(counts), sums.spearmans(counts)
    for at, drawn_counts in enumerate(counts):
        copies = drawn_counts[index].astype(int)
        left, right = np.repeat(x, copies), np.repeat(y, copies)
        assert taus[at] == pytest.approx(naive_tau(left, right), nan_ok=True)
        expected = naive_spearman(left, right) if len(left) else np.nan
        assert rhos[at] == pytest.approx(expected, nan_ok=True)


@settings(deadline=None)
@given(st.lists(st.tuples(NUMBERS, NUMBERS), min_size=2, max_size=10))
def test_only_the_order_counts(drawn):
    x, y = np.array(drawn).T
    found = spearman(x, y)
    assert spearman(np.exp(x) * 1e-300, y) == pytest.approx(found)
    assert spearman(y, x) == pytest.approx(found)
    assert spearman(-x, y) == (None if found is None else pytest.approx(-found))


def test_the_interval_over_clusters_is_the_one_of_written_out_resamples():
    generator = np.random.default_rng(5)
    index = np.repeat(np.arange(6), 3).astype(np.int32)
    x, y = generator.normal(size=18) + index, (generator.random(18) < 0.5).astype(float)
    resampler = Resampler(seed=11, resamples=200)
    tau, rho = resampled(x, y, index, 6, resampler)
    drawn = np.random.default_rng(11).integers(0, 6, (200, 6))
    written = [np.concatenate([np.flatnonzero(index == cluster) for cluster in row]) for row in drawn]
    taus = np.array([naive_tau(x[row], y[row]) for row in written])
    rhos = np.array([naive_spearman(x[row], y[row]) for row in written])
    assert (tau.low, tau.high) == pytest.approx(np.nanquantile(taus, [0.025, 0.975]))
    assert (rho.low, rho.high) == pytest.approx(np.nanquantile(rhos, [0.025, 0.975]))
    assert tau.undefined == int(np.isnan(taus).sum())


def test_over_arms_the_sums_are_made_anew():
    generator = np.random.default_rng(6)
    x, y = generator.integers(0, 5, (7, 4)).astype(float), generator.integers(0, 3, (7, 4)).astype(float)
    resampler = Resampler(seed=12, resamples=200)
    tau, rho = resampled_sums(x, y, resampler)
    drawn = np.random.default_rng(12).integers(0, 7, (200, 7))
    sums = [(x[row].sum(axis=0), y[row].sum(axis=0)) for row in drawn]
    taus = np.array([naive_tau(*pair) for pair in sums])
    rhos = np.array([naive_spearman(*pair) for pair in sums])
    assert (tau.low, tau.high) == pytest.approx(np.nanquantile(taus, [0.025, 0.975]))
    assert (rho.low, rho.high) == pytest.approx(np.nanquantile(rhos, [0.025, 0.975]))


def test_one_cluster_or_resamples_without_an_order_have_no_interval():
    resampler = Resampler(seed=1, resamples=100)
    x, y = np.arange(4.0), np.array([0.0, 0, 1, 1])
    assert resampled(x, y, np.zeros(4, dtype=np.int32), 1, resampler) is None
    assert resampled_sums(x[None], y[None], resampler) is None
    # Either of two clusters alone holds no failure, or nothing else: half of the resamples are of one alone.
    lone = resampled(x, y, np.array([0, 0, 1, 1], dtype=np.int32), 2, resampler)
    assert lone is None or lone[0].undefined > 30
    assert resampled(x, np.zeros(4), np.array([0, 0, 1, 1], dtype=np.int32), 2, resampler) is None
