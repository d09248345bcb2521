"""The section on decisions: what it shows, what the form keeps, and what it says when something is missing."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from drift_runs.tracking import uris
from drift_runs.tracking.decisions import decide, load_decisions
from drift_runs.tracking.reader import list_campaigns
from tests.ui.reading import Cells, markup, table_html
from tests.ui.synthetic import build_store

HOSTILE = '<script>document.title="owned"</script> \u202eright to left\x1b[31m ' + "a" * 400

PAGE = """
from dashboard.components.decisions import decisions_panel
from dashboard.frame import open_page
decisions_panel(open_page("Decisions"))
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_store(tmp_path_factory.mktemp("made"), arms=("q8_0", "q4_0", "micro-batch")).folder


@pytest.fixture
def store(made: Path, tmp_path: Path) -> Path:
    """A database of the test's own; the files of its runs stay where they were made."""
    shutil.copy(made / "mlflow.db", tmp_path / "mlflow.db")
    return tmp_path


@pytest.fixture
def app(store: Path, monkeypatch: pytest.MonkeyPatch) -> AppTest:
    import streamlit as st

    st.cache_data.clear()
    monkeypatch.setenv("DRIFT_STORE", str(store))
    monkeypatch.delenv("DRIFT_TRACKING_URI", raising=False)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    opened = AppTest.from_string(PAGE, default_timeout=60).run()
    assert not opened.exception
    return opened


def campaign_of(store: Path):
    uri = uris.sqlite_uri(store / "mlflow.db")
    return uri, list_campaigns(uri)[0]


def rows(app: AppTest, label: str = "Decisions") -> dict[str, str]:
    return {row["data-arm"]: row["data-decision"] for row in Cells(table_html(app, label)).rows if "data-arm" in row}


def submit(app: AppTest, **typed: str) -> AppTest:
    if "arm" in typed:
        app.selectbox(key="decision.arm").set_value(typed["arm"])
    if "decision" in typed:
        app.segmented_control(key="decision.decision").set_value(typed["decision"])
    if "name" in typed:
        app.text_input(key="decision.name").set_value(typed["name"])
    if "reason" in typed:
        app.text_area(key="decision.reason").set_value(typed["reason"])
    next(button for button in app.button if "Record" in button.label).click()
    app.run()
    assert not app.exception
    return app


def test_nothing_is_decided_at_first_and_a_floor_is_not_to_decide_about(app: AppTest) -> None:
    assert rows(app) == {"q4_0": "open", "q8_0": "open"}
    assert "Nothing is decided yet about 2 arms." in markup(app)
    assert set(app.selectbox(key="decision.arm").options) == {"q4_0", "q8_0"}


def test_a_decision_is_kept_and_shown_and_the_name_is_remembered(app: AppTest, store: Path) -> None:
    submit(app, arm="q4_0", decision="rejected", name="R. Reader", reason="twice the floor in sql")
    assert rows(app) == {"q4_0": "rejected", "q8_0": "open"}
    assert "Recorded: q4_0 is rejected, by R. Reader." in markup(app)
    assert app.text_input(key="decision.name").value == "R. Reader"
    assert app.text_area(key="decision.reason").value == ""
    submit(app, decision="accepted", reason="only prose is served")
    assert rows(app)["q4_0"] == "accepted"
    assert [row["data-decision"] for row in Cells(table_html(app, "All decisions")).rows if "data-arm" in row] == [
        "rejected",
        "accepted",
    ]
    uri, campaign = campaign_of(store)
    entries = load_decisions(uri, campaign).entries
    assert [(entry.decision, entry.reason) for entry in entries] == [
        ("rejected", "twice the floor in sql"),
        ("accepted", "only prose is served"),
    ]
    assert entries[0].view.startswith("?v=1") and campaign.run_id in entries[0].view


def test_what_is_missing_is_said_and_what_was_typed_stays(app: AppTest, store: Path) -> None:
    submit(app, reason="typed already")
    assert "Nothing was recorded: a decision and your name is missing." in markup(app)
    assert app.text_area(key="decision.reason").value == "typed already"
    uri, campaign = campaign_of(store)
    assert load_decisions(uri, campaign).entries == ()


def test_a_hostile_reason_is_text(app: AppTest, store: Path) -> None:
    uri, campaign = campaign_of(store)
    decide(uri, campaign, "q4_0", decision="needs more", reason=HOSTILE, name="<b>me</b>", view="?v=1&a=b")
    import streamlit as st

    st.cache_data.clear()
    app.run()
    found = Cells(table_html(app, "Decisions"))
    assert not {"script", "b"} & found.tags
    text = next(text for _, cell, text in found.cells if "dr-decided" in (cell.get("class") or ""))
    assert "<script>" in text and "\\u202e" in text and "\\u001b" in text


def test_a_store_that_cannot_be_written_says_so(app: AppTest, store: Path) -> None:
    uri, campaign = campaign_of(store)
    from mlflow import MlflowClient

    MlflowClient(uri).delete_run(next(arm.run_id for arm in campaign.arms if arm.arm == "q4_0"))
    submit(app, arm="q4_0", decision="accepted", name="n", reason="r")
    assert "Nothing was recorded: " in markup(app)
