"""BCa intervals against a second way of computing them, and where the construction breaks down."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drift_runs.measure.bca import bca
from drift_runs.measure.intervals import Resampler, cluster_intervals, intervals_of_sums, ratio_replicates


def by_hand(top: np.ndarray, bottom: np.ndarray, resampler: Resampler) -> tuple[float, float]:
    """Plain loops over the draws and over the clusters that are left out."""
    clusters = len(top)
    generator = np.random.default_rng(resampler.seed)
    drawn = [generator.integers(0, clusters, clusters) for _ in range(resampler.resamples)]
    replicates = np.array([top[rows].sum() / bottom[rows].sum() for rows in drawn])
    estimate = top.sum() / bottom.sum()
    normal = NormalDist()
    bias = normal.inv_cdf(float(np.mean(replicates < estimate)))
    left_out = np.array([np.delete(top, at).sum() / np.delete(bottom, at).sum() for at in range(clusters)])
    moved = left_out.mean() - left_out
    acceleration = float(np.sum(moved**3) / (6 * np.sum(moved**2) ** 1.5))
    ends = []
    for level in (resampler.tail, 1 - resampler.tail):
        z = bias + normal.inv_cdf(level)
        ends.append(float(np.quantile(replicates, normal.cdf(bias + z / (1 - acceleration * z)))))
    return ends[0], ends[1]


def found(top: list[float] | np.ndarray, bottom: list[float] | np.ndarray, resampler: Resampler):
    top, bottom = np.asarray(top, dtype=float)[:, None], np.asarray(bottom, dtype=float)[:, None]
    return bca(top, bottom, ratio_replicates(top, bottom, resampler), resampler)


@pytest.mark.parametrize(("seed", "clusters", "confidence"), [(1, 14, 0.95), (2, 25, 0.95), (3, 60, 0.8)])
def test_equals_the_loops(seed: int, clusters: int, confidence: float):
    generator = np.random.default_rng(seed)
    bottom = generator.integers(50, 200, clusters).astype(float)
    top = generator.lognormal(-3, 1.2, clusters) * bottom
    resampler = Resampler(seed=seed, resamples=500, confidence=confidence)
    bounds, reasons = found(top, bottom, resampler)
    assert reasons == ("",)
    assert (bounds.low[0], bounds.high[0]) == pytest.approx(by_hand(top, bottom, resampler), rel=1e-9)


def test_lies_above_the_percentile_interval_for_a_long_upper_tail():
    generator = np.random.default_rng(4)
    top, bottom = generator.lognormal(0, 1, (30, 1)), np.ones((30, 1))
    intervals = intervals_of_sums(top, bottom, Resampler(seed=1))
    assert intervals.bca.low[0] > intervals.percentile.low[0]
    assert intervals.bca.high[0] > intervals.percentile.high[0]


@pytest.mark.parametrize(
    ("top", "bottom", "reason"),
    [
        ([], [], "fewer than two clusters with positions"),
        ([0.5], [1], "fewer than two clusters with positions"),
        ([0.5, 0, 0], [4, 0, 0], "fewer than two clusters with positions"),
        ([0.1, 0.1, 0.1], [1, 1, 1], "every resample gives the same value"),
        ([0, 0, 0, 0], [5, 6, 7, 8], "every resample gives the same value"),
        ([np.nan, 1, 2], [1, 1, 1], "no finite estimate"),
    ],
)
def test_says_why_there_is_none(top: list[float], bottom: list[float], reason: str):
    bounds, reasons = found(top, bottom, Resampler(seed=1, resamples=100))
    assert reasons == (reason,) and np.isnan([bounds.low[0], bounds.high[0]]).all()


def test_every_resample_on_one_side_is_no_crash():
    top, bottom = np.array([[1.0], [2.0], [4.0]]), np.ones((3, 1))
    resampler = Resampler(seed=1, resamples=100)
    for replicate, side in ((0.5, "below"), (9.0, "above")):
        bounds, reasons = bca(top, bottom, np.full((100, 1), replicate), resampler)
        assert reasons == (f"every resample lies {side} the estimate",) and np.isnan(bounds.low[0])


def test_one_cluster_that_holds_nearly_everything_is_no_crash():
    top, bottom = np.array([1.0] + [1e-9] * 199), np.ones(200)
    bounds, reasons = found(top, bottom, Resampler(seed=1, resamples=300))
    assert bool(reasons[0]) == bool(np.isnan(bounds.low[0]))


def test_an_equal_resample_counts_half():
    """Of two clusters half of the resamples equal the estimate: there is no bias, however the ties fall."""
    top, bottom = np.array([[1.0], [3.0]]), np.ones((2, 1))
    replicates = np.repeat([1.0, 2.0, 2.0, 3.0], 25)[:, None]
    resampler = Resampler(seed=1, resamples=100)
    bounds, _ = bca(top, bottom, replicates, resampler)
    assert (bounds.low[0], bounds.high[0]) == pytest.approx(tuple(np.quantile(replicates, [0.025, 0.975])))


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    clusters=st.integers(2, 12),
    scale=st.sampled_from([1e-6, 0.25, 3.0, 1e5]),
    ties=st.booleans(),
)
def test_order_does_not_matter_and_scale_carries_over(seed: int, clusters: int, scale: float, ties: bool):
    generator = np.random.default_rng(seed)
    n = clusters * 5
    index = np.repeat(np.arange(clusters), 5).astype(np.int32)
    values = generator.lognormal(-3, 1, (n, 1))
    if ties:
        values = np.round(values, 1)
    weights = np.ones((n, 1))
    resampler = Resampler(seed=seed, resamples=150)
    plain = cluster_intervals(values, weights, index, clusters, resampler)
    order = generator.permutation(n)
    shuffled = cluster_intervals(values[order], weights[order], index[order], clusters, resampler)
    scaled = cluster_intervals(values * scale, weights, index, clusters, resampler)
    for one, other, times in ((shuffled, plain, 1.0), (scaled, plain, scale)):
        for bounds, wanted in ((one.percentile, other.percentile), (one.bca, other.bca), (one.log_t, other.log_t)):
            # Noise in a sum may let a tied resample fall on the other side of a quantile's place, not of the estimate.
            assert bounds.low == pytest.approx(wanted.low * times, rel=1e-6, nan_ok=True)
            assert bounds.high == pytest.approx(wanted.high * times, rel=1e-6, nan_ok=True)
        assert one.standard_error == pytest.approx(other.standard_error * times, rel=1e-6, nan_ok=True)
        assert one.bca_reasons == other.bca_reasons and one.log_t_reasons == other.log_t_reasons


def test_positions_without_weight_change_nothing():
    generator = np.random.default_rng(3)
    values, index = generator.lognormal(0, 1, (40, 1)), np.repeat(np.arange(8), 5).astype(np.int32)
    resampler = Resampler(seed=5, resamples=200)
    plain = cluster_intervals(values, np.ones((40, 1)), index, 8, resampler)
    longer = cluster_intervals(
        np.concatenate([values, np.zeros((9, 1))]),
        np.concatenate([np.ones((40, 1)), np.zeros((9, 1))]),
        np.concatenate([index, np.arange(9, dtype=np.int32) % 8]),
        8,
        resampler,
    )
    assert plain.percentile.low[0] == longer.percentile.low[0] and plain.bca.high[0] == longer.bca.high[0]
