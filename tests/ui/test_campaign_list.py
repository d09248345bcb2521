"""The list of campaigns in the sidebar, where a store holds more than fit one list."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from dashboard.components.campaign_list import AT_ONCE
from drift_runs.protocol.canonical import canonical_json
from drift_runs.tracking.index import open_index
from drift_runs.tracking.mlflow_store import Tracker
from drift_runs.tracking.uris import sqlite_uri
from tests.tracking.tracking_tables import campaign_facts
from tests.ui.conftest import OpenApp
from tests.ui.synthetic import protocol_content

OF_ALPHA = AT_ONCE + 5
CAMPAIGNS = OF_ALPHA + 2


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Campaigns without an arm: their list is what is looked at."""
    folder = tmp_path_factory.mktemp("many")
    tracker = Tracker(sqlite_uri(folder / "mlflow.db"))
    text = canonical_json(protocol_content()).decode()
    for number in range(CAMPAIGNS):
        name = "alpha" if number < OF_ALPHA else "beta"
        facts = campaign_facts(protocol_name=name, campaign_key=f"key-{number}", title=f"Campaign number {number}")
        tracker.start_campaign(facts, protocol_text=text, protocol_json=text)
    return folder


@pytest.fixture
def app(many: Path, open_app: OpenApp) -> Iterator[AppTest]:
    yield open_app(many)
    st.cache_resource.clear()


def campaigns_of(app: AppTest) -> tuple[str, int]:
    found = app.selectbox(key="control.campaign")
    return found.label, len(found.options)


def test_it_says_which_of_how_many_are_offered(app: AppTest) -> None:
    assert campaigns_of(app) == (f"Campaign (1 to {AT_ONCE} of {CAMPAIGNS})", AT_ONCE)
    options = app.selectbox(key="list.protocol").options
    assert options == [f"every protocol ({CAMPAIGNS})", f"alpha ({OF_ALPHA})", "beta (2)"]


def test_a_protocol_and_a_text_narrow_it_and_the_open_campaign_stays(app: AppTest) -> None:
    app.selectbox(key="list.protocol").set_value("alpha").run()
    label, offered = campaigns_of(app)
    assert label == f"Campaign (1 to {AT_ONCE} of {OF_ALPHA}, and the open one)" and offered == AT_ONCE + 1
    app.text_input(key="list.words").set_value("NUMBER 7").run()
    assert campaigns_of(app) == ("Campaign (1 to 1 of 1, and the open one)", 2)
    app.text_input(key="list.words").set_value("no such title").run()
    assert campaigns_of(app) == ("Campaign (none found, and the open one)", 1)
    assert not app.exception


def test_what_was_looked_for_stays_on_another_page(app: AppTest) -> None:
    app.text_input(key="list.words").set_value("number 1").run()
    before = campaigns_of(app)
    app.switch_page("views/ranges.py").run()
    assert campaigns_of(app) == before and app.text_input(key="list.words").value == "number 1"


def test_a_link_opens_a_campaign_that_no_page_of_the_list_offers(many: Path, open_app: OpenApp) -> None:
    oldest = open_index(sqlite_uri(many / "mlflow.db")).campaigns()[-1]
    app = open_app(many, v="1", campaign=oldest.run_id)
    assert app.selectbox(key="control.campaign").value == oldest.run_id
    assert campaigns_of(app)[0] == f"Campaign (1 to {AT_ONCE} of {CAMPAIGNS}, and the open one)"
