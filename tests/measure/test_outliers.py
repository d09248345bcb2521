"""Reporting with, without and only the declared windows."""

from __future__ import annotations

import numpy as np
import pytest

from drift_runs.measure.outliers import choices, outlier_mask, proposals_table
from drift_runs.measure.positions import positions_of
from drift_runs.schema import PROPOSALS

SPANS = {"a": ("A", "d", [(1, 4)]), "b": ("A", "e", [(1, 3)])}


@pytest.mark.parametrize(
    ("choice", "windows", "n"), [("with", {"a", "b"}, 5), ("without", {"a"}, 3), ("only", {"b"}, 2)]
)
def test_the_three_choices(make_protocol, make_table, choice, windows, n):
    protocol = make_protocol(SPANS, outliers=("b",))
    table = make_table(protocol)
    positions = positions_of(table)
    mask = outlier_mask(positions, protocol, choice)
    assert int(mask.sum()) == n
    assert {positions.windows[at] for at in positions.window[mask]} == windows


def test_only_is_offered_when_windows_are_declared(make_protocol, make_table):
    assert choices(make_protocol(SPANS)) == ("with", "without")
    assert choices(make_protocol(SPANS, outliers=("b",))) == ("with", "without", "only")
    protocol = make_protocol(SPANS)
    assert int(outlier_mask(positions_of(make_table(protocol)), protocol, "without").sum()) == 5


def test_an_empty_table_and_an_unknown_choice(make_protocol, make_table):
    protocol = make_protocol(SPANS, outliers=("b",))
    empty = make_table(protocol, windows=())
    for choice in choices(protocol):
        assert np.array_equal(outlier_mask(positions_of(empty), protocol, choice), np.zeros(0, dtype=bool))
    with pytest.raises(ValueError, match="expected with, without or only"):
        outlier_mask(positions_of(empty), protocol, "some")


FOUR = {name: ("A", name, [(1, 11)]) for name in ("a", "b", "c", "d")}


def by_window(means: dict[str, float]) -> np.ndarray:
    return np.repeat(list(means.values()), 10)


def test_a_window_above_the_multiple_of_the_others_median_is_proposed(make_protocol, make_table):
    protocol = make_protocol(FOUR, outliers=("d",), outlier_rule={"floor_multiple": 5.0})
    floor = make_table(protocol, kl_full_nats=by_window({"a": 1.0, "b": 3.0, "c": 2.0, "d": 10.5}))
    found = proposals_table({"launch": floor}, protocol)
    assert found.schema.equals(PROPOSALS)
    (row,) = found.to_pylist()
    assert (row["window"], row["rule"], row["floor"], row["spec"]) == ("d", "floor_multiple", "launch", "kl.full")
    assert (row["value"], row["others_median"], row["threshold"]) == (10.5, 2.0, 10.0)
    assert row["declared"] and row["post_hoc"]
    # Exactly the multiple is not above it.
    level = make_table(protocol, kl_full_nats=by_window({"a": 1.0, "b": 3.0, "c": 2.0, "d": 10.0}))
    assert proposals_table({"launch": level}, protocol).num_rows == 0


def test_a_window_with_many_volatile_rows_is_proposed(make_protocol, make_table):
    protocol = make_protocol(FOUR, outlier_rule={"volatile_rows": 4})
    nll = np.ones(40)
    nll[[11, 12, 13]] = 9.0
    nll[[30, 31, 32, 33]] = -2.0
    nll[39] = np.nan
    (row,) = proposals_table({"pass": make_table(protocol, candidate_nll_nats=nll)}, protocol).to_pylist()
    assert (row["window"], row["rule"], row["value"], row["threshold"]) == ("d", "volatile_rows", 4.0, 4.0)
    assert row["others_median"] == 0.0 and not row["declared"]
    assert row["reason"] == "4 volatile positions in pass, 4 are enough"


def test_beside_silent_windows_every_difference_is_proposed(make_protocol, make_table):
    protocol = make_protocol(FOUR)
    floor = make_table(protocol, kl_full_nats=by_window({"a": 0.0, "b": 0.0, "c": 1e-6, "d": 0.0}))
    (row,) = proposals_table({"launch": floor}, protocol).to_pylist()
    assert row["window"] == "c" and row["threshold"] == 0.0
    assert row["reason"] == "mean of launch above 0, the other windows' median is not"
    assert proposals_table({"launch": make_table(protocol)}, protocol).num_rows == 0
    below = make_table(protocol, kl_full_nats=np.full(40, -1e-6))
    assert proposals_table({"launch": below}, protocol).num_rows == 0


def test_two_windows_nothing_and_another_arms_floor_propose_nothing(make_protocol, make_table):
    declared = [{"name": "theirs", "arm": "q4_0", "kind": "launch"}]
    protocol = make_protocol(FOUR, floors=declared)
    kl = by_window({"a": 0.0, "b": 0.0, "c": 0.0, "d": 9.0})
    assert proposals_table({"theirs": make_table(protocol, kl_full_nats=kl)}, protocol).num_rows == 0
    two = make_table(protocol, windows=("c", "d"), kl_full_nats=kl[20:], candidate_nll_nats=np.full(20, 99.0))
    assert proposals_table({"launch": two}, protocol).num_rows == 0
    assert proposals_table({"launch": two.slice(0, 0)}, protocol).num_rows == 0
    assert proposals_table({}, protocol).schema.equals(PROPOSALS)


def test_windows_without_a_finite_value_take_no_part(make_protocol, make_table):
    protocol = make_protocol(FOUR)
    kl = by_window({"a": np.nan, "b": 1.0, "c": np.nan, "d": 100.0})
    assert proposals_table({"launch": make_table(protocol, kl_full_nats=kl)}, protocol).num_rows == 0


def test_proposals_go_by_window_rule_and_floor_whatever_the_order(make_protocol, make_table):
    protocol = make_protocol(FOUR, outlier_rule={"volatile_rows": 10})
    kl = by_window({"a": 9.0, "b": 1.0, "c": 1.0, "d": 1.0})
    one = make_table(protocol, kl_full_nats=kl, candidate_nll_nats=by_window({"a": 5.0, "b": 1, "c": 1, "d": 3}))
    shuffled = one.take(np.random.default_rng(2).permutation(40))
    found = proposals_table({"y": one, "x": shuffled}, protocol)
    assert [(row["window"], row["rule"], row["floor"]) for row in found.to_pylist()] == [
        ("a", "floor_multiple", "x"),
        ("a", "floor_multiple", "y"),
        ("a", "volatile_rows", "x"),
        ("a", "volatile_rows", "y"),
        ("d", "volatile_rows", "x"),
        ("d", "volatile_rows", "y"),
    ]
