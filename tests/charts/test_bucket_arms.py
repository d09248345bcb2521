from __future__ import annotations

import pyarrow as pa
import pytest

from drift_runs.charts.bucket_arms import bucket_arms

SCHEMA = pa.schema(
    [
        ("bucket", pa.string()),
        ("arm", pa.string()),
        ("value", pa.float64()),
        ("low", pa.float64()),
        ("high", pa.float64()),
        ("n", pa.int64()),
        ("state", pa.string()),
        ("reason", pa.string()),
        ("floor_value", pa.float64()),
        ("coverage", pa.float64()),
    ]
)


def row(bucket: str, arm: str, value: float | None, **changes: object) -> dict[str, object]:
    return {
        "bucket": bucket,
        "arm": arm,
        "value": value,
        "low": None if value is None else value * 0.8,
        "high": None if value is None else value * 1.2,
        "n": 300,
        "state": "withheld" if value is None else "firm",
        "reason": "",
        "floor_value": 1e-6,
        "coverage": None,
    } | changes


def layers(rows: list[dict], *, log: bool = True) -> list[dict]:
    table = pa.Table.from_pylist(rows, schema=SCHEMA)
    spec = bucket_arms(
        table, axis_title="kl.full p95, nats", bucket_title="depth", colours={"a": "#111111", "b": "#222222"}, log=log
    ).to_dict()
    for part in spec["layer"]:
        part.setdefault("data", spec.get("data"))
    return spec["layer"]


def lines(parts: list[dict]) -> set[str]:
    found = [part for part in parts if part["mark"]["type"] == "line"]
    return {item["arm"] for part in found for item in part["data"]["values"]}


def test_only_an_arm_with_an_interval_everywhere_has_a_line() -> None:
    rows = [row("1-8", "a", 0.1), row("9-16", "a", 0.2), row("1-8", "b", 0.1), row("9-16", "b", 0.3, low=None)]
    assert lines(layers(rows)) == {"a"}
    assert lines(layers([row("1-8", "a", 0.1), row("9-16", "a", None)])) == set()
    assert lines(layers([row("1-8", "a", 0.1)])) == set()


def test_indicative_is_hollow_and_withheld_is_not_drawn() -> None:
    parts = layers([row("1-8", "a", 0.1), row("9-16", "a", 0.2, state="indicative")])
    points = [part["mark"]["filled"] for part in parts if part["mark"]["type"] == "point"]
    assert points == [True, False]
    values = layers([row("1-8", "a", None, reason="3 values lie beyond it, 10 needed")])[-1]["data"]["values"]
    assert values[0]["value"] is None and "10 needed" in values[0]["why"]


def test_zero_has_no_place_on_a_log_axis_and_has_one_on_a_linear_axis() -> None:
    rows = [row("1-8", "a", 0.0, low=0.0, high=0.0), row("9-16", "a", 0.2)]
    assert [item["value"] for item in layers(rows)[-1]["data"]["values"]] == [None, 0.2]
    assert [item["value"] for item in layers(rows, log=False)[-1]["data"]["values"]] == [0.0, 0.2]


def test_a_floor_stands_once_in_a_bucket() -> None:
    rows = [row("1-8", "a", 0.1), row("1-8", "b", 0.2), row("9-16", "a", 0.1, floor_value=2e-6)]
    (ticks,) = [part for part in layers(rows) if part["mark"]["type"] == "tick"]
    assert ticks["data"]["values"] == [
        {"bucket": "1-8", "floor_value": 1e-6},
        {"bucket": "9-16", "floor_value": 2e-6},
    ]


def test_coverage_is_said_where_a_stretch_was_sampled() -> None:
    values = layers([row("1-8", "a", 0.1, coverage=0.25), row("9-16", "a", 0.1)])[-1]["data"]["values"]
    assert [item["sampled"] for item in values] == ["25.0% of the positions", "every position"]


def test_a_table_that_lacks_a_column_is_refused() -> None:
    table = pa.Table.from_pylist([row("1-8", "a", 0.1)], schema=SCHEMA).drop_columns(["coverage"])
    with pytest.raises(ValueError, match="coverage"):
        bucket_arms(table, axis_title="", bucket_title="", colours={}, log=False)
