from __future__ import annotations

import pyarrow as pa
import pytest

from drift_runs.charts import palette
from drift_runs.charts.determinism_grid import determinism_grid


def cell(floor: str, window: str, **changes: object) -> dict[str, object]:
    return {
        "floor": floor,
        "window": window,
        "rows": 1200,
        "rows_identical": 1200,
        "identical": True,
        "first_difference": None,
        "expected": "all rows identical",
        "holds": "",
    } | changes


CELLS = [
    cell("launch", "w1"),
    cell("micro-batch", "w1", identical=False, rows_identical=7, first_difference=2048, expected="some rows differ"),
    cell("launch", "w2", identical=False, rows_identical=1199, first_difference=9, holds="no"),
]


def layers(rows: list[dict], floors: list[str]) -> list[dict]:
    spec = determinism_grid(pa.Table.from_pylist(rows), floors=floors).to_dict()
    assert all("data" in part or "data" in spec for part in spec["layer"])
    for part in spec["layer"]:
        part.setdefault("data", spec.get("data"))
    return spec["layer"]


def test_identical_is_filled_and_different_is_hollow() -> None:
    filled, hollow, _ = layers(CELLS, ["launch", "micro-batch"])
    assert filled["mark"]["filled"] is True and filled["transform"] == [{"filter": "datum.identical"}]
    assert hollow["mark"]["filled"] is False and hollow["transform"] == [{"filter": "!datum.identical"}]


def test_what_is_against_the_protocol_has_a_cross_beside_its_colour() -> None:
    filled, _, cross = layers(CELLS, ["launch", "micro-batch"])
    assert cross["mark"]["text"] == "✕" and cross["transform"] == [{"filter": "datum.holds === 'no'"}]
    condition = filled["encoding"]["color"]["condition"]
    assert condition["test"] == "datum.holds === 'no'" and condition["value"] == palette.ABOVE


def test_a_floor_keeps_its_place_also_without_a_window() -> None:
    first = layers(CELLS, ["pass", "launch", "micro-batch"])[0]
    assert first["encoding"]["x"]["scale"]["domain"] == ["pass", "launch", "micro-batch"]
    assert first["encoding"]["y"]["scale"]["domain"] == ["w1", "w2"]


def test_what_a_mark_says_is_counted_out() -> None:
    values = layers(CELLS, ["launch", "micro-batch"])[0]["data"]["values"]
    assert [(item["words"], item["where"]) for item in values] == [
        ("1,200 of 1,200", "none"),
        ("7 of 1,200", "position 2,048"),
        ("1,199 of 1,200", "position 9"),
    ]


def test_a_table_that_lacks_a_column_is_refused() -> None:
    with pytest.raises(ValueError, match="holds"):
        determinism_grid(pa.Table.from_pylist(CELLS).drop_columns(["holds"]), floors=["launch"])
