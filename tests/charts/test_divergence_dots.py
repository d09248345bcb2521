from __future__ import annotations

import pyarrow as pa
import pytest

from drift_runs.charts.divergence_dots import divergence_dots
from drift_runs.charts.log_axis import decades
from drift_runs.measure.specs import DIVERGENCES


def row(arm: str, spec: str, **changes: object) -> dict[str, object]:
    return {"arm": arm, "spec": spec, "value": 0.02, "low": 0.01, "high": 0.03, "n": 2810} | changes


def layers(rows: list[dict]) -> list[dict]:
    table = pa.Table.from_pylist(rows)
    spec = divergence_dots(table).to_dict()
    for part in spec["layer"]:
        part.setdefault("data", spec.get("data"))
    return spec["layer"]


def point(rows: list[dict]) -> dict:
    (found,) = [part for part in layers(rows) if part["mark"]["type"] == "point"]
    return found


def test_each_definition_has_a_shape_and_a_colour_of_its_own() -> None:
    rows = [row("q8_0", item.spec(20)) for item in DIVERGENCES]
    encoding = point(rows)["encoding"]
    for channel in ("color", "shape"):
        scale = encoding[channel]["scale"]
        assert scale["domain"] == [item.spec(20) for item in DIVERGENCES]
        assert len(set(scale["range"])) == len(DIVERGENCES)


def test_a_definition_keeps_its_mark_when_others_are_absent() -> None:
    scale = point([row("q8_0", "kl.topk-lower@20")])["encoding"]["shape"]["scale"]
    whole = point([row("q8_0", item.spec(20)) for item in DIVERGENCES])["encoding"]["shape"]["scale"]
    assert scale["range"][0] == dict(zip(whole["domain"], whole["range"], strict=True))["kl.topk-lower@20"]


def test_arms_keep_the_table_s_order_also_where_nothing_can_be_drawn() -> None:
    part = point([row("launch", "kl.full", value=0.0), row("b", "kl.full"), row("a", "kl.full", value=None)])
    assert part["encoding"]["y"]["sort"] == ["launch", "b", "a"]
    assert [item["arm"] for item in part["data"]["values"]] == ["b"], "neither 0 nor nothing is on a log axis"


def test_an_interval_that_reaches_zero_starts_at_the_point() -> None:
    (item,) = point([row("a", "kl.full", low=-0.001)])["data"]["values"]
    assert item["low"] == 0.02


def test_the_axis_holds_every_interval_and_its_ticks() -> None:
    x = point([row("a", "kl.full"), row("b", "js.full", value=1e-4, low=5e-5, high=2e-4)])["encoding"]["x"]
    low, high = x["scale"]["domain"]
    assert low < 5e-5 and high > 0.03 and x["scale"]["type"] == "log" and "nats" in x["axis"]["title"]
    assert all(low <= tick <= high for tick in x["axis"]["values"])


def test_an_empty_table_is_an_empty_chart_and_a_missing_column_is_named() -> None:
    empty = pa.Table.from_pylist([row("a", "kl.full")]).slice(0, 0)
    assert divergence_dots(empty).to_dict()["layer"]
    with pytest.raises(ValueError, match="spec"):
        divergence_dots(empty.drop_columns(["spec"]))


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [(0.5, 200.0, [1.0, 10.0, 100.0]), (0.02, 0.05, [0.02, 0.05]), (1e-20, 1.0, [10.0**at for at in range(-20, 1, 3)])],
)
def test_ticks_are_decades_thinned_where_there_are_many(low: float, high: float, ticks: list[float]) -> None:
    assert decades(low, high) == ticks
