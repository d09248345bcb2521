"""Two to six arms side by side: figures, marks, the verdict on comparing them, tasks, and settings that differ."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from streamlit.testing.v1 import AppTest

from dashboard.components.arm_settings import differing
from dashboard.figures import write_number
from drift_runs import schema
from drift_runs.tracking import artifacts
from drift_runs.tracking.mlflow_store import Tracker
from tests.ui.conftest import OpenApp
from tests.ui.reading import Cells, markup, table_html
from tests.ui.synthetic import WINDOWS, InventedStore, build_store

VIEW = "views/compare.py"
HEADLINE = (
    ("flip", "flip", "rate", "share"),
    ("mean", "kl.full", "mean", "nats"),
    ("p95", "kl.full", "p95", "nats"),
    ("p99", "kl.full", "p99", "nats"),
    ("strong", "strong_overturn", "count", "count"),
)
TASKS = {
    # task: (window, passed by q8_0, passed by q4_0)
    "one": ("code-1", True, False),
    "two": ("prose-1", True, False),
    "three": ("sql-1", True, False),
    "four": ("call-1", True, True),
    "five": ("answer-1", None, True),
}


def cells(app: AppTest, label: str) -> dict[tuple[str, str], tuple[str, str | None]]:
    """(figure, arm) to the cell's text and mark."""
    return {
        (cell["data-figure"], cell["data-arm"]): (text, cell.get("data-mark"))
        for _, cell, text in Cells(table_html(app, label)).cells
        if cell.get("data-figure") and cell.get("data-arm")
    }


def chosen(app: AppTest, label: str = "Side by side") -> list[str]:
    return list(dict.fromkeys(arm for _, arm in cells(app, label)))


def said(app: AppTest, name: str) -> str:
    (found,) = [item.proto.body for item in app.get("html") if f'data-say="{name}"' in item.proto.body]
    return found


def test_figures_of_the_chosen_arms_are_the_stored_ones(open_app: OpenApp, invented_store: InventedStore) -> None:
    arms = ["q8_0", "q4_0", "ablated"]
    app = open_app(invented_store.folder, VIEW, v="1", arms=arms)
    assert chosen(app) == arms
    found = cells(app, "Side by side")
    for key, spec, statistic, unit in HEADLINE:
        values = {}
        for arm in arms:
            row = invented_store.figure(arm, spec, statistic, "with")
            values[arm] = row["value"]
            shown = write_number(row["value"], unit, low=row["low"], high=row["high"])
            assert found[key, arm][0].startswith(shown), (key, arm)
        marks = {arm: found[key, arm][1] for arm in arms}
        assert marks[min(values, key=values.__getitem__)] == "best"
        assert marks[max(values, key=values.__getitem__)] == "worst"
    most = max(arms, key=lambda arm: invented_store.figure(arm, "answer.exact", "rate", "with")["value"])
    assert found["answers", most][1] == "best", "of answers more is better"
    assert "▲ best" in table_html(app, "Side by side"), "a mark is a word, and not a colour alone"


def test_the_first_two_of_the_order_stand_there_without_a_choice(
    open_app: OpenApp, invented_store: InventedStore
) -> None:
    app = open_app(invented_store.folder, VIEW, v="1", sort="mean", order="asc")
    means = {
        arm: invented_store.figure(arm, "kl.full", "mean", "with")["value"]
        for arm in ("q8_0", "q4_0", "kv-q4_0", "fa-off", "ablated")
    }
    assert chosen(app) == sorted(means, key=means.__getitem__)[:2]
    app.multiselect(key="control.arms").set_value(["ablated", "q8_0"]).run()
    assert chosen(app) == ["ablated", "q8_0"] and app.query_params["arms"] == ["ablated", "q8_0"]


