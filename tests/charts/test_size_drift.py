from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from drift_runs.charts import palette, still
from drift_runs.charts.size_drift import pareto_front, size_drift, size_ticks


def row(arm: str, size: int, value: float, **changes: object) -> dict[str, object]:
    return {"arm": arm, "bytes": size, "value": value, "low": value / 2, "high": value * 2, "n": 100} | changes


ROWS = [row("q8", 140_000_000, 1e-3), row("q4", 90_000_000, 3e-2), row("bad", 120_000_000, 0.1)]


def chart(rows: list[dict[str, object]], **options: object):
    return size_drift(
        pa.Table.from_pylist(rows),
        title="KL mean (kl.full), nats",
        number_format=".2~g",
        colours={"q8": "#2f86c6"},
        **options,
    )


def test_the_front_is_what_nothing_beats_in_both() -> None:
    sizes = {"a": 1.0, "b": 2.0, "c": 2.0, "d": 3.0, "e": 1.0}
    values = {"a": 9.0, "b": 5.0, "c": 6.0, "d": 5.0, "e": 9.0}
    assert pareto_front(sizes, values) == ("a", "e", "b"), "equal ones both, and no larger one without a gain"
    assert pareto_front({}, {}) == ()


def test_the_front_by_its_definition_for_many_points() -> None:
    rng = np.random.default_rng(3)
    sizes = {str(at): float(value) for at, value in enumerate(rng.integers(1, 12, 60))}
    values = {str(at): float(value) for at, value in enumerate(rng.integers(1, 12, 60))}
    front = pareto_front(sizes, values)
    best: dict[float, float] = {}
    for name, size in sizes.items():
        best[size] = min(best.get(size, np.inf), values[name])
    expected = set()
    reached = np.inf
    for size in sorted(best):  # going up in size, only what drifts less than all before is on the front
        if best[size] < reached:
            reached = best[size]
            expected |= {name for name in sizes if sizes[name] == size and values[name] == reached}
    assert set(front) == expected
    assert [sizes[name] for name in front] == sorted(sizes[name] for name in front)


def test_those_on_the_front_are_ringed_and_joined() -> None:
    spec = chart(ROWS).to_dict()
    parts = {part["mark"]["type"]: part for part in spec["layer"] if part["mark"]["type"] == "line"}
    assert [item["arm"] for item in parts["line"]["data"]["values"]] == ["q4", "q8"]
    assert parts["line"]["mark"]["interpolate"] == "step-after"
    (ring,) = [part for part in spec["layer"] if part["mark"].get("filled") is False]
    assert ring["transform"] == [{"filter": "datum.front === 'on the front'"}]
    by_name = {item["arm"]: item["front"] for item in spec["data"]["values"]} if "data" in spec else {}
    by_name = by_name or {item["arm"]: item["front"] for item in ring["data"]["values"]}
    assert by_name == {"q8": "on the front", "q4": "on the front", "bad": "not on it"}


def test_both_axes_are_logarithmic_and_hold_every_interval_and_the_reference() -> None:
    spec = chart(ROWS, reference_bytes=270_000_000).to_dict()
    (points,) = [part for part in spec["layer"] if part["mark"].get("filled") and part["mark"]["type"] == "point"]
    x, y = points["encoding"]["x"], points["encoding"]["y"]
    assert x["scale"]["type"] == y["scale"]["type"] == "log"
    assert x["scale"]["domain"][0] < 90_000_000 and x["scale"]["domain"][1] > 270_000_000
    assert y["scale"]["domain"][0] < 5e-4 and y["scale"]["domain"][1] > 0.2
    assert "nats" in y["axis"]["title"] and "MB" in x["axis"]["labelExpr"]
    drawn = still.svg(chart(ROWS, reference_bytes=270_000_000))
    assert "100 MB" in drawn and ">reference<" in drawn and ">q8<" in drawn
    assert ">reference<" not in still.svg(chart(ROWS))


def test_an_interval_that_reaches_zero_is_drawn_from_the_point_upwards() -> None:
    spec = chart([row("q8", 1000, 1e-3, low=0.0)]).to_dict()
    values = spec.get("data", spec["layer"][-1].get("data"))["values"]
    assert values[0]["low"] == 1e-3
    assert "1 kB" in still.svg(chart([row("q8", 1000, 1e-3, low=0.0)]))


def test_names_of_points_that_are_close_are_kept_apart() -> None:
    rows = [row(str(at), 270_000_000, 0.05 + 0.001 * at) for at in range(4)] + [row("far", 90_000_000, 0.05)]
    values = chart(rows).to_dict()
    texts = next(part for part in values["layer"] if part["encoding"].get("text", {}).get("field") == "arm")
    data = texts.get("data") or values["data"]
    places = sorted(item["label_at"] for item in data["values"] if item["arm"] != "far")
    domain = texts["encoding"]["y"]["scale"]["domain"]
    whole = np.log(domain[1] / domain[0])
    gaps = np.diff(np.log(places)) / whole * 310
    assert (gaps > 12.9).all()


@pytest.mark.parametrize("wrong", [{"value": 0.0}, {"value": None}, {"bytes": None}])
def test_what_has_no_place_is_refused(wrong: dict) -> None:
    with pytest.raises(ValueError, match="no place on a log axis for q8"):
        chart([row("q8", 1, 1.0) | wrong])
    with pytest.raises(ValueError, match="bytes"):
        size_drift(pa.table({"arm": ["a"]}), title="", number_format="", colours={})


@pytest.mark.parametrize(("low", "high"), [(8e7, 4e8), (1e6, 1e9), (5e5, 8e12), (101.0, 102.0)])
def test_ticks_lie_inside_and_are_not_too_many(low: float, high: float) -> None:
    ticks = size_ticks(low, high)
    assert all(low <= tick <= high for tick in ticks) and 2 <= len(ticks) <= 12


def test_an_arm_without_a_colour_is_neutral() -> None:
    spec = chart(ROWS).to_dict()
    scale = next(part for part in spec["layer"] if "color" in part["encoding"])["encoding"]["color"]["scale"]
    assert dict(zip(scale["domain"], scale["range"], strict=True))["q4"] == palette.NEUTRAL
