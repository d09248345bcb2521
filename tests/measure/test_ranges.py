"""Ranges, kinds and the worst range."""

from __future__ import annotations

import numpy as np

from drift_runs.measure.intervals import Resampler
from drift_runs.measure.positions import positions_of
from drift_runs.measure.ranges import MEAN, P95, SpanValues, kinds_of, range_index, worst_range

RESAMPLER = Resampler(seed=9, resamples=2000)


def span(name: str, cluster: str, values: object) -> SpanValues:
    return SpanValues(name=name, cluster=cluster, values=np.asarray(values, dtype=float))


def test_spans_are_half_open_and_gaps_belong_to_none(make_protocol, make_table):
    protocol = make_protocol({"a": ("A", "d", [(1, 3), (5, 7)]), "b": ("A", "d", [(2, 4)])})
    wide = make_protocol({"a": ("A", "d", [(1, 8)]), "b": ("A", "d", [(2, 4)])})
    positions = positions_of(make_table(wide))
    assert range_index(positions, protocol).tolist() == [0, 0, -1, -1, 1, 1, -1, 2, 2]
    assert kinds_of(protocol) == {"prose": (0,), "code": (1,), "cli": (2,)}


def test_the_largest_eligible_span_is_named_with_its_state_and_n():
    spans = [
        span("small", "d", np.full(50, 9.0)),
        span("low", "e", np.full(300, 0.1)),
        span("high", "f", np.full(200, 0.4)),
    ]
    found = worst_range(spans, P95, RESAMPLER)
    assert (found.name, found.value, found.n, found.state) == ("high", 0.4, 200, "indicative")
    assert [passed.name for passed in found.passed_over] == ["small"]
    assert found.passed_over[0].reason == "3 values lie beyond it, 10 needed"
    # Two clusters are eligible; "high" leads whenever its cluster is drawn, and other resamples say nothing of it.
    assert found.clusters == 2 and found.named_share == 1.0
    # A mean needs no values beyond, so the short span counts.
    assert worst_range(spans, MEAN, RESAMPLER).name == "small"


def test_the_floors_maximum_is_taken_over_the_same_spans():
    spans = [span("a", "d", np.full(300, 0.1)), span("b", "e", np.full(300, 0.2)), span("c", "f", np.ones(20))]
    floor = [span("a", "d", np.full(300, 0.05)), span("b", "e", np.full(300, 0.01)), span("c", "f", np.full(20, 7.0))]
    assert worst_range(spans, P95, RESAMPLER, floor).floor_value == 0.05
    assert worst_range(spans, P95, RESAMPLER, floor[:1]).floor_value is None
    assert worst_range(spans, P95, RESAMPLER).floor_value is None


def test_equal_spans_name_the_first_and_one_cluster_has_no_share():
    spans = [span("a", "d", np.ones(300)), span("b", "d", np.ones(300))]
    found = worst_range(spans, P95, RESAMPLER)
    assert found.name == "a" and found.named_share is None


def test_nothing_eligible():
    assert worst_range([], P95, RESAMPLER).value is None
    found = worst_range([span("a", "d", [])], MEAN, RESAMPLER)
    assert found.value is None and found.state == "withheld" and found.name == ""
    assert found.passed_over[0].reason == "no positions"


def test_a_span_that_always_leads_has_a_share_of_one_although_resamples_leave_it_out():
    spans = [span(name, name, np.full(200, value)) for name, value in (("a", 0.3), ("b", 0.4), ("c", 0.35))]
    found = worst_range(spans, MEAN, RESAMPLER)
    assert found.name == "b" and found.named_share == 1.0
    assert (RESAMPLER.multiplicities(3)[:, 1] > 0).mean() < 0.75


def test_a_span_that_leads_only_now_and_then_has_a_share_below_one():
    # A p95 moves with how often the span is drawn: 200 values once, 400 twice. Between two spans that are nearly the
    # same the lead changes, and is counted where the worst one was drawn.
    generator = np.random.default_rng(5)
    spans = [span(name, name, generator.lognormal(size=250)) for name in "abc"]
    found = worst_range(spans, P95, RESAMPLER)
    drawn = RESAMPLER.multiplicities(3)
    at = "abc".index(found.name)
    leads = contains = 0
    for row in drawn:
        if row[at]:
            contains += 1
            values = [
                np.quantile(np.repeat(s.values, int(k)), 0.95) if k else -1 for s, k in zip(spans, row, strict=True)
            ]
            leads += int(np.argmax(values)) == at
    assert found.named_share == leads / contains and 0 < contains < len(drawn)