def test_one_arm_and_seven_arms_are_said(open_app: OpenApp, invented_store: InventedStore) -> None:
    assert "Choose another arm beside q8_0." in markup(open_app(invented_store.folder, VIEW, v="1", arms="q8_0"))
    every = ["q8_0", "q4_0", "kv-q4_0", "fa-off", "ablated", "kv-bf16", "served"]
    app = open_app(invented_store.folder, VIEW, v="1", arms=every)
    assert "At most 6 arms stand side by side. Left out: served." in markup(app)
    gone = open_app(invented_store.folder, VIEW, v="1", arms=["q8_0", "<b>x"])
    assert "arms = &lt;b&gt;x in the link does not exist here" in markup(gone)


def test_what_may_not_be_compared_stands_apart_and_is_never_marked(
    open_app: OpenApp, invented_store: InventedStore
) -> None:
    app = open_app(invented_store.folder, VIEW, v="1", arms=["served", "q8_0", "q4_0"])
    assert chosen(app) == ["q8_0", "q4_0"] and chosen(app, "Shown apart") == ["served"]
    assert {mark for _, mark in cells(app, "Shown apart").values()} == {None}
    verdict = said(app, "verdict")
    assert "q8_0 and q4_0 may be compared: all 18 things that must be equal are." in verdict
    assert "<b>served</b> stands apart: another reference, or another execution of it" in verdict
    pairs = {
        (row["data-left"], row["data-right"]) for row in Cells(table_html(app, "Pairs")).rows if row.get("data-left")
    }
    assert pairs == {("q8_0", "q4_0")}


def test_two_of_which_neither_may_be_compared_have_no_order(open_app: OpenApp, invented_store: InventedStore) -> None:
    app = open_app(invented_store.folder, VIEW, v="1", arms=["q8_0", "served"])
    assert "None of these may be compared with another" in said(app, "verdict")
    assert 'aria-label="Side by side"' not in markup(app) and chosen(app, "Shown apart") == ["q8_0", "served"]


def test_what_is_not_known_is_not_taken_for_equal(open_app: OpenApp, tmp_path: Path) -> None:
    store = build_store(tmp_path, arms=("q8_0", "q4_0", "micro-batch"), known=("spec",))
    app = open_app(store.folder, VIEW)
    assert "what is not known is not taken for equal" in said(app, "verdict")
    assert sorted(chosen(app, "Shown apart")) == ["q4_0", "q8_0"]


def test_a_follow_up_is_beside_them_and_never_best(open_app: OpenApp, invented_store: InventedStore) -> None:
    app = open_app(invented_store.folder, VIEW, v="1", arms=["kv-bf16", "q8_0", "q4_0"])
    found = cells(app, "Side by side")
    assert {found[key, "kv-bf16"][1] for key, *_ in HEADLINE} == {None}
    assert found["mean", "q8_0"][1] == "best"
    assert "<b>kv-bf16</b> is a follow-up, outside the frozen protocol" in said(app, "verdict")


def test_only_settings_that_differ_are_listed_and_the_others_counted(
    open_app: OpenApp, invented_store: InventedStore
) -> None:
    app = open_app(invented_store.folder, VIEW, v="1", arms=["q8_0", "fa-off"])
    rows: dict[str, dict[str, str]] = {}
    for row, cell, text in Cells(table_html(app, "Settings that differ")).cells:
        if row.get("data-setting") and cell.get("data-arm"):
            rows.setdefault(row["data-setting"], {})[cell["data-arm"]] = text
    assert rows["weights"] == {"q8_0": "q8_0", "fa-off": "f16"}
    assert rows["engine: flash attention"] == {"q8_0": "as the reference", "fa-off": "off"}
    assert not {"KV", "hardware", "engine and build", "engine: threads"} & set(rows)
    assert all(len(set(values.values())) == 2 for values in rows.values())
    equal = [row["data-setting"] for row in Cells(table_html(app, "Equal settings")).rows if row.get("data-setting")]
    assert {"KV", "engine: threads", "capture: micro batch", "comparability: path shape"} <= set(equal)
    assert next(item.label for item in app.expander) == f"{len(equal)} equal settings not shown"
    assert f"{len(rows)} of {len(rows) + len(equal)} settings" in said(app, "settings")


