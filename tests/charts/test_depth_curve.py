from __future__ import annotations

import pyarrow as pa
import pytest

from drift_runs.charts import palette
from drift_runs.charts.depth_curve import HEIGHT_PX, depth_curve


def row(bucket: str, **changes: object) -> dict[str, object]:
    return {
        "bucket": bucket,
        "outliers": "with",
        "value": 0.05,
        "low": 0.04,
        "high": 0.07,
        "n": 900,
        "state": "firm",
        "reason": "",
        "floor_value": 0.001,
    } | changes


def layers(rows: list[dict]) -> list[dict]:
    spec = depth_curve(
        pa.Table.from_pylist(rows), axis_title="kl.full mean, nats", bucket_title="tokens of history"
    ).to_dict()
    for part in spec["layer"]:
        part.setdefault("data", spec.get("data"))
    return spec["layer"]


def marks(parts: list[dict], kind: str) -> list[dict]:
    return [part for part in parts if part["mark"]["type"] == kind]


def values(part: dict) -> list[dict]:
    return part["data"]["values"]


def test_points_are_joined_where_every_one_has_an_interval() -> None:
    (line,) = marks(layers([row("1-256"), row("257-1,024"), row("1,025+")]), "line")
    assert [item["bucket"] for item in values(line)] == ["1-256", "257-1,024", "1,025+"]


@pytest.mark.parametrize("changes", [{"low": None, "high": None}, {"value": None, "reason": "no positions"}])
def test_one_point_without_an_interval_takes_the_line_away(changes: dict) -> None:
    parts = layers([row("1-256"), row("257-1,024", **changes), row("1,025+")])
    assert marks(parts, "line") == []
    assert len(marks(parts, "point")) == 1, "the points stay"


def test_each_set_of_windows_decides_on_its_own_line() -> None:
    rows = [row("1-256"), row("257+"), row("1-256", outliers="without"), row("257+", outliers="without", low=None)]
    (line,) = marks(layers(rows), "line")
    assert {item["set"] for item in values(line)} == {palette.OUTLIER_LABELS["with"]}


def test_one_point_is_no_line() -> None:
    assert marks(layers([row("1-256")]), "line") == []


def test_a_withheld_point_keeps_its_place_and_says_so() -> None:
    parts = layers([row("1-256"), row("257+", value=None, low=None, high=None, reason="3 values, 10 needed")])
    (text,) = marks(parts, "text")
    assert text["transform"] == [{"filter": "!datum.drawn"}] and text["encoding"]["text"]["value"] == "withheld"
    assert text["encoding"]["y"]["value"] == HEIGHT_PX
    (hidden,) = [item for item in values(text) if not item["drawn"]]
    assert hidden["bucket"] == "257+" and "10 needed" in hidden["why"]
    (point,) = marks(parts, "point")
    assert point["encoding"]["x"]["sort"] == ["1-256", "257+"]


def test_the_axis_begins_at_zero_or_below_and_names_spec_and_unit() -> None:
    (point,) = marks(layers([row("1-256"), row("257+", value=-0.02, low=-0.03, high=0.01)]), "point")
    low, high = point["encoding"]["y"]["scale"]["domain"]
    assert low == -0.03 and high == 0.07
    assert point["encoding"]["y"]["axis"]["title"] == "kl.full mean, nats"
    (point,) = marks(layers([row("1-256")]), "point")
    assert point["encoding"]["y"]["scale"]["domain"][0] == 0.0


def test_the_tooltip_carries_interval_floor_n_and_note() -> None:
    (point,) = marks(layers([row("1-256")]), "point")
    assert {"value", "low", "high", "floor_value", "n", "why"} <= {
        item["field"] for item in point["encoding"]["tooltip"]
    }


def test_an_empty_table_is_an_empty_chart_and_a_missing_column_is_named() -> None:
    empty = pa.Table.from_pylist([row("a")]).slice(0, 0)
    spec = depth_curve(empty, axis_title="y", bucket_title="x").to_dict()
    assert all(not part.get("data", spec.get("data"))["values"] for part in spec["layer"])
    with pytest.raises(ValueError, match="floor_value"):
        depth_curve(empty.drop_columns(["floor_value"]), axis_title="y", bucket_title="x")
