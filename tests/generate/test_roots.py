"""Which flips are followed, in which order, and where the floors are."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from drift_runs.generate.roots import (
    DRAWN,
    EVERY,
    FLOOR,
    STRONG,
    VISITED,
    every_root,
    existing,
    null_roots,
    select_roots,
    visited_places,
)
from drift_runs.measure.flips import strong_overturn_mask
from drift_runs.measure.positions import positions_of
from drift_runs.protocol.model import Floor
from drift_runs.schema import ROOTS

SPANS = {
    "b": ("A", "one", [(1, 11), (20, 30)]),
    "a": ("B", "two", [(1, 11)]),
}


@pytest.fixture
def protocol(make_protocol):
    """30 scored positions in three ranges b-0, b-1, a-0; window a is an outlier."""
    return make_protocol(SPANS, outliers=("a",), branches={"per_range": 3, "cap": 20})


@pytest.fixture
def flips(make_table):
    """A comparison that flips where it is told to, strongly where it is told to."""

    def make(protocol, at: dict[int, float], **columns: object) -> pa.Table:
        flip, p1, top = np.zeros(30), np.full(30, 0.6), np.zeros(30)
        for place, value in at.items():
            flip[place], p1[place], top[place] = 1, value, 7
        given = {"flip": flip, "reference_p1": p1, "candidate_top": top, "candidate_p1": np.full(30, 0.4), **columns}
        return make_table(protocol, **given)

    return make


def places(table: pa.Table) -> list[tuple[str, int]]:
    return list(zip(table["window"].to_pylist(), table["position"].to_pylist(), strict=True))


EVERYWHERE = {place: 0.95 if place in (3, 14, 25) else 0.5 for place in range(30)}


class TestEvery:
    def test_a_root_is_described(self, protocol, flips):
        table = flips(protocol, {2: 0.95, 22: 0.3}, literal=np.where(np.arange(30) == 2, 1.0, np.nan))
        found = every_root(table, protocol, arm="q4_0")
        assert found.schema.equals(ROOTS, check_metadata=True)
        first, second = found.to_pylist()
        assert first == {
            "arm": "q4_0",
            "order": 0,
            "window": "b",
            "document": "one",
            "panel": "A",
            "position": 3,
            "range": "b-0",
            "kind": "prose",
            "outlier": False,
            "why": STRONG,
            "reference_top": 0,
            "candidate_top": 7,
            "reference_p1": 0.95,
            "candidate_p1": 0.4,
            "literal": True,
        }
        assert (second["window"], second["outlier"], second["why"], second["literal"]) == ("a", True, EVERY, None)
        assert existing(found) == (2, 1, found)

    def test_strong_ones_are_those_that_are_counted_elsewhere(self, protocol, flips):
        p1 = {place: value for place, value in enumerate(np.linspace(0.85, 0.95, 30)) if place % 2}
        table = flips(protocol, p1)
        counted = int(strong_overturn_mask(positions_of(table), protocol.bands).sum())
        assert existing(every_root(table, protocol, arm="q"))[:2] == (15, counted) and 0 < counted < 15

    def test_in_the_protocols_order_whatever_the_tables(self, protocol, flips):
        table = flips(protocol, EVERYWHERE)
        shuffled = table.take(pa.array(np.random.default_rng(0).permutation(30)))
        expected = [("b", at) for at in (*range(1, 11), *range(20, 30))] + [("a", at) for at in range(1, 11)]
        assert places(every_root(shuffled, protocol, arm="q")) == expected

    def test_what_is_no_root(self, protocol, flips):
        unknown = {
            "candidate_top": np.where(np.arange(30) == 0, -1.0, 7.0),
            "reference_p1": np.where(np.arange(30) == 1, np.nan, 0.5),
        }
        table = flips(protocol, dict.fromkeys((0, 1, 2, 3), 0.5), **unknown)
        flip = pa.array([True, True, None, True, *[False] * 26])
        table = table.set_column(table.column_names.index("flip"), table.schema.field("flip"), flip)
        assert places(every_root(table, protocol, arm="q")) == [("b", 4)]

    def test_windows_of_another_protocol_are_left_out(self, protocol, flips, make_protocol):
        small = make_protocol({"a": SPANS["a"]}, branches={})
        assert {name for name, _ in places(every_root(flips(protocol, EVERYWHERE), small, arm="q"))} == {"a"}

    def test_no_flip_no_root(self, protocol, flips):
        found = every_root(flips(protocol, {}), protocol, arm="q")
        assert found.num_rows == 0 and existing(found)[:2] == (0, 0) and found.schema.equals(ROOTS)


class TestSelected:
    def test_strong_ones_come_first_and_the_others_spread_over_ranges(self, protocol, flips):
        found = select_roots(flips(protocol, EVERYWHERE), protocol, arm="q")
        assert found["order"].to_pylist() == list(range(12))
        assert places(found)[:3] == [("b", 4), ("b", 24), ("a", 6)]
        assert found["why"].to_pylist() == [STRONG] * 3 + [DRAWN] * 9
        assert found["range"].to_pylist()[3:] == ["b-0", "b-1", "a-0"] * 3
        assert len(set(places(found))) == 12

    def test_the_same_again_and_another_for_another_seed(self, protocol, flips):
        table = flips(protocol, EVERYWHERE)
        first = select_roots(table, protocol, arm="q")
        assert select_roots(table, protocol, arm="q").equals(first)
        seeds = protocol.seeds.model_copy(update={"roots": 1})
        again = select_roots(table, protocol.model_copy(update={"seeds": seeds}), arm="q")
        assert places(again) != places(first) and set(places(again)[:3]) == set(places(first)[:3])

    def test_arms_are_followed_from_the_same_places_where_both_flip(self, protocol, flips):
        table = flips(protocol, EVERYWHERE)
        whole = places(select_roots(table, protocol, arm="q"))
        assert places(select_roots(table, protocol, arm="r")) == whole
        other = flips(protocol, {place: p1 for place, p1 in EVERYWHERE.items() if place % 3})
        both = set(whole) & set(places(every_root(other, protocol, arm="r")))
        assert 0 < len(both) < len(whole) and both <= set(places(select_roots(other, protocol, arm="r")))

    def test_more_of_a_range_adds_to_what_was_drawn(self, protocol, flips):
        table = flips(protocol, EVERYWHERE)
        drawn = {}
        for per_range in (0, 1, 3, 50):
            branches = protocol.branches.model_copy(update={"per_range": per_range, "cap": 100})
            drawn[per_range] = places(select_roots(table, protocol.model_copy(update={"branches": branches}), arm="q"))
        assert [len(found) for found in drawn.values()] == [3, 6, 12, 30]
        assert set(drawn[0]) < set(drawn[1]) < set(drawn[3]) < set(drawn[50])
        assert drawn[1] == drawn[3][:6]

    def test_a_draw_does_not_depend_on_other_ranges(self, protocol, flips, make_protocol):
        alone = make_protocol({"a": SPANS["a"]}, branches={"per_range": 3})
        table = flips(protocol, EVERYWHERE)
        both = [place for place in places(select_roots(table, protocol, arm="q")) if place[0] == "a"]
        assert places(select_roots(table, alone, arm="q")) == both

    def test_every_ordinary_flip_is_as_likely(self, protocol, flips):
        table = flips(protocol, {place: 0.5 for place in range(10)})
        seen = np.zeros(11)
        for seed in range(400):
            seeds = protocol.seeds.model_copy(update={"roots": seed})
            seeded = protocol.model_copy(update={"seeds": seeds})
            for _, position in places(select_roots(table, seeded, arm="q")):
                seen[position] += 1
        assert seen.sum() == 1200
        # Binomial(400, 0.3): mean 120, standard deviation 9.2.
        assert np.abs(seen[1:] - 120).max() < 4 * 9.2

    def test_what_lies_outside_every_range_is_one_pool(self, protocol, flips):
        bare = protocol.model_copy(update={"ranges": protocol.ranges[1:]})
        found = select_roots(flips(protocol, EVERYWHERE), bare, arm="q").to_pylist()
        assert [row["range"] for row in found if row["why"] == DRAWN] == ["b-1", "a-0", ""] * 3
        assert {row["kind"] for row in found if row["range"] == ""} == {""}

    def test_the_cap_keeps_the_first(self, protocol, flips):
        table = flips(protocol, EVERYWHERE)
        whole = places(select_roots(table, protocol, arm="q"))
        for cap in (1, 2, 5):
            branches = protocol.branches.model_copy(update={"cap": cap})
            assert (
                places(select_roots(table, protocol.model_copy(update={"branches": branches}), arm="q")) == whole[:cap]
            )

    def test_every_flip(self, protocol, flips):
        branches = protocol.branches.model_copy(update={"roots": "every-flip", "cap": 100, "per_range": 0})
        protocol = protocol.model_copy(update={"branches": branches})
        found = select_roots(flips(protocol, EVERYWHERE), protocol, arm="q")
        assert found.num_rows == 30 and found["why"].to_pylist() == [STRONG] * 3 + [EVERY] * 27
        assert found["range"].to_pylist()[3:9] == ["b-0", "b-1", "a-0"] * 2

    def test_a_lane_that_the_protocol_does_not_have(self, protocol, flips):
        bare = protocol.model_copy(update={"branches": None})
        assert select_roots(flips(protocol, EVERYWHERE), bare, arm="q").num_rows == 0


def floor(arm: str = "f16", windows: tuple[str, ...] = ()) -> Floor:
    return Floor(name="again", arm=arm, kind="launch", windows=windows)


class TestFloors:
    @pytest.fixture
    def tables(self, protocol, flips):
        """Roots of two candidates, and two flips of the floor's own."""
        q = select_roots(flips(protocol, EVERYWHERE), protocol, arm="q4_0")
        r = select_roots(flips(protocol, {4: 0.5, 5: 0.5}), protocol, arm="other")
        return [q, r, select_roots(flips(protocol, {3: 0.5, 9: 0.95}), protocol, arm="again")]

    def test_its_own_flips_first_then_where_candidates_were_followed(self, protocol, tables):
        found = null_roots(tables, protocol, floor())
        assert found.schema.equals(ROOTS, check_metadata=True) and found["order"].to_pylist() == list(
            range(found.num_rows)
        )
        assert set(found["arm"].to_pylist()) == {"again"}
        own, drawn = found.slice(0, 2).to_pylist(), found.slice(2).to_pylist()
        assert [(row["position"], row["why"]) for row in own] == [(10, STRONG), (4, DRAWN)]
        assert all(row["candidate_top"] == 7 for row in own)
        assert {row["why"] for row in drawn} == {FLOOR}
        assert all(row["reference_top"] == row["candidate_top"] == 0 for row in drawn)
        assert {row["candidate_p1"] for row in drawn} == {None}
        explored = set(places(tables[0])) | set(places(tables[1]))
        # Each place once, and none that the floor has itself.
        assert set(places(found.slice(2))) == explored - set(places(tables[2]))
        assert len(set(places(found))) == found.num_rows

    def test_the_drawn_are_seeded_and_within_the_cap(self, protocol, tables):
        branches = protocol.branches.model_copy(update={"cap": 5})
        capped = protocol.model_copy(update={"branches": branches})
        found = null_roots(tables, capped, floor())
        assert found.num_rows == 5 and places(found) == places(null_roots(tables, protocol, floor()))[:5]
        assert null_roots(list(reversed(tables)), capped, floor()).equals(found)
        assert null_roots(pa.concat_tables(tables), capped, floor()).equals(found)

    def test_only_where_the_floor_has_rows(self, protocol, tables):
        assert {name for name, _ in places(null_roots(tables, protocol, floor(windows=("a",))))} == {"a"}

    def test_a_floor_of_a_candidate_follows_that_candidates_token(self, protocol, tables):
        found = null_roots(tables, protocol, floor(arm="q4_0")).slice(2)
        assert set(places(found)) == set(places(tables[0])) - set(places(tables[2]))
        for row in found.to_pylist():
            assert (row["reference_top"], row["candidate_top"], row["reference_p1"]) == (7, 7, 0.4)

    def test_other_floors_are_no_candidates(self, protocol, tables):
        declared = protocol.model_copy(update={"floors": (floor(), floor().model_copy(update={"name": "other"}))})
        found = null_roots(tables, declared, floor())
        assert set(places(found.slice(2))) == set(places(tables[0])) - set(places(tables[2]))

    def test_nothing_was_explored(self, protocol):
        assert null_roots(ROOTS.empty_table(), protocol, floor()).num_rows == 0


