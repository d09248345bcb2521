from __future__ import annotations

import pyarrow as pa
import pytest

from drift_runs.charts import palette
from drift_runs.charts.sampled_readings import COLUMNS, sampled_readings


def row(arm: str, temperature: str, value: float | None, role: str = "candidate") -> dict:
    ends = (None, None) if value is None else (value - 0.1, value + 0.1)
    return dict(zip(COLUMNS, (arm, role, temperature, value, *ends, 16, 8, ""), strict=True))


def layers(rows: list[dict]) -> list[dict]:
    """Layers with their data, which stands once above them where it is the same for all."""
    table = pa.Table.from_pylist(rows)
    spec = sampled_readings(table, axis_title="equal prefix, %", colours={"q8_0": "#2f86c6"}).to_dict()
    return [{"data": spec.get("data"), **part} for part in spec["layer"]]


def test_temperatures_keep_the_order_given_and_greedy_is_a_place_of_its_own() -> None:
    found = layers([row("q8_0", name, 0.5) for name in ("greedy", "0.5", "1")])
    assert all(part["encoding"]["x"]["sort"] == ["greedy", "0.5", "1"] for part in found)
    assert {part["mark"]["type"] for part in found} == {"line", "rule", "point"}


def test_the_null_is_dashed_and_neutral() -> None:
    found = layers([row("q8_0", "1", 0.5), row("launch", "1", 1.0, "floor")])
    line = next(part for part in found if part["mark"]["type"] == "line")
    assert "floor" in str(line["encoding"]["strokeDash"])
    assert line["encoding"]["color"]["scale"]["range"] == ["#2f86c6", palette.NEUTRAL]


def test_a_withheld_value_is_not_drawn_as_zero() -> None:
    found = layers([row("q8_0", "greedy", 0.5), row("q8_0", "1", None)])
    assert all([item["temperature"] for item in part["data"]["values"]] == ["greedy"] for part in found)


def test_a_lacking_column_is_refused() -> None:
    with pytest.raises(ValueError, match="prompts"):
        sampled_readings(pa.table({"arm": ["a"]}), axis_title="", colours={})
