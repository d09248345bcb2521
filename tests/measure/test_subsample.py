"""Simulated probes against the same probes taken one by one, and against what must hold for any rows."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from drift_runs.errors import NotComparable
from drift_runs.measure.subsample import Finding, SubsampleResult, subsample
from drift_runs.protocol.model import Protocol
from drift_runs.schema import SUBSAMPLE

SPANS = {
    "a": ("A", "d1", [(1, 61), (61, 100)]),
    "b": ("A", "d2", [(8, 71)]),
    "c": ("B", "d3", [(1, 50), (60, 90)]),
}
SETTINGS = {"intervals": {"resamples": 100}, "history": {"buckets": [32, 64]}}


@pytest.fixture
def protocol(make_protocol) -> Protocol:
    return make_protocol(SPANS, **SETTINGS)


def scored(protocol: Protocol) -> int:
    return sum(end - start for window in protocol.windows for start, end in window.scored)


def heavy(n: int, seed: int = 5) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(seed)
    return {
        "kl_full_nats": generator.lognormal(-3, 1.5, n),
        "flip": (generator.random(n) < 0.15).astype(float),
        "reference_p1": generator.random(n),
    }


def run(table: pa.Table, protocol: Protocol, seed: int = 0, **options) -> SubsampleResult:
    return subsample(table, protocol, arm="q4_0", generator=np.random.default_rng(seed), **options)


class Rows:
    """The same table as plain lists, for counting by hand."""

    def __init__(self, table: pa.Table, protocol: Protocol) -> None:
        self.rows = table.to_pylist()
        self.ranges = protocol.ranges

    def worst(self, chosen: list[dict], column: str) -> str:
        """The range with the largest mean of a column; the first of equals, none where it is not above 0."""
        best, name = 0.0, ""
        for span in self.ranges:
            values = [
                float(row[column])
                for row in chosen
                if row["window"] == span.window and span.start <= row["position"] < span.end and row[column] is not None
            ]
            if values and sum(values) / len(values) > best:
                best, name = sum(values) / len(values), span.name
        return name

    def phase(self, stride: int, at: int) -> list[dict]:
        return [row for row in self.rows if row["position"] % stride == at]


@pytest.mark.parametrize("stride", [2, 8, 13])
def test_phases_equal_the_probes_taken_one_by_one(protocol, make_table, stride: int) -> None:
    table = make_table(protocol, **heavy(scored(protocol)))
    by_hand = Rows(table, protocol)
    phases = [by_hand.phase(stride, at) for at in range(stride)]
    result = run(table, protocol, strides=(stride,), random_draws=0)
    for statistic, column in (("mean", "kl_full_nats"), ("rate", "flip")):
        finding = result.find(probe="phase", stride=stride, statistic=f"worst_range.{statistic}")
        full = by_hand.worst(by_hand.rows, column)
        named = [by_hand.worst(phase, column) for phase in phases]
        assert finding.named == full
        assert finding.value == pytest.approx(sum(name != full for name in named) / stride)
        assert finding.probes == stride and finding.positions == len(by_hand.rows)
    kl = [[row["kl_full_nats"] for row in phase] for phase in phases]
    full_mean = np.mean([row["kl_full_nats"] for row in by_hand.rows])
    errors = [np.mean(values) / full_mean - 1 for values in kl]
    mean = result.find(probe="phase", stride=stride, statistic="mean")
    assert mean.value == pytest.approx(np.mean(errors), abs=1e-12)
    assert (mean.low, mean.high) == pytest.approx(tuple(np.quantile(errors, [0.025, 0.975])))
    assert mean.sampled == int(np.median([len(values) for values in kl]))


def test_each_position_is_in_one_phase(protocol, make_table) -> None:
    """So an overturn, and the largest divergence, is seen by exactly one phase in so many."""
    values = heavy(scored(protocol))
    values["reference_p1"][:] = np.where(values["flip"] == 1, 0.95, 0.4)
    result = run(make_table(protocol, **values), protocol, strides=(8, 32), random_draws=0)
    for stride in (8, 32):
        overturns = result.find(probe="phase", stride=stride, statistic="seen")
        assert overturns.full_value == values["flip"].sum()
        assert overturns.value == pytest.approx(1 / stride)
        largest = result.find(probe="phase", stride=stride, statistic="max")
        assert largest.value == pytest.approx(1 / stride) and largest.none_named == stride - 1
        assert largest.full_value == values["kl_full_nats"].max()


class TestWorstRange:
    """Ranges of known length: a p95 needs about 190 positions."""

    @pytest.fixture
    def long(self, make_protocol) -> Protocol:
        spans = {"a": ("A", "d1", [(0 + 8, 2008)]), "b": ("A", "d2", [(8, 1608)]), "c": ("A", "d3", [(8, 408)])}
        return make_protocol(spans, **SETTINGS)

    def test_a_short_worst_range_cannot_be_named(self, long, make_table) -> None:
        """c is the worst of all positions by far; a probe of one in 8 has 50 of its positions."""
        values = np.concatenate([np.full(2000, 0.01), np.full(1600, 0.02), np.full(400, 0.5)])
        result = run(make_table(long, kl_full_nats=values), long, strides=(2, 8), random_draws=20)
        kept = result.find(probe="phase", stride=2, statistic="worst_range.p95")
        assert (kept.named, kept.value, kept.full_value) == ("c-0", 0.0, 0.5)
        for probe, probes in (("phase", 8), ("random", 20)):
            lost = result.find(probe=probe, stride=8, statistic="worst_range.p95")
            assert (lost.value, lost.not_nameable, lost.another_named, lost.none_named) == (1.0, probes, 0, 0)
            mean = result.find(probe=probe, stride=8, statistic="worst_range.mean")
            assert mean.value == 0.0, "a mean has no such limit"

    def test_another_range_is_named(self, long, make_table) -> None:
        """What makes a the worst lies in one phase of 8; the others name b."""
        values = np.concatenate([np.full(2000, 0.01), np.full(1600, 0.02), np.full(400, 0.001)])
        values[:2000:8] = 3.0
        result = run(make_table(long, kl_full_nats=values), long, strides=(8,), random_draws=0)
        for statistic in ("p95", "mean"):
            finding = result.find(probe="phase", stride=8, statistic=f"worst_range.{statistic}")
            assert finding.named == "a-0" and finding.value == 7 / 8
            assert (finding.not_nameable, finding.another_named, finding.none_named) == (0, 7, 0)

    def test_a_probe_without_a_flip_names_none(self, long, make_table) -> None:
        flip = np.zeros(4000)
        flip[16] = 1
        result = run(make_table(long, flip=flip), long, strides=(8,), random_draws=0)
        rate = result.find(probe="phase", stride=8, statistic="worst_range.rate")
        assert (rate.named, rate.value, rate.none_named, rate.another_named) == ("a-0", 7 / 8, 7, 0)
        mean = result.find(probe="phase", stride=8, statistic="worst_range.mean")
        assert mean.value is None and mean.reason == "all positions name no range: no value is above 0"

    def test_ranges_too_short_for_any_p95(self, protocol, make_table) -> None:
        result = run(make_table(protocol, **heavy(scored(protocol))), protocol, strides=(8,), random_draws=0)
        finding = result.find(probe="phase", stride=8, statistic="worst_range.p95")
        assert (finding.value, finding.named, finding.not_nameable) == (None, "", None)
        assert finding.reason == "all positions name no range: no range is firm or indicative"


class TestRandom:
    def test_as_many_positions_of_each_panel(self, protocol, make_table) -> None:
        result = run(make_table(protocol, **heavy(scored(protocol))), protocol, strides=(8, 64), random_draws=30)
        in_a, in_b = 60 + 39 + 63, 49 + 30
        for stride in (8, 64):
            finding = result.find(probe="random", stride=stride, statistic="mean")
            assert finding.sampled == round(in_a / stride) + round(in_b / stride) and finding.probes == 30

    def test_the_seed_decides(self, protocol, make_table) -> None:
        table = make_table(protocol, **heavy(scored(protocol)))
        options = {"strides": (8,), "random_draws": 20}
        assert run(table, protocol, 3, **options) == run(table, protocol, 3, **options)
        assert run(table, protocol, 3, **options) != run(table, protocol, 4, **options)
        phases = [f for f in run(table, protocol, 3, **options).findings if f.probe == "phase"]
        assert phases == [f for f in run(table, protocol, 4, **options).findings if f.probe == "phase"]

    def test_about_one_position_in_so_many_is_seen(self, protocol, make_table) -> None:
        result = run(make_table(protocol, **heavy(scored(protocol))), protocol, strides=(8,), random_draws=2000)
        largest = result.find(probe="random", stride=8, statistic="max")
        assert largest.value == pytest.approx(1 / 8, abs=0.03)
        mean = result.find(probe="random", stride=8, statistic="mean")
        assert mean.value == pytest.approx(0, abs=0.03) and mean.low < 0 < mean.high


def test_intervals_over_history_widen(make_protocol, make_table) -> None:
    """Clusters of one value each: the interval hardly widens. Values that differ inside them: it does."""
    spans = {f"w{at}": ("A", f"d{at}", [(1, 65)]) for at in range(12)}
    protocol = make_protocol(spans, **SETTINGS)
    between = np.repeat(np.linspace(0.1, 1.2, 12), 64)
    inside = np.tile(np.random.default_rng(2).lognormal(0, 1, 64), 12) * (1 + np.arange(12 * 64) % 7)
    widths = {}
    for name, values in (("between", between), ("inside", inside)):
        result = run(make_table(protocol, kl_full_nats=values), protocol, strides=(16,), random_draws=60)
        widths[name] = result.find(probe="phase", stride=16, statistic="history_width").value
        random = result.find(probe="random", stride=16, statistic="history_width")
        assert random.reason.startswith("of the first 50 samples")
    assert widths["between"] == pytest.approx(1, rel=1e-9)
    assert widths["inside"] > 1.5


def test_one_document_has_no_interval_over_history(make_protocol, make_table) -> None:
    protocol = make_protocol({"a": ("A", "d1", [(1, 100)])}, **SETTINGS)
    result = run(make_table(protocol, **heavy(99)), protocol, strides=(8,), random_draws=5)
    width = result.find(probe="phase", stride=8, statistic="history_width")
    assert width.value is None
    assert width.reason == "no history bucket of all positions has an interval between documents"


def test_with_and_without_the_declared_outliers(make_protocol, make_table) -> None:
    protocol = make_protocol(SPANS, outliers=("b",), **SETTINGS)
    values = heavy(scored(protocol))
    values["kl_full_nats"][99:162] = 50.0
    result = run(make_table(protocol, **values), protocol, strides=(8,), random_draws=2)
    both = [result.find(probe="phase", stride=8, statistic="worst_range.mean", outliers=o) for o in ("with", "without")]
    assert both[0].named == "b-0" and both[1].named != "b-0"
    assert both[0].positions - both[1].positions == 63
    assert result.find(probe="phase", stride=8, statistic="mean", outliers="only") is None


any_value = st.one_of(st.floats(0, 30), st.sampled_from([0.0, -1e-6, 0.5, np.nan]))


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(values=st.lists(any_value, min_size=40, max_size=40), seed=st.integers(0, 1000), data=st.data())
def test_what_holds_for_any_rows(make_protocol, make_table, values, seed, data) -> None:
    """Ties, zeros, tiny negatives, missing values: counts add up, shares are shares, order and unit change nothing."""
    spans = {"a": ("A", "d1", [(1, 13), (13, 21)]), "b": ("B", "d2", [(1, 21)])}
    protocol = make_protocol(spans, **SETTINGS)
    kl = np.array(values)
    table = make_table(protocol, kl_full_nats=kl, flip=np.where(np.isnan(kl), np.nan, kl > 1))
    options = {"strides": (2, 8, 64), "random_draws": 5}
    result = run(table, protocol, seed, **options)
    shuffled = table.take(pa.array(data.draw(st.permutations(range(40)))))
    assert run(shuffled, protocol, seed, **options) == result
    for finding in result.findings:
        assert finding.value is not None or finding.reason
        if finding.statistic.startswith("worst_range") and finding.value is not None:
            missed = finding.not_nameable + finding.another_named + finding.none_named
            assert finding.value == pytest.approx(missed / finding.probes)
        if finding.statistic in ("seen", "max") and finding.value is not None:
            assert 0 <= finding.value <= 1 and 0 <= finding.none_named <= finding.probes
        if finding.low is not None:
            assert finding.low <= finding.high
    doubled = make_table(protocol, kl_full_nats=kl * 2, flip=np.where(np.isnan(kl), np.nan, kl > 1))
    for one, other in zip(result.findings, run(doubled, protocol, seed, **options).findings, strict=True):
        # Twice is exact in floating point, so what is relative is equal to the last digit.
        scale = 2 if one.spec == "kl.full" else 1
        full_value = None if one.full_value is None else scale * one.full_value
        assert replace(one, full_value=full_value) == other
    assert SubsampleResult.of_table(result.table()) == result
    assert result.table().schema.equals(SUBSAMPLE, check_metadata=True)


def test_all_equal(protocol, make_table) -> None:
    result = run(make_table(protocol, kl_full_nats=0.25, flip=1.0), protocol, strides=(8,), random_draws=5)
    for probe in ("phase", "random"):
        mean = result.find(probe=probe, stride=8, statistic="mean")
        assert (mean.value, mean.low, mean.high) == (0.0, 0.0, 0.0)
    width = result.find(probe="phase", stride=8, statistic="history_width")
    assert width.value is None, "an interval of no width cannot widen"


@pytest.mark.parametrize("rows", [0, 1])
def test_no_row_and_one_row(protocol, make_table, rows: int) -> None:
    table = make_table(protocol, **heavy(scored(protocol))).slice(0, rows)
    result = run(table, protocol, strides=(8,), random_draws=3)
    mean = result.find(probe="phase", stride=8, statistic="mean")
    assert mean.positions == rows
    if rows == 0:
        assert (mean.value, mean.reason) == (None, "no position has a finite divergence")
        assert result.find(probe="phase", stride=8, statistic="seen").value is None
    else:
        assert mean.value == 0 and mean.reason == "7 samples without a position left out"
        assert result.find(probe="phase", stride=8, statistic="max").value == 1 / 8
        assert result.find(probe="random", stride=8, statistic="max").value == 1
    assert all(finding.value is None or math.isfinite(finding.value) for finding in result.findings)


def test_no_result_has_a_table_too() -> None:
    empty = SubsampleResult(arm="", findings=())
    assert SubsampleResult.of_table(empty.table()) == empty
    assert len(Finding.__dataclass_fields__) + 1 == len(SUBSAMPLE)


@pytest.mark.parametrize("options", [{"strides": (1,)}, {"strides": (8, 0)}, {"random_draws": -1}])
def test_numbers_that_make_no_probe(protocol, make_table, options: dict) -> None:
    with pytest.raises(ValueError, match="expected strides from 2 and draws from 0"):
        run(make_table(protocol), protocol, **options)


def test_rows_of_another_protocol(protocol, make_protocol, make_table) -> None:
    other = make_protocol({"z": ("A", "d1", [(1, 5)])})
    with pytest.raises(NotComparable, match="4 rows of other windows; expected windows of protocol synthetic"):
        run(make_table(other), protocol)
