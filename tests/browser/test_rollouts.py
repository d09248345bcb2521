"""Rollouts, tasks and history in a real Chromium, on a real campaign of the tiny model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from dashboard.figures import write_number
from dashboard.screenshot import chromium_path, served, settled
from drift_runs.tracking import reader
from tests.browser.test_dashboard import query, wait_for_address
from tests.campaigns import Campaign
from tests.test_campaign_generation import prepared

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Page


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory, tiny_arms: Path) -> Campaign:
    if chromium_path() is None:
        pytest.skip("no Chromium: install it, or name it in DRIFT_CHROMIUM")
    made = prepared(tmp_path_factory.mktemp("browser-rollouts"), tiny_arms)
    made.run()
    return made


@pytest.fixture(scope="module")
def address(campaign: Campaign, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with served(campaign.root, log=tmp_path_factory.mktemp("server") / "log.txt") as url:
        yield url


def test_the_prompts_side_by_side_follow_the_choice_and_the_address_reopens_them(
    open_page, address: str, campaign: Campaign
) -> None:
    page: Page = open_page("rollouts?v=1&arm=q4_0&prompt=three")
    row = page.locator('table[aria-label="Both rollouts"] tbody tr')
    assert row.get_attribute("data-prompt") == "three"
    (record,) = campaign.records()
    tokens = next(
        found["tokens"]
        for found in reader.load_rollouts(campaign.uri, record.run_id).to_pylist()
        if found["prompt"] == "three"
    )
    shown = row.locator("td").first.inner_text()
    assert all(token in shown for token in tokens if token.isalpha())
    # The text is reached by keyboard alone.
    row.locator("td").first.focus()
    assert page.evaluate("document.activeElement.dataset.side") == "f16"
    page.get_by_role("combobox", name="Prompt (3", exact=False).click()
    page.get_by_role("option", name="one", exact=False).click()
    page.wait_for_selector('table[aria-label="Both rollouts"] tr[data-prompt="one"]')
    wait_for_address(page, "prompt", "one")
    fresh = open_page(page.url)
    assert fresh.locator('table[aria-label="Both rollouts"] tr[data-prompt="one"]').count() == 1
    assert query(fresh) == query(page)


def test_the_overview_shows_every_leading_figure_without_scrolling_sideways(open_page, campaign: Campaign) -> None:
    page: Page = open_page("?v=1", width=1440)
    found = page.evaluate(
        """() => {
            const table = document.querySelector('table[aria-label="Candidates"]');
            const edge = table.parentElement.getBoundingClientRect().right;
            const cells = [...table.querySelectorAll('tr[data-arm] td[data-figure]')];
            return cells.map(cell => [cell.dataset.figure, edge - cell.getBoundingClientRect().right]);
        }"""
    )
    leading = {"flip", "mean", "p95", "worst", "strong", "invalid", "exact", "prefix", "passed"}
    assert leading <= {name for name, _ in found}
    assert all(room > -1 for _, room in found), found
    row = page.locator('table[aria-label="Candidates"] tr[data-arm="q4_0"]')
    (record,) = campaign.records()
    run_id = next(arm.run_id for arm in record.arms if arm.arm == "q4_0")
    wanted = ("rollout.prefix", "share", "all", "with")
    (stored,) = (
        figure
        for figure in reader.load_generation_figures(campaign.uri, run_id).to_pylist()
        if tuple(figure[name] for name in ("spec", "statistic", "scope_kind", "outliers")) == wanted
    )
    words = write_number(stored["value"], "share", low=stored["low"], high=stored["high"])
    assert row.locator('td[data-figure="prefix"] .dr-value').inner_text() == words
    assert "Run again:" in page.locator("[data-say=candidates]").inner_text()


def test_every_chart_is_drawn_and_nothing_is_wider_than_the_page(open_page) -> None:
    for width in (1440, 1024):
        page: Page = open_page("rollouts", width=width)
        # Readings, first differences, sampled, tasks by arms.
        page.wait_for_function("document.querySelectorAll('[data-testid=stVegaLiteChart]').length === 4")
        settled(page)
        over = page.evaluate(
            "(() => { const main = document.querySelector('[data-testid=stMain]');"
            " return main.scrollWidth - main.clientWidth; })()"
        )
        assert over <= 0, width


def test_a_history_of_one_campaign_says_so(open_page) -> None:
    page: Page = open_page("history")
    settled(page)
    assert page.get_by_text("campaigns of", exact=False).first.is_visible()