def test_settings_are_told_apart_by_name() -> None:
    assert differing([{"a": "1", "b": "2", "c": ""}, {"a": "1", "b": "3", "c": ""}]) == (["b"], ["a", "c"])
    assert differing([{"a": "1"}]) == ([], ["a"])


@pytest.fixture
def with_tasks(tmp_path: Path) -> InventedStore:
    """Two candidates that answered five tasks, each of a text of its own."""
    store = build_store(tmp_path, arms=("q8_0", "q4_0", "micro-batch"))
    tracker = Tracker(store.uri)
    for record in store.records():
        if record.role == "candidate":
            rows = [_task(record.arm, name, *found) for name, found in TASKS.items()]
            tables = {artifacts.TASKS_FILE: pa.Table.from_pylist(rows, schema=schema.TASKS)}
            tracker.log_generation(record.run_id, "key", tables, arm=record.arm, bounds=())
    return store


def _task(arm: str, name: str, window: str, first: bool | None, second: bool | None) -> dict[str, object]:
    passed = first if arm == "q8_0" else second
    panel, document, _ = WINDOWS[window]
    return {
        **dict.fromkeys(("range", "kind", "text"), ""),
        "arm": arm,
        "task": name,
        "window": window,
        "document": document,
        "panel": panel,
        "outlier": False,
        "check": "pattern",
        "passed": passed,
        "reason": "" if passed else "why",
        "ended": "turn",
        "tokens": 3,
    }


def test_tasks_that_one_passed_and_another_did_not(open_app: OpenApp, with_tasks: InventedStore) -> None:
    app = open_app(with_tasks.folder, VIEW, v="1", arms=["q8_0", "q4_0"])
    found = {
        cell["data-figure"]: text
        for row, cell, text in Cells(table_html(app, "Task pairs")).cells
        if row.get("data-left") == "q8_0" and cell.get("data-figure")
    }
    assert (found["left_alone"], found["right_alone"]) == ("3", "0")
    # Three texts with a difference of one each: both signs of all three are 2 of the 8 ways.
    assert found["sign_flip"].startswith("p 0.25") and "not told apart" in found["sign_flip"]
    table = table_html(app, "Task pairs")
    assert ">75 %<" in table and "1 not decided for both" in table
    verdicts = {
        (row["data-task"], cell["data-arm"]): text
        for row, cell, text in Cells(table_html(app, "Tasks that differ")).cells
        if row.get("data-task") and cell.get("data-arm")
    }
    assert {task for task, _ in verdicts} == {"one", "two", "three", "five"}, "what went alike is counted"
    assert verdicts["one", "q8_0"] == "passed" and verdicts["one", "q4_0"] == "failed"
    assert verdicts["five", "q8_0"] == "not decided"
    assert "4 of 5 tasks went differently" in markup(app) and "1 that went alike" in markup(app)
    panel = open_app(with_tasks.folder, VIEW, v="1", arms=["q8_0", "q4_0"], scope="panel:P-B")
    assert "1 of 2 tasks went differently" in markup(panel)


def test_without_tasks_there_is_no_such_section(open_app: OpenApp, invented_store: InventedStore) -> None:
    assert "Tasks that one passed" not in markup(open_app(invented_store.folder, VIEW))


def test_side_by_side_follows_the_outlier_switch(open_app: OpenApp, invented_store: InventedStore) -> None:
    app = open_app(invented_store.folder, VIEW, v="1", arms=["q8_0", "q4_0"], outliers="both")
    for outliers in ("with", "without"):
        row = invented_store.figure("q4_0", "kl.full", "mean", outliers)
        texts = [
            text
            for line, cell, text in Cells(table_html(app, "Side by side")).cells
            if (line.get("data-outliers"), cell.get("data-figure"), cell.get("data-arm")) == (outliers, "mean", "q4_0")
        ]
        assert len(texts) == 1 and texts[0].startswith(
            write_number(row["value"], "nats", low=row["low"], high=row["high"])
        )
    assert "incl. outlier" in table_html(app, "Side by side")
