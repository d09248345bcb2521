"""The distribution against the values that it was made of."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from drift_runs import schema
from drift_runs.measure import distribution
from drift_runs.measure.distribution import distribution_table, exceedance
from drift_runs.measure.histograms import EDGES
from drift_runs.schema import RowFlag

NAN = math.nan
SPANS = {"b": ("A", "one", [(3, 6), (8, 10)]), "a": ("B", "two", [(1, 4)])}


@pytest.fixture
def protocol(make_protocol):
    """Positions: b 3 4 5 8 9, a 1 2 3; a is an outlier."""
    return make_protocol(SPANS, outliers=("a",))


def rows_of(table: pa.Table, scope: str = "all", outliers: str = "with") -> list[dict]:
    return [row for row in table.to_pylist() if (row["scope"], row["outliers"]) == (scope, outliers)]


def test_counts_of_known_values(protocol, make_table) -> None:
    values = np.array([0.1, 0.1, 0.0, NAN, NAN, 2.0, -1e-6, 5e-13])
    flags = np.array([0, 0, 0, RowFlag.INFINITE_KL, 0, 0, 0, 0])
    found = distribution_table(make_table(protocol, kl_full_nats=values, flags=flags), protocol, arm="q4_0")
    assert found.schema.equals(schema.DISTRIBUTION, check_metadata=True)
    whole = rows_of(found)
    assert {(row["n"], row["not_positive"], row["infinite"], row["missing"]) for row in whole} == {(6, 2, 1, 1)}
    assert [row["count"] for row in whole] == [1, 2, 1]
    assert (whole[0]["low_nats"], whole[0]["high_nats"]) == (0.0, pytest.approx(1e-12))
    for row, value in zip(whole[1:], (0.1, 2.0), strict=True):
        assert row["low_nats"] <= value < row["high_nats"]
        assert row["high_nats"] / row["low_nats"] == pytest.approx(10 ** (1 / 40))
    assert [row["count"] for row in rows_of(found, "all", "only")] == [1, 1]
    assert [row["n"] for row in rows_of(found, "all", "without")] == [3]
    assert {row["scope_kind"] for row in found.to_pylist()} == {"all", "panel", "role", "kind"}


def test_a_scope_without_a_positive_value_keeps_its_counts(protocol, make_table) -> None:
    found = distribution_table(make_table(protocol, kl_full_nats=np.zeros(8)), protocol, arm="launch")
    (row,) = rows_of(found)
    assert (row["low_nats"], row["high_nats"], row["count"], row["n"], row["not_positive"]) == (None, None, 0, 8, 8)
    assert exceedance(rows_of(found)).n == 8 and len(exceedance(rows_of(found)).at_nats) == 0


def test_a_value_above_all_edges_has_no_upper_edge(protocol, make_table) -> None:
    found = distribution_table(make_table(protocol, kl_full_nats=np.full(8, 1e6)), protocol, arm="q4_0")
    (row,) = rows_of(found)
    assert (row["low_nats"], row["high_nats"], row["count"]) == (pytest.approx(1e4), None, 8)
    assert exceedance([row]).count.tolist() == [8]


VALUES = st.lists(
    st.one_of(st.floats(1e-9, 30), st.sampled_from([0.0, -1e-6, 1e-13, float(EDGES[300]), NAN])), min_size=8, max_size=8
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(values=VALUES)
def test_exceedance_equals_a_count_of_the_values_at_every_edge(values, protocol, make_table) -> None:
    array = np.array(values)
    found = distribution_table(make_table(protocol, kl_full_nats=array), protocol, arm="q4_0")
    steps = exceedance(rows_of(found))
    finite = array[np.isfinite(array)]
    assert steps.n == len(finite)
    assert steps.count.tolist() == [int((finite >= edge).sum()) for edge in steps.at_nats]
    assert all(np.diff(steps.at_nats) > 0) and all(np.diff(steps.count) <= 0)
    first = rows_of(found)[0]
    assert sum(row["count"] for row in rows_of(found)) + first["not_positive"] == first["n"]


def test_parts_of_a_large_table_give_what_the_whole_gives(protocol, make_table, monkeypatch) -> None:
    table = make_table(protocol, kl_full_nats=np.array([0.1, 0.5, 0, -1e-6, NAN, 0.5, 2, 0.1]))
    whole = distribution_table(table, protocol, arm="q4_0")
    monkeypatch.setattr(distribution, "ROWS_AT_ONCE", 3)
    names = ["scope_kind", "scope", "outliers", "low_nats"]
    order = [(name, "ascending") for name in names]
    assert distribution_table(table, protocol, arm="q4_0").sort_by(order).equals(whole.sort_by(order))


def test_tails_that_one_part_does_not_say_are_nobodys(make_protocol, make_table, monkeypatch) -> None:
    protocol = make_protocol(SPANS, capture={"divergence": "kl.topk-tail", "top_k": 5})
    said = np.array([0.1, 0.5, 0.2, 0.3, 0.1, 0.5, 2, NAN])
    table = make_table(
        protocol, kl_topk_tail_nats=said, kl_topk_lower_nats=np.full(8, 0.05), top_k=np.full(8, 5), flags=np.zeros(8)
    )
    monkeypatch.setattr(distribution, "ROWS_AT_ONCE", 4)
    found = distribution_table(table, protocol, arm="q4_0")
    assert set(found["spec"].to_pylist()) == {"kl.topk-tail@5"}
    assert pc.sum(found["count"]).as_py() == 0 and rows_of(found)[0]["missing"] == 8


def test_no_row_no_distribution(protocol) -> None:
    empty = distribution_table(schema.COMPARISON.empty_table(), protocol, arm="q4_0")
    assert empty.num_rows == 0 and empty.schema.equals(schema.DISTRIBUTION, check_metadata=True)
    assert exceedance([]).n == 0
