from __future__ import annotations

import pyarrow as pa
import pytest

from drift_runs.charts.task_matrix import task_matrix

ROWS = [
    {"task": "calls", "arm": "q8_0", "passed": True, "drift": 0.0, "shown": "0"},
    {"task": "calls", "arm": "q4_0", "passed": False, "drift": 4.0, "shown": "4"},
    {"task": "sql", "arm": "q8_0", "passed": None, "drift": None, "shown": "not known"},
]


def test_pass_and_fail_are_a_mark_and_a_word_and_never_the_ground() -> None:
    spec = task_matrix(pa.Table.from_pylist(ROWS), drift_title="flips").to_dict()
    (text,) = [part for part in spec["layer"] if part["mark"]["type"] == "text"]
    assert text["encoding"]["text"]["field"] == "words"
    assert [item["words"] for item in spec["data"]["values"]] == ["\u2713 pass", "\u2717 fail", "? undecided"]
    rect = spec["layer"][0]
    assert rect["encoding"]["color"]["field"] == "drift" and rect["encoding"]["color"]["scale"]["domain"] == [0.0, 4.0]


def test_a_cell_without_a_figure_has_no_colour_of_the_scale() -> None:
    spec = task_matrix(pa.Table.from_pylist(ROWS), drift_title="flips").to_dict()
    rects = [part for part in spec["layer"] if part["mark"]["type"] == "rect"]
    assert [part["transform"][0]["filter"] for part in rects] == ["datum.known", "!datum.known"]
    assert [item["known"] for item in spec["data"]["values"]] == [True, True, False]
    assert "color" not in rects[1]["encoding"]


def test_a_ground_of_nothing_but_zero_has_an_axis() -> None:
    spec = task_matrix(pa.Table.from_pylist(ROWS[:1]), drift_title="flips").to_dict()
    assert spec["layer"][0]["encoding"]["color"]["scale"]["domain"] == [0.0, 1.0]
    with pytest.raises(ValueError, match="passed"):
        task_matrix(pa.table({"task": ["a"]}), drift_title="")
