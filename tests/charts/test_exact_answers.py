from __future__ import annotations

import pyarrow as pa

from drift_runs.charts.exact_answers import exact_answers
from tests.charts.test_by_arm import row


def parts(spec: dict) -> list[dict]:
    """Every layer of a chart whose layers are charts of layers."""
    return [inner for part in spec["layer"] for inner in (parts(part) if "layer" in part else [part])]


def chart(rows: list[dict], references: dict[str, float] | None = None) -> list[dict]:
    return parts(exact_answers(pa.Table.from_pylist(rows), references=references).to_dict())


def test_the_axis_is_the_whole_share_whatever_the_arms_have() -> None:
    found = chart([row("q8_0", value=0.97, low=0.95, high=0.99), row("q4_0", value=0.96, low=0.9, high=0.98)])
    scales = [part["encoding"]["x"]["scale"] for part in found if "scale" in part["encoding"].get("x", {})]
    assert scales and all(scale["domain"] == [0.0, 1.0] and "type" not in scale for scale in scales)
    point = next(part for part in found if part["mark"]["type"] == "point")
    assert {"answers"} == {item["title"] for item in point["encoding"]["tooltip"] if item["field"] == "n"}


def test_the_reference_is_a_line_on_the_same_axis() -> None:
    found = chart([row("q8_0", value=0.97)], {"with": 0.99, "without": 0.98})
    (rule,) = [part for part in found if part["encoding"]["x"].get("field") == "share"]
    assert rule["mark"]["type"] == "rule" and rule["encoding"]["x"]["scale"]["domain"] == [0.0, 1.0]


def test_without_a_reference_there_is_no_line_for_it_and_no_arm_is_an_empty_chart() -> None:
    assert not [part for part in chart([row("q8_0")]) if part["encoding"]["x"].get("field") == "share"]
    empty = pa.Table.from_pylist([row("q8_0")]).slice(0, 0)
    assert parts(exact_answers(empty).to_dict())
