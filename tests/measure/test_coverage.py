"""What share of a stretch was scored: known answers for every kind of scope, and silence where all of it was."""

from __future__ import annotations

import pyarrow as pa

from drift_runs.measure.shards import summarise_shards
from drift_runs.measure.summary import summarise


def shares(table: pa.Table, outliers: str = "with") -> dict[tuple[str, str], tuple[float, int]]:
    return {
        (row["scope_kind"], row["scope"]): (row["value"], row["n"])
        for row in table.to_pylist()
        if (row["spec"], row["statistic"], row["outliers"]) == ("coverage", "share", outliers)
    }


def one_in(stride: int, start: int, count: int) -> list[tuple[int, int]]:
    return [(start + stride * at, start + stride * at + 1) for at in range(count)]


def test_a_sample_says_what_it_is_a_sample_of(make_protocol, make_table):
    # Window a: one in four of 17 positions from 248 on; b: all of ten.
    protocol = make_protocol(
        {"a": ("A", "d1", one_in(4, 248, 5)), "b": ("B", "d2", [(250, 260)])},
        outliers=("b",),
        history={"depth_tokens": 250},
    )
    table = summarise(make_table(protocol), protocol, arm="q4_0", floors={})
    found = shares(table)
    assert found[("all", "all")] == (15 / 27, 15)
    assert found[("panel", "A")] == found[("window", "a")] == (5 / 17, 5)
    assert ("panel", "B") not in found and ("window", "b") not in found
    # 248 to 256 of a, of which 248, 252 and 256 are scored, and 250 to 256 of b.
    assert found[("history", "1-256")] == (10 / 16, 10)
    assert found[("history", "257-1,024")] == (5 / 11, 5)
    # Depth 1 to 250: 248, 249, 250 of a and 250 of b.
    assert found[("depth", "1-250")] == (2 / 4, 2)
    assert shares(table, "without")[("all", "all")] == (5 / 17, 5)
    assert shares(table, "without")[("history", "1-256")] == (3 / 9, 3)
    assert shares(table, "only") == {}
    reason = next(row["reason"] for row in table.to_pylist() if row["spec"] == "coverage")
    assert reason == "15 of 27 positions are scored"


def test_ranges_and_their_kinds_count_what_lies_in_them(make_protocol, make_table):
    protocol = make_protocol({"a": ("A", "d1", one_in(5, 10, 4))})
    labelled = {"name": "whole", "window": "a", "kind": "prose", "from": 10, "to": 26}
    content = protocol.model_dump(mode="json", by_alias=True) | {"ranges": [labelled]}
    protocol = type(protocol).model_validate(content)
    found = shares(summarise(make_table(protocol), protocol, arm="q4_0", floors={}))
    assert found[("range", "whole")] == found[("kind", "prose")] == (4 / 16, 4)


def test_nothing_is_said_where_everything_is_scored_or_nothing_is_there(make_protocol, make_table):
    protocol = make_protocol({"a": ("A", "d1", [(1, 21)]), "b": ("A", "d2", [(5, 15)])})
    for windows in (("a", "b"), ("b",), ()):
        assert shares(summarise(make_table(protocol, windows=windows), protocol, arm="q4_0", floors={})) == {}


def test_shards_say_the_same_of_pooled_texts(make_protocol, make_table):
    protocol = make_protocol({"a": ("A", "d1", one_in(4, 3, 5)), "b": ("B", "d2", [(1, 11)])}, outliers=("b",))
    table = make_table(protocol)
    held = summarise(table, protocol, arm="q4_0", floors={})
    sharded = summarise_shards([table.slice(0, 7), table.slice(7)], protocol, arm="q4_0")
    for choice in ("with", "without", "only"):
        expected = {place: share for place, share in shares(held, choice).items() if place[0] in ("all", "panel")}
        assert shares(sharded, choice) == expected
