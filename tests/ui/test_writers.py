"""Pages of a campaign with an arm that writes and has no rows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from drift_runs.weights.hf_folder import write_hf_folder
from tests.campaigns import Campaign
from tests.conftest import TINY, tiny_dictionary
from tests.engines.llama_server_process import llama_server
from tests.test_campaign_writers import between, miscounted, prepared
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
    said = text(open_app(store, "views/branches.py"))
    assert "of 6 places where it was asked" in said
    assert "The commonest outcome is changes: 3 of 6 roots." in said, "the other arm's six alone are ranked"


def test_rollouts_say_where_they_were_cut(store: Path, open_app: OpenApp) -> None:
    said = text(open_app(store, "views/rollouts.py"))
    assert "but not of writer: its server writes nothing behind one" in said


@pytest.fixture(scope="module")
def refusing(tmp_path_factory: pytest.TempPathFactory, tiny_arms: Path, empty_database: Path) -> Path:
    """Its server cannot be asked one prompt of three and one task of two."""
    folder = tmp_path_factory.mktemp("refusing")
    write_hf_folder(tiny_arms.parent / "f16.gguf", folder / "tokenizer", dtype="float16")
    task = {"check": "pattern", "expected": ["[a-z]"], "horizon_tokens": 6}
    tasks = [{"name": "first", "window": "beta", "at": 6, **task}, {"name": "other", "window": "odd", "at": 5, **task}]
    odd = json.loads((TINY / "streams" / "odd.json").read_text("utf-8"))["tokens"][:5]
    history = b"".join(tiny_dictionary()[number] for number in odd).decode()
    with (
        llama_server(tiny_arms.parent / "q4_0.gguf") as server,
        between(server, miscounted(lambda prompt: prompt == history or "cd e" in prompt)) as running,
    ):
        changes = {"tasks": tasks}
        campaign = prepared(folder / "campaign", tiny_arms, empty_database, running.url, folder / "tokenizer", changes)
        result = campaign.run()
    assert result.failed == () and result.failed_generation == ()
    return campaign.store.root


def test_what_could_not_be_asked_is_said_and_counted(refusing: Path, open_app: OpenApp) -> None:
    said = text(open_app(refusing, "views/rollouts.py", v="1", arm="writer"))
    assert "was not rolled out from 1 of 3 prompts that its server cannot be asked" in said
    assert "was not asked 1 of 2 tasks that its server cannot be asked" in said


@pytest.mark.parametrize("page", PAGES)
def test_every_page_opens_where_some_of_it_is_not_there(refusing: Path, open_app: OpenApp, page: str) -> None:
    assert text(open_app(refusing, f"views/{page}", v="1", arm="writer"))
