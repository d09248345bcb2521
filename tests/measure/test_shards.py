"""Shards against the same panel held whole, and against every way of feeding them."""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from drift_runs.errors import NotComparable
from drift_runs.measure.quantiles import QUANTILES
from drift_runs.measure.shard_summary import ShardSummary
from drift_runs.measure.shards import shard_table, summarise_shards
from drift_runs.measure.summary import summarise
from drift_runs.protocol.model import Protocol
from drift_runs.schema import FIGURES, RowFlag

SPANS = {
    "a": ("A", "d1", [(1, 200)]),
    "b": ("A", "d2", [(1, 180)]),
    "c": ("B", "d2", [(180, 400)]),
    "d": ("B", "d3", [(5, 300)]),
    "odd": ("B", "d3", [(300, 420)]),
}
GROUPS = {"a": "short", "b": "short", "c": "long", "d": "long", "odd": ""}
INTERVALS = {"cluster": "document", "resamples": 200}
BINNED = {*QUANTILES, "tail_share"}
POSITIONS_NEEDED = re.compile(r"worst_range\..*|p\d+(\.\d+)?_lower|verdict")
"""What only single positions give: absent of shards."""
ENDS = ("low", "high", "bca_low", "bca_high", "t_low", "t_high", "standard_error")


def grouped(protocol: Protocol) -> Protocol:
    windows = tuple(window.model_copy(update={"group": GROUPS[window.name]}) for window in protocol.windows)
    return protocol.model_copy(update={"windows": windows})


@pytest.fixture
def protocol(make_protocol) -> Protocol:
    return grouped(make_protocol(SPANS, outliers=("odd",), intervals=INTERVALS))


def columns(n: int, seed: int = 3) -> dict[str, np.ndarray]:
    """Heavy tails by document, zeros, tiny negatives, missing values, an infinity and ties."""
    generator = np.random.default_rng(seed)
    kl = generator.lognormal(-4, 2, n)
    kl[::17] = 0
    kl[5::31] = -1e-6
    kl[7::53] = 0.25
    kl[11::97] = np.nan
    flags = np.zeros(n)
    flags[11] = RowFlag.INFINITE_KL
    flip = (generator.random(n) < 0.1).astype(float)
    flip[3::101] = np.nan
    return {
        "kl_full_nats": kl,
        "flip": flip,
        "flip_strict": np.where(generator.random(n) < 0.5, flip, flip * 0),
        "reference_p1": generator.random(n),
        "reference_nll_nats": generator.exponential(1, n),
        "candidate_nll_nats": generator.exponential(1.1, n),
        "dp": generator.normal(0, 0.01, n),
        "flags": flags,
    }


def best_entries(n: int, top_k: int) -> dict[str, np.ndarray]:
    """What K entries a side give beside full rows, missing in places."""
    generator = np.random.default_rng(8)
    lower = generator.lognormal(-5, 1, n)
    lower[::41] = np.nan
    flags = np.where(generator.random(n) < 0.1, RowFlag.SUPPORT_COLLAPSE | RowFlag.TAIL_FLOORED, 0)
    return {
        "top_k": np.full(n, float(top_k)),
        "kl_topk_lower_nats": lower,
        "kl_topk_shared_nats": lower * 2,
        "shared_support": generator.integers(2, top_k, n).astype(float),
        "reference_mass_outside": generator.random(n),
        "missed": generator.integers(0, 5, n).astype(float),
        "reference_rank": generator.integers(1, 4, n).astype(float),
        "candidate_rank": generator.integers(1, 4, n).astype(float),
        "swap": (generator.random(n) < 0.02).astype(float),
        "flags": flags.astype(float),
    }


def same_number(found: float | None, expected: float | None, where: object) -> None:
    """Equal to the rounding of a sum in another order."""
    assert (found is None) == (expected is None), where
    if found is not None:
        assert found == pytest.approx(expected, rel=1e-9, abs=1e-15), where


def scored(protocol: Protocol) -> int:
    return sum(end - start for window in protocol.windows for start, end in window.scored)


def by_address(figures: pa.Table) -> dict[tuple[str, ...], dict]:
    names = ("scope_kind", "scope", "outliers", "spec", "statistic")
    return {tuple(row[name] for name in names): row for row in figures.to_pylist()}


