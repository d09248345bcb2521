"""Sign flips against every choice written out, and McNemar's test against whole numbers."""

from __future__ import annotations

import itertools
import math
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drift_runs.measure.permutation import DRAWS, mcnemar, sign_flip

DIFFERENCES = st.lists(
    st.one_of(st.integers(-4, 4).map(float), st.floats(-10, 10, allow_nan=False)), min_size=2, max_size=9
)


def written_out(differences: list[float]) -> float:
    totals = [
        abs(math.fsum(sign * value for sign, value in zip(signs, differences, strict=True)))
        for signs in itertools.product((1, -1), repeat=len(differences))
    ]
    slack = 1e-12 * math.fsum(map(abs, differences))
    return sum(total >= totals[0] - slack for total in totals) / len(totals)


def p_of(differences: list[float] | np.ndarray, seed: int = 1) -> float:
    return float(sign_flip(np.asarray(differences, dtype=float)[:, None], seed=seed).p[0])


@settings(max_examples=80, deadline=None)
@given(DIFFERENCES)
def test_up_to_13_clusters_every_choice_counts(differences: list[float]):
    assert p_of(differences) == written_out(differences)


@settings(max_examples=60, deadline=None)
@given(DIFFERENCES, st.integers(0, 10**6), st.sampled_from([-1.0, 1e-6, 1024.0]))
def test_order_sign_and_scale_do_not_matter(differences: list[float], seed: int, scale: float):
    order = np.random.default_rng(seed).permutation(len(differences))
    assert p_of(np.array(differences)[order]) == p_of(differences)
    assert p_of(np.array(differences) * scale) == p_of(differences)


def test_all_one_way_is_as_small_as_it_gets():
    found = sign_flip(np.array([[1.0, 5.0]] * 13), seed=1, unit="document")
    assert found.p.tolist() == [2 / 2**13] * 2 and found.method == "exact, all signs of 13 documents"


def test_no_difference_and_ties_are_no_evidence():
    assert p_of([0.0] * 5) == 1.0 and p_of([0.0] * 30) == 1.0
    assert p_of([1.0, -1.0, 0.5, -0.5]) == 1.0
    assert p_of([0.1, 0.2, -0.3]) == 1.0  # their sum is 2.8e-17 in floating point


def test_no_cluster_and_one_cluster_have_no_test():
    for clusters in (0, 1):
        found = sign_flip(np.ones((clusters, 2)), seed=1)
        assert np.isnan(found.p).all() and found.p.shape == (2,) and found.method == ""


def test_refuses_what_is_not_finite():
    with pytest.raises(ValueError, match="not finite"):
        sign_flip(np.array([[1.0], [np.nan], [2.0]]), seed=1)


def test_from_14_clusters_on_signs_are_drawn_in_order():
    differences = np.random.default_rng(2).normal(0.3, 1, (17, 1))
    generator = np.random.default_rng(9)
    draws = [2.0 * generator.integers(0, 2, 17) - 1 for _ in range(DRAWS)]
    as_large = sum(abs(signs @ differences[:, 0]) >= abs(differences.sum()) - 1e-9 for signs in draws)
    found = sign_flip(differences, seed=9, unit="document")
    assert found.p[0] == (1 + as_large) / (1 + DRAWS) and found.method == "sampled, 9,999 signs of 17 documents"


def test_drawn_signs_come_near_all_of_them():
    differences = np.random.default_rng(3).normal(0.4, 1, 14)
    every = written_out(differences.tolist())
    assert p_of(differences) == pytest.approx(every, abs=4 * math.sqrt(every * (1 - every) / DRAWS))


def test_many_clusters_are_drawn_in_slices_of_the_same_stream():
    differences = np.random.default_rng(4).normal(0.02, 1, (900, 1))
    signs = 2.0 * np.random.default_rng(6).integers(0, 2, (DRAWS, 900)) - 1
    as_large = (np.abs(signs @ differences) >= np.abs(differences.sum()) - 1e-9).sum()
    assert sign_flip(differences, seed=6).p[0] == (1 + as_large) / (1 + DRAWS)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 80), st.integers(0, 80))
def test_mcnemar_equals_the_binomial_in_whole_numbers(left_only: int, right_only: int):
    total = left_only + right_only
    tail = sum(math.comb(total, count) for count in range(min(left_only, right_only) + 1))
    assert mcnemar(left_only, right_only) == pytest.approx(min(1.0, 2 * tail / 2**total), rel=1e-12)
    assert mcnemar(left_only, right_only) == mcnemar(right_only, left_only)


def test_mcnemar_of_large_counts():
    assert mcnemar(0, 0) == mcnemar(70_000, 70_000) == 1.0
    # Normal approximation with continuity correction: z = (|b - c| - 1) / sqrt(b + c).
    z = (1_500 - 1) / math.sqrt(1_001_500)
    assert mcnemar(500_000, 501_500) == pytest.approx(math.erfc(z / math.sqrt(2)), rel=1e-4)
    assert mcnemar(0, 5_000) == sys.float_info.min
    with pytest.raises(ValueError, match="expected 0 or more"):
        mcnemar(-1, 3)
