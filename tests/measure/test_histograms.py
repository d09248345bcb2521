"""Histograms against the values that they were made of."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drift_runs.measure.histograms import (
    BINS,
    EDGES,
    bin_ends,
    bin_index,
    middle,
    quantile_ends,
    resampled_ends,
    top_sum_ends,
)

DIVERGENCES = st.one_of(
    st.floats(-1e-5, 0),
    st.floats(0, 1e-11),
    st.floats(1e-9, 30),
    st.sampled_from([0.0, -1e-6, 1e-12, 0.1, 1.0, 1e4, 3e5, float(EDGES[100])]),
)
VALUES = st.lists(DIVERGENCES, min_size=1, max_size=60).map(np.array)
LEVELS = np.array([0.0, 0.5, 0.9, 0.95, 0.999, 1.0])


def counted(values: np.ndarray) -> np.ndarray:
    return np.bincount(bin_index(values), minlength=BINS)[None, :]


def close(low: float, value: float, high: float) -> bool:
    """Inside, but for the rounding of an interpolation."""
    slack = 1e-12 * max(abs(low), abs(high))
    return low - slack <= value <= high + slack


def test_forty_bins_a_decade_and_one_for_what_is_not_positive() -> None:
    assert BINS == 16 * 40 + 2
    assert EDGES[0] == 1e-12 and EDGES[-1] == 1e4
    assert EDGES[40] / EDGES[0] == pytest.approx(10, rel=1e-12)
    assert bin_index(np.array([-1e-6, 0.0, 9e-13])).tolist() == [0, 0, 0]
    assert bin_index(np.array([1e-12, 1e4, 1e9])).tolist() == [1, BINS - 1, BINS - 1]
    # ln 2 = 10^-0.159..., so it lies in the 474th of the bins that begin at 1e-12.
    assert bin_index(np.array([math.log(2)])).tolist() == [1 + math.floor(40 * (math.log10(math.log(2)) + 12))]


@given(VALUES)
def test_a_value_lies_in_its_bin(values: np.ndarray) -> None:
    ends = bin_ends(values.min(), values.max())
    at = bin_index(values)
    assert ((ends.low[at] <= values) & (values <= ends.high[at])).all()


@given(VALUES)
def test_a_quantile_lies_between_its_ends(values: np.ndarray) -> None:
    ends = bin_ends(values.min(), values.max())
    for level in LEVELS:
        found = quantile_ends(counted(values), level, ends)
        low, high = found.low[0], found.high[0]
        assert close(low, np.quantile(values, level), high)
        assert close(low, middle(low, high), high)


@given(st.floats(1e-11, 9e3), st.integers(1, 50))
def test_equal_values_lose_nothing(value: float, n: int) -> None:
    values = np.full(n, value)
    found = quantile_ends(counted(values), 0.9, bin_ends(value, value))
    assert found.low[0] == found.high[0] == value == middle(value, value)


def test_one_bin_is_six_per_cent_wide() -> None:
    values = np.random.default_rng(1).lognormal(-4, 2, 5001)
    found = quantile_ends(counted(values), 0.95, bin_ends(values.min(), values.max()))
    assert found.high[0] / found.low[0] == pytest.approx(10 ** (1 / 40), rel=1e-9)


def test_a_row_without_values_has_no_quantile() -> None:
    found = quantile_ends(np.zeros((2, BINS)), 0.5, bin_ends(0.0, 0.0))
    assert np.isnan(found.low).all() and np.isnan(found.high).all()


@settings(max_examples=30, deadline=None)
@given(st.lists(VALUES, min_size=2, max_size=4), st.integers(0, 10**6))
def test_resamples_equal_the_histograms_of_the_values_written_out(clusters: list[np.ndarray], seed: int) -> None:
    whole = np.concatenate(clusters)
    ends = bin_ends(whole.min(), whole.max())
    drawn = np.random.default_rng(seed).integers(0, 3, (7, len(clusters)))
    drawn[0] = 0
    found = resampled_ends(np.concatenate([counted(values) for values in clusters]), drawn, LEVELS, ends)
    assert np.isnan(found.low[0]).all() and np.isnan(found.high[0]).all()
    for row, times in enumerate(drawn[1:], start=1):
        if times.sum() == 0:
            continue
        values = np.concatenate([np.tile(part, count) for part, count in zip(clusters, times, strict=True)])
        for column, level in enumerate(LEVELS):
            expected = quantile_ends(counted(values), level, ends)
            assert (found.low[row, column], found.high[row, column]) == (expected.low[0], expected.high[0])
            assert close(found.low[row, column], np.quantile(values, level), found.high[row, column])


@given(VALUES, st.data())
def test_the_sum_of_the_largest_lies_between_its_ends(values: np.ndarray, data: st.DataObject) -> None:
    top = data.draw(st.integers(1, len(values)))
    sums = np.bincount(bin_index(values), weights=values, minlength=BINS)
    low, high = top_sum_ends(counted(values)[0], sums, top, bin_ends(values.min(), values.max()))
    expected = math.fsum(np.sort(values)[len(values) - top :])
    slack = 1e-12 * np.abs(values).sum()
    assert low - slack <= expected <= high + slack
    if top == len(values):
        assert low == pytest.approx(high) == pytest.approx(expected, abs=slack)


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.01, 0.04, 0.02),
        (-1e-6, 1e-12, 0.0),
        (0.0, 0.0, 0.0),
        (-4e-6, -1e-6, -2e-6),
        (-1e-6, 0.5, 0.2499995),
        (3.0, 3.0, 3.0),
    ],
)
def test_the_middle_of_a_bin(low: float, high: float, expected: float) -> None:
    assert middle(low, high) == pytest.approx(expected, rel=1e-12)