def same(left: pa.Table, right: pa.Table) -> None:
    """Equal figures: numbers to the rounding of a sum in another order, everything else to the letter.

    Ends and errors come of differences of sums, which lose digits where the terms are far apart.
    """
    assert left.schema == right.schema and left.num_rows == right.num_rows
    for one, other in zip(left.to_pylist(), right.to_pylist(), strict=True):
        for name, value in one.items():
            if isinstance(value, float) and other[name] is not None:
                closeness = 1e-9 if name in ENDS else 1e-12
                assert value == pytest.approx(other[name], rel=closeness, abs=1e-15), (one, other)
            else:
                assert value == other[name], (one, other)


class TestAgainstTheWholePanel:
    @pytest.mark.parametrize("top_k", [None, 20])
    def test_what_is_a_sum_is_the_same_and_a_quantile_lies_in_its_bin(self, protocol, make_table, top_k) -> None:
        n = scored(protocol)
        table = make_table(protocol, **{**columns(n), **(best_entries(n, top_k) if top_k else {})})
        whole = by_address(summarise(table, protocol, arm="q4_0", floors={}))
        found = by_address(summarise_shards([table], protocol, arm="q4_0"))
        pooled = {address for address in whole if address[0] in ("all", "panel", "group")}
        absent = {address for address in pooled - set(found) if not POSITIONS_NEEDED.fullmatch(address[-1])}
        # Quantiles and extremes of what is not the headline need its positions too.
        assert all(address[3].startswith(("kl.topk", "shared_", "reference_mass")) for address in absent)
        assert all(top_k and address[-1] in {*QUANTILES, "max", "min"} for address in absent)
        assert set(found) <= set(whole)
        for address, figure in found.items():
            expected = whole[address]
            for name in ("n", "excluded", "beyond", "state", "clusters"):
                assert figure[name] == expected[name], (address, name)
            if expected["value"] is None:
                assert figure["value"] is None and figure["reason"] == expected["reason"], address
            elif address[-1] in BINNED:
                slack = 1e-12 * abs(expected["value"])
                assert figure["low"] - slack <= expected["value"] <= figure["high"] + slack, address
                assert abs(np.log10(figure["value"] / expected["value"])) <= 1 / 40, address
                self.ends_enclose(figure, expected)
            else:
                assert figure["value"] == pytest.approx(expected["value"], rel=1e-12), address
                if address[0] != "window" and expected["clusters"] > 1:
                    assert figure["interval"] == expected["interval"], address
                    for name in ENDS:
                        same_number(figure[name], expected[name], (address, name))
        assert len(found) > 200

    @staticmethod
    def ends_enclose(figure: dict, expected: dict) -> None:
        """The interval holds the one of the positions, and reaches at most a bin further."""
        if expected["clusters"] < 2 or expected["low"] is None:
            return
        slack, bin_width = 1e-12 * abs(expected["high"]), 10 ** (1 / 40)
        assert expected["low"] / bin_width - slack <= figure["low"] <= expected["low"] + slack
        assert expected["high"] - slack <= figure["high"] <= expected["high"] * bin_width + slack

    def test_the_reason_gives_the_ends_of_the_bin(self, protocol, make_table) -> None:
        table = make_table(protocol, **columns(scored(protocol)))
        p90 = by_address(summarise_shards([table], protocol, arm="q4_0"))["all", "all", "with", "kl.full", "p90"]
        text = p90["reason"]
        assert text.startswith("from log10 histograms, 40 bins a decade: the value lies in [")
        low, high = (float(part) for part in text.split("[")[1].split("]")[0].split(", "))
        kl = table["kl_full_nats"].drop_null().to_numpy()
        assert low <= np.quantile(kl, 0.9) <= high
        assert high / low == pytest.approx(10 ** (1 / 40), rel=1e-5)
        assert p90["value"] == pytest.approx(np.sqrt(low * high), rel=1e-5)
        assert text.endswith("3 documents: such intervals cover less than they claim")
        assert "of histograms" in p90["interval"]

    def test_the_largest_is_exact_and_has_its_place(self, protocol, make_table) -> None:
        values = columns(scored(protocol))
        values["kl_full_nats"][250] = values["kl_full_nats"][600] = 99.5
        table = make_table(protocol, **values)
        figure = by_address(summarise_shards([table], protocol, arm="q4_0"))["all", "all", "with", "kl.full", "max"]
        window, position = table["window"][250].as_py(), table["position"][250].as_py()
        assert figure["value"] == 99.5
        assert figure["reason"] == f"window {window}, position {position}; a maximum grows with n and has no interval"

    def test_groups_pool_their_windows(self, protocol, make_table) -> None:
        table = make_table(protocol, **columns(scored(protocol)))
        found = by_address(summarise_shards([table], protocol, arm="q4_0"))
        names = table["window"].cast(pa.string()).to_pylist()
        kl = table["kl_full_nats"].to_numpy(zero_copy_only=False)
        for group in ("short", "long"):
            inside = np.array([GROUPS[name] == group for name in names])
            mean = found["group", group, "with", "kl.full", "mean"]
            assert mean["value"] == pytest.approx(np.nanmean(kl[inside]), rel=1e-12)
            assert mean["clusters"] == 2
        assert {address[1] for address in found if address[0] == "group"} == {"short", "long"}
        assert not [address for address in found if address[0] == "group" and address[2] == "only"]

    def test_another_headline_and_its_k(self, make_protocol, make_table) -> None:
        protocol = make_protocol(SPANS, intervals=INTERVALS, capture={"divergence": "kl.topk-shared"})
        n = scored(protocol)
        shared = np.random.default_rng(1).lognormal(-3, 1, n)
        table = make_table(protocol, kl_topk_shared_nats=shared, top_k=np.full(n, 20), kl_full_nats=np.nan)
        found = by_address(summarise_shards([table], protocol, arm="q4_0"))
        assert found["all", "all", "with", "kl.topk-shared@20", "mean"]["value"] == pytest.approx(shared.mean())
        assert found["all", "all", "with", "kl.topk-shared@20", "p95"]["state"] == "indicative"
        assert not [address for address in found if address[3] == "kl.full"]


