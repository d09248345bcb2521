"""Student's t against printed tables and closed forms, and the interval on the log of cluster means."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drift_runs.measure.intervals import Resampler, intervals_of_sums
from drift_runs.measure.students import log_t_intervals, student_t_quantile, student_t_within


@pytest.mark.parametrize(
    ("probability", "degrees", "printed"),
    [
        (0.975, 1, 12.706205),
        (0.975, 2, 4.302653),
        (0.975, 4, 2.776445),
        (0.975, 6, 2.446912),
        (0.975, 10, 2.228139),
        (0.975, 18, 2.100922),
        (0.975, 30, 2.042272),
        (0.975, 120, 1.979930),
        (0.95, 2, 2.919986),
        (0.95, 7, 1.894579),
        (0.995, 5, 4.032143),
        (0.9995, 3, 12.923979),
    ],
)
def test_quantiles_equal_the_printed_ones(probability: float, degrees: int, printed: float):
    assert student_t_quantile(probability, degrees) == pytest.approx(printed, abs=1e-6)


@pytest.mark.parametrize("probability", [0.5, 0.6, 0.9, 0.975, 0.9999])
def test_one_and_two_degrees_have_a_closed_form(probability: float):
    assert student_t_quantile(probability, 1) == pytest.approx(math.tan(math.pi * (probability - 0.5)), rel=1e-10)
    of_two = (2 * probability - 1) * math.sqrt(2 / (4 * probability * (1 - probability)))
    assert student_t_quantile(probability, 2) == pytest.approx(of_two, rel=1e-10)


@settings(max_examples=60, deadline=None)
@given(probability=st.floats(0.5, 0.9999), degrees=st.integers(1, 200))
def test_there_and_back(probability: float, degrees: int):
    t = student_t_quantile(probability, degrees)
    assert (1 + student_t_within(t, degrees)) / 2 == pytest.approx(probability, abs=1e-12)
    assert student_t_quantile(1 - probability, degrees) == pytest.approx(-t, rel=1e-9, abs=1e-12)


def test_refuses_what_has_no_quantile():
    for probability, degrees in ((0.0, 3), (1.0, 3), (0.9, 0)):
        with pytest.raises(ValueError, match="expected 0 < p < 1"):
            student_t_quantile(probability, degrees)


def test_interval_of_two_clusters_by_hand():
    """Means 1 and e²: the logs are 0 and 2, their mean 1, the standard error sqrt(2) / sqrt(2) = 1."""
    top, bottom = np.array([[10.0], [5 * math.e**2]]), np.array([[10.0], [5.0]])
    bounds, reasons = log_t_intervals(top, bottom, 0.95)
    reach = math.tan(math.pi * 0.475)
    assert reasons == ("",)
    assert bounds.low[0] == pytest.approx(math.exp(1 - reach)) and bounds.high[0] == pytest.approx(math.exp(1 + reach))


def test_encloses_the_geometric_mean_and_every_cluster_weighs_the_same():
    generator = np.random.default_rng(1)
    means, bottom = generator.lognormal(-3, 1, (9, 1)), generator.integers(5, 500, (9, 1)).astype(float)
    bounds, _ = log_t_intervals(means * bottom, bottom, 0.95)
    assert math.sqrt(bounds.low[0] * bounds.high[0]) == pytest.approx(math.exp(np.log(means).mean()))
    same, _ = log_t_intervals(means, np.ones((9, 1)), 0.95)
    assert bounds.low[0] == pytest.approx(same.low[0]) and bounds.high[0] == pytest.approx(same.high[0])


def test_all_equal_has_no_width():
    bounds, _ = log_t_intervals(np.full((5, 1), 0.25), np.ones((5, 1)), 0.95)
    assert bounds.low[0] == bounds.high[0] == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("top", "bottom", "reason"),
    [
        ([], [], "fewer than two clusters with positions"),
        ([1.0], [1.0], "fewer than two clusters with positions"),
        ([1.0, 0.0], [1.0, 0.0], "fewer than two clusters with positions"),
        ([1.0, 0.0, -1.0], [1.0, 1.0, 1.0], "2 cluster means not above 0: no logarithm"),
        ([1.0, np.nan, 2.0], [1.0, 1.0, 1.0], "1 cluster mean not above 0: no logarithm"),
        ([1e-300, 1e300], [1.0, 1.0], "its upper end is beyond every number"),
    ],
)
def test_says_why_there_is_none(top: list[float], bottom: list[float], reason: str):
    bounds, reasons = log_t_intervals(np.array(top)[:, None], np.array(bottom)[:, None], 0.95)
    assert reasons == (reason,) and np.isnan([bounds.low[0], bounds.high[0]]).all()


@pytest.mark.parametrize(("clusters", "given"), [(2, True), (19, True), (20, False)])
def test_given_for_few_clusters_only(clusters: int, given: bool):
    top = np.random.default_rng(1).lognormal(0, 1, (clusters, 1))
    found = intervals_of_sums(top, np.ones((clusters, 1)), Resampler(seed=1, resamples=100))
    assert np.isfinite(found.log_t.low[0]) == given
    assert found.log_t_reasons == (("",) if given else ("20 clusters: given for fewer than 20",))


def test_shifted_to_the_mean_by_hand():
    """Logs 0 and 2 have the variance 2: the centre goes from 1 to 2, the squared error from 1 to 1 + 4 / 2."""
    top = np.array([[1.0], [math.e**2]])
    bounds, _ = log_t_intervals(top, np.ones((2, 1)), 0.95, of_mean=True)
    reach = math.tan(math.pi * 0.475) * math.sqrt(3)
    assert bounds.low[0] == pytest.approx(math.exp(2 - reach)) and bounds.high[0] == pytest.approx(math.exp(2 + reach))


def test_shifted_it_covers_the_mean_and_plain_the_geometric_mean():
    generator = np.random.default_rng(7)
    top = generator.lognormal(0, 0.8, (15, 800))
    ones = np.ones(top.shape)
    plain, shifted = log_t_intervals(top, ones, 0.95).bounds, log_t_intervals(top, ones, 0.95, of_mean=True).bounds
    median, mean = 1.0, math.exp(0.8**2 / 2)
    assert 0.93 <= ((plain.low <= median) & (median <= plain.high)).mean() <= 0.97
    assert 0.92 <= ((shifted.low <= mean) & (mean <= shifted.high)).mean() <= 0.97
    assert ((plain.low <= mean) & (mean <= plain.high)).mean() < 0.75