class TestVisited:
    """Where an arm is asked whose flips nobody sees."""

    def test_every_place_of_the_others_once(self, protocol, flips):
        q = select_roots(flips(protocol, EVERYWHERE), protocol, arm="q4_0")
        r = select_roots(flips(protocol, {4: 0.5, 5: 0.5}), protocol, arm="other")
        found = visited_places([q, r], protocol, arm="writer", comparison=flips(protocol, {}))
        assert found.schema.equals(ROOTS, check_metadata=True)
        assert set(places(found)) == set(places(q)) | set(places(r)) and len(set(places(found))) == found.num_rows
        assert found["order"].to_pylist() == list(range(found.num_rows))
        assert set(found["why"].to_pylist()) == {VISITED} and set(found["arm"].to_pylist()) == {"writer"}
        assert found["candidate_top"].to_pylist() == found["reference_top"].to_pylist()
        assert found["candidate_p1"].null_count == found.num_rows
        assert visited_places([r, q], protocol, arm="writer").equals(found), "the tables' order is no part of the draw"

    def test_never_more_than_the_cap(self, protocol, flips):
        capped = protocol.model_copy(update={"branches": protocol.branches.model_copy(update={"cap": 4})})
        q = select_roots(flips(protocol, EVERYWHERE), protocol, arm="q4_0")
        assert places(visited_places([q], capped, arm="w")) == places(visited_places([q], protocol, arm="w"))[:4]

    def test_without_others_where_the_reference_is_uncertain(self, protocol, flips):
        p1 = np.full(30, 0.6)
        p1[[0, 1, 2, 3, 12, 25]] = 0.3
        p1[26] = protocol.bands.uncertain_below
        found = visited_places([], protocol, arm="w", comparison=flips(protocol, {}, reference_p1=p1))
        # Of the four in the first range as many as the protocol draws there.
        assert found["range"].to_pylist().count("b-0") == protocol.branches.per_range == 3
        assert {row["range"]: row["position"] for row in found.to_pylist() if row["range"] != "b-0"} == {
            "b-1": 22,
            "a-0": 6,
        }
        assert set(found["why"].to_pylist()) == {VISITED}

    def test_nothing_to_go_by(self, protocol, flips):
        assert visited_places([], protocol, arm="w").num_rows == 0
        none = protocol.model_copy(update={"branches": None})
        assert visited_places([], none, arm="w", comparison=flips(protocol, {})).num_rows == 0
