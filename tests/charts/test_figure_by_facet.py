from __future__ import annotations

import pyarrow as pa
import pytest

from drift_runs.charts import palette, still
from drift_runs.charts.figure_by_facet import HATCH, figure_by_facet, spans_decades

COLOURS = {"a": "#2f86c6", "b": "#d9730d"}


def row(arm: str, **changes: object) -> dict[str, object]:
    return {
        "arm": arm,
        "group": "candidate",
        "facet": "",
        "outliers": "with",
        "value": 0.02,
        "low": 0.01,
        "high": 0.03,
        "n": 2810,
        "state": "firm",
        "verdict": "above",
        "floor": "micro-batch",
        "floor_value": 1e-5,
        "floor_low": 8e-6,
        "floor_high": 2e-5,
        "reason": "",
    } | changes


def compiled(*rows: dict[str, object], log: bool = False, **options: object) -> dict:
    """The specification, as a browser gets it; data that layers share are put into each."""
    chart = figure_by_facet(
        pa.Table.from_pylist(list(rows)),
        title="flip rate (flip), %",
        log=log,
        number_format=".2~%",
        colours=COLOURS,
        **options,
    )
    spec = chart.to_dict()
    for part in spec["layer"]:
        part.setdefault("data", spec.get("data"))
    return spec


def layers(spec: dict, mark: str) -> list[dict]:
    return [part for part in spec["layer"] if part["mark"]["type"] == mark]


def test_an_arm_has_its_own_colour_and_one_without_is_neutral() -> None:
    (points,) = layers(compiled(row("a"), row("b"), row("c")), "point")
    scale = points["encoding"]["color"]["scale"]
    assert dict(zip(scale["domain"], scale["range"], strict=True)) == {**COLOURS, "c": palette.NEUTRAL}
    assert points["encoding"]["color"]["legend"] is None, "the axis names the arms"


def test_arms_stand_in_the_order_of_the_table_with_their_groups_together() -> None:
    table = [row("a", facet="q4"), row("b", facet="q8"), row("c", facet="q4")]
    spec = compiled(*table)
    (points,) = layers(spec, "point")
    assert points["encoding"]["x"]["sort"] == ["a", "c", "b"]
    names = [part for part in layers(spec, "text") if part["encoding"]["text"]["field"] == "name"]
    spans = names[0]["data"]["values"]
    assert [(item["group"], item["first"], item["last"]) for item in spans] == [("q4", "a", "c"), ("q8", "b", "b")]
    (shade,) = [part for part in layers(spec, "rect") if part["encoding"].get("x2")]
    assert [item["group"] for item in shade["data"]["values"] if item["shaded"]] == ["q8"]


def test_without_groups_nothing_is_shaded_or_named() -> None:
    spec = compiled(row("a"), row("b"))
    assert [part for part in layers(spec, "rect") if part["encoding"].get("x2")] == []
    assert layers(spec, "text") == []


def test_the_floor_is_a_band_over_its_interval_and_a_rule_at_its_value_once() -> None:
    spec = compiled(row("a"), row("b"))
    (band,) = layers(spec, "rect")
    assert band["data"]["values"] == [{"floor": "micro-batch", "low": 8e-6, "value": 1e-5, "high": 2e-5}]
    assert band["encoding"]["y2"]["field"] == "high" and "x" not in band["encoding"], "it spans every arm"
    assert "rect" not in {part["mark"]["type"] for part in compiled(row("a", floor="", floor_value=None))["layer"]}


@pytest.mark.parametrize(
    ("changes", "log", "words"),
    [
        ({"value": None, "reason": "3 values lie beyond it"}, False, "withheld: 3 values lie beyond it"),
        ({"value": None}, True, "withheld"),
        ({"value": 0.0, "low": 0.0, "high": 0.0}, True, "0: not on a log axis"),
    ],
)
def test_what_cannot_be_drawn_is_a_hatched_mark_with_its_reason(changes: dict, log: bool, words: str) -> None:
    spec = compiled(row("a"), row("b", **changes), log=log)
    (hatched,) = [part for part in layers(spec, "point") if part["mark"].get("shape") == HATCH]
    assert hatched["transform"] == [{"filter": "!datum.drawn"}] and hatched["mark"]["stroke"] == palette.NEUTRAL
    (absent,) = [item for item in hatched["data"]["values"] if not item["drawn"]]
    assert (absent["arm"], absent["why"]) == ("b", words)
    assert still.svg(figure_by_facet_of(row("a"), row("b", **changes), log=log)).count(words) >= 1


def figure_by_facet_of(*rows: dict[str, object], log: bool):
    return figure_by_facet(pa.Table.from_pylist(list(rows)), title="x", log=log, number_format=".2~g", colours=COLOURS)


def test_a_zero_is_drawn_on_a_linear_axis_which_begins_at_zero() -> None:
    spec = compiled(row("a", value=0.0, low=0.0, high=0.0), row("b"))
    (points,) = layers(spec, "point")
    assert [item["drawn"] for item in points["data"]["values"]] == [True, True]
    assert points["encoding"]["y"]["scale"]["domain"][0] == 0.0


def test_values_below_zero_have_room_below() -> None:
    low, high = layers(compiled(row("a", value=-0.02, low=-0.03, high=-0.01)), "point")[0]["encoding"]["y"]["scale"][
        "domain"
    ]
    assert low < -0.03 and high >= 0.0


def test_a_log_axis_holds_every_number_that_is_drawn() -> None:
    spec = compiled(row("a", value=0.5, low=0.0, high=0.9), row("b", value=1e-4, low=5e-5, high=2e-4), log=True)
    (points,) = layers(spec, "point")
    low, high = points["encoding"]["y"]["scale"]["domain"]
    assert low < 8e-6 and high > 0.9
    first = next(item for item in points["data"]["values"] if item["arm"] == "a")
    assert first["low"] == first["value"], "an interval that reaches zero is drawn from the point upwards"


def test_two_sets_of_windows_stand_beside_each_other_and_have_shapes() -> None:
    spec = compiled(row("a"), row("a", outliers="without"))
    (points,) = layers(spec, "point")
    assert points["encoding"]["xOffset"]["field"] == "set"
    assert points["encoding"]["shape"]["scale"]["range"] == ["circle", "diamond"]
    assert "xOffset" not in layers(compiled(row("a")), "point")[0]["encoding"]


def test_a_long_group_name_is_cut_and_kept_whole_in_the_tooltip() -> None:
    long = "x86_64 of a very long name indeed, with what it says of itself, " * 3
    spec = compiled(row("a", facet=long), row("b", facet="short"))
    (names,) = [part for part in layers(spec, "text") if part["encoding"]["text"]["field"] == "name"]
    first = names["data"]["values"][0]
    assert first["name"].endswith("…") and len(first["name"]) < len(long) and first["group"] == long


def test_it_wants_its_columns() -> None:
    with pytest.raises(ValueError, match="facet"):
        figure_by_facet(pa.table({"arm": ["a"]}), title="x", log=False, number_format="", colours={})


@pytest.mark.parametrize(
    ("values", "answer"),
    [([1e-5, 1e-3], True), ([0.0, 1e-3], False), ([0.0, 1e-4, 1e-2], True), ([-1.0, 5.0, 100.0], False), ([], False)],
)
def test_a_log_axis_serves_what_spans_a_decade_and_is_never_negative(values: list[float], answer: bool) -> None:
    assert spans_decades([*values, None]) is answer
