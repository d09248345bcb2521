"""Figures of means by context, and the difference of two candidates."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drift_runs.errors import NotComparable
from drift_runs.measure.context_pairs import context_pairs
from drift_runs.measure.contexts import ONLY_MEANS, paired_contexts, summarise_contexts
from drift_runs.measure.resampler import Resampler
from drift_runs.schema import CONTEXTS, FIGURES, PAIRS

RESAMPLER = Resampler(seed=3, resamples=300)
ROWS = [
    ("c0", "d1", "prose", 10, 0.1, 0.9),
    ("c1", "d1", "prose", 30, 0.2, 0.8),
    ("c2", "d2", "code", 20, 0.05, 1.0),
    ("c3", "d3", "code", 40, 0.3, 0.75),
]


def table(rows) -> pa.Table:
    names = ("context", "cluster", "group", "positions", "mean_nats", "top1_agreement")
    return pa.Table.from_pylist(
        [dict(zip(names, row, strict=True)) | {"median_nats": None} for row in rows], schema=CONTEXTS
    )


def figure(figures: pa.Table, spec: str, statistic: str, scope: str = "all", outliers: str = "with") -> dict:
    wanted = (spec, statistic, scope, outliers)
    (row,) = (
        row for row in figures.to_pylist() if (row["spec"], row["statistic"], row["scope"], row["outliers"]) == wanted
    )
    return row


def test_without_declared_outliers_both_views_are_the_same():
    figures = summarise_contexts(table(ROWS), arm="q4", resampler=RESAMPLER)
    for spec, statistic in (("kl.full", "mean"), ("flip", "rate"), ("kl.full", "p95")):
        one, other = (figure(figures, spec, statistic, "all", outliers) for outliers in ("with", "without"))
        assert one == {**other, "outliers": "with"}


def test_pairs_are_the_paired_differences_of_every_two_arms():
    better = [(*row[:4], row[4] / 2, row[5]) for row in ROWS]
    other = [("c9", "d9", "code", 7, 0.1, 1.0)]
    pairs = context_pairs({"a": table(ROWS), "b": table(better), "c": table(other)}, RESAMPLER)
    assert pairs.schema == PAIRS
    rows = pairs.filter(pc.equal(pairs["outliers"], "with")).to_pylist()
    mean, flip = (row for row in rows if (row["left"], row["right"]) == ("a", "b"))
    assert mean["difference"] == pytest.approx(0.2 - 0.1) and (mean["windows"], mean["windows_left_above"]) == (4, 4)
    assert (flip["spec"], flip["difference"], flip["p_mcnemar"]) == ("flip", 0, None)
    # Three clusters, all of one sign: 2 of 8 choices of signs are as far from 0.
    assert mean["p_sign_flip"] == pytest.approx(0.25) and "3" in mean["sign_flip"]
    refused = [row for row in rows if row["right"] == "c"]
    assert len(refused) == 2 and all(row["difference"] is None and row["reason"] for row in refused)
    assert context_pairs({"a": table(ROWS)}, RESAMPLER).num_rows == 0


def test_means_weigh_positions_and_window_means_do_not():
    figures = summarise_contexts(table(ROWS), arm="q4", resampler=RESAMPLER)
    assert figures.schema == FIGURES and set(figures["arm"].to_pylist()) == {"q4"}
    mean = figure(figures, "kl.full", "mean")
    assert mean["value"] == pytest.approx((1 + 6 + 1 + 12) / 100)
    assert (mean["n"], mean["clusters"], mean["excluded"]) == (100, 3, 0)
    assert mean["low"] < mean["value"] < mean["high"] and mean["standard_error"] > 0
    assert "3 documents" in mean["interval"] and "cover less" in mean["reason"]
    assert figure(figures, "kl.full", "window_mean")["value"] == pytest.approx((0.1 + 0.2 + 0.05 + 0.3) / 4)
    assert figure(figures, "flip", "rate")["value"] == pytest.approx((1 + 6 + 0 + 10) / 100)
    assert figure(figures, "flip", "count")["value"] == 17
    code = figure(figures, "kl.full", "mean", "code")
    assert code["value"] == pytest.approx(13 / 60) and code["scope_kind"] == "group" and code["clusters"] == 2


def test_one_cluster_has_no_interval():
    prose = figure(summarise_contexts(table(ROWS), arm="q4", resampler=RESAMPLER), "kl.full", "mean", "prose")
    assert prose["value"] == pytest.approx(7 / 40)
    assert (prose["low"], prose["high"], prose["interval"]) == (None, None, "")
    assert prose["reason"] == "1 document: no interval between documents"


@pytest.mark.parametrize("statistic", ["p50", "p95", "p99.9", "max", "tail_share"])
def test_what_needs_positions_is_absent_with_its_reason(statistic: str):
    row = figure(summarise_contexts(table(ROWS), arm="q4", resampler=RESAMPLER), "kl.full", statistic)
    assert (row["value"], row["state"], row["reason"]) == (None, "withheld", ONLY_MEANS)


def test_a_context_without_a_value_is_left_out_and_counted():
    rows = [*ROWS, ("c4", "d4", "code", 50, None, None), ("c5", "d4", "code", 7, float("nan"), 1.0)]
    figures = summarise_contexts(table(rows), arm="q4", resampler=RESAMPLER)
    mean = figure(figures, "kl.full", "mean")
    assert mean["value"] == pytest.approx(0.2) and (mean["n"], mean["excluded"], mean["clusters"]) == (100, 57, 3)
    assert figure(figures, "flip", "rate")["value"] == pytest.approx(17 / 107)


@pytest.mark.parametrize("rows", [[], [("c", "d", "", 5, None, None)]])
def test_no_value_at_all(rows):
    figures = summarise_contexts(table(rows), arm="q4", resampler=RESAMPLER)
    for spec, statistic in (("kl.full", "mean"), ("kl.full", "window_mean"), ("flip", "rate"), ("flip", "count")):
        row = figure(figures, spec, statistic)
        assert (row["value"], row["n"], row["state"]) == (None, 0, "withheld") and row["reason"]


def test_a_pair_by_hand():
    other = [
        ("c0", "d1", "prose", 10, 0.2, 0.8),
        ("c1", "d1", "prose", 30, 0.1, 0.9),
        ROWS[2],
        ("c3", "d3", "code", 40, 0.4, 0.5),
    ]
    kl, flip = paired_contexts(table(ROWS), table(reversed(other)), resampler=RESAMPLER)
    assert (kl.spec, flip.spec) == ("kl.full", "flip")
    assert kl.difference == pytest.approx((-1 + 3 + 0 - 4) / 100)
    assert kl.left == pytest.approx(0.2) and kl.right == pytest.approx(0.22)
    assert (kl.left_lower, kl.right_lower, kl.equal, kl.contexts, kl.n) == (2, 1, 1, 4, 100)
    assert flip.difference == pytest.approx(0.17 - 0.25)
    assert kl.low < kl.difference < kl.high


def test_the_signs_of_clusters_decide_between_two_candidates():
    # Every document is worse on the right: of the 8 choices of signs the one seen and its mirror are as large.
    other = [(name, cluster, group, n, mean + 0.1, share - 0.05) for name, cluster, group, n, mean, share in ROWS]
    for item in paired_contexts(table(ROWS), table(other), resampler=RESAMPLER):
        assert (item.p_sign_flip, item.sign_flip) == (0.25, "exact, all signs of 3 documents")
    # A document that one side knows nothing of has no sign.
    other[2] = (*other[2][:4], None, None)
    kl, _ = paired_contexts(table(ROWS), table(other), resampler=RESAMPLER)
    assert (kl.p_sign_flip, kl.sign_flip) == (0.5, "exact, all signs of 2 documents")


def test_few_clusters_have_students_t_on_the_log_of_their_means():
    mean = figure(summarise_contexts(table(ROWS), arm="q4", resampler=RESAMPLER), "kl.full", "mean")
    logs = np.log([7 / 40, 0.05, 0.3])
    variance = logs.var(ddof=1)
    centre, reach = logs.mean() + variance / 2, 4.302652729749464 * np.sqrt(variance / 3 + variance**2 / 4)
    assert (mean["t_low"], mean["t_high"]) == pytest.approx(tuple(np.exp([centre - reach, centre + reach])))


def test_a_pair_with_itself_is_exactly_zero():
    for item in paired_contexts(table(ROWS), table(ROWS), resampler=RESAMPLER):
        assert (item.difference, item.low, item.high, item.equal) == (0, 0, 0, 4)


def test_a_context_that_one_side_lacks_a_value_of():
    kl, _ = paired_contexts(table(ROWS), table([("c0", "d1", "prose", 10, None, 0.9), *ROWS[1:]]), resampler=RESAMPLER)
    assert (kl.excluded, kl.contexts, kl.n, kl.difference) == (1, 3, 90, 0)


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (ROWS[:3], "not the same contexts (4 contexts and 3)"),
        ([*ROWS[:3], ("c9", "d3", "code", 40, 0.3, 0.75)], "not the same contexts"),
        ([*ROWS[:3], ("c3", "d9", "code", 40, 0.3, 0.75)], "differ in cluster"),
        ([*ROWS[:3], ("c3", "d3", "prose", 40, 0.3, 0.75)], "differ in group"),
        ([*ROWS[:3], ("c3", "d3", "code", 41, 0.3, 0.75)], "differ in positions"),
        ([*ROWS[:3], ROWS[0]], "a context stands twice"),
    ],
)
def test_what_cannot_be_paired(other, words):
    with pytest.raises(NotComparable) as caught:
        paired_contexts(table(ROWS), table(other), resampler=RESAMPLER)
    assert words in caught.value.line()


contexts = st.lists(
    st.tuples(st.sampled_from("xyz"), st.integers(1, 50), st.floats(0, 9), st.floats(0, 1)), min_size=1, max_size=12
)


@given(contexts, st.randoms())
def test_the_order_of_contexts_does_not_move_a_value(rows, random):
    rows = [(str(at), cluster, "g", *rest) for at, (cluster, *rest) in enumerate(rows)]
    shuffled = random.sample(rows, len(rows))
    resampler = Resampler(seed=0, resamples=100)
    one, other = (summarise_contexts(table(given_rows), arm="", resampler=resampler) for given_rows in (rows, shuffled))
    for spec, statistic in (("kl.full", "mean"), ("flip", "rate"), ("kl.full", "window_mean")):
        assert figure(one, spec, statistic)["value"] == pytest.approx(
            figure(other, spec, statistic)["value"], abs=1e-12
        )
    expected = np.average([row[4] for row in rows], weights=[row[3] for row in rows])
    assert figure(one, "kl.full", "mean")["value"] == pytest.approx(expected, abs=1e-12)
