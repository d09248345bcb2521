"""Every further measure of a summary: top-K rows, marks, scopes, borrowed floors, and what is left out."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from drift_runs.errors import NotComparable
from drift_runs.measure.positions import positions_of
from drift_runs.measure.ranges import range_index
from drift_runs.measure.scopes import SCOPE_KINDS, scopes_of
from drift_runs.measure.summary import summarise
from drift_runs.schema import FIGURES, RowFlag

SPANS = {
    "a": ("A", "d1", [(1, 121)]),
    "b": ("A", "d2", [(1, 101), (201, 241)]),
    "c": ("B", "d3", [(40, 140)]),
}
N = 360
K = 20
OF_POSITIONS = tuple(kind for kind in SCOPE_KINDS if kind != "step")
"""``step`` is a scope of rollouts."""
DOCUMENT = Path(__file__).parents[2] / "docs" / "figures.md"
Find = Callable[..., dict]


def finder(table: pa.Table) -> Find:
    rows = table.to_pylist()

    def find(spec: str, statistic: str, kind: str = "all", scope: str = "all", outliers: str = "with") -> dict:
        wanted = (kind, scope, spec, statistic, outliers)
        keys = ("scope_kind", "scope", "spec", "statistic", "outliers")
        found = [row for row in rows if tuple(row[key] for key in keys) == wanted]
        assert len(found) == 1, f"{len(found)} rows of {wanted}"
        return found[0]

    return find


def names_of(table: pa.Table) -> set[tuple[str, str]]:
    return set(zip(table["spec"].to_pylist(), table["statistic"].to_pylist(), strict=True))


def columns(seed: int = 1) -> dict[str, np.ndarray]:
    """Arrays of rows that have every measure."""
    generator = np.random.default_rng(seed)
    kl = generator.lognormal(-4, 1.5, N)
    flip = (generator.random(N) < 0.2).astype(float)
    return {
        "kl_full_nats": kl,
        "js_full_nats": kl / 4,
        "top_k": np.full(N, K),
        "kl_topk_tail_nats": kl * 0.9,
        "kl_topk_shared_nats": kl * 1.1,
        "kl_topk_lower_nats": kl * 0.8,
        "kl_topk_floor_nats": kl * 1.3,
        "shared_support": generator.integers(2, K + 1, N).astype(float),
        "reference_mass_outside": generator.random(N) * 0.1,
        "missed": generator.integers(0, 5, N).astype(float),
        "flip": flip,
        "flip_text": (generator.random(N) < 0.5).astype(float),
        "swap": flip * (generator.random(N) < 0.5),
        "reference_p1": generator.random(N),
        "reference_nll_nats": generator.exponential(1.0, N),
        "candidate_nll_nats": generator.exponential(1.0, N),
        "reference_rank": generator.integers(1, 4, N).astype(float),
        "candidate_rank": generator.integers(1, 4, N).astype(float),
        "reference_entropy_nats": generator.random(N),
        "candidate_entropy_nats": generator.random(N) + 0.1,
        "reference_entropy_topk_nats": generator.random(N),
        "candidate_entropy_topk_nats": generator.random(N) + 0.2,
        "reference_padding_mass": np.zeros(N),
        "candidate_padding_mass": generator.random(N) * 1e-6,
        "copy": (generator.random(N) < 0.3).astype(float),
        "literal": (generator.random(N) < 0.2).astype(float),
    }


NOT_OF_TOP_K = (
    "kl_full_nats",
    "js_full_nats",
    "reference_entropy_nats",
    "candidate_entropy_nats",
    "reference_padding_mass",
    "candidate_padding_mass",
)


def top_k_columns(seed: int = 1) -> dict[str, np.ndarray]:
    """The same of rows that hold K entries alone."""
    return {**columns(seed), **{name: np.full(N, np.nan) for name in NOT_OF_TOP_K}, "candidate_nll_nats": np.ones(N)}


@pytest.fixture
def protocol(make_protocol):
    return make_protocol(SPANS, outliers=("c",))


@pytest.fixture
def imported(make_protocol):
    return make_protocol(SPANS, capture={"full_vocabulary": "no", "divergence": "kl.topk-shared", "top_k": K})


def test_every_measure_of_full_rows_equals_its_plain_sum(protocol, make_table):
    arrays = columns()
    table = make_table(protocol, **arrays)
    find = finder(summarise(table, protocol, arm="q4_0", floors={}))
    for spec, name in (
        ("js.full", "js_full_nats"),
        ("kl.topk-tail@20", "kl_topk_tail_nats"),
        ("kl.topk-shared@20", "kl_topk_shared_nats"),
        ("kl.topk-lower@20", "kl_topk_lower_nats"),
        ("kl.topk-floor@20", "kl_topk_floor_nats"),
    ):
        assert find(spec, "mean")["value"] == pytest.approx(arrays[name].mean(), rel=1e-12)
        assert find(spec, "p95")["value"] == pytest.approx(np.quantile(arrays[name], 0.95), rel=1e-12)
        assert find(spec, "max")["value"] == arrays[name].max()
        assert find(spec, "mean", "range", "a-0")["value"] == pytest.approx(arrays[name][:120].mean())
    dnll = arrays["candidate_nll_nats"] - arrays["reference_nll_nats"]
    volatile = np.abs(dnll) > 1
    confident = np.exp(-np.minimum(arrays["candidate_nll_nats"], arrays["reference_nll_nats"])) > 0.9
    assert find("volatile", "rate")["value"] == pytest.approx(volatile.mean())
    assert find("volatile", "count")["value"] == volatile.sum()
    assert find("volatile.confident", "count")["value"] == (volatile & confident).sum() > 0
    assert find("flip.text", "rate")["value"] == pytest.approx(arrays["flip_text"].mean())
    assert (find("swap", "rate")["value"], find("swap", "count")["value"]) == (
        pytest.approx(arrays["swap"].mean()),
        arrays["swap"].sum(),
    )
    difference = arrays["candidate_entropy_nats"] - arrays["reference_entropy_nats"]
    assert find("dentropy.full", "mean")["value"] == pytest.approx(difference.mean())
    assert find("rank.reference", "first_share")["value"] == pytest.approx((arrays["reference_rank"] == 1).mean())
    assert find("shared_support@20", "mean")["value"] == pytest.approx(arrays["shared_support"].mean())
    assert find("shared_support@20", "min")["value"] == arrays["shared_support"].min()
    assert find("reference_mass_outside@20", "max")["value"] == arrays["reference_mass_outside"].max()
    assert find("missed@20", "share")["value"] == pytest.approx(arrays["missed"].mean() / K)
    assert find("padding_mass.reference", "max")["value"] == 0.0
    assert find("padding_mass.candidate", "max")["value"] == arrays["candidate_padding_mass"].max()
    assert find("kl.full", "exactly_zero")["value"] == 0


def test_intervals_of_pooled_texts_are_complete_and_of_small_scopes_plain(protocol, make_table):
    find = finder(summarise(make_table(protocol, **columns()), protocol, arm="q4_0", floors={}))
    for spec, statistic in (("kl.full", "mean"), ("volatile", "rate"), ("js.full", "mean"), ("dentropy.full", "mean")):
        for kind, scope in (("all", "all"), ("role", "prompt")):
            row = find(spec, statistic, kind, scope)
            assert row["low"] < row["value"] < row["high"] and row["bca_low"] < row["bca_high"]
            assert row["standard_error"] > 0
    assert find("kl.full", "mean")["t_low"] < find("kl.full", "mean")["t_high"], "few clusters, all means positive"
    assert find("dnll", "mean")["t_low"] is None or find("dnll", "mean")["t_low"] < find("dnll", "mean")["t_high"]
    small = find("volatile", "rate", "quarter", "q1")
    assert small["low"] is not None and small["standard_error"] is None
    assert find("js.full", "mean", "quarter", "q1")["low"] is None


def test_positions_that_agree_exactly_are_counted(protocol, make_table):
    arrays = columns()
    arrays["kl_full_nats"][:7] = 0.0
    arrays["kl_full_nats"][7] = np.nan
    find = finder(summarise(make_table(protocol, **arrays), protocol, arm="q4_0", floors={}))
    row = find("kl.full", "exactly_zero")
    assert (row["value"], row["n"], row["excluded"]) == (7, N - 1, 1)


def test_nothing_is_counted_where_nothing_could_be_seen(protocol, make_table):
    arrays = columns()
    arrays["flip"][:120] = np.nan
    find = finder(summarise(make_table(protocol, **arrays), protocol, arm="q4_0", floors={}))
    row = find("flip", "count", "window", "a")
    assert (row["value"], row["n"], row["excluded"], row["reason"]) == (None, 0, 120, "no positions")
    assert find("flip", "count")["value"] == arrays["flip"][120:].sum()


def test_top_k_rows_have_what_k_allows_and_nothing_else(imported, make_table):
    arrays = top_k_columns()
    arrays["flags"] = np.zeros(N)
    arrays["flags"][:3] = RowFlag.SUPPORT_COLLAPSE
    arrays["flags"][5:7] = RowFlag.TAIL_FLOORED
    arrays["kl_topk_shared_nats"][:3] = np.nan
    table = summarise(make_table(imported, **arrays), imported, arm="q4_0", floors={})
    find = finder(table)
    headline = "kl.topk-shared@20"
    values = arrays["kl_topk_shared_nats"][3:]
    mean = find(headline, "mean")
    assert mean["value"] == pytest.approx(values.mean(), rel=1e-12) and (mean["n"], mean["excluded"]) == (N - 3, 3)
    for statistic in ("window_mean", "tail_share", "worst_range.mean", "p90"):
        assert find(headline, statistic)["value"] is not None
    assert find("support_collapse@20", "count")["value"] == 3 and find("tail_floored@20", "count")["value"] == 2
    assert find("kl.topk-lower@20", "mean")["n"] == N
    entropy = arrays["candidate_entropy_topk_nats"] - arrays["reference_entropy_topk_nats"]
    assert find("dentropy.topk@20", "mean")["value"] == pytest.approx(entropy.mean())
    assert find("entropy.topk@20", "windows_above")["value"] == 3
    absent = {"kl.full", "js.full", "entropy.full", "entropy.full.reference", "dentropy.full", "padding_mass.reference"}
    assert not absent & {spec for spec, _ in names_of(table)}


def test_a_headline_that_no_row_has_is_withheld_and_says_so(make_protocol, make_table):
    protocol = make_protocol(SPANS, capture={"full_vocabulary": "no", "divergence": "js.full", "top_k": K})
    floor = make_table(protocol, js_full_nats=np.full(N, 0.1))
    table = summarise(make_table(protocol, **top_k_columns()), protocol, arm="q4_0", floors={"launch": floor})
    rows = [row for row in table.to_pylist() if row["spec"] == "js.full"]
    figures = [row for row in rows if row["statistic"] not in ("excluded", "infinite")]
    assert {"mean", "p95", "max", "tail_share", "window_mean", "worst_range.p95"} <= {r["statistic"] for r in figures}
    for row in figures:
        assert row["value"] is None and row["state"] == "withheld" and row["verdict"] == ""
        assert row["reason"].startswith("not measured: no row has js.full"), row
    assert finder(table)("kl.topk-shared@20", "mean")["value"] is not None


def test_a_protocol_without_ranges_has_no_worst_one_and_says_so(protocol, make_table):
    content = protocol.model_dump(by_alias=True)
    plain = type(protocol).model_validate({**content, "ranges": []})
    find = finder(summarise(make_table(plain, **columns()), plain, arm="q4_0", floors={}))
    for spec, statistic in (("kl.full", "worst_range.p95"), ("flip", "worst_range.rate")):
        row = find(spec, statistic)
        assert (row["value"], row["state"], row["reason"]) == (None, "withheld", "the protocol labels no ranges")


@pytest.mark.parametrize("headline", ["kl.full", "kl.topk-tail", "js.full"])
def test_a_candidate_that_gives_a_best_token_nothing_is_infinite_there_and_hides_no_tail(
    make_protocol, make_table, headline
):
    protocol = make_protocol(SPANS, capture={"divergence": headline})
    given = columns()
    flags = np.zeros(N)
    flags[5] = RowFlag.INFINITE_KL
    for name in ("kl_full_nats", "kl_topk_tail_nats"):
        given[name][5] = np.nan
    tail, js = given["kl_topk_tail_nats"][np.arange(N) != 5].mean(), given["js_full_nats"].mean()
    find = finder(summarise(make_table(protocol, **given, flags=flags), protocol, arm="q4_0", floors={}))
    found = find(f"kl.topk-tail@{K}", "mean")
    assert found["value"] == pytest.approx(tail, rel=1e-12) and (found["n"], found["excluded"]) == (N - 1, 1)
    assert find("js.full", "mean")["value"] == pytest.approx(js, rel=1e-12)
    spec = f"{headline}@{K}" if "topk" in headline else headline
    assert find(spec, "infinite")["value"] == (0 if headline == "js.full" else 1)


def test_rows_of_several_k_are_refused(imported, make_table):
    arrays = {**top_k_columns(), "top_k": np.where(np.arange(N) < 5, 10, 20)}
    with pytest.raises(NotComparable, match="K = 10, 20"):
        summarise(make_table(imported, **arrays), imported, arm="q4_0", floors={})


def test_a_floor_of_another_k_stands_beside_nothing_that_depends_on_k(imported, protocol, make_table):
    other = {**top_k_columns(), "top_k": np.full(N, 64.0)}
    table = make_table(imported, **top_k_columns())
    find = finder(summarise(table, imported, arm="q4_0", floors={"launch": make_table(imported, **other)}))
    assert find("kl.topk-shared@20", "mean")["floor"] == "" and find("flip", "rate")["floor_value"] is None
    full = {**columns(), "top_k": np.full(N, 64.0)}
    floors = {"launch": make_table(protocol, **full)}
    find = finder(summarise(make_table(protocol, **columns()), protocol, arm="q4_0", floors=floors))
    assert find("kl.full", "mean")["floor_value"] == find("kl.full", "mean")["value"]
    assert find("kl.topk-lower@20", "mean")["floor_value"] is None
    assert find("shared_support@20", "min")["floor_value"] is None
    assert find("support_collapse@20", "count")["floor_value"] is None


def test_scopes_by_role_group_quarter_depth_and_mark(make_protocol, make_table):
    protocol = make_protocol(SPANS, history={"depth_tokens": 100})
    content = protocol.model_dump(by_alias=True)
    content["windows"][0]["group"] = content["windows"][2]["group"] = "short"
    content["windows"][1]["group"] = "long"
    protocol = type(protocol).model_validate(content)
    arrays = columns()
    arrays["copy"][:10] = np.nan
    arrays["literal"][:] = np.nan
    table = make_table(protocol, **arrays)
    at = table.schema.get_field_index("role")
    roles = np.where(np.arange(N) < 120, "generated", "prompt")
    table = table.set_column(
        at, table.schema.field(at), pa.array(roles).dictionary_encode().cast(table.schema.field(at).type)
    )
    figures = summarise(table, protocol, arm="q4_0", floors={})
    find = finder(figures)
    kl = arrays["kl_full_nats"]
    position = np.concatenate([np.arange(1, 121), np.arange(1, 101), np.arange(201, 241), np.arange(40, 140)])
    last = np.repeat([121, 241, 140], [120, 140, 100])
    chosen = {
        ("role", "generated"): np.arange(N) < 120,
        ("role", "prompt"): np.arange(N) >= 120,
        ("group", "short"): (np.arange(N) < 120) | (np.arange(N) >= 260),
        ("group", "long"): (np.arange(N) >= 120) & (np.arange(N) < 260),
        ("depth", "1-100"): position <= 100,
        ("depth", "101-200"): (position > 100) & (position <= 200),
        ("depth", "201-300"): position > 200,
        **{("quarter", f"q{at + 1}"): position * 4 // last == at for at in range(4)},
        ("copied", "copy"): arrays["copy"] == 1,
        ("copied", "not-copy"): arrays["copy"] == 0,
    }
    for (kind, scope), mask in chosen.items():
        row = find("kl.full", "mean", kind, scope)
        assert (row["n"], row["value"]) == (mask.sum(), pytest.approx(kl[mask].mean())), (kind, scope)
        assert find("volatile", "count", kind, scope)["n"] == mask.sum()
    assert find("flip", "rate", "group", "short")["value"] == pytest.approx(
        arrays["flip"][chosen["group", "short"]].mean()
    )
    kinds = figures["scope_kind"].to_pylist()
    assert "literal" not in kinds, "nobody knows which tokens are literals, so neither scope exists"
    assert set(kinds) == set(SCOPE_KINDS) - {"literal", "step"}
    assert list(dict.fromkeys(kinds)) == [kind for kind in SCOPE_KINDS if kind not in ("literal", "step")]


def test_every_kind_of_scope_is_in_the_list(protocol, make_table):
    positions = positions_of(make_table(protocol, **columns()))
    scopes = scopes_of(positions, protocol, range_index(positions, protocol))
    assert {scope.kind for scope in scopes} == set(SCOPE_KINDS) - {"group", "step"}
    assert len({(scope.kind, scope.name) for scope in scopes}) == len(scopes)
    for kind in ("role", "quarter", "history", "depth", "copied", "literal", "window", "panel"):
        covered = np.sum([scope.chosen for scope in scopes if scope.kind == kind], axis=0)
        assert (covered == 1).all(), f"{kind}: each position once"


def test_a_borrowed_floor_is_shown_and_gives_no_verdict(protocol, make_table):
    table = make_table(protocol, **columns())
    weak, harsh = (make_table(protocol, kl_full_nats=np.full(N, mean)) for mean in (1e-4, 1e-3))
    figures = summarise(table, protocol, arm="q4_0", floors={}, borrowed={"weak": weak, "harsh": harsh})
    row = finder(figures)("kl.full", "mean")
    assert (row["floor"], row["floor_value"], row["borrowed"]) == ("harsh", pytest.approx(1e-3), True)
    assert row["verdict"] == ""
    assert row["verdict_reason"] == "borrowed: a floor of another reference gives no verdict"
    assert set(figures["verdict"].to_pylist()) == {""}
    assert ("kl.full", "windows_above") not in names_of(figures), "nothing is counted against a borrowed floor"
    assert finder(figures)("flip", "rate")["borrowed"]


def test_an_own_floor_wins_over_a_borrowed_one_where_it_covers(protocol, make_table):
    table = make_table(protocol, **columns())
    own = make_table(protocol, windows=("a",), kl_full_nats=np.full(120, 1e-6))
    borrowed = make_table(protocol, kl_full_nats=np.full(N, 9.0))
    find = finder(summarise(table, protocol, arm="q4_0", floors={"own": own}, borrowed={"theirs": borrowed}))
    assert (find("kl.full", "mean", "window", "a")["floor"], find("kl.full", "mean", "window", "a")["borrowed"]) == (
        "own",
        False,
    )
    assert (find("kl.full", "mean")["floor"], find("kl.full", "mean")["borrowed"]) == ("theirs", True)
    nothing = finder(summarise(table, protocol, arm="q4_0", floors={}, borrowed={}))("kl.full", "mean")
    assert (nothing["floor"], nothing["borrowed"], nothing["verdict_reason"]) == ("", False, "")


def test_the_floor_of_an_arms_own_reference_is_its_floor(make_protocol, make_table):
    arms = [
        {"name": "first", "role": "reference", "derivative": "s", "weights": "w", "engine": "imported"},
        {"name": "second", "role": "reference", "derivative": "s", "weights": "w", "engine": "imported"},
        {
            "name": "x",
            "role": "candidate",
            "derivative": "s",
            "weights": "w",
            "engine": "imported",
            "against": "second",
        },
    ]
    floors = [{"name": "one", "arm": "first", "kind": "launch"}, {"name": "two", "arm": "second", "kind": "launch"}]
    protocol = make_protocol(SPANS, arms=arms, floors=floors)
    tables = {"one": make_table(protocol, kl_full_nats=np.full(N, 5.0)), "two": make_table(protocol)}
    row = finder(summarise(make_table(protocol, **columns()), protocol, arm="x", floors=tables))("kl.full", "mean")
    assert (row["floor"], row["verdict"]) == ("two", "above")


def test_windows_in_which_the_candidate_lies_above_the_floor(protocol, make_table):
    kl = np.repeat([0.1, 0.2, 0.3], [120, 140, 100])
    floor = np.repeat([0.2, 0.1, 0.1], [120, 140, 100])
    floor[0] = np.nan
    floors = {"launch": make_table(protocol, kl_full_nats=floor)}
    table = make_table(protocol, **{**columns(), "kl_full_nats": kl})
    find = finder(summarise(table, protocol, arm="q4_0", floors=floors))
    row = find("kl.full", "windows_above")
    assert (row["value"], row["n"], row["floor"]) == (2, 3, "launch")
    assert row["reason"] == "of 3 windows, against floor launch" and row["floor_value"] is None
    assert find("kl.full", "windows_above", "panel", "A")["value"] == 1


def test_quantiles_by_the_lower_rule_are_given_where_they_differ(protocol, make_table):
    kl = columns()["kl_full_nats"]
    table = summarise(make_table(protocol, **columns()), protocol, arm="q4_0", floors={})
    find = finder(table)
    row = find("kl.full", "p95_lower")
    assert row["value"] == np.quantile(kl, 0.95, method="lower") < find("kl.full", "p95")["value"]
    assert (row["state"], row["n"]) == ("indicative", N)
    assert ("kl.full", "p99_lower") not in names_of(table), "withheld, as the linear one is"
    lower = [row for row in table.to_pylist() if row["statistic"].endswith("_lower")]
    assert {row["scope_kind"] for row in lower} == {"all", "panel"}
    level = summarise(make_table(protocol, kl_full_nats=np.full(N, 0.5)), protocol, arm="q4_0", floors={})
    assert not [name for _, name in names_of(level) if name.endswith("_lower")]


@pytest.mark.parametrize("rows", [0, 1, 2])
@pytest.mark.parametrize("kind", ["full", "top-k"])
def test_almost_nothing(protocol, imported, make_table, rows, kind):
    here = protocol if kind == "full" else imported
    table = make_table(here, **(columns() if kind == "full" else top_k_columns())).slice(0, rows)
    figures = summarise(table, here, arm="q4_0", floors={"launch": table}, borrowed={"empty": table.slice(0, 0)})
    check_invariants(figures)
    spec = "kl.full" if kind == "full" else "kl.topk-shared@20"
    assert finder(figures)(spec, "mean")["n"] == rows


def check_invariants(figures: pa.Table) -> None:
    assert figures.schema.equals(FIGURES)
    keys = []
    for row in figures.to_pylist():
        keys.append(tuple(row[key] for key in ("scope_kind", "scope", "outliers", "spec", "statistic")))
        assert (row["value"] is None) == (row["state"] == "withheld"), row
        assert row["value"] is not None or row["reason"], row
        assert (row["low"] is None) == (row["interval"] == ""), row
        assert row["scope_kind"] in SCOPE_KINDS and row["n"] >= 0
        assert not row["borrowed"] or (row["floor"] and not row["verdict"])
        for name in ("value", "low", "high", "standard_error", "bca_low", "bca_high", "t_low", "t_high", "floor_value"):
            assert row[name] is None or np.isfinite(row[name]), row
    assert len(set(keys)) == len(keys)


NULLABLE = st.sampled_from(["ties", "equal", "missing", "some missing", "as they are"])


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**16), change=NULLABLE, top_k=st.booleans())
def test_no_order_of_rows_changes_a_figure(make_protocol, make_table, seed, change, top_k):
    capture = {"full_vocabulary": "no", "divergence": "kl.topk-shared", "top_k": K} if top_k else {}
    few = {"resamples": 200}
    protocol = make_protocol(SPANS, outliers=("c",), capture=capture, intervals=few)
    arrays = top_k_columns(seed) if top_k else columns(seed)
    headline = "kl_topk_shared_nats" if top_k else "kl_full_nats"
    generator = np.random.default_rng(seed)
    match change:
        case "ties":
            arrays[headline] = np.round(arrays[headline], 2)
        case "equal":
            arrays = {name: np.full(N, values[0]) for name, values in arrays.items()}
        case "missing":
            arrays = {name: np.full(N, np.nan) if name != "top_k" else values for name, values in arrays.items()}
        case "some missing":
            gone = generator.random(N) < 0.3
            arrays = {
                name: np.where(gone, np.nan, values) if name != "top_k" else values for name, values in arrays.items()
            }
    table = make_table(protocol, **arrays)
    found = summarise(table, protocol, arm="q", floors={"launch": table})
    check_invariants(found)
    # Windows stay in their order: it is the order in which clusters are drawn.
    bounds = [0, 120, 260, 360]
    order = np.concatenate([start + generator.permutation(stop - start) for start, stop in pairwise(bounds)])
    shuffled = table.take(order)
    assert summarise(shuffled, protocol, arm="q", floors={"launch": shuffled}).equals(found)


def described() -> set[str]:
    """Everything in code font in the tables of docs/figures.md."""
    rows = [line for line in DOCUMENT.read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    return {word for row in rows for word in re.findall(r"`([^`]+)`", row)}


def test_the_document_describes_every_spec_statistic_and_scope(protocol, imported, make_table):
    words = described()
    for here, arrays in ((protocol, columns()), (imported, top_k_columns())):
        table = make_table(here, **arrays)
        figures = summarise(table, here, arm="q4_0", floors={"launch": table})
        for spec, statistic in names_of(figures):
            assert spec.replace(f"@{K}", "@K") in words, spec
            assert statistic in words, statistic
        for kind in set(figures["scope_kind"].to_pylist()):
            assert kind in words, kind
    assert set(SCOPE_KINDS) <= words
