"""Recording a decision in a real browser: the form, what Overview shows of it, its history, and the tag in MLflow."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from dashboard.screenshot import served, settled
from drift_runs.tracking.decisions import DECISION_PREFIX, load_decisions
from drift_runs.tracking.index import open_index
from drift_runs.tracking.uris import sqlite_uri
from tests.browser.conftest import OpenPage
from tests.ui.synthetic import InventedStore

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Locator, Page

ARM = "q8_0"
REASON = "within the floor on every panel <b>& more</b>"
NAME = "R. Reader"
AGAIN = "two ports differ in router-uplink"


@pytest.fixture(scope="module")
def folder(store: InventedStore, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy: other tests share the invented store, and nothing is decided there."""
    return shutil.copytree(store.folder, tmp_path_factory.mktemp("decided") / "store")


@pytest.fixture(scope="module")
def address(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with served(folder, log=tmp_path_factory.mktemp("server") / "log.txt") as url:
        yield url


def current(page: Page) -> Locator:
    return page.locator(f'table[aria-label="Decisions"] tr[data-arm="{ARM}"]')


def record(page: Page, decision: str, reason: str, name: str | None = None) -> None:
    """Fill the form as a person does, and wait for what it says."""
    form = page.get_by_test_id("stForm")
    if not form.is_visible():
        page.get_by_text("Decide about an arm").click()
    form.get_by_role("radio", name=decision, exact=True).click()
    if name is not None:
        form.get_by_role("textbox", name="Your name").fill(name)
    form.get_by_role("textbox", name="Reason").fill(reason)
    form.get_by_role("button", name="Record the decision").click()
    page.locator('[data-say="decided"]', has_text=f"Recorded: {ARM} is {decision}, by {NAME}.").wait_for()
    settled(page)


def test_a_decision_is_recorded_shown_and_kept_under_the_next(
    open_page: OpenPage, store: InventedStore, folder: Path
) -> None:
    page = open_page(f"?v=1&arm={ARM}&outliers=without")
    assert current(page).get_attribute("data-decision") == "open"
    record(page, "accepted", REASON, NAME)
    assert current(page).get_attribute("data-decision") == "accepted"
    for text in (REASON, NAME):
        assert text in current(page).inner_text()
    assert current(page).locator("b").count() == 0, "a reason is text"

    record(page, "rejected", AGAIN)  # the name is still there
    assert current(page).get_attribute("data-decision") == "rejected"
    page.get_by_text("Every decision (2)").click()
    entries = page.locator('table[aria-label="All decisions"] tbody tr')
    entries.first.wait_for()
    shown = {(row.get_attribute("data-decision"), row.locator("td").nth(2).inner_text()) for row in entries.all()}
    assert shown == {("accepted", REASON), ("rejected", AGAIN)}

    # A fresh visitor sees what counts, and the link of a decision opens the view that it was made in.
    other = open_page(f"?v=1&arm={ARM}")
    assert current(other).get_attribute("data-decision") == "rejected"
    current(other).get_by_role("link", name="open").click()
    other.wait_for_selector(f'tr[data-arm="{ARM}"][data-outliers="without"]')

    uri = sqlite_uri(folder / "mlflow.db")
    campaign = open_index(uri).campaign(store.campaign)
    assert campaign is not None
    kept = [(entry.decision, entry.reason, entry.name) for entry in load_decisions(uri, campaign).entries]
    assert sorted(kept) == [("accepted", REASON, NAME), ("rejected", AGAIN, NAME)]
    (run_id,) = (arm.run_id for arm in campaign.arms if arm.arm == ARM)
    assert len(tags_in_mlflow(uri, run_id)) == 2


def tags_in_mlflow(uri: str, run_id: str) -> list[str]:
    from mlflow import MlflowClient

    return [
        name for name in MlflowClient(tracking_uri=uri).get_run(run_id).data.tags if name.startswith(DECISION_PREFIX)
    ]


def test_what_is_missing_is_said_and_nothing_is_recorded(
    open_page: OpenPage, store: InventedStore, folder: Path
) -> None:
    uri = sqlite_uri(folder / "mlflow.db")
    campaign = open_index(uri).campaign(store.campaign)
    assert campaign is not None
    before = len(load_decisions(uri, campaign).entries)
    page = open_page("?v=1&arm=q4_0")
    page.get_by_text("Decide about an arm").click()
    form = page.get_by_test_id("stForm")
    form.get_by_role("textbox", name="Reason").fill("a reason and nothing else")
    form.get_by_role("button", name="Record the decision").click()
    said = page.get_by_role("alert").filter(has_text="Nothing was recorded")
    said.wait_for()
    assert "a decision and your name" in said.inner_text()
    settled(page)
    assert form.get_by_role("textbox", name="Reason").input_value() == "a reason and nothing else", (
        "nothing typed is lost"
    )
    assert len(load_decisions(uri, campaign).entries) == before
