"""Pages of a campaign with an arm that writes and has no rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from drift_runs.weights.hf_folder import write_hf_folder
from tests.campaigns import Campaign
from tests.engines.llama_server_process import llama_server
from tests.test_campaign_writers import prepared
from tests.ui.conftest import OpenApp

PAGES = sorted(path.name for path in (Path(__file__).parents[2] / "dashboard" / "views").glob("[a-z]*.py"))
OF_POSITIONS = ("ranges.py", "tails.py", "rows.py", "outliers.py", "answers.py")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory, tiny_arms: Path, empty_database: Path) -> Path:
    folder = tmp_path_factory.mktemp("writers")
    write_hf_folder(tiny_arms.parent / "f16.gguf", folder / "tokenizer", dtype="float16")
    with llama_server(tiny_arms.parent / "q4_0.gguf") as server:
        campaign: Campaign = prepared(folder / "campaign", tiny_arms, empty_database, server.url, folder / "tokenizer")
        result = campaign.run()
    assert result.failed == () and result.failed_generation == ()
    return campaign.store.root


def text(app) -> str:
    return " ".join(item.body for item in app.get("html"))


@pytest.mark.parametrize("page", PAGES)
def test_every_page_opens(store: Path, open_app: OpenApp, page: str) -> None:
    said = text(open_app(store, f"views/{page}", v="1", arm="writer"))
    note = "because an engine that takes texts gives no rows: writer."
    assert (note in said) == (page in OF_POSITIONS)


def test_the_overview_says_what_it_is(store: Path, open_app: OpenApp) -> None:
    said = text(open_app(store))
    assert "writes only" in said and said.count(">not measured<") >= 5


def test_roots_stand_beside_the_places(store: Path, open_app: OpenApp) -> None:
    assert "of 6 places where it was asked" in text(open_app(store, "views/branches.py"))


def test_rollouts_say_where_they_were_cut(store: Path, open_app: OpenApp) -> None:
    said = text(open_app(store, "views/rollouts.py"))
    assert "but not of writer: its server writes nothing behind one" in said
