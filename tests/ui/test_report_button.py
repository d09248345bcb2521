"""The report is one click away on every page that shows a campaign, and nothing is made before that click."""

from __future__ import annotations

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from dashboard.screenshot import PAGES
from drift_runs.report import build
from tests.ui.conftest import OpenApp
from tests.ui.synthetic import InventedStore, build_store

LABEL = "Report (HTML)"


def labels(app: AppTest) -> list[str]:
    return [button.proto.label for button in app.sidebar.get("download_button")]


@pytest.mark.parametrize("name", sorted(set(PAGES) - {"published"}))
def test_every_page_offers_it_once_and_makes_nothing(
    name: str, open_app: OpenApp, invented_store: InventedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    monkeypatch.setattr(build, "report_html", lambda *_, **__: made.append(name) or "")
    app = open_app(invented_store.folder, f"views/{name}.py")
    assert labels(app) == [LABEL] and made == []
    assert [button.proto.label for button in app.get("download_button")].count(LABEL) == 1


def test_a_campaign_that_is_not_complete_has_none(open_app: OpenApp, tmp_path: Path) -> None:
    store = build_store(tmp_path, arms=("q8_0", "micro-batch"), finish=False)
    assert labels(open_app(store.folder)) == []
