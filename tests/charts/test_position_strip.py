from __future__ import annotations

import pyarrow as pa
import pytest

from drift_runs.charts.position_strip import position_strip

SCHEMA = pa.schema(
    [
        ("position", pa.int64()),
        ("nats", pa.float64()),
        ("flip", pa.bool_()),
        ("infinite", pa.bool_()),
        ("token", pa.string()),
    ]
)


def row(position: int, nats: float | None, **changes: object) -> dict[str, object]:
    return {"position": position, "nats": nats, "flip": False, "infinite": False, "token": "x"} | changes


ROWS = [
    row(20, 0.5, flip=True),
    row(21, 0.001),
    row(22, 0.0),
    row(23, None, infinite=True, flip=None),
    row(24, None, flip=None),
    row(25, 1e-12),
]


def spec_of(rows: list[dict], floor: float | None = None) -> dict:
    table = pa.Table.from_pylist(rows, schema=SCHEMA)
    return position_strip(table, spec="kl.full", colour="#123456", floor_maximum_nats=floor).to_dict()


def values(rows: list[dict], floor: float | None = None) -> dict[int, dict]:
    spec = spec_of(rows, floor)
    data = spec.get("data") or spec["layer"][0]["data"]
    return {item["position"]: item for item in data["values"]}


def test_what_is_known_has_a_stem_and_what_is_not_has_none() -> None:
    found = values(ROWS)
    assert found[20]["drawn"] == 0.5 and found[20]["flips"] == "yes" and found[20]["words"] == "0.5"
    assert found[23]["drawn"] is None and found[23]["words"] == "infinite" and found[23]["flips"] == "not known"
    assert found[24]["drawn"] is None and found[24]["words"] == "not measured"


def test_zero_is_a_stub_at_the_foot_and_says_zero() -> None:
    found = values(ROWS)
    assert found[22]["drawn"] == found[25]["drawn"] and found[22]["words"] == "0"
    assert 0 < found[22]["foot"] < found[22]["drawn"] < found[21]["drawn"]


def test_the_floor_is_a_line_at_its_maximum_and_inside_the_axis() -> None:
    spec = spec_of(ROWS, floor=3.0)
    line = spec["layer"][-1]
    assert line["data"]["values"][0]["drawn"] == 3.0 and line["mark"]["strokeDash"]
    assert spec["layer"][0]["encoding"]["y"]["scale"]["domain"][1] > 3.0
    for floor in (None, 0.0):
        assert len(spec_of(ROWS, floor)["layer"]) == len(spec["layer"]) - 1


@pytest.mark.parametrize("rows", [[], [row(5, None)], [row(5, 0.0)], [row(5, 2.0)]])
def test_the_axis_is_one_that_a_log_scale_accepts(rows: list[dict]) -> None:
    encoding = spec_of(rows)["layer"][0]["encoding"]
    low, high = encoding["y"]["scale"]["domain"]
    assert 0 < low < high
    assert "nats" in encoding["y"]["axis"]["title"] and "tokens" in encoding["x"]["axis"]["title"]


def test_a_table_that_lacks_a_column_is_refused() -> None:
    table = pa.Table.from_pylist(ROWS, schema=SCHEMA).drop_columns(["infinite"])
    with pytest.raises(ValueError, match="infinite"):
        position_strip(table, spec="kl.full", colour="#123456", floor_maximum_nats=None)
