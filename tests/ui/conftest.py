"""One invented campaign in a real store, for all page tests; written once, because pages write nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from tests.campaigns import Campaign
from tests.test_campaign_generation import prepared
from tests.ui.pair import Travelled, shared_pair
from tests.ui.synthetic import InventedStore, shared_store

APP = Path(__file__).parents[2] / "dashboard" / "app.py"
OpenApp = Callable[..., AppTest]


@pytest.fixture(scope="session")
def invented_store(tmp_path_factory: pytest.TempPathFactory) -> InventedStore:
    return shared_store(tmp_path_factory)


@pytest.fixture(scope="session")
def generated_store(tmp_path_factory: pytest.TempPathFactory, tiny_arms: Path) -> Campaign:
    """A real campaign of the tiny model with futures, rollouts, draws and tasks; ``root`` is its folder."""
    campaign = prepared(tmp_path_factory.mktemp("generated-pages"), tiny_arms)
    campaign.run()
    return campaign


@pytest.fixture(scope="session")
def travelled(tmp_path_factory: pytest.TempPathFactory, tiny_arms: Path, empty_database: Path) -> Travelled:
    """Two real campaigns of one reference in one tracking store."""
    return shared_pair(tmp_path_factory, tiny_arms, empty_database)


@pytest.fixture
def open_app(monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenApp]:
    """``open_app(folder, "views/ranges.py", outliers="both")``: the app on a store, run once, at that address."""
    import streamlit as st

    def start(folder: Path, view: str = "views/overview.py", **query: str | list[str]) -> AppTest:
        monkeypatch.setenv("DRIFT_STORE", str(folder))
        monkeypatch.delenv("DRIFT_TRACKING_URI", raising=False)
        monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
        app = AppTest.from_file(str(APP), default_timeout=60)
        for name, value in query.items():
            app.query_params[name] = value
        if view != "views/overview.py":
            app.switch_page(view)
        app.run()
        assert not app.exception, [item.stack_trace for item in app.exception]
        return app

    yield start
    st.cache_data.clear()
