from __future__ import annotations

import pyarrow as pa
import pytest

from drift_runs.charts import palette
from drift_runs.charts.outcomes_by_arm import NULL_MARK, OUTCOME_COLOURS, OUTCOME_WORDS, outcomes_by_arm
from drift_runs.generate.outcomes import OUTCOMES


def row(arm: str, outcome: str, count: int, explored: int, *, null: bool = False) -> dict:
    return {"arm": arm, "label": arm, "null": null, "outcome": outcome, "count": count, "explored": explored}


def drawn(rows: list[dict]) -> dict:
    return outcomes_by_arm(pa.Table.from_pylist(rows)).to_dict()


def bars(rows: list[dict]) -> list[dict]:
    return values_of(drawn(rows), "bar")


def values_of(spec: dict, mark: str) -> list[dict]:
    (found,) = [part for part in spec["layer"] if part["mark"]["type"] == mark and "tooltip" in part["encoding"]]
    return found.get("data", spec.get("data"))["values"]


def luminance(hue: str) -> float:
    parts = [int(hue[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    lighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def test_every_outcome_has_a_colour_of_its_own_and_a_word() -> None:
    assert list(OUTCOME_COLOURS) == list(OUTCOME_WORDS) == list(OUTCOMES)
    assert len(set(OUTCOME_COLOURS.values())) == len(OUTCOMES) == len(set(OUTCOME_WORDS.values()))
    for outcome, hue in OUTCOME_COLOURS.items():
        assert min(contrast(hue, page) for page in (palette.PAGE_LIGHT, palette.PAGE_DARK)) >= 3, outcome


def test_parts_follow_the_order_in_which_outcomes_are_tried_and_fill_the_bar() -> None:
    found = bars([row("q4_0", "changes", 3, 8), row("q4_0", "malformed", 1, 8), row("q4_0", "recovers", 4, 8)])
    assert [(part["outcome"], part["start"], part["end"]) for part in found] == [
        ("malformed", 0.0, 0.125),
        ("recovers", 0.125, 0.625),
        ("changes", 0.625, 1.0),
    ]


def test_arms_that_explored_different_numbers_are_shares_of_their_own() -> None:
    found = bars([row("q4_0", "recovers", 3, 6), row("q4_0", "changes", 3, 6), row("micro", "recovers", 2, 2)])
    assert {part["arm"]: part["end"] for part in found} == {"q4_0": 1.0, "micro": 1.0}
    assert [part["share"] for part in found if part["arm"] == "q4_0"] == [0.5, 0.5]


def test_the_legend_has_only_what_is_there_and_each_in_its_colour() -> None:
    spec = drawn([row("q4_0", "unresolved", 1, 2), row("q4_0", "malformed", 1, 2), row("q4_0", "no-call", 0, 2)])
    scale = spec["layer"][0]["encoding"]["color"]["scale"]
    assert scale["domain"] == ["malformed", "unresolved"]
    assert scale["range"] == [OUTCOME_COLOURS["malformed"], OUTCOME_COLOURS["unresolved"]]


def test_the_null_is_marked_and_arms_keep_their_order() -> None:
    spec = drawn([row("q4_0", "recovers", 1, 1), row("launch", "recovers", 1, 1, null=True)])
    y = spec["layer"][0]["encoding"]["y"]
    assert y["sort"] == ["q4_0", f"{NULL_MARK} launch"]
    assert "%" in spec["layer"][0]["encoding"]["x"]["axis"]["title"]


def test_a_small_part_has_no_count_in_it_but_keeps_its_tooltip() -> None:
    found = bars([row("q4_0", "malformed", 1, 100), row("q4_0", "recovers", 99, 100)])
    assert [part["named"] for part in found] == [False, True]


def test_an_arm_without_roots_says_so() -> None:
    spec = drawn([row("q4_0", "recovers", 0, 0), row("q8_0", "recovers", 1, 1)])
    (words,) = [part for part in spec["layer"] if part["mark"].get("fontStyle") == "italic"]
    assert words["data"]["values"] == [{"label": "q4_0", "says": "no root"}]
    assert [part["arm"] for part in values_of(spec, "bar")] == ["q8_0"]


def test_no_row_is_an_empty_chart_and_what_is_wrong_is_refused() -> None:
    empty = pa.Table.from_pylist([row("q4_0", "recovers", 1, 1)]).slice(0, 0)
    assert outcomes_by_arm(empty).to_dict()["layer"]
    with pytest.raises(ValueError, match="explored"):
        outcomes_by_arm(empty.drop_columns(["explored"]))
    with pytest.raises(ValueError, match="improves"):
        drawn([row("q4_0", "improves", 1, 1)])
