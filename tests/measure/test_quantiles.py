"""Quantiles, their guards, and the share of the tail."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drift_runs.measure.quantiles import (
    QUANTILES,
    guard_state,
    lower_quantiles,
    quantile_name,
    quantiles,
    tail_share,
    values_beyond,
)


def by_name(values: np.ndarray) -> dict:
    return {quantile.name: quantile for quantile in quantiles(values)}


def test_known_answers_of_the_linear_rule():
    found = by_name(np.arange(2001, dtype=float))
    assert (found["p50"].value, found["p90"].value, found["p95"].value) == (1000.0, 1800.0, 1900.0)
    assert (found["p50"].state, found["p95"].state, found["p99"].state) == ("firm", "firm", "indicative")
    assert found["p95"].beyond == 100 and found["p99"].beyond == 20
    assert found["p99.9"].value is None and found["p99.9"].state == "withheld"
    assert found["p99.9"].reason == "2 values lie beyond it, 10 needed"
    assert by_name(np.array([1.0, 2.0]))["p50"].value == 1.5


@pytest.mark.parametrize(
    ("n", "beyond", "state"),
    [(1982, 100, "firm"), (1981, 99, "indicative"), (182, 10, "indicative"), (181, 9, "withheld"), (0, 0, "withheld")],
)
def test_guard_changes_at_ten_and_a_hundred_values_beyond(n: int, beyond: int, state: str):
    assert values_beyond(n, 0.95) == beyond
    assert guard_state(n, 0.95)[0] == state


def test_the_median_is_exempt_and_ties_do_not_withhold():
    assert by_name(np.array([3.0]))["p50"].state == "firm"
    assert by_name(np.zeros(200))["p95"].value == 0.0


def test_missing_and_infinite_values_are_left_out_and_counted():
    values = np.concatenate([np.arange(300.0), [np.nan, np.inf, -np.inf]])
    found = by_name(values)
    assert found["p50"].value == 149.5 and found["p50"].n == 300 and found["p50"].excluded == 3
    share = tail_share(values)
    assert share.excluded == 3 and share.value == pytest.approx(sum(range(285, 300)) / sum(range(300)))


def test_tail_share_is_null_below_200_positions_and_without_a_positive_total():
    assert tail_share(np.ones(199)).value is None and "200 needed" in tail_share(np.ones(199)).reason
    assert tail_share(np.ones(200)).value == pytest.approx(0.05)
    assert tail_share(np.zeros(200)).value is None and "not positive" in tail_share(np.zeros(200)).reason
    assert tail_share(-np.ones(200)).value is None


def test_no_values():
    for quantile in quantiles(np.array([])):
        assert quantile.value is None and quantile.state == "withheld" and quantile.reason == "no positions"
    assert tail_share(np.array([])).value is None


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=300), st.randoms())
def test_order_does_not_matter_and_quantiles_rise(values, random):
    found = quantiles(np.array(values))
    random.shuffle(values)
    assert [q.value for q in quantiles(np.array(values))] == [q.value for q in found]
    shown = [q.value for q in found if q.value is not None]
    assert shown == sorted(shown)
    assert len(found) == len(QUANTILES)


def test_a_name_says_level_and_rule():
    assert quantile_name("p95") == (0.95, "linear")
    assert quantile_name("p99.9_lower") == (0.999, "lower")
    for statistic in ("mean", "p95_upper", "p42", "lower", "_lower", ""):
        assert quantile_name(statistic) is None
    with pytest.raises(ValueError, match="'p42' is no quantile"):
        quantiles(np.ones(3), ("p50", "p42"))


def test_the_lower_rule_takes_the_value_at_or_below_the_place():
    values = np.arange(384, dtype=float) ** 2  # 0.95 * 383 = 363.85
    found = {item.name: item for item in quantiles(values, ("p95", "p95_lower", "p50_lower"))}
    assert found["p95_lower"].value == 363.0**2
    assert found["p95"].value == pytest.approx(363**2 + 0.85 * (364**2 - 363**2))
    assert found["p50_lower"].value == 191.0**2
    assert (found["p95_lower"].state, found["p95_lower"].beyond) == ("indicative", 20)


@given(st.lists(st.floats(-1e6, 1e6) | st.just(float("nan")), max_size=300))
def test_lower_quantiles_are_values_that_occur_and_lie_below_the_linear_ones(values):
    array = np.array(values)
    linear = quantiles(array)
    shown = {item.name: item for item in linear}
    for item in lower_quantiles(array, linear):
        above = shown[item.name.removesuffix("_lower")]
        assert above.state != "withheld" and item.value in values and item.value < above.value


def test_equal_values_have_no_lower_quantile_of_their_own():
    assert lower_quantiles(np.ones(500), quantiles(np.ones(500))) == ()
    assert lower_quantiles(np.array([]), quantiles(np.array([]))) == ()