def shuffled_parts(table: pa.Table, seed: int, parts: int) -> list[pa.Table]:
    generator = np.random.default_rng(seed)
    whole = table.take(pa.array(generator.permutation(table.num_rows)))
    cuts = np.sort(generator.integers(0, table.num_rows + 1, parts - 1))
    ends = [0, *cuts.tolist(), table.num_rows]
    return [whole.slice(start, stop - start) for start, stop in pairwise(ends)]


SMALL = {"a": ("A", "d1", [(1, 20)]), "b": ("A", "d2", [(1, 25)]), "c": ("B", "d2", [(25, 40)])}
any_value = st.one_of(st.floats(0, 30), st.sampled_from([0.0, -1e-6, 0.5, np.nan, 1e-14, 2e5]))


class TestFeeding:
    @settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(
        values=st.lists(any_value, min_size=58, max_size=58),
        seed=st.integers(0, 10**6),
        parts=st.integers(1, 6),
        split=st.integers(0, 6),
    )
    def test_order_parts_and_merging_change_nothing(self, make_protocol, make_table, values, seed, parts, split):
        protocol = make_protocol(SMALL, outliers=("b",), intervals={"resamples": 100})
        kl = np.array(values)
        some = np.where(kl > 0.5, kl, np.nan)
        table = make_table(
            protocol,
            kl_full_nats=kl,
            flip=kl > 0.5,
            top_k=np.where(kl > 0.5, 20, np.nan),
            kl_topk_lower_nats=some,
            missed=np.floor(np.minimum(some, 20)),
            reference_entropy_nats=some,
            candidate_entropy_nats=some,
            reference_entropy_topk_nats=kl,
            candidate_entropy_topk_nats=kl,
        )
        whole = summarise_shards([table], protocol, arm="q")
        pieces = shuffled_parts(table, seed, parts)
        same(summarise_shards(pieces, protocol, arm="q"), whole)
        left, right = ShardSummary(protocol), ShardSummary(protocol)
        for piece in pieces[:split]:
            left.feed(piece)
        for piece in pieces[split:]:
            right.feed(piece)
        left.merge(right)
        same(shard_table(left, arm="q"), whole)

    @settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(values=st.lists(any_value, min_size=58, max_size=58))
    def test_extremes_bins_and_mean_hold_for_any_values(self, make_protocol, make_table, values) -> None:
        protocol = make_protocol(SMALL, intervals={"resamples": 100})
        kl = np.array(values)
        finite = kl[np.isfinite(kl)]
        found = by_address(summarise_shards([make_table(protocol, kl_full_nats=kl)], protocol, arm="q"))
        figures = {name: found["all", "all", "with", "kl.full", name] for name in ("mean", "p50", "max", "excluded")}
        assert figures["excluded"]["value"] == len(kl) - len(finite)
        if len(finite) == 0:
            assert {figure["value"] for name, figure in figures.items() if name != "excluded"} == {None}
            assert figures["p50"]["reason"] == "no positions"
            return
        assert figures["max"]["value"] == finite.max()
        assert figures["mean"]["value"] == pytest.approx(finite.mean(), rel=1e-12, abs=1e-20)
        assert figures["p50"]["low"] <= figures["p50"]["high"]
        assert finite.min() <= figures["p50"]["value"] <= finite.max()

    def test_no_row(self, protocol) -> None:
        figures = summarise_shards([], protocol, arm="q4_0")
        assert figures.schema == FIGURES
        rows = figures.to_pylist()
        assert {row["scope_kind"] for row in rows} == {"all"}
        assert all(row["value"] in (None, 0.0) and row["n"] == 0 for row in rows)
        withheld = [row for row in rows if row["statistic"] in ("mean", "p95", "max", "window_mean")]
        assert len(withheld) > 10 and all(row["state"] == "withheld" and row["reason"] for row in withheld)

    def test_one_row(self, protocol, make_table) -> None:
        table = make_table(protocol, windows=("a",), kl_full_nats=np.linspace(0.1, 0.2, 199)).slice(4, 1)
        found = by_address(summarise_shards([table], protocol, arm="q4_0"))
        value = table["kl_full_nats"][0].as_py()
        assert found["all", "all", "with", "kl.full", "mean"]["value"] == value
        median = found["all", "all", "with", "kl.full", "p50"]
        assert (median["value"], median["low"], median["high"]) == (value, value, value)
        assert found["all", "all", "with", "kl.full", "p95"]["state"] == "withheld"
        assert found["all", "all", "with", "kl.full", "mean"]["low"] is None
        assert found["window", "a", "with", "kl.full", "max"]["value"] == value

    def test_all_equal(self, protocol, make_table) -> None:
        found = by_address(summarise_shards([make_table(protocol, kl_full_nats=0.25)], protocol, arm="q4_0"))
        for statistic in ("mean", "p50", "p90", "p95", "window_mean"):
            figure = found["all", "all", "with", "kl.full", statistic]
            assert (figure["value"], figure["low"], figure["high"]) == (0.25, 0.25, 0.25)
        n = scored(protocol)
        assert found["all", "all", "with", "kl.full", "tail_share"]["value"] == pytest.approx((n // 20) / n, rel=1e-12)

    def test_rows_that_do_not_fit(self, protocol, make_table) -> None:
        table = make_table(protocol, windows=("a",))
        summary = ShardSummary(protocol)
        summary.feed(table)
        with pytest.raises(NotComparable, match="398 rows of window a; expected at most the 199 positions"):
            summary.feed(table)
        one, other = ShardSummary(protocol), ShardSummary(protocol)
        one.feed(table), other.feed(table)
        with pytest.raises(NotComparable, match="count each window once"):
            one.merge(other)
        with pytest.raises(NotComparable, match="rows of K = 8, 20"):
            summarise_shards(
                [make_table(protocol, windows=("a",), top_k=8.0), make_table(protocol, windows=("b",), top_k=20.0)],
                protocol,
                arm="q",
            )

    def test_another_protocol(self, protocol, make_protocol, make_table) -> None:
        other = make_protocol({"z": ("A", "d1", [(1, 5)])})
        with pytest.raises(NotComparable, match="rows of window 'z'; expected a window of protocol synthetic"):
            summarise_shards([make_table(other)], protocol, arm="q")
        with pytest.raises(NotComparable, match="shards of two protocols"):
            ShardSummary(protocol).merge(ShardSummary(other))
