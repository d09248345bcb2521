from __future__ import annotations

import pyarrow as pa
import pytest

from drift_runs.charts import palette
from drift_runs.charts.rollout_readings import rollout_readings

COLOURS = {"q8_0": "#2f86c6"}


def row(arm: str, reading: str, value: float | None, *, role: str = "candidate", ends: bool = True) -> dict:
    low, high = (value - 0.1, value + 0.1) if value is not None and ends else (None, None)
    return {
        "arm": arm,
        "role": role,
        "reading": reading,
        "value": value,
        "low": low,
        "high": high,
        "n": 8,
        "reason": "" if value is not None else "no prompt",
    }


def layers(rows: list[dict]) -> list[dict]:
    """Layers with their data, which stands once above them where it is the same for all."""
    spec = rollout_readings(pa.Table.from_pylist(rows), colours=COLOURS).to_dict()
    return [{"data": spec.get("data"), **part} for part in spec["layer"]]


def data_of(part: dict) -> list[dict]:
    return part["data"]["values"]


def test_the_band_spans_the_floors_of_the_same_reading_and_stands_behind_candidates_only() -> None:
    rows = [
        row("q8_0", "exact", 0.5),
        row("q8_0", "prefix", 0.7),
        row("launch", "exact", 1.0, role="floor", ends=False),
        row("micro", "exact", 0.8, role="floor", ends=False),
        row("micro", "prefix", 0.9, role="floor", ends=False),
    ]
    (band, tick, *_) = layers(rows)
    assert data_of(band) == [
        {"arm": "q8_0", "reading": "exact", "lowest": 0.8, "highest": 1.0},
        {"arm": "q8_0", "reading": "prefix", "lowest": 0.9, "highest": 0.9},
    ]
    assert tick["mark"]["type"] == "tick" and data_of(tick) == data_of(band)


def test_the_axis_is_the_whole_share_and_a_withheld_reading_says_so() -> None:
    found = layers([row("q8_0", "exact", 0.5), row("q8_0", "prefix", None)])
    scales = [part["encoding"]["x"]["scale"] for part in found if "scale" in part["encoding"].get("x", {})]
    assert scales and all(scale["domain"] == [0.0, 1.0] for scale in scales)
    (text,) = [part for part in found if part["mark"]["type"] == "text"]
    assert [item["reason"] for item in data_of(text) if not item["drawn"]] == ["no prompt"]


def test_an_arm_has_its_own_colour_and_the_null_is_neutral() -> None:
    found = layers([row("q8_0", "exact", 0.5), row("launch", "exact", 1.0, role="floor")])
    point = next(part for part in found if part["mark"]["type"] == "point")
    scale = point["encoding"]["color"]["scale"]
    assert dict(zip(scale["domain"], scale["range"], strict=True)) == {"q8_0": "#2f86c6", "launch": palette.NEUTRAL}


def test_a_value_without_an_interval_has_no_rule_of_half_an_interval() -> None:
    (rule,) = [part for part in layers([row("q8_0", "exact", 1.0, ends=False)]) if part["mark"]["type"] == "rule"]
    assert [(item["low"], item["high"]) for item in data_of(rule)] == [(None, None)]


def test_no_arm_is_an_empty_chart_and_a_lacking_column_is_refused() -> None:
    empty = pa.Table.from_pylist([row("q8_0", "exact", 0.5)]).slice(0, 0)
    assert rollout_readings(empty, colours={}).to_dict()["layer"]
    with pytest.raises(ValueError, match="reading"):
        rollout_readings(empty.drop_columns(["reading"]), colours={})
