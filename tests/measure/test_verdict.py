"""Above, within and inconclusive."""

from __future__ import annotations

import numpy as np
import pytest

from drift_runs.measure.intervals import Clusters, Resampler
from drift_runs.measure.verdict import VerdictRule, verdict

RESAMPLER = Resampler(seed=4, resamples=500)


def decide(candidate: list[float], floor: list[float], margin: float = 1.0, clusters: int | None = None):
    n = len(candidate)
    index = np.arange(n, dtype=np.int32) if clusters is None else np.arange(n, dtype=np.int32) % max(clusters, 1)
    labels = tuple(f"d{at}" for at in range(clusters if clusters is not None else n))
    inside = Clusters(unit="document", labels=labels, index=index)
    return verdict(np.array(candidate), np.array(floor), inside, VerdictRule(margin=margin), RESAMPLER)


def test_clearly_larger_is_above():
    found = decide([1.0, 1.1, 0.9, 1.2], [0.1, 0.1, 0.2, 0.1])
    assert found.outcome == "above" and found.low > 0
    assert found.difference_nats == pytest.approx(0.925)
    assert "4 documents: such intervals cover less than they claim" in found.reason


def test_no_more_than_the_floor_is_within():
    assert decide([0.1, 0.2, 0.15], [0.12, 0.18, 0.16]).outcome == "within"


def test_straddling_is_inconclusive():
    found = decide([3.0, -2.5, 0.1], [0.1, 0.1, 0.1])
    assert found.outcome == "inconclusive" and found.low < 0 < found.high


def test_the_margin_is_in_multiples_of_the_floors_mean():
    candidate, floor = [0.1, 0.3, 0.1, 0.3], [0.1, 0.1, 0.1, 0.1]
    assert decide(candidate, floor, margin=0.5).outcome == "inconclusive"
    assert decide(candidate, floor, margin=2.0).outcome == "within"


def test_a_floor_of_exactly_zero():
    assert decide([0.0, 0.0], [0.0, 0.0]).outcome == "within"
    assert decide([0.1, 0.2], [0.0, 0.0]).outcome == "above"


def test_pairs_with_a_missing_side_are_left_out_and_counted():
    found = decide([1.0, np.nan, 1.0, 2.0], [0.1, 0.1, np.nan, 0.1])
    assert found.n == 2 and found.difference_nats == pytest.approx(1.4)
    assert "2 positions without both figures left out" in found.reason


def test_one_cluster_and_nothing_decide_nothing():
    one = decide([1.0, 2.0], [0.0, 0.0], clusters=1)
    assert one.outcome == "inconclusive" and one.low is None and "1 document" in one.reason
    none = decide([], [])
    assert none.outcome == "inconclusive" and none.difference_nats is None and none.n == 0
