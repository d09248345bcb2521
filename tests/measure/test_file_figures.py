"""Figures of a comparison without a protocol, and the difference of two of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drift_runs.measure.file_averages import Layout
from drift_runs.measure.file_differences import file_differences
from drift_runs.measure.file_figures import FileFigures, file_figures
from drift_runs.measure.permutation import mcnemar
from drift_runs.measure.resampler import Resampler
from drift_runs.schema import COMPARISON, RowFlag

RESAMPLER = Resampler(seed=5, resamples=200)
LAYOUT = Layout(unit="document", cluster={"a": "d1", "b": "d1", "c": "d2"}, group={"a": "x", "b": "y", "c": ""})


def table(rows: list[dict[str, Any]]) -> pa.Table:
    plain = {"role": "prompt", "flags": 0}
    return pa.Table.from_pylist([{name: None for name in COMPARISON.names} | plain | row for row in rows], COMPARISON)


def positions(values: list[float | None], *, window: str = "a", column: str = "kl_full_nats") -> list[dict[str, Any]]:
    return [{"window": window, "position": at, column: value} for at, value in enumerate(values, 1)]


def figures(rows: list[dict[str, Any]]) -> FileFigures:
    return file_figures(table(rows), LAYOUT, RESAMPLER, headline="kl.full")


def test_both_quantile_rules_and_their_guard():
    values = [float(at) for at in range(200)]
    (kl,) = figures(positions(values)).divergences
    assert kl.spec == "kl.full" and kl.mean.value == 99.5 and kl.mean.n == 200
    by_name = {item.name: item for item in kl.quantiles}
    assert (by_name["p50"].linear, by_name["p50"].lower) == (99.5, 99.0)
    assert (by_name["p99"].linear, by_name["p99"].lower) == (pytest.approx(197.01), 197.0)
    assert (by_name["p99"].state, by_name["p99"].beyond) == ("withheld", 2)
    assert (by_name["p90"].state, by_name["p50"].state) == ("indicative", "firm")
    assert (kl.smallest, kl.largest, kl.exactly_zero) == (0, 199, 1)
    assert kl.tail.value == pytest.approx(sum(range(190, 200)) / sum(range(200)))


def test_groups_windows_and_clusters():
    rows = positions([1.0, 2.0]) + positions([3.0, 4.0, 5.0], window="b") + positions([9.0], window="c")
    (kl,) = figures(rows).divergences
    assert [(name, group.value, group.n) for name, group in kl.groups] == [("x", 1.5, 2), ("y", 4.0, 3)]
    assert kl.window_mean == pytest.approx((1.5 + 4 + 9) / 3)
    assert kl.mean.value == 4.0 and kl.mean.ends.clusters == 2
    assert kl.mean.ends.low == 3.0 and kl.mean.ends.high == 9.0
    assert "2 documents" in kl.mean.ends.interval and "cover less" in kl.mean.ends.note
    assert kl.groups[0][1].ends.low is None and kl.groups[0][1].ends.clusters == 1


def test_what_is_missing_is_counted_and_never_averaged():
    rows = positions([1.0, None, 3.0, float("nan"), float("inf")])
    rows[4]["flags"] = RowFlag.INFINITE_KL
    (kl,) = figures(rows).divergences
    assert (kl.mean.value, kl.mean.n, kl.mean.excluded, kl.infinite) == (2.0, 2, 3, 1)


def test_a_headline_that_no_position_has_says_why():
    found = figures(positions([None, None]))
    (kl,) = found.divergences
    assert kl.mean.value is None and "whole distribution" in kl.reason and found.rates == ()


def test_no_position_at_all():
    found = file_figures(COMPARISON.empty_table(), LAYOUT, RESAMPLER, headline="kl.full")
    assert (found.positions, found.windows, found.support) == (0, 0, None)
    assert [item.reason != "" for item in found.divergences] == [True]


def test_rows_of_k_entries_have_every_definition_of_k():
    rows = positions([0.1, 0.3], column="kl_topk_shared_nats")
    for row, shared, outside, missed in zip(rows, (3, 1), (0.25, 0.5), (0, 2), strict=True):
        row |= {"top_k": 4, "shared_support": shared, "reference_mass_outside": outside, "missed": missed}
        row["reference_mass_dropped"] = outside / 2
    rows[1]["flags"] = RowFlag.SUPPORT_COLLAPSE
    found = figures(rows)
    specs = {item.spec: item.reason for item in found.divergences}
    assert specs["kl.topk-shared@4"] == ""
    assert all(specs[spec] for spec in ("kl.full", "kl.topk-tail@4", "kl.topk-lower@4", "kl.topk-floor@4"))
    support = found.support
    assert support is not None
    assert (support.shared_mean, support.shared_least, support.collapsed) == (2, 1, 1)
    assert (support.outside_mean, support.outside_largest, support.missed_share) == (0.375, 0.5, 0.25)
    assert (support.dropped_mean, support.dropped_largest) == (0.1875, 0.25)


def test_a_tail_that_is_known_in_part_is_withheld():
    rows = positions([0.1, None], column="kl_topk_tail_nats")
    for row in rows:
        row |= {"top_k": 4, "kl_topk_lower_nats": 0.1}
    by_spec = {item.spec: item for item in figures(rows).divergences}
    assert by_spec["kl.topk-tail@4"].mean.value is None
    assert "does not say it at 1 of 2 positions" in by_spec["kl.topk-tail@4"].reason
    rows[1]["kl_topk_tail_nats"] = 0.3
    by_spec = {item.spec: item for item in figures(rows).divergences}
    assert by_spec["kl.topk-tail@4"].mean.value == pytest.approx(0.2)


def test_the_headline_stands_first():
    rows = [row | {"top_k": 4, "js_full_nats": 0.1} for row in positions([0.1], column="kl_topk_shared_nats")]
    found = file_figures(table(rows), LAYOUT, RESAMPLER, headline="kl.topk-shared")
    assert found.divergences[0].spec == "kl.topk-shared@4" and len(found.divergences) == 6


def test_rates_and_means():
    rows = [
        row | {"flip": flip, "candidate_nll_nats": nll, "reference_nll_nats": 1.0}
        for row, flip, nll in zip(positions([0.0] * 4), (True, False, True, None), (1.0, 2.0, 3.0, None), strict=True)
    ]
    found = figures(rows)
    (flip,) = found.rates
    assert (flip.spec, flip.rate.value, flip.rate.total, flip.rate.n, flip.rate.excluded) == ("flip", 2 / 3, 2, 3, 1)
    means = {spec: (mean.value, mean.n) for spec, mean in found.means}
    assert means == {"dnll": (1.0, 3), "nll.reference": (1.0, 4), "nll.candidate": (2.0, 3)}


def test_a_difference_by_hand():
    left = positions([0.1, 0.2]) + positions([0.5, 0.25], window="c")
    right = positions([0.3, 0.2]) + positions([0.1, None], window="c") + positions([0.9], window="b")
    for row, flip in zip(left, (True, False, True, False), strict=True):
        row["flip"] = flip
    for row, flip in zip(right, (False, False, False, True, None), strict=True):
        row["flip"] = flip
    kl, flips = file_differences(table(left), table(right), LAYOUT, RESAMPLER)
    assert (kl.spec, kl.n, kl.excluded) == ("kl.full", 3, 2)
    assert kl.difference == pytest.approx((-0.2 + 0 + 0.4) / 3)
    assert (kl.left_lower, kl.right_lower, kl.equal) == (1, 1, 1)
    assert kl.p_mcnemar is None and kl.sign_flip == "exact, all signs of 2 documents"
    # Left flips alone at two positions, right at one.
    assert (flips.spec, flips.left_lower, flips.right_lower) == ("flip", 1, 2)
    assert flips.p_mcnemar == mcnemar(2, 1) and flips.difference == pytest.approx(1 / 4)


def test_a_table_against_itself():
    rows = positions([0.1, 0.2]) + positions([0.5], window="c")
    (kl,) = file_differences(table(rows), table(rows), LAYOUT, RESAMPLER)
    assert (kl.difference, kl.ends.low, kl.ends.high, kl.equal, kl.p_sign_flip) == (0, 0, 0, 3, 1)


def test_definitions_of_another_k_are_not_subtracted():
    left, right = (
        table([row | {"top_k": k} for row in positions([0.1, 0.2], column="kl_topk_shared_nats")]) for k in (4, 8)
    )
    assert file_differences(left, right, LAYOUT, RESAMPLER) == ()


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.one_of(st.none(), st.floats(0, 9))), min_size=1, max_size=40),
    st.randoms(),
)
def test_the_order_of_rows_does_not_move_a_figure(given_rows, random):
    rows = [{"window": w, "position": at, "kl_full_nats": value} for at, (w, value) in enumerate(given_rows, 1)]
    (one,) = figures(rows).divergences
    (other,) = figures(random.sample(rows, len(rows))).divergences
    assert one.mean.n == other.mean.n and one.exactly_zero == other.exactly_zero
    assert [(item.linear, item.lower) for item in one.quantiles] == [
        (item.linear, item.lower) for item in other.quantiles
    ]
    known = [value for _, value in given_rows if value is not None]
    if known:
        assert one.mean.value == pytest.approx(np.mean(known), abs=1e-12) == other.mean.value
        assert sum(group.n for _, group in one.groups) == sum(w != "c" and v is not None for w, v in given_rows)
        assert all(item.lower <= item.linear for item in one.quantiles)
