from __future__ import annotations

import pyarrow as pa
import pytest

from drift_runs.charts import palette
from drift_runs.charts.flip_by_arm import flip_by_arm
from drift_runs.charts.kl_by_arm import kl_by_arm


def row(arm: str, **changes: object) -> dict[str, object]:
    return {
        "arm": arm,
        "group": "candidate",
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


def compiled(chart: object) -> dict:
    """The Vega-Lite specification, as a browser gets it; data that layers share are put into each."""
    spec = chart.to_dict()
    for part in spec["layer"]:
        part.setdefault("data", spec.get("data"))
    return spec


def layer(spec: dict, mark: str) -> dict:
    found = [part for part in spec["layer"] if part["mark"]["type"] == mark]
    assert found, f"no {mark} in {[part['mark'] for part in spec['layer']]}"
    return found[-1]


def values(part: dict) -> list[dict]:
    return part["data"]["values"]


def test_kl_is_on_a_log_axis_that_names_spec_and_unit() -> None:
    x = layer(compiled(kl_by_arm(pa.Table.from_pylist([row("q4_0"), row("q8_0", value=1e-3)]))), "point")["encoding"][
        "x"
    ]
    assert x["scale"]["type"] == "log"
    assert "kl.full mean" in x["axis"]["title"] and "nats" in x["axis"]["title"]
    low, high = x["scale"]["domain"]
    assert low < 8e-6 and high > 0.03, "the floor's band and the interval lie inside the axis"
    assert all(low <= tick <= high for tick in x["axis"]["values"])


def test_flip_rate_starts_at_zero_and_is_in_percent() -> None:
    x = layer(compiled(flip_by_arm(pa.Table.from_pylist([row("q4_0")]))), "point")["encoding"]["x"]
    assert x["scale"]["domain"][0] == 0
    assert x["axis"]["format"].endswith("%") and "flip rate" in x["axis"]["title"]


def test_the_data_are_the_table_s_and_keep_its_order() -> None:
    table = pa.Table.from_pylist([row("b", value=0.5), row("a", value=0.25)])
    part = layer(compiled(kl_by_arm(table)), "point")
    assert [(item["label"], item["value"]) for item in values(part)] == [("b", 0.5), ("a", 0.25)]
    assert part["encoding"]["y"]["sort"] == ["b", "a"]


def test_follow_ups_stand_below_the_candidates_and_say_so() -> None:
    table = pa.Table.from_pylist([row("late", group="follow-up"), row("early")])
    assert layer(compiled(kl_by_arm(table)), "point")["encoding"]["y"]["sort"] == ["early", "late (follow-up)"]


def test_the_floor_is_a_band_and_a_rule_once_for_each_floor_and_set() -> None:
    table = pa.Table.from_pylist([row("a"), row("b"), row("b", outliers="without", floor_value=9e-6)])
    spec = compiled(kl_by_arm(table))
    band = layer(spec, "rect")
    assert [(item["low"], item["value"], item["high"]) for item in values(band)] == [
        (8e-6, 1e-5, 2e-5),
        (8e-6, 9e-6, 2e-5),
    ]
    assert band["encoding"]["x2"]["field"] == "high"


def test_without_a_floor_nothing_is_drawn_for_it() -> None:
    spec = compiled(kl_by_arm(pa.Table.from_pylist([row("a", floor="", floor_value=None)])))
    assert "rect" not in [part["mark"]["type"] for part in spec["layer"]]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"value": None, "reason": "3 values lie beyond it, 10 needed"}, "3 values"),
        ({"value": 0.0}, "not on a log axis"),
    ],
)
def test_what_cannot_be_drawn_keeps_its_row_and_says_why(changes: dict, words: str) -> None:
    spec = compiled(kl_by_arm(pa.Table.from_pylist([row("a"), row("b", **changes)])))
    text = layer(spec, "text")
    assert text["transform"] == [{"filter": "!datum.drawn"}]
    (item,) = [item for item in values(text) if not item["drawn"]]
    assert item["label"] == "b" and words in item["why"]
    assert "b" in text["encoding"]["y"]["sort"]


def test_zero_is_drawn_on_the_linear_axis() -> None:
    spec = compiled(flip_by_arm(pa.Table.from_pylist([row("a", value=0.0, low=0.0, high=0.0)])))
    assert "text" not in [part["mark"]["type"] for part in spec["layer"]]


def test_an_interval_that_reaches_zero_starts_at_the_point_on_the_log_axis() -> None:
    part = layer(compiled(kl_by_arm(pa.Table.from_pylist([row("a", low=-0.001)]))), "point")
    assert values(part)[0]["low"] == 0.02


def test_both_sets_differ_in_shape_and_in_colour() -> None:
    spec = compiled(kl_by_arm(pa.Table.from_pylist([row("a"), row("a", outliers="without")])))
    encoding = layer(spec, "point")["encoding"]
    for channel in ("color", "shape"):
        scale = encoding[channel]["scale"]
        assert scale["domain"] == [palette.OUTLIER_LABELS["with"], palette.OUTLIER_LABELS["without"]]
        assert len(set(scale["range"])) == 2


def test_the_tooltip_carries_interval_floor_verdict_and_n() -> None:
    tooltip = layer(compiled(kl_by_arm(pa.Table.from_pylist([row("a")]))), "point")["encoding"]["tooltip"]
    assert {"value", "low", "high", "floor", "floor_value", "verdict", "n"} <= {item["field"] for item in tooltip}


def test_an_empty_table_is_an_empty_chart() -> None:
    empty = pa.Table.from_pylist([row("a")]).slice(0, 0)
    assert values(layer(compiled(kl_by_arm(empty)), "point")) == []


def test_a_table_without_a_column_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="floor_value"):
        kl_by_arm(pa.Table.from_pylist([row("a")]).drop_columns(["floor_value"]))
