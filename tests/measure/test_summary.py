"""Every figure of one arm: sums that can be checked by hand, floors, verdicts, scopes and empty tables."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from drift_runs.measure.positions import positions_of
from drift_runs.measure.summary import summarise
from drift_runs.schema import FIGURES, RowFlag

SPANS = {
    "a": ("A", "d1", [(10, 210)]),
    "b": ("A", "d2", [(200, 400), (500, 520)]),
    "c": ("B", "d2", [(1, 201)]),
    "out": ("B", "d3", [(300, 500)]),
}
N = 820


def pick(table: pa.Table) -> Callable[..., dict]:
    rows = table.to_pylist()

    def find(scope_kind: str, scope: str, spec: str, statistic: str, outliers: str = "with") -> dict:
        found = [
            row
            for row in rows
            if (row["scope_kind"], row["scope"], row["spec"], row["statistic"], row["outliers"])
            == (scope_kind, scope, spec, statistic, outliers)
        ]
        assert len(found) == 1, f"{len(found)} rows of {scope_kind}/{scope} {spec} {statistic} {outliers}"
        return found[0]

    return find


@pytest.fixture
def protocol(make_protocol):
    return make_protocol(SPANS, outliers=("out",))


@pytest.fixture
def columns() -> dict[str, np.ndarray]:
    generator = np.random.default_rng(1)
    flip = (generator.random(N) < 0.2).astype(float)
    return {
        "kl_full_nats": generator.lognormal(-4, 1.5, N),
        "flip": flip,
        "flip_strict": flip * (generator.random(N) < 0.5),
        "reference_p1": generator.random(N),
        "candidate_nll_nats": 1 + generator.standard_normal(N) * 0.1,
        "dp": generator.standard_normal(N) * 0.01,
        "candidate_entropy_nats": np.full(N, 1.25),
    }


def test_figures_equal_the_plain_sums(protocol, make_table, columns):
    table = summarise(make_table(protocol, **columns), protocol, arm="q4_0", floors={})
    assert table.schema.equals(FIGURES)
    find = pick(table)
    kl, flip = columns["kl_full_nats"], columns["flip"]
    whole = find("all", "all", "kl.full", "mean")
    assert whole["value"] == pytest.approx(kl.mean(), rel=1e-12) and whole["n"] == N
    assert whole["low"] < whole["value"] < whole["high"] and whole["clusters"] == 3
    assert whole["interval"] == "percentile bootstrap, 95 %, 3 documents"
    assert whole["reason"] == "3 documents: such intervals cover less than they claim"
    for name, level in (("p50", 0.5), ("p90", 0.9), ("p95", 0.95)):
        assert find("all", "all", "kl.full", name)["value"] == pytest.approx(np.quantile(kl, level), rel=1e-12)
    assert find("all", "all", "kl.full", "max")["value"] == kl.max()
    assert find("all", "all", "kl.full", "p99.9")["value"] is None
    assert find("all", "all", "kl.full", "tail_share")["value"] == pytest.approx(np.sort(kl)[-41:].sum() / kl.sum())
    assert find("all", "all", "flip", "rate")["value"] == pytest.approx(flip.mean())
    assert find("all", "all", "flip", "count")["value"] == flip.sum()
    assert find("all", "all", "flip.strict", "rate")["value"] == pytest.approx(columns["flip_strict"].mean())
    strong = columns["reference_p1"] >= 0.9
    assert find("all", "all", "strong_overturn", "count")["value"] == flip[strong].sum()
    assert find("all", "all", "strong_overturn", "rate")["value"] == pytest.approx(flip[strong].mean())
    assert find("all", "all", "strong_overturn", "rate")["n"] == strong.sum()
    dnll = columns["candidate_nll_nats"] - 1
    assert find("all", "all", "dnll", "mean")["value"] == pytest.approx(dnll.mean())
    assert find("all", "all", "entropy.full.candidate", "mean")["value"] == 1.25
    assert find("all", "all", "entropy.full", "windows_above")["value"] == 4
    assert find("window", "c", "kl.full", "mean")["value"] == pytest.approx(kl[420:620].mean())
    assert find("panel", "B", "kl.full", "mean")["value"] == pytest.approx(kl[420:].mean())
    assert find("range", "b-1", "kl.full", "mean")["value"] == pytest.approx(kl[400:420].mean())
    assert find("kind", "prose", "kl.full", "mean")["n"] == 400  # a-0 and c-0
    assert find("band", "strong", "flip", "rate")["value"] == pytest.approx(flip[strong].mean())
    means = [kl[:200].mean(), kl[200:420].mean(), kl[420:620].mean(), kl[620:].mean()]
    assert find("all", "all", "kl.full", "window_mean")["value"] == pytest.approx(np.mean(means))


def test_history_scopes_partition_the_positions(protocol, make_table, columns):
    table = summarise(make_table(protocol, **columns), protocol, arm="q4_0", floors={}).to_pylist()
    counts = {
        row["scope"]: row["n"]
        for row in table
        if row["scope_kind"] == "history" and row["statistic"] == "mean" and row["spec"] == "kl.full"
        if row["outliers"] == "with"
    }
    assert counts == {"1-256": 200 + 57 + 200, "257-1,024": 143 + 20 + 200}


def test_outliers_are_given_with_without_and_alone(protocol, make_table, columns):
    find = pick(summarise(make_table(protocol, **columns), protocol, arm="q4_0", floors={}))
    kl = columns["kl_full_nats"]
    assert find("all", "all", "kl.full", "mean", "without")["value"] == pytest.approx(kl[:620].mean())
    only = find("all", "all", "kl.full", "mean", "only")
    assert only["value"] == pytest.approx(kl[620:].mean()) and only["n"] == 200
    # One document has no interval between documents; the one within the text says what it is.
    assert "within this text" in only["interval"] and only["reason"].startswith("1 document: no interval")
    assert find("window", "out", "kl.full", "mean", "only")["n"] == 200
    with pytest.raises(AssertionError, match="0 rows"):
        find("window", "out", "kl.full", "mean", "without")


def test_without_declared_outliers_with_and_without_are_equal(make_protocol, make_table, columns):
    protocol = make_protocol(SPANS)
    rows = summarise(make_table(protocol, **columns), protocol, arm="q4_0", floors={}).to_pylist()
    assert {row["outliers"] for row in rows} == {"with", "without"}
    sides = [[{**row, "outliers": ""} for row in rows if row["outliers"] == side] for side in ("with", "without")]
    assert sides[0] == sides[1]


def test_missing_figures_are_excluded_and_counted(protocol, make_table, columns):
    kl = columns["kl_full_nats"].copy()
    kl[:5] = np.nan
    flags = np.zeros(N)
    flags[:2] = RowFlag.INFINITE_KL
    flip = columns["flip"].copy()
    flip[7] = np.nan
    broken = {**columns, "kl_full_nats": kl, "flags": flags, "flip": flip}
    find = pick(summarise(make_table(protocol, **broken), protocol, arm="q4_0", floors={}))
    mean = find("all", "all", "kl.full", "mean")
    assert (mean["n"], mean["excluded"]) == (N - 5, 5)
    assert mean["value"] == pytest.approx(np.nanmean(kl))
    assert find("all", "all", "kl.full", "excluded")["value"] == 5
    assert find("all", "all", "kl.full", "infinite")["value"] == 2
    assert find("all", "all", "kl.full", "p95")["excluded"] == 5
    # The range that leads says what is missing in it: its own five, of 200 positions.
    kl[5:10] = 1e3
    leads = pick(summarise(make_table(protocol, **{**broken, "kl_full_nats": kl}), protocol, arm="q4_0", floors={}))
    worst = leads("all", "all", "kl.full", "worst_range.mean")
    assert (worst["named"], worst["n"], worst["excluded"]) == ("a-0", 195, 5)
    assert find("all", "all", "flip", "rate")["n"] == N - 1
    assert find("all", "all", "kl.full", "infinite", "only")["value"] == 0


def test_the_harshest_floor_that_covers_the_scope_stands_beside(protocol, make_table, columns):
    floors = {
        "launch": make_table(protocol),
        "geometry": make_table(protocol, kl_full_nats=np.full(N, 1e-4), flip=np.full(N, 0.0)),
        "subset": make_table(protocol, windows=("a",), kl_full_nats=np.full(200, 5.0)),
    }
    find = pick(summarise(make_table(protocol, **columns), protocol, arm="q4_0", floors=floors))
    whole = find("all", "all", "kl.full", "mean")
    assert (whole["floor"], whole["floor_value"]) == ("geometry", pytest.approx(1e-4))
    assert whole["verdict"] == "above" and "margin 1" in whole["verdict_reason"]
    # The subset covers window a, and is the harshest there; over panel A it would be other positions.
    assert find("window", "a", "kl.full", "mean")["floor"] == "subset"
    assert find("panel", "A", "kl.full", "mean")["floor"] == "geometry"
    assert find("all", "all", "kl.full", "p95")["floor_value"] == pytest.approx(1e-4)
    assert find("all", "all", "flip", "rate")["floor_value"] == 0
    assert find("window", "a", "kl.full", "mean")["verdict"] == ""
    alone = pick(summarise(make_table(protocol, **columns), protocol, arm="q4_0", floors={"subset": floors["subset"]}))
    assert (alone("all", "all", "kl.full", "mean")["floor"], alone("all", "all", "kl.full", "mean")["verdict"]) == (
        "",
        "",
    )


def test_a_floor_of_another_arm_is_no_floor_of_the_reference(make_protocol, make_table, columns):
    declared = [{"name": "own", "arm": "f16", "kind": "launch"}, {"name": "theirs", "arm": "q4_0", "kind": "launch"}]
    protocol = make_protocol(SPANS, floors=declared)
    floors = {
        "own": make_table(protocol, kl_full_nats=np.full(N, 1e-5)),
        "theirs": make_table(protocol, kl_full_nats=np.full(N, 0.5)),
    }
    find = pick(summarise(make_table(protocol, **columns), protocol, arm="q4_0", floors=floors))
    assert find("all", "all", "kl.full", "mean")["floor"] == "own"


def test_verdicts_of_a_candidate_that_is_its_floor(protocol, make_table, columns):
    table = make_table(protocol, **columns)
    find = pick(summarise(table, protocol, arm="q4_0", floors={"same": table}))
    assert find("all", "all", "kl.full", "mean")["verdict"] == "within"
    assert find("panel", "A", "kl.full", "mean")["verdict"] == "within"
    # One document decides nothing, however equal it is.
    assert find("all", "all", "kl.full", "mean", "only")["verdict"] == "inconclusive"
    zero = make_table(protocol)
    find = pick(summarise(zero, protocol, arm="fa-off", floors={"launch": zero}))
    assert find("all", "all", "kl.full", "mean")["verdict"] == "within"
    assert find("all", "all", "kl.full", "p95")["value"] == 0.0


def test_a_floor_in_another_order_and_with_more_windows_is_joined_by_position(protocol, make_table, columns):
    table = make_table(protocol, **columns)
    shuffled = table.take(np.random.default_rng(0).permutation(N))
    candidate = make_table(protocol, windows=("c", "out"), kl_full_nats=columns["kl_full_nats"][420:])
    find = pick(summarise(candidate, protocol, arm="x", floors={"f": shuffled}))
    row = find("all", "all", "kl.full", "mean")
    assert row["floor_value"] == pytest.approx(row["value"], rel=1e-12)
    assert row["verdict"] == "within" or "1 document" in row["verdict_reason"]


def test_the_worst_range_is_named_with_the_floors_maximum(protocol, make_table, columns):
    kl = np.full(N, 0.01)
    kl[420:620] = 0.5
    kl[400:420] = 9.0  # 20 positions: too few for a p95, and it says so
    floors = {"geometry": make_table(protocol, kl_full_nats=np.full(N, 0.002))}
    table = make_table(protocol, **{**columns, "kl_full_nats": kl})
    find = pick(summarise(table, protocol, arm="q4_0", floors=floors))
    worst = find("all", "all", "kl.full", "worst_range.p95")
    assert (worst["named"], worst["value"], worst["n"], worst["state"]) == ("c-0", 0.5, 200, "indicative")
    assert worst["floor_value"] == pytest.approx(0.002) and worst["low"] is None
    assert "passed over: b-1 (n 20" in worst["reason"]
    assert worst["named_share"] == 1.0
    assert find("all", "all", "kl.full", "worst_range.mean")["named"] == "b-1"
    assert find("panel", "A", "kl.full", "worst_range.p95")["named"] in ("a-0", "b-0")
    assert find("all", "all", "flip", "worst_range.rate")["value"] >= find("range", "a-0", "flip", "rate")["value"]


@pytest.mark.parametrize("rows", [0, 1])
def test_almost_nothing_gives_rows_and_no_numbers_that_are_not_there(protocol, make_table, rows):
    table = make_table(protocol).slice(0, rows)
    figures = summarise(table, protocol, arm="q4_0", floors={"launch": table, "empty": table.slice(0, 0)})
    assert figures.schema.equals(FIGURES)
    find = pick(figures)
    mean = find("all", "all", "kl.full", "mean")
    assert mean["value"] == (0.0 if rows else None) and mean["n"] == rows and mean["low"] is None
    assert mean["state"] == ("firm" if rows else "withheld")
    assert find("all", "all", "kl.full", "p95")["value"] is None
    assert find("all", "all", "kl.full", "worst_range.p95")["named"] == ""
    assert len(positions_of(table)) == rows


def test_every_withheld_figure_says_why_and_no_number_is_infinite(protocol, make_table, columns):
    rows = summarise(make_table(protocol, **columns), protocol, arm="q4_0", floors={}).to_pylist()
    for row in rows:
        assert (row["value"] is None) == (row["state"] == "withheld"), row
        assert row["value"] is not None or row["reason"], row
        assert all(row[name] is None or np.isfinite(row[name]) for name in ("value", "low", "high"))
        assert (row["low"] is None) == (row["interval"] == ""), row
    keys = [(r["scope_kind"], r["scope"], r["outliers"], r["spec"], r["statistic"]) for r in rows]
    assert len(keys) == len(set(keys))


def test_the_order_of_rows_does_not_matter(protocol, make_table, columns):
    table = make_table(protocol, **columns)
    # Windows stay in their order: it is the order in which clusters are drawn.
    parts = [
        table.slice(start, stop - start).take(np.arange(stop - start)[::-1])
        for start, stop in pairwise((0, 200, 420, 620, N))
    ]
    shuffled = pa.concat_tables(parts)
    assert summarise(shuffled, protocol, arm="q", floors={}).equals(summarise(table, protocol, arm="q", floors={}))
