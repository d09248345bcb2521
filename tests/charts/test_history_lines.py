from __future__ import annotations

import json

import pyarrow as pa
import pytest

from drift_runs.charts.history_lines import COLUMNS, MOST_LABELS, history_lines


def row(order: int, arm: str, value: float | None, *, change: str = "within", role: str = "candidate") -> dict:
    ends = (None, None) if value is None else (value * 0.9, value * 1.1)
    values = (order, f"2026-11-{order:02d}", arm, role, value, *ends, 100, change, 0.01, "")
    return dict(zip(COLUMNS, values, strict=True))


def layers(rows: list[dict], marks: tuple[int, ...] = ()) -> list[dict]:
    table = pa.Table.from_pylist(rows)
    chart = history_lines(table, marks, axis_title="flip rate, %", number_format=".3~%", colours={"q8_0": "#2f86c6"})
    spec = chart.to_dict()
    found = [{"data": spec.get("data"), **part} for part in spec["layer"]]
    return [{**part, "data": {"values": rows_of(part["data"])}} for part in found]


def rows_of(data: dict) -> list[dict]:
    """Rows as the browser reads them: from a list, or from the text of one."""
    if isinstance(data["values"], list):
        return data["values"]
    assert data["format"] == {"type": "json"}
    return json.loads(data["values"])


def named(found: list[dict], kind: str) -> list[dict]:
    return [part for part in found if part["mark"]["type"] == kind]


def test_the_band_is_the_largest_floor_of_each_campaign() -> None:
    rows = [row(1, "q8_0", 0.02), row(1, "launch", 0.03, role="floor"), row(2, "q8_0", 0.02)]
    (band,) = named(layers(rows), "rect")
    assert [(item["from"], item["to"], item["high"]) for item in band["data"]["values"]] == [
        (0.5, 1.5, 0.03),
        (1.5, 2.5, 0.01),
    ]


def test_the_band_of_a_share_that_is_alike_hangs_from_one() -> None:
    table = pa.Table.from_pylist([{**row(1, "q8_0", 0.7), "floor_value": 0.95}, row(1, "launch", 0.9, role="floor")])
    chart = history_lines(table, (), axis_title="", number_format=".2f", colours={}, no_drift=1.0)
    (band,) = named(chart.to_dict()["layer"], "rect")
    (box,) = band["data"]["values"]
    # The row of the floor says 0.01 of its own floor, as every row of these tests does: only its value counts.
    assert (box["low"], box["high"]) == (0.9, 1.0)


def test_what_changed_is_a_line_before_its_campaign() -> None:
    found = named(layers([row(1, "q8_0", 0.02), row(2, "q8_0", 0.02)], marks=(2,)), "rule")
    assert [item["at"] for item in found[0]["data"]["values"]] == [1.5]
    assert found[0]["mark"]["strokeDash"]
    assert len(named(layers([row(1, "q8_0", 0.02)]), "rule")) == 1


def test_a_change_is_told_by_shape_and_words() -> None:
    rows = [row(1, "q8_0", 0.02, change="first"), row(2, "q8_0", 0.05, change="above")]
    (point,) = named(layers(rows), "point")
    scale = point["encoding"]["shape"]["scale"]
    assert dict(zip(scale["domain"], scale["range"], strict=True)) == {
        "change above the floor": "triangle-up",
        "first": "square",
    }


def test_arms_of_one_campaign_stand_apart_but_within_its_place() -> None:
    (point,) = named(layers([row(1, arm, 0.02) for arm in ("a", "b", "c")]), "point")
    places = [item["place"] for item in point["data"]["values"]]
    assert len(set(places)) == 3 and all(0.75 < place < 1.25 for place in places)
    assert sum(places) == pytest.approx(3)


def test_a_withheld_value_is_no_point() -> None:
    (point,) = named(layers([row(1, "q8_0", 0.02), row(2, "q8_0", None)]), "point")
    assert [item["order"] for item in point["data"]["values"]] == [1]


def test_of_many_campaigns_some_dates_are_written_the_newest_among_them() -> None:
    rows = [row(order, "q8_0", 0.02) for order in range(1, 31)]
    (point,) = named(layers(rows), "point")
    values = point["encoding"]["x"]["axis"]["values"]
    assert len(values) <= MOST_LABELS and values[-1] == 30


def test_a_date_cannot_carry_an_expression() -> None:
    rows = [{**row(1, "q8_0", 0.02), "when": "2026'+alert(1)+'"}]
    (point,) = named(layers(rows), "point")
    assert point["encoding"]["x"]["axis"]["labelExpr"] == "datum.value == 1 ? '20261' : ''"


def test_a_reference_that_travelled_has_a_line_and_marks_of_its_own() -> None:
    rows = [row(1, "q8_0", 0.02), {**row(2, "q8_0", 0.5), "reference": "aa"}, row(3, "q8_0", 0.02)]
    found = layers(rows)
    own, travelled = named(found, "line")
    assert own["transform"] == [{"filter": "datum.reference === ''"}] and "strokeDash" not in own["mark"]
    assert travelled["transform"] == [{"filter": "datum.reference !== ''"}] and travelled["mark"]["strokeDash"]
    assert travelled["encoding"]["detail"]["field"] == "reference"
    assert [part["mark"]["filled"] for part in named(found, "point")] == [True, False]
    assert len(named(layers(rows[:1]), "line")) == 1


def test_nothing_to_draw() -> None:
    empty = pa.Table.from_pylist([row(1, "q8_0", 0.02)]).slice(0, 0)
    chart = history_lines(empty, (), axis_title="", number_format="", colours={})
    assert named(chart.to_dict()["layer"], "point")
