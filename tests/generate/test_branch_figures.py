"""Figures of outcomes: counts, shares with their intervals, waiting times, and what stands beside them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from drift_runs.generate.branch_figures import COUNTS, branch_figures
from drift_runs.generate.outcomes import OUTCOMES as NAMES
from drift_runs.generate.root_rows import SHARES
from drift_runs.generate.roots import every_root, existing
from drift_runs.measure.resampler import Resampler
from drift_runs.schema import FIGURES, OUTCOMES, ROOTS
from drift_runs.tracking.names import name_of

WINDOWS = ("w1", "w2", "w3")


@pytest.fixture
def protocol(make_protocol):
    """Three windows of three documents, one range each; w2 is an outlier, w3 of another panel."""
    return make_protocol(
        {name: ("A" if at < 2 else "B", f"d{at}", [(1, 9)]) for at, name in enumerate(WINDOWS)},
        outliers=("w2",),
        kinds=("tool-call", "json", "tool-call"),
        branches={},
    )


def row(window: str, outcome: str, **changes: Any) -> dict:
    at = WINDOWS.index(window)
    given = {
        "arm": "q",
        "pair": "branch",
        "window": window,
        "document": f"d{at}",
        "panel": "A" if at < 2 else "B",
        "position": 1,
        "range": f"{window}-0",
        "kind": "json" if at == 1 else "tool-call",
        "outlier": at == 1,
        "why": "drawn",
        "outcome": outcome,
        "rule": "",
        "structure": "",
        "literal": False,
        "loop": False,
        "reference_ended": "turn",
        "candidate_ended": "turn",
        "reference_tokens": 20,
        "candidate_tokens": 20,
        "reference_text": "",
        "candidate_text": "",
        "evidence": "{}",
    }
    return given | changes


def table(*rows: dict) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=OUTCOMES)


SIX = table(
    row("w1", "malformed", why="strong", propagated=2),
    row("w1", "recovers", resync_reference=3, resync_candidate=4),
    row("w1", "changes", literal=True, resync_reference=9, resync_candidate=8, propagated=0),
    row("w2", "both-malformed", why="strong"),
    row("w3", "unresolved", loop=True, candidate_tokens=30),
    row("w3", "wrong-call", propagated=1),
)


def figures(outcomes: pa.Table, protocol, arm: str = "q", **more: Any) -> dict:
    found = branch_figures(outcomes, protocol, arm=arm, **more)
    assert found.schema.equals(FIGURES, check_metadata=True)
    rows = found.to_pylist()
    keyed = {
        (one["arm"], one["scope_kind"], one["scope"], one["outliers"], one["spec"], one["statistic"]): one
        for one in rows
    }
    assert len(keyed) == len(rows)
    assert len({name_of(one) for one in rows if one["arm"] == arm}) == sum(one["arm"] == arm for one in rows)
    return keyed


def values(found: dict, *statistics: str, scope=("all", "all"), outliers="with", spec="branches", arm="q") -> list:
    return [found[(arm, *scope, outliers, spec, name)]["value"] for name in statistics]


class TestCounts:
    def test_known_counts_of_every_scope(self, protocol):
        found = figures(SIX, protocol)
        assert values(found, "explored", "strong_explored") == [6, 2]
        counts = dict(zip(NAMES, values(found, *NAMES), strict=True))
        assert {name for name, count in counts.items() if count} == {
            "malformed",
            "recovers",
            "changes",
            "both-malformed",
            "unresolved",
            "wrong-call",
        }
        assert values(found, *SHARES) == [1 / 6, 2 / 6, 5 / 6, 1 / 6, 1 / 6]
        assert values(found, *SHARES, outliers="without") == [1 / 5, 1 / 5, 4 / 5, 1 / 5, 1 / 5]
        assert values(found, *SHARES, outliers="only") == [0, 1, 1, 0, 0]
        assert values(found, "explored", "invalid", "loops", scope=("panel", "B")) == [2, 0, 1 / 2]
        assert values(found, "explored", "invalid", scope=("kind", "tool-call")) == [5, 1 / 5]
        assert {key[1] for key in found} == {"all", "panel", "kind"}
        assert ("q", "kind", "json", "without", "branches", "explored") not in found

    def test_what_exists_stands_beside_what_was_explored(self, protocol, make_table):
        flip = np.array([1, 1, 1, 0, 0, 0, 0, 0] * 3)
        p1 = np.where(np.arange(24) % 8 == 0, 0.95, 0.5)
        there = existing(every_root(make_table(protocol, flip=flip, reference_p1=p1), protocol, arm="q"))
        found = figures(SIX, protocol, existing=there)
        assert values(found, *COUNTS) == [6, 2, 9, 3]
        assert values(found, *COUNTS, outliers="without") == [5, 1, 6, 2]
        assert values(found, *COUNTS, scope=("kind", "json")) == [1, 1, 3, 1]
        assert found[("q", "all", "all", "with", "branches", "explored")]["reason"] == "of 9 flips"
        assert found[("q", "all", "all", "with", "branches", "strong_explored")]["reason"] == "of 3 strong overturns"

    def test_flips_of_which_none_was_explored(self, protocol, make_table):
        there = existing(every_root(make_table(protocol, flip=np.ones(24)), protocol, arm="q"))
        found = figures(OUTCOMES.empty_table(), protocol, existing=there)
        assert values(found, "explored", "existing", *SHARES) == [0, 24] + [None] * 5
        one = found[("q", "all", "all", "with", "branches", "invalid")]
        assert (one["state"], one["reason"], one["n"]) == ("withheld", "no root was explored", 0)
        assert values(found, "existing", scope=("panel", "B")) == [8]

    def test_no_flip_at_all(self, protocol, make_table):
        there = existing(every_root(make_table(protocol), protocol, arm="q"))
        found = figures(OUTCOMES.empty_table(), protocol, existing=there)
        assert values(found, "explored", "existing", "malformed") == [0, 0, 0]
        assert {key[1] for key in found} == {"all"}

    def test_pairs_and_constrained_decodes_have_figures_of_their_own(self, protocol):
        more = [
            row("w1", "recovers", pair="token"),
            row("w1", "malformed", pair="weights"),
            row("w3", "recovers", arm="q-json"),
        ]
        found = figures(pa.concat_tables([SIX, table(*more)]), protocol)
        assert values(found, "explored", "invalid") == [6, 1 / 6]
        assert values(found, "explored", "recovers", spec="branches.token") == [1, 1]
        assert values(found, "invalid", spec="branches.weights") == [1]
        assert values(found, "explored", "recovers", arm="q-json") == [1, 1]
        assert ("q", "all", "all", "with", "branches.token", "existing") not in found


class TestShares:
    def test_the_interval_is_that_of_a_ratio_of_sums_over_clusters(self, protocol):
        found = figures(SIX, protocol)[("q", "all", "all", "with", "branches", "invalid_any")]
        drawn = Resampler.of(protocol).multiplicities(3).astype(float)
        rates = drawn @ np.array([1.0, 1, 0]) / (drawn @ np.array([3.0, 1, 2]))
        assert (found["low"], found["high"]) == pytest.approx(tuple(np.quantile(rates, [0.025, 0.975])))
        assert found["interval"] == "percentile bootstrap, 95 %, 3 documents" and found["standard_error"] > 0
        assert found["reason"] == "3 documents: such intervals cover less than they claim"
        assert (found["n"], found["clusters"], found["state"]) == (6, 3, "firm")

    def test_over_kinds_the_percentile_interval_alone(self, protocol):
        found = figures(SIX, protocol)[("q", "kind", "tool-call", "with", "branches", "invalid")]
        assert found["low"] is not None and (found["bca_low"], found["standard_error"]) == (None, None)

    def test_all_alike_or_one_document_gives_none(self, protocol):
        found = figures(table(row("w1", "recovers"), row("w3", "recovers")), protocol)
        invalid, resolved = (found[("q", "all", "all", "with", "branches", name)] for name in ("invalid", "resolved"))
        assert (invalid["value"], invalid["low"], invalid["t_high"], invalid["interval"]) == (0, None, None, "")
        assert invalid["reason"] == "no root is: resamples are all alike and give no interval"
        assert (resolved["value"], resolved["low"]) == (1, None) and resolved["reason"].startswith("every root is")
        alone = figures(table(row("w1", "recovers"), row("w1", "malformed")), protocol)
        one = alone[("q", "all", "all", "with", "branches", "invalid")]
        assert (one["value"], one["low"], one["reason"]) == (0.5, None, "1 document: no interval between documents")

    def test_the_floor_with_the_most_invalid_stands_beside(self, protocol):
        mild = table(row("w1", "recovers", arm="mild"), row("w3", "malformed", arm="mild"))
        hard = table(
            row("w1", "malformed", arm="hard"), row("w1", "recovers", arm="hard"), row("w2", "malformed", arm="hard")
        )
        found = figures(SIX, protocol, floors={"mild": mild, "hard": hard, "none": OUTCOMES.empty_table()})
        invalid = found[("q", "all", "all", "with", "branches", "invalid")]
        assert (invalid["floor"], invalid["floor_value"], invalid["borrowed"]) == ("hard", 2 / 3, False)
        assert found[("q", "all", "all", "with", "branches", "resolved")]["floor_value"] == 1
        without = found[("q", "all", "all", "without", "branches", "invalid")]
        assert (without["floor"], without["floor_value"]) == ("hard", 1 / 2)  # the first by name of equals
        assert found[("q", "panel", "B", "with", "branches", "invalid")]["floor"] == "mild"
        assert found[("q", "all", "all", "with", "branches", "explored")]["floor"] == ""

    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=25)
    @given(
        marks=st.lists(
            st.tuples(st.sampled_from(WINDOWS), st.sampled_from(NAMES), st.booleans(), st.booleans()),
            min_size=1,
            max_size=12,
        )
    )
    def test_outcomes_add_up_and_order_does_not_matter(self, protocol, marks):
        rows = [
            row(window, name, literal=literal and name == "changes", loop=loop) for window, name, literal, loop in marks
        ]
        found = figures(table(*rows), protocol)
        counts = dict(zip(NAMES, values(found, *NAMES), strict=True))
        n = len(rows)
        assert sum(counts.values()) == n
        invalid, invalid_any, resolved, literal, _ = values(found, *SHARES)
        assert invalid == pytest.approx(counts["malformed"] / n)
        assert invalid_any == pytest.approx((counts["malformed"] + counts["both-malformed"]) / n)
        assert resolved == pytest.approx(1 - counts["unresolved"] / n)
        assert literal <= counts["changes"] / n
        parts = [
            found[("q", "kind", kind, "with", "branches", "explored")]["value"]
            for kind in ("tool-call", "json")
            if ("q", "kind", kind, "with", "branches", "explored") in found
        ]
        assert sum(parts) == n
        again = figures(table(*reversed(rows)), protocol)
        assert values(again, *SHARES) == pytest.approx(values(found, *SHARES))


class TestResync:
    def test_unresolved_roots_are_cut_off_and_settled_ones_left_out(self, protocol):
        found = figures(SIX, protocol)
        keys = [("q", "all", "all", "with", "branches.resync", name) for name in ("count", "p25", "p50", "p75")]
        count, p25, p50, p75 = (found[key] for key in keys)
        assert (count["value"], count["n"]) == (2, 6)
        # 4 and 8 tokens, and one of 30 that was cut off: two thirds wait behind 4, one third behind 8.
        assert (p25["value"], p50["value"], p75["value"]) == (4, 8, None)
        assert (p50["n"], p50["excluded"], p50["clusters"], p50["state"]) == (3, 3, 2, "firm")
        assert p50["reason"].startswith(
            "Kaplan-Meier: 2 re-synchronised, 1 cut off before; 3 settled otherwise and left"
        )
        assert (p75["state"], p75["reason"].split(";")[0]) == ("withheld", "not reached")
        # w3 alone is drawn in a quarter of the resamples, and there nothing ever happens.
        assert (p50["low"], p50["high"]) == (4, None)
        assert "the interval has no upper end" in p50["reason"]

    def test_nothing_re_synchronised(self, protocol):
        found = figures(table(row("w1", "unresolved"), row("w1", "wrong-call")), protocol)
        p50 = found[("q", "all", "all", "with", "branches.resync", "p50")]
        assert (p50["value"], p50["n"], p50["excluded"], p50["interval"]) == (None, 1, 1, "")


class TestPropagated:
    def test_counts_of_roots_with_a_wrong_value(self, protocol):
        found = figures(SIX, protocol)
        assert values(found, "count", "roots", spec="branches.propagated") == [3, 2]
        one = found[("q", "all", "all", "with", "branches.propagated", "count")]
        assert (one["n"], one["excluded"]) == (3, 3)


def test_an_arm_whose_flips_nobody_sees(protocol):
    """Counted are the places where it was asked, with and without the outlier window, and no flip is said to exist."""
    given = {"document": "d0", "panel": "A", "range": "", "reference_top": 1, "candidate_top": 1, "reference_p1": 0.5}
    places = [("w1", "left"), ("w1", "left"), ("w1", "left"), ("w2", "left"), ("w1", "kept"), ("w3", "refused")]
    visited = pa.Table.from_pylist(
        [
            given
            | {"arm": "q", "order": at, "window": window, "position": at + 1, "outlier": window == "w2", "why": why}
            | {"kind": "json" if window == "w2" else "tool-call"}
            for at, (window, why) in enumerate(places)
        ],
        schema=ROOTS,
    )
    four = table(*SIX.slice(0, 4).to_pylist())
    found = figures(four, protocol, visited=visited)
    whole = {
        name: found["q", "all", "all", "with", "branches", name]["value"] for name in ("visited", "kept", "refused")
    }
    assert whole == {"visited": 6, "kept": 1, "refused": 1}
    assert found["q", "all", "all", "without", "branches", "visited"]["value"] == 5
    assert found["q", "kind", "json", "with", "branches", "visited"]["value"] == 1
    explored = found["q", "all", "all", "with", "branches", "explored"]
    assert (explored["value"], explored["reason"]) == (4, "of 6 places where it was asked")
    assert ("q", "all", "all", "with", "branches", "existing") not in found
