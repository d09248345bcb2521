"""A figure by arm and machine: places, marks and what cannot be drawn."""

from __future__ import annotations

import pyarrow as pa
import pytest

from drift_runs.charts import still
from drift_runs.charts.machines_by_arm import PANELS_BESIDE, machines_by_arm
from drift_runs.charts.palette import SERIES_COLOURS


def row(arm: str, machine: str, **changes: object) -> dict[str, object]:
    known = {"arm": arm, "machine": machine, "value": 0.02, "low": 0.01, "high": 0.03, "n": 90}
    return {**known, "state": "firm", "reason": "", **changes}


def drawn(*rows: dict[str, object], machines: tuple[str, ...] = ()):
    schema = pa.schema(
        [
            *((name, pa.string()) for name in ("arm", "machine")),
            *((name, pa.float64()) for name in ("value", "low", "high")),
            ("n", pa.int64()),
            *((name, pa.string()) for name in ("state", "reason")),
        ]
    )
    table = pa.Table.from_pylist(list(rows), schema=schema)
    machines = machines or tuple(dict.fromkeys(table["machine"].to_pylist()))
    return machines_by_arm(table, machines=machines, axis_title="KL mean, nats", number_format=".2~g")


def layers(spec: dict, mark: str) -> list[dict]:
    return [part for part in spec["spec"]["layer"] if part["mark"]["type"] == mark]


def values(spec: dict) -> list[dict]:
    return spec["data"]["values"]


def test_a_panel_an_arm_and_a_mark_a_machine() -> None:
    rows = [row("f16-here", "b"), row("q4_0", "a"), row("q4_0", "b"), row("kv", "a")]
    spec = drawn(*rows, machines=("a", "b")).to_dict()
    assert spec["facet"]["sort"] == ["f16-here", "q4_0", "kv"] and spec["columns"] == 3
    points = layers(spec, "point")[-1]["encoding"]
    assert points["x"]["scale"]["domain"] == ["a", "b"], "a machine has its place also where an arm did not run"
    assert points["color"]["scale"] == {"domain": ["a", "b"], "range": list(SERIES_COLOURS[:2])}
    assert len(set(points["shape"]["scale"]["range"])) == 2, "not told by colour alone"


def test_panels_have_axes_of_their_own_that_begin_at_zero() -> None:
    spec = drawn(row("near", "a", value=2e-6, low=1e-6, high=3e-6), row("far", "a", value=2.0, low=1.0, high=3.0))
    found = spec.to_dict()
    assert found["resolve"]["scale"]["y"] == "independent"
    assert layers(found, "rule")[0]["encoding"]["y"]["scale"]["zero"] is True
    tops = {item["arm"]: item["top"] for item in values(found)}
    assert tops == pytest.approx({"near": 3e-6 * 1.08, "far": 3.0 * 1.08})


def test_a_panel_of_zeros_has_an_axis() -> None:
    nothing = row("f16-here", "b", value=0.0, low=0.0, high=0.0)
    found = values(drawn(nothing, row("q4_0", "a"), row("q4_0", "b")).to_dict())
    assert found[0]["top"] == found[1]["top"] > 0 and found[0]["drawn"]
    assert values(drawn(nothing).to_dict())[0]["top"] > 0


def test_what_is_withheld_keeps_its_place_with_the_reason() -> None:
    spec = drawn(row("q4_0", "a"), row("q4_0", "b", value=None, low=None, high=None, reason="3 values beyond it"))
    found = spec.to_dict()
    (text,) = layers(found, "text")
    assert text["transform"] == [{"filter": "!datum.drawn"}] and text["encoding"]["text"]["value"] == "withheld"
    assert [item["why"] for item in values(found)] == ["", "3 values beyond it"]
    assert "withheld" in still.svg(spec)
    assert layers(drawn(row("q4_0", "a")).to_dict(), "text") == []


def test_a_value_without_an_interval_says_so() -> None:
    (found,) = values(drawn(row("q4_0", "a", low=None)).to_dict())
    assert (found["low"], found["high"], found["why"]) == (None, None, "no interval")


def test_more_machines_than_colours_differ_by_shape_and_panels_begin_a_new_row() -> None:
    rows = [row(f"arm-{arm}", f"machine {at}") for arm in range(6) for at in range(9)]
    spec = drawn(*rows).to_dict()
    points = layers(spec, "point")[-1]["encoding"]
    pairs = set(zip(points["color"]["scale"]["range"], points["shape"]["scale"]["range"], strict=True))
    assert len(pairs) == 9 and spec["columns"] == PANELS_BESIDE


def test_the_picture_has_every_panel_by_name() -> None:
    svg = still.svg(drawn(row("f16-here", "box <b>", value=0.0, low=0.0, high=0.0), row("q4_0", "other box")))
    for words in ("f16-here", "q4_0", "box &lt;b&gt;", "other box", "KL mean, nats"):
        assert words in svg, words


def test_it_wants_its_columns() -> None:
    with pytest.raises(ValueError, match="machine"):
        machines_by_arm(pa.table({"arm": ["a"]}), machines=["a"], axis_title="x", number_format="")
