"""Waiting times of which some were cut off: a published example, order statistics, and intervals between clusters."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drift_runs.measure.intervals import Clusters
from drift_runs.measure.resampler import Resampler
from drift_runs.measure.survival import waiting_times

RESAMPLER = Resampler(seed=3, resamples=400)
LEVELS = (0.25, 0.5, 0.75)
# Weeks of remission of leukaemia patients under 6-mercaptopurine (Freireich and others, 1963), the textbook example of
# the estimate: its median is 23 weeks. A negative number was cut off.
REMISSION = [6, 6, 6, -6, 7, -9, 10, -10, -11, 13, 16, -17, -19, -20, 22, 23, -25, -32, -32, -34, -35]


def clusters(index: list[int] | np.ndarray) -> Clusters:
    index = np.asarray(index, dtype=np.int32)
    return Clusters(unit="document", labels=tuple(f"d{at}" for at in range(index.max(initial=-1) + 1)), index=index)


def found(signed: list[float], *, index: list[int] | None = None, levels: tuple[float, ...] = LEVELS):
    values = np.array(signed, dtype=np.float64)
    given = clusters([0] * len(signed) if index is None else index)
    return waiting_times(np.abs(values), values >= 0, levels, given, RESAMPLER)


def points(signed: list[float], levels: tuple[float, ...] = LEVELS) -> list[float | None]:
    return [one.value for one in found(signed, levels=levels)]


def test_the_textbook_example():
    # Shares that still wait: 0.857 behind 6, 0.807 behind 7, 0.753 behind 10, 0.690 behind 13, 0.627, 0.538, 0.448.
    assert points(REMISSION) == [13, 23, None]
    assert points(REMISSION, (0.14, 0.15, 0.37, 0.38, 0.46, 0.47, 0.551, 0.553)) == [6, 7, 16, 22, 22, 23, 23, None]


def test_cut_off_at_the_same_time_counts_as_waiting():
    # Half of two have it at 5: the one that was cut off at 5 was there.
    assert points([5, -5], (0.5, 0.51)) == [5, None]
    assert points([-4, 5], (0.5, 1 - 1e-6)) == [5, 5]


@pytest.mark.parametrize("signed", [[], [-3], [-3, -8]])
def test_nothing_happened(signed):
    assert [(one.value, one.low, one.high) for one in found(signed)] == [(None, None, None)] * 3


def test_a_time_of_0():
    assert points([0, 0, 7]) == [0, 0, 7]


@settings(deadline=None, max_examples=60)
@given(times=st.lists(st.integers(0, 300), min_size=1, max_size=40), level=st.floats(0.01, 0.99))
def test_without_cut_off_times_it_is_the_order_statistic(times, level):
    rank = next(rank for rank in range(1, len(times) + 1) if rank / len(times) >= level - 1e-12)
    assert points(times, (level,)) == [sorted(times)[rank - 1]]


@settings(deadline=None, max_examples=60)
@given(
    times=st.lists(st.tuples(st.integers(0, 50), st.booleans()), min_size=1, max_size=25),
    seed=st.integers(0, 5),
)
def test_order_and_unit_do_not_matter_and_cut_off_times_only_lengthen(times, seed):
    signed = [float(time) if happened else -float(time) - 0.5 for time, happened in times]
    first = points(signed)
    shuffled = [signed[at] for at in np.random.default_rng(seed).permutation(len(signed))]
    assert points(shuffled) == first
    assert points([3 * one for one in signed]) == [None if one is None else 3 * one for one in first]
    taken_as_they_stand = points([abs(one) for one in signed])
    for one, other in zip(first, taken_as_they_stand, strict=True):
        assert one is None or one >= other


class TestIntervals:
    def test_they_are_of_whole_clusters(self):
        index = [0, 0, 1, 1, 2, 2, 3, 3]
        (median,) = found([2, 4, 3, 9, -5, 8, 1, 6], index=index, levels=(0.5,))
        values, happened = np.array([2, 4, 3, 9, 5, 8, 1, 6.0]), np.array([1, 1, 1, 1, 0, 1, 1, 1], dtype=bool)
        drawn = []
        for counts in RESAMPLER.multiplicities(4):
            rows = np.repeat(np.arange(8), counts[index])
            share, answer = 1.0, np.inf
            for time in np.unique(values[rows][happened[rows]]):
                share *= 1 - (happened[rows] & (values[rows] == time)).sum() / (values[rows] >= time).sum()
                if share <= 0.5 + 1e-12:
                    answer = time
                    break
            drawn.append(answer)
        assert (median.low, median.high) == (
            np.quantile(drawn, 0.025, method="lower"),
            np.quantile(drawn, 0.975, method="higher"),
        )
        assert median.low <= median.value <= median.high

    def test_an_end_that_is_not_reached_is_none(self):
        (median,) = found([4, 4, -9, -9, 5, -9], index=[0, 1, 2, 3, 4, 5], levels=(0.5,))
        assert (median.value, median.low, median.high) == (5, 4, None)

    def test_resamples_in_which_nobody_waits_say_nothing(self):
        (median,) = found([4, 4, 4], index=[0, 1, 2], levels=(0.5,))
        assert (median.low, median.high) == (4, 4)

    def test_one_cluster_has_none(self):
        assert [(one.low, one.high) for one in found([1, 2, 3])] == [(None, None)] * 3
