from __future__ import annotations

import pyarrow as pa

from drift_runs.charts.tau_heatmap import tau_heatmap
from drift_runs.schema import AGREEMENT


def row(left: str, right: str, tau: float | None, **changes: object) -> dict[str, object]:
    return {
        "left": left,
        "right": right,
        "outliers": "with",
        "tau": tau,
        "arms": 5,
        "concordant": 9,
        "discordant": 1,
        "tied": 0,
        "reason": "",
    } | changes


def layers(rows: list[dict]) -> list[dict]:
    spec = tau_heatmap(pa.Table.from_pylist(rows, schema=AGREEMENT)).to_dict()
    for part in spec["layer"]:
        part.setdefault("data", spec.get("data"))
    return spec["layer"]


def test_every_pair_stands_on_both_sides_of_the_diagonal() -> None:
    (text,) = [part for part in layers([row("a/mean", "b/rate", 0.8)]) if part["mark"]["type"] == "text"]
    cells = {(item["left"], item["right"]): item["shown"] for item in text["data"]["values"]}
    assert cells == {("a/mean", "b/rate"): "0.80", ("b/rate", "a/mean"): "0.80"}
    assert text["encoding"]["x"]["sort"] == text["encoding"]["y"]["sort"] == ["a/mean", "b/rate"]


def test_a_tau_that_is_not_known_has_no_colour() -> None:
    parts = layers([row("a", "b", None, reason="2 arms with both figures, 3 needed"), row("a", "c", -1.0)])
    known, unknown = (
        [part for part in parts if part.get("transform") == [{"filter": f"datum.tau {sign} null"}]]
        for sign in ("!==", "===")
    )
    assert [("color" in part["encoding"]) for part in known] == [True]
    assert [("color" in part["encoding"]) for part in unknown] == [False]
    shown = {(item["left"], item["right"]): item for item in parts[0]["data"]["values"]}
    assert shown["a", "b"]["shown"] == "none" and "3 needed" in shown["a", "b"]["reason"]


def test_the_colour_scale_is_the_same_whatever_the_data_are() -> None:
    known = next(part for part in layers([row("a", "b", 0.9)]) if part["mark"]["type"] == "rect")
    assert known["encoding"]["color"]["scale"]["domain"] == [-1, 0, 1]


def test_an_empty_table_is_an_empty_chart() -> None:
    assert layers([])[0]["data"]["values"] == []
