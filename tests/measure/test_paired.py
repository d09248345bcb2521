"""Two arms against each other: known answers, what is left out, and what must not be compared."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from drift_runs.errors import NotComparable
from drift_runs.measure.paired import NOTHING_SWITCHED, pairs_table
from drift_runs.measure.permutation import mcnemar
from drift_runs.schema import PAIRS

SPANS = {
    "a": ("A", "d1", [(1, 41)]),
    "b": ("A", "d2", [(1, 31)]),
    "c": ("B", "d3", [(5, 35)]),
    "d": ("B", "d3", [(50, 60)]),
}
N = 110


def rows(table: pa.Table, **wanted: str) -> list[dict]:
    assert table.schema == PAIRS
    place = {"scope": "all", "outliers": "with", **wanted}
    return [row for row in table.to_pylist() if all(row[name] == value for name, value in place.items())]


def numbers(row: dict) -> dict:
    return {name: value for name, value in row.items() if value is not None and not isinstance(value, str)}


@pytest.fixture
def protocol(make_protocol):
    return make_protocol(SPANS, outliers=("b",), intervals={"resamples": 300})


@pytest.fixture
def arms(protocol, make_table):
    generator = np.random.default_rng(1)

    def arm(level: float) -> pa.Table:
        return make_table(
            protocol,
            kl_full_nats=generator.lognormal(level, 1, N),
            flip=(generator.random(N) < 0.2).astype(float),
            candidate_nll_nats=1 + generator.normal(0, 0.1, N),
        )

    return {"q8": arm(-4), "q6": arm(-3), "q4": arm(-2)}


def column(table: pa.Table, name: str) -> np.ndarray:
    return table[name].cast(pa.float64()).to_numpy(zero_copy_only=False)


def test_every_two_arms_scopes_choices_and_figures(protocol, arms):
    table = pairs_table(arms, protocol)
    order = [(row["left"], row["right"]) for row in table.to_pylist()]
    assert list(dict.fromkeys(order)) == [("q8", "q6"), ("q8", "q4"), ("q6", "q4")]
    one = [row for row in table.to_pylist() if (row["left"], row["right"]) == ("q8", "q4")]
    places = [(row["outliers"], row["scope_kind"], row["scope"]) for row in one[::4]]
    assert places == [
        (choice, kind, scope)
        for choice in ("with", "without")
        for kind, scope in (("all", "all"), ("panel", "A"), ("panel", "B"))
    ]
    assert [(row["spec"], row["statistic"]) for row in one[:4]] == [
        ("kl.full", "mean"),
        ("flip", "rate"),
        ("dnll", "mean"),
        ("entropy.full.candidate", "mean"),
    ]


def test_known_answer(protocol, arms):
    q8, q4 = arms["q8"], arms["q4"]
    [kl, flip, dnll, _] = rows(pairs_table({"q8": q8, "q4": q4}, protocol))
    left, right = column(q8, "kl_full_nats"), column(q4, "kl_full_nats")
    assert (kl["left_value"], kl["right_value"]) == pytest.approx((left.mean(), right.mean()))
    assert kl["difference"] == pytest.approx((left - right).mean()) and (kl["n"], kl["excluded"]) == (N, 0)
    assert (
        kl["low"] <= kl["difference"] <= kl["high"] < 0 and kl["interval"] == "percentile bootstrap, 95 %, 3 documents"
    )
    assert kl["clusters"] == 3 and kl["reason"] == "3 documents: such intervals cover less than they claim"
    # d3 is two windows; every document is lower, so of 8 choices of signs the one seen and its mirror are as large.
    assert (kl["p_sign_flip"], kl["sign_flip"]) == (0.25, "exact, all signs of 3 documents")
    assert (kl["windows"], kl["windows_left_above"]) == (4, 0) and kl["p_mcnemar"] is None and kl["left_only"] is None
    one, other = column(q8, "flip") == 1, column(q4, "flip") == 1
    assert (flip["left_only"], flip["right_only"]) == (int((one & ~other).sum()), int((other & ~one).sum()))
    assert flip["p_mcnemar"] == mcnemar(flip["left_only"], flip["right_only"])
    assert flip["difference"] == pytest.approx(one.mean() - other.mean())
    assert dnll["difference"] == pytest.approx(
        (column(q8, "candidate_nll_nats") - column(q4, "candidate_nll_nats")).mean()
    )
    residuals = np.array([(left - right)[s].sum() for s in (slice(40), slice(40, 70), slice(70, N))])
    residuals -= (left - right).mean() * np.array([40, 30, 40])
    assert kl["standard_error"] == pytest.approx(np.sqrt(1.5 * (residuals**2).sum()) / N)


def test_in_how_many_windows_one_candidate_is_flatter_than_the_other(protocol, make_table):
    # The first window of the four is sharper on the left, the last one is equal.
    left, right = np.full(N, 1.5), np.full(N, 1.25)
    left[:40], right[100:] = 0.5, 1.5
    [*_, entropy] = rows(
        pairs_table(
            {
                "left": make_table(protocol, candidate_entropy_nats=left),
                "right": make_table(protocol, candidate_entropy_nats=right),
            },
            protocol,
        )
    )
    assert (entropy["spec"], entropy["statistic"], entropy["n"]) == ("entropy.full.candidate", "mean", N)
    assert (entropy["windows"], entropy["windows_left_above"]) == (4, 2)
    assert entropy["difference"] == pytest.approx((left - right).mean())


def test_entropy_of_k_entries_is_set_against_the_same_alone(make_protocol, make_table):
    protocol = make_protocol(SPANS, capture={"divergence": "kl.topk-shared", "full_vocabulary": "no"})
    entries = {"candidate_entropy_nats": np.nan, "reference_entropy_nats": np.nan, "kl_topk_shared_nats": 0.1}
    one = make_table(protocol, candidate_entropy_topk_nats=1.0, top_k=20.0, **entries)
    other = make_table(protocol, candidate_entropy_topk_nats=0.75, top_k=20.0, **entries)
    [*_, entropy] = rows(pairs_table({"one": one, "other": other}, protocol))
    assert (entropy["spec"], entropy["difference"]) == ("entropy.topk@20.candidate", 0.25)
    full = make_table(protocol, top_k=20.0, kl_topk_shared_nats=0.1)
    [*_, entropy] = rows(pairs_table({"one": one, "full": full}, protocol))
    assert entropy["difference"] is None
    assert entropy["reason"] == "another definition on each side: entropy.topk@20.candidate and entropy.full.candidate"


def test_a_panel_and_the_outliers_left_out(protocol, arms):
    table = pairs_table({"q8": arms["q8"], "q4": arms["q4"]}, protocol)
    difference = column(arms["q8"], "kl_full_nats") - column(arms["q4"], "kl_full_nats")
    for place, chosen, windows in (
        ({"scope": "A"}, slice(0, 70), 2),
        ({"scope": "A", "outliers": "without"}, slice(0, 40), 1),
        ({"scope": "B", "outliers": "without"}, slice(70, N), 2),
    ):
        kl = rows(table, **place)[0]
        assert kl["difference"] == pytest.approx(difference[chosen].mean()) and kl["windows"] == windows
    alone = rows(table, scope="B")[0]
    assert alone["reason"] == "1 document: no interval between documents" and alone["clusters"] == 1
    assert [alone[name] for name in ("low", "high", "bca_low", "standard_error", "p_sign_flip")] == [None] * 5
    assert (alone["interval"], alone["sign_flip"]) == ("", "")


def test_only_positions_that_both_have_and_what_is_left_out_is_counted(protocol, make_table):
    kl = np.full(N, 0.5)
    kl[:4] = np.nan
    left = make_table(protocol, kl_full_nats=kl)
    right = make_table(protocol, windows=("d", "a"), kl_full_nats=0.25)
    [found, flip, _, _] = rows(pairs_table({"left": left, "right": right}, protocol))
    assert (found["n"], found["excluded"], found["difference"]) == (46, N - 46, 0.25)
    assert (flip["n"], flip["excluded"], flip["difference"]) == (50, N - 50, 0)
    assert found["windows"] == found["windows_left_above"] == 2


def test_no_position_in_common_and_nothing_measured(protocol, make_table):
    left = make_table(protocol, windows=("a",), kl_full_nats=np.nan)
    for right in (
        make_table(protocol, windows=("c",)),
        make_table(protocol, windows=("a",)),
        make_table(protocol, windows=()),
    ):
        kl = rows(pairs_table({"left": left, "right": right}, protocol))[0]
        assert kl["reason"] == "no position has both figures" and kl["difference"] is None and kl["n"] == 0
    empty = pairs_table({"left": left.slice(0, 0), "right": left.slice(0, 0)}, protocol)
    assert {row["scope"] for row in empty.to_pylist()} == {"all"} and empty["difference"].null_count == empty.num_rows


def test_no_arm_and_one_arm_have_no_pair(protocol, arms):
    assert pairs_table({}, protocol).num_rows == pairs_table({"q8": arms["q8"]}, protocol).num_rows == 0
    assert pairs_table({}, protocol).schema == PAIRS


def test_arms_that_are_equal_everywhere_did_nothing(protocol, arms, make_table):
    [kl, flip, dnll, _] = rows(pairs_table({"one": arms["q8"], "two": arms["q8"]}, protocol))
    assert all(row["reason"].startswith(NOTHING_SWITCHED) for row in (kl, flip, dnll))
    assert kl["difference"] == 0 and kl["p_sign_flip"] == 1 and flip["p_mcnemar"] == 1
    assert kl["bca_low"] is None and (kl["low"], kl["high"]) == (0, 0)
    # Without a divergence, rows with the reference's bytes on both sides say the same.
    unknown = make_table(protocol, kl_full_nats=np.nan, row_identical=1.0)
    assert rows(pairs_table({"one": unknown, "two": unknown}, protocol))[1]["reason"].startswith(NOTHING_SWITCHED)
    unhashed = make_table(protocol, kl_full_nats=np.nan, row_identical=np.nan)
    assert NOTHING_SWITCHED not in rows(pairs_table({"one": unknown, "two": unhashed}, protocol))[1]["reason"]


def test_equal_in_one_panel_alone_is_no_accusation(protocol, make_table):
    kl = np.linspace(0.1, 0.2, N)
    other = np.where(np.arange(N) < 70, kl, kl * 2)
    found = pairs_table(
        {"one": make_table(protocol, kl_full_nats=kl), "two": make_table(protocol, kl_full_nats=other)}, protocol
    )
    assert not any(NOTHING_SWITCHED in row["reason"] for row in found.to_pylist())


def test_another_k_is_another_definition(make_protocol, make_table):
    protocol = make_protocol(SPANS, capture={"divergence": "kl.topk-shared", "full_vocabulary": "no"})
    left = make_table(protocol, kl_topk_shared_nats=0.1, top_k=20.0)
    right = make_table(protocol, kl_topk_shared_nats=0.1, top_k=64.0)
    [kl, flip, _, _] = rows(pairs_table({"left": left, "right": right}, protocol))
    assert kl["spec"] == "kl.topk-shared@20" and numbers(kl) == {"n": 0, "excluded": N}
    assert kl["reason"] == "another definition on each side: kl.topk-shared@20 and kl.topk-shared@64"
    assert flip["difference"] == 0 and NOTHING_SWITCHED not in flip["reason"]


def test_another_reference_gives_no_numbers(make_protocol, make_table):
    arms = [
        {"name": "f16", "role": "reference", "derivative": "stock", "weights": "f16"},
        {"name": "one", "role": "candidate", "derivative": "stock", "weights": "q8", "engine": "imported"},
        {
            "name": "two",
            "role": "candidate",
            "derivative": "stock",
            "weights": "q8",
            "engine": "imported",
            "against": "one",
        },
    ]
    protocol = make_protocol(SPANS, arms=arms)
    found = pairs_table({name: make_table(protocol) for name in ("one", "two")}, protocol)
    assert set(found["reason"].to_pylist()) == {"another reference on each side: the protocol's and one"}
    assert found["left_value"].null_count == found.num_rows


def test_a_position_that_stands_twice_is_refused(protocol, arms):
    twice = pa.concat_tables([arms["q8"], arms["q8"].slice(3, 1)])
    with pytest.raises(NotComparable, match="arm q8: a position stands twice"):
        pairs_table({"q8": twice, "q4": arms["q4"]}, protocol)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10**6), ties=st.booleans(), missing=st.booleans())
def test_swapping_the_arms_turns_everything_round_and_the_order_of_rows_does_not_matter(
    protocol, make_table, seed, ties, missing
):
    generator = np.random.default_rng(seed)

    def arm() -> pa.Table:
        kl = generator.lognormal(-3, 1, N)
        if ties:
            kl = np.round(kl, 1)
        if missing:
            kl[generator.random(N) < 0.3] = np.nan
        return make_table(protocol, kl_full_nats=kl, flip=(generator.random(N) < 0.3).astype(float))

    one, two = arm(), arm()
    plain = pairs_table({"one": one, "two": two}, protocol)
    order = generator.permutation(N)
    assert pairs_table({"one": one.take(order), "two": two}, protocol).equals(plain)
    for row, swapped in zip(
        plain.to_pylist(), pairs_table({"two": two, "one": one}, protocol).to_pylist(), strict=True
    ):
        assert swapped["left_value"] == row["right_value"] and swapped["n"] == row["n"]
        for name, other in (("difference", "difference"), ("low", "high"), ("bca_low", "bca_high")):
            assert (swapped[name] is None) == (row[other] is None)
            if row[other] is not None:
                assert swapped[name] == pytest.approx(-row[other], rel=1e-9, abs=1e-15)
        for name, other in (("p_sign_flip", "p_sign_flip"), ("p_mcnemar", "p_mcnemar"), ("left_only", "right_only")):
            assert swapped[name] == row[other]
