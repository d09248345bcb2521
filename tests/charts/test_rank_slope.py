from __future__ import annotations

import math

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drift_runs.charts.rank_slope import MOST_ARMS, places_of, rank_slope

BETTER = {"flip rate": "small", "exact answers": "large"}
SCHEMA = pa.schema(
    [
        ("arm", pa.string()),
        ("figure", pa.string()),
        ("value", pa.float64()),
        ("shown", pa.string()),
        ("reason", pa.string()),
    ]
)


def rows(**arms: tuple[float | None, float | None]) -> list[dict[str, object]]:
    """Arm to flip rate and exact answers."""
    return [
        {"arm": arm, "figure": figure, "value": values[at], "shown": str(values[at]), "reason": "few values"}
        for at, figure in enumerate(BETTER)
        for arm, values in arms.items()
    ]


def layers(content: list[dict[str, object]]) -> list[dict]:
    spec = rank_slope(pa.Table.from_pylist(content, schema=SCHEMA), better=BETTER).to_dict()
    for part in spec["layer"]:
        part.setdefault("data", spec.get("data"))
    return spec["layer"]


def data(parts: list[dict], mark: str) -> list[dict]:
    return [item for part in parts if part["mark"]["type"] == mark for item in part["data"]["values"]]


def ends(parts: list[dict]) -> dict[tuple[str, str], float]:
    return {(item["arm"], item["figure"]): item["rank"] for item in data(parts, "line")}


def test_rank_1_is_nearest_to_the_reference_whichever_way_a_figure_runs() -> None:
    content = rows(near=(0.01, 0.99), far=(0.2, 0.4), middle=(0.1, 0.8))
    assert ends(layers(content)) == {
        (arm, figure): rank for arm, rank in (("near", 1), ("middle", 2), ("far", 3)) for figure in BETTER
    }


def test_lines_cross_where_two_figures_disagree() -> None:
    found = ends(layers(rows(a=(0.1, 0.5), b=(0.2, 0.9))))
    assert found["a", "flip rate"] < found["b", "flip rate"]
    assert found["a", "exact answers"] > found["b", "exact answers"]


def test_tied_arms_meet_in_one_point_whose_bar_spans_their_ranks_and_keep_their_names_apart() -> None:
    parts = layers(rows(a=(0.1, 0.9), b=(0.2, 0.5), c=(0.3, 0.5), d=(0.4, 0.5)))
    found = ends(parts)
    assert {found[arm, "exact answers"] for arm in "bcd"} == {3.0}
    assert [(item["from"], item["to"]) for item in data(parts, "rule")] == [(2, 4)]
    names = {
        item["arm"]: item["slot"]
        for part in parts
        if part["encoding"].get("text", {}).get("field") == "arm"
        for item in part["data"]["values"]
        if item["figure"] == "exact answers"
    }
    assert names == {"a": 1, "b": 2, "c": 3, "d": 4}
    shown = [
        item
        for part in parts
        if part["encoding"].get("text", {}).get("field") == "shown"
        for item in part["data"]["values"]
        if item["figure"] == "exact answers"
    ]
    assert len(shown) == 2, "a value that arms share is written once"


def test_a_withheld_value_leaves_a_gap_and_the_arm_is_named_below_all_ranks() -> None:
    parts = layers(rows(a=(0.1, 0.9), b=(0.2, None), c=(0.3, 0.5)))
    assert {arm for arm, _ in ends(parts)} == {"a", "c"}
    (named,) = [item for item in data(parts, "text") if "words" in item]
    assert (named["words"], named["reason"]) == ("b: withheld", "few values")
    assert named["rank"] > 3
    assert {item["arm"] for item in data(parts, "point")} == {"a", "b", "c"}, "it keeps the point that it has"


def test_twelve_arms_differ_in_hue_or_dash() -> None:
    parts = layers(rows(**{f"arm-{at}": (0.1 * at, 1 - 0.01 * at) for at in range(12)}))
    line = next(part for part in parts if part["mark"]["type"] == "line")
    hues, dashes = (line["encoding"][name]["scale"]["range"] for name in ("color", "strokeDash"))
    assert len({(hue, tuple(dash)) for hue, dash in zip(hues, dashes, strict=True)}) == 12


def test_an_empty_table_is_an_empty_chart_and_a_missing_column_is_named() -> None:
    assert data(layers([]), "point") == []
    with pytest.raises(ValueError, match="shown"):
        rank_slope(SCHEMA.empty_table().drop_columns(["shown"]), better=BETTER)
    with pytest.raises(ValueError, match="small or large"):
        places_of([("a", 1.0)], better="best")


def test_as_many_arms_as_are_drawn_have_a_line_of_their_own_each() -> None:
    content = rows(**{f"arm-{at}": (at / 10, at / 10) for at in range(MOST_ARMS)})
    (line,) = [part for part in layers(content) if part["mark"]["type"] == "line"]
    hues, dashes = (line["encoding"][name]["scale"]["range"] for name in ("color", "strokeDash"))
    assert len({(hue, tuple(dash)) for hue, dash in zip(hues, dashes, strict=True)}) == MOST_ARMS == len(hues)


VALUES = st.lists(st.one_of(st.none(), st.integers(0, 5).map(float)), max_size=12)


@settings(deadline=None)
@given(VALUES, st.sampled_from(["small", "large"]), st.randoms(use_true_random=False))
def test_ranks_do_not_depend_on_the_order_of_the_arms_and_fill_all_places(
    values: list[float | None], better: str, random: object
) -> None:
    arms = [(f"arm-{at}", value) for at, value in enumerate(values)]
    places = places_of(arms, better=better)
    known = [value for value in values if value is not None]
    assert len(places) == len(known)
    assert math.isclose(sum(place.middle for place in places), len(known) * (len(known) + 1) / 2)
    assert [place.slot for place in places] == list(range(1, len(known) + 1))
    shuffled = list(arms)
    random.shuffle(shuffled)
    again = {place.arm: (place.middle, place.tied) for place in places_of(shuffled, better=better)}
    assert again == {place.arm: (place.middle, place.tied) for place in places}


@given(st.integers(1, 12))
def test_arms_that_are_all_equal_are_one_tie(count: int) -> None:
    places = places_of([(f"arm-{at}", 0.5) for at in range(count)], better="small")
    assert {(place.middle, place.tied) for place in places} == {((count + 1) / 2, count)}
