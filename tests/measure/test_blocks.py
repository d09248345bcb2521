"""Blocks inside one text: few positions, none, ties and what is missing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drift_runs.measure.blocks import block_quantile_replicates, block_ratio_replicates
from drift_runs.measure.resampled_quantiles import quantile_replicates
from drift_runs.measure.resampler import Resampler

LEVELS = np.array([0.5, 0.95])


def means(values: np.ndarray, resampler: Resampler) -> np.ndarray:
    return block_ratio_replicates(values[:, None], np.ones((len(values), 1)), resampler)[:, 0]


def test_no_position_gives_nothing():
    resampler, nothing = Resampler(seed=1, resamples=50), np.empty(0)
    assert np.isnan(means(nothing, resampler)).all()
    assert np.isnan(block_quantile_replicates(nothing, LEVELS, resampler)).all()
    assert np.isnan(quantile_replicates(nothing, np.empty(0, dtype=np.int32), 3, LEVELS, resampler)).all()


@pytest.mark.parametrize("n", [1, 2, 15, 16, 40])
def test_all_equal_gives_that_value_every_time(n: int):
    resampler = Resampler(seed=1, resamples=50)
    assert means(np.full(n, 0.5), resampler) == pytest.approx(0.5)
    assert (block_quantile_replicates(np.full(n, 0.5), LEVELS, resampler) == 0.5).all()


def test_a_missing_value_leaves_no_interval_behind():
    resampler = Resampler(seed=1, resamples=50)
    values = np.array([1.0, np.nan] + [2.0] * 40)
    bounds = resampler.percentile(means(values, resampler)[:, None])
    assert np.isnan([bounds.low[0], bounds.high[0]]).all()


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(1, 90), ties=st.booleans(), scale=st.sampled_from([0.5, 1024.0]))
def test_inside_the_values_and_scale_carries_over(seed: int, n: int, ties: bool, scale: float):
    values = np.random.default_rng(seed).lognormal(-2, 1, n)
    if ties:
        values = np.round(values, 1)
    resampler = Resampler(seed=seed, resamples=40)
    for found, scaled in (
        (means(values, resampler), means(values * scale, resampler)),
        (
            block_quantile_replicates(values, LEVELS, resampler),
            block_quantile_replicates(values * scale, LEVELS, resampler),
        ),
    ):
        assert found.min() >= values.min() - 1e-9 and found.max() <= values.max() + 1e-9
        assert scaled == pytest.approx(found * scale, rel=1e-9)


def test_a_position_without_weight_is_left_out():
    values = np.where(np.arange(64) % 2, 0.0, 3.0)
    weights = (np.arange(64) % 2 == 0).astype(float)
    replicates = block_ratio_replicates(values[:, None], weights[:, None], Resampler(seed=1, resamples=50))
    assert replicates == pytest.approx(3.0)
