from __future__ import annotations

import pyarrow as pa
import pytest

from drift_runs.charts.range_heatmap import range_heatmap, value_domain


def cell(arm: str, kind: str, **changes: object) -> dict[str, object]:
    return {
        "arm": arm,
        "kind": kind,
        "value": 0.1,
        "n": 2400,
        "state": "firm",
        "reason": "",
        "shown": "0.100",
        "verdict": "above",
    } | changes


CELLS = [
    cell("q8_0", "code", value=0.001, shown="0.001"),
    cell("q4_0", "code"),
    cell("q8_0", "sql", state="indicative", n=320),
    cell(
        "q4_0", "sql", state="withheld", value=None, n=60, shown="withheld", reason="3 values lie beyond it, 10 needed"
    ),
]


def layers(rows: list[dict], **options: object) -> list[dict]:
    spec = range_heatmap(pa.Table.from_pylist(rows), title="kl.full p95, nats", **options).to_dict()
    for part in spec["layer"]:
        part.setdefault("data", spec.get("data"))
    return spec["layer"]


def by_filter(parts: list[dict], state: str) -> list[dict]:
    return [part for part in parts if part.get("transform") == [{"filter": f"datum.state === '{state}'"}]]


def test_every_cell_shows_its_n() -> None:
    texts = [part for part in layers(CELLS) if part["mark"]["type"] == "text"]
    assert [part["encoding"]["text"]["field"] for part in texts] == ["shown", "under"]
    assert [item["under"] for item in texts[0]["data"]["values"]] == ["n 2,400", "n 2,400", "n 320\nindicative", "n 60"]


def test_three_states_look_different_without_colour() -> None:
    parts = layers(CELLS)
    dashes = {
        state: [part["mark"].get("strokeDash") for part in by_filter(parts, state) if "strokeDash" in part["mark"]]
        for state in ("firm", "indicative", "withheld")
    }
    assert dashes["firm"] == []
    assert dashes["indicative"] and dashes["withheld"] and dashes["indicative"] != dashes["withheld"]


def test_an_indicative_value_keeps_a_paler_colour_and_a_withheld_one_has_none() -> None:
    parts = layers(CELLS)
    (coloured,) = [part for part in by_filter(parts, "indicative") if "color" in part["encoding"]]
    assert coloured["mark"]["opacity"] < 1
    assert all("color" not in part["encoding"] for part in by_filter(parts, "withheld"))


def test_a_withheld_cell_never_shows_a_number() -> None:
    rows = [cell("a", "code"), cell("b", "code", state="withheld", value=None, shown="0.7")]
    items = layers(rows)[0]["data"]["values"]
    assert items[1]["shown"] == "withheld" and items[1]["value"] is None


def test_order_is_the_table_s_and_the_legend_names_spec_and_unit() -> None:
    (firm,) = by_filter(layers(CELLS), "firm")
    assert firm["encoding"]["x"]["sort"] == ["q8_0", "q4_0"]
    assert firm["encoding"]["y"]["sort"] == ["code", "sql"]
    assert firm["encoding"]["color"]["legend"]["title"] == "kl.full p95, nats"


def test_a_given_domain_is_kept_so_that_two_maps_compare() -> None:
    colour = by_filter(layers(CELLS, domain=(1e-4, 10.0)), "firm")[0]["encoding"]["color"]
    assert colour["scale"]["domain"] == [1e-4, 10.0]


def test_zero_is_put_at_the_low_end_of_a_log_scale() -> None:
    items = layers([cell("a", "code", value=0.0, shown="0"), cell("b", "code", value=0.5)])[0]["data"]["values"]
    assert items[0]["value"] == 0.5 / 2 and items[0]["shown"] == "0"


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [([0.1, 2.0, None], (0.1, 2.0)), ([0.4], (0.2, 0.8)), ([None, 0.0], (0.001, 1.0)), ([], (0.001, 1.0))],
)
def test_the_domain_is_always_one_that_a_log_scale_accepts(numbers: list, expected: tuple) -> None:
    assert value_domain([{"value": number} for number in numbers]) == expected
