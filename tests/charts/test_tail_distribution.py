from __future__ import annotations

import pyarrow as pa
import pytest

from drift_runs.charts import palette
from drift_runs.charts.tail_distribution import drawn_rows, nats_domain, tail_distribution


def step(arm: str, nats: float, count: int, **changes: object) -> dict[str, object]:
    return {"arm": arm, "group": "arm", "nats": nats, "count": count, "n": 1000} | changes


STEPS = [
    step("q8_0", 1e-4, 900),
    step("q8_0", 1e-3, 300),
    step("q8_0", 1e-2, 60),
    step("q8_0", 1e-1, 9),
    step("q4_0", 1e-2, 800),
    step("q4_0", 1.0, 100),
    step("micro-batch", 1e-6, 500, group="floor"),
]


def table(rows: list[dict]) -> pa.Table:
    return pa.Table.from_pylist(rows)


def spec_of(rows: list[dict], **options: object) -> dict:
    wanted = {"spec": "kl.full", "colours": {"q8_0": "#111111", "q4_0": "#222222"}} | options
    return tail_distribution(table(rows), **wanted).to_dict()


def test_a_line_ends_where_fewer_than_ten_positions_lie_beyond() -> None:
    rows = drawn_rows(table(STEPS))
    assert [row["nats"] for row in rows if row["arm"] == "q8_0"] == [1e-4, 1e-3, 1e-2]
    assert [row["share"] for row in rows if row["arm"] == "q8_0"] == [0.9, 0.3, 0.06]


def test_the_thin_part_begins_at_the_last_firm_step_of_the_same_arm() -> None:
    thin = {(row["arm"], row["nats"]) for row in drawn_rows(table(STEPS)) if row["thin"]}
    assert thin == {("q8_0", 1e-3), ("q8_0", 1e-2)}


def test_arms_have_their_colour_and_floors_are_grey_and_dashed() -> None:
    spec = spec_of(STEPS)
    encoding = spec["layer"][0]["encoding"]
    colour, dash = encoding["color"]["scale"], encoding["strokeDash"]["scale"]
    assert dict(zip(colour["domain"], colour["range"], strict=True)) == {
        "q8_0": "#111111",
        "q4_0": "#222222",
        "micro-batch": palette.FLOOR,
    }
    dashes = dict(zip(dash["domain"], dash["range"], strict=True))
    assert dashes["q8_0"] == dashes["q4_0"] == [1, 0] and dashes["micro-batch"] != [1, 0]


def test_both_axes_are_logarithmic_and_say_what_they_are() -> None:
    encoding = spec_of(STEPS)["layer"][0]["encoding"]
    assert encoding["x"]["scale"]["type"] == encoding["y"]["scale"]["type"] == "log"
    assert "kl.full" in encoding["x"]["axis"]["title"] and "nats" in encoding["x"]["axis"]["title"]
    assert "share of positions" in encoding["y"]["axis"]["title"]


def test_a_given_domain_is_kept_so_that_two_charts_compare() -> None:
    encoding = spec_of(STEPS, domain=(1e-5, 10.0), share_from=0.001)["layer"][0]["encoding"]
    assert encoding["x"]["scale"]["domain"] == [1e-5, 10.0] and encoding["y"]["scale"]["domain"] == [0.0008, 1.0]


@pytest.mark.parametrize("rows", [STEPS, STEPS[-1:], [step("a", 0.5, 1000)], []])
def test_the_domain_is_one_that_a_log_axis_accepts(rows: list[dict]) -> None:
    low, high = nats_domain(drawn_rows(table(rows)) if rows else [])
    assert 0 < low * 99 <= high


def test_a_table_that_lacks_a_column_is_refused() -> None:
    with pytest.raises(ValueError, match="count"):
        tail_distribution(table(STEPS).drop_columns(["count"]), spec="kl.full", colours={})
