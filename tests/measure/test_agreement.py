"""Kendall's tau-b against its definition, and which figures and arms are set beside each other."""

from __future__ import annotations

import itertools
import math

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drift_runs.measure.agreement import agreement_table, kendall_tau, order_of
from drift_runs.measure.figures import Figure, figures_table
from drift_runs.schema import AGREEMENT

LISTS = st.integers(2, 9).flatmap(
    lambda n: st.tuples(*[st.lists(st.integers(-3, 3).map(float), min_size=n, max_size=n)] * 2)
)


@pytest.mark.parametrize(
    ("x", "y", "tau"),
    [
        ([1, 2, 3], [10, 20, 30], 1.0),
        ([1, 2, 3], [3, 2, 1], -1.0),
        ([1, 2, 3, 4], [1, 2, 4, 3], 4 / 6),
        ([1, 1, 2], [1, 2, 3], 2 / math.sqrt(2 * 3)),
        ([1, 2, 2, 3], [1, 2, 3, 4], 5 / math.sqrt(5 * 6)),
        ([5, 5, 5], [1, 2, 3], None),
        ([1], [2], None),
        ([], [], None),
    ],
)
def test_known_values(x: list[float], y: list[float], tau: float | None):
    assert kendall_tau(x, y) == (tau if tau is None else pytest.approx(tau))


@settings(deadline=None)
@given(LISTS)
def test_counts_every_pair(lists: tuple[list[float], list[float]]):
    x, y = lists
    pairs = list(itertools.combinations(range(len(x)), 2))
    products = [(x[a] - x[b]) * (y[a] - y[b]) for a, b in pairs]
    order = order_of(x, y)
    assert order.concordant == sum(product > 0 for product in products)
    assert order.discordant == sum(product < 0 for product in products)
    assert order.concordant + order.discordant + order.tied == len(pairs)


@settings(deadline=None)
@given(LISTS, st.randoms())
def test_symmetric_and_blind_to_order_and_scale(lists: tuple[list[float], list[float]], random):
    x, y = lists
    tau = kendall_tau(x, y)
    assert kendall_tau(y, x) == tau
    shuffled = list(zip(x, y, strict=True))
    random.shuffle(shuffled)
    assert kendall_tau([a for a, _ in shuffled], [b for _, b in shuffled]) == tau
    assert kendall_tau([7 * value - 2 for value in x], y) == tau
    assert tau is None or -1 - 1e-12 <= tau <= 1 + 1e-12
    assert kendall_tau(x, x) == (None if len(set(x)) == 1 else 1.0)


@pytest.mark.parametrize(("x", "y"), [([1.0, math.nan], [1.0, 2.0]), ([1.0], [1.0, 2.0]), ([1.0], [math.inf])])
def test_refuses_what_has_no_order(x: list[float], y: list[float]):
    with pytest.raises(ValueError, match="as many finite numbers"):
        kendall_tau(x, y)


def arm(name: str, values: dict[str, float | None], outliers: tuple[str, ...] = ("with", "without")) -> pa.Table:
    figures = []
    for key, value in values.items():
        spec, statistic = key.split("/")
        state = "withheld" if value is None else "indicative" if statistic == "p95" else "firm"
        for choice in outliers:
            figures.append(
                Figure(
                    arm=name,
                    scope_kind="all",
                    scope="all",
                    outliers=choice,
                    spec=spec,
                    statistic=statistic,
                    value=value,
                    n=500,
                    state=state,
                )
            )
    return figures_table(figures)


def rows(table: pa.Table, choice: str = "with") -> dict[tuple[str, str], dict]:
    assert table.schema == AGREEMENT
    return {(row["left"], row["right"]): row for row in table.to_pylist() if row["outliers"] == choice}


def test_sets_every_two_figures_beside_each_other():
    figures = {
        name: arm(
            name,
            {
                "flip/rate": rate,
                "kl.full/mean": mean,
                "kl.full/p95": mean * 4,
                "kl.full/max": 9.0,
                "js.full/mean": mean,
                "dnll/mean": -mean,
                "dentropy.full/mean": rate,
            },
        )
        for name, rate, mean in (("q8", 0.01, 0.001), ("q6", 0.02, 0.004), ("q4", 0.05, 0.003))
    }
    found = rows(agreement_table(figures))
    # js.full has no quantiles, so it is not the headline; the maximum is no figure to rank by.
    names = ["kl.full/mean", "kl.full/p95", "flip/rate", "dnll/mean", "dentropy.full/mean"]
    assert list(found) == list(itertools.combinations(names, 2))
    one = found["kl.full/mean", "flip/rate"]
    assert (one["concordant"], one["discordant"], one["tied"], one["arms"]) == (2, 1, 0, 3)
    assert one["tau"] == pytest.approx(1 / 3) and one["reason"] == ""
    assert found["kl.full/mean", "dnll/mean"]["tau"] == -1.0
    assert rows(agreement_table(figures), "without").keys() == found.keys()


def test_withheld_values_leave_their_arm_out():
    figures = {
        name: arm(name, {"kl.full/p95": p95, "flip/rate": rate, "flip.strict/rate": 0.5})
        for name, p95, rate in (("a", 0.1, 0.1), ("b", 0.2, 0.2), ("c", 0.3, 0.1), ("d", None, 0.4))
    }
    found = rows(agreement_table(figures))
    first = found["kl.full/p95", "flip/rate"]
    assert (first["arms"], first["concordant"], first["tied"]) == (3, 1, 1)
    assert first["tau"] == pytest.approx((1 - 1) / math.sqrt(3 * 2)) and first["discordant"] == 1
    assert first["reason"] == "1 arm left out: withheld or absent"
    flat = found["flip/rate", "flip.strict/rate"]
    assert flat["tau"] is None and flat["reason"] == "every arm has the same flip.strict/rate" and flat["arms"] == 4


def test_fewer_than_three_arms_have_no_order():
    figures = {name: arm(name, {"kl.full/p95": 0.1, "flip/rate": 0.1}) for name in ("a", "b")}
    [row] = rows(agreement_table(figures)).values()
    assert row["tau"] is None and row["reason"] == "2 arms with both figures, 3 needed"


def test_another_k_is_another_figure():
    figures = {
        name: arm(name, {f"kl.topk-shared@{k}/mean": 0.1 * at, f"kl.topk-shared@{k}/p95": 1.0, "flip/rate": 0.1 * at})
        for at, (name, k) in enumerate([("a", 20), ("b", 20), ("c", 20), ("d", 64)])
    }
    found = rows(agreement_table(figures))
    assert found["kl.topk-shared@20/mean", "flip/rate"]["arms"] == 3
    assert found["kl.topk-shared@64/mean", "flip/rate"]["tau"] is None


def test_no_arm_and_no_figure_give_an_empty_table():
    assert agreement_table({}).num_rows == 0 and agreement_table({}).schema == AGREEMENT
    assert agreement_table({"a": figures_table([])}).num_rows == 0
