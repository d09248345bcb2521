"""The overview and the comparison of arms in a browser: stored figures, groups, plots, and what the address keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dashboard.figures import write_number
from dashboard.screenshot import settled
from tests.browser.conftest import OpenPage
from tests.ui.synthetic import ARMS, HOSTILE_TITLE, InventedStore

if TYPE_CHECKING:
    from playwright.sync_api import Page


def stored(store: InventedStore, arm: str, spec: str, statistic: str, unit: str) -> str:
    row = store.figure(arm, spec, statistic, "with")
    return write_number(row["value"], unit, low=row["low"], high=row["high"])


def wait_for_address(page: Page, name: str, value: str) -> None:
    page.wait_for_function(
        "([name, value]) => new URLSearchParams(location.search).getAll(name).includes(value)", arg=[name, value]
    )


def choose(page: Page, label: str, option: str) -> None:
    """Choose an option of a select box by keyboard, as a person may."""
    box = page.get_by_role("combobox", name=label)
    box.click()
    box.fill(option)
    box.press("Enter")
    settled(page)


def test_figures_on_screen_are_the_stored_ones_and_groups_are_in_the_address(
    open_page: OpenPage, store: InventedStore
) -> None:
    page = open_page("?v=1&group=weights")
    for arm in ("q8_0", "q4_0", "ablated"):
        row = page.locator(f'table[aria-label="Candidates"] tr[data-arm="{arm}"]')
        for key, spec, statistic, unit in (
            ("flip", "flip", "rate", "share"),
            ("p99", "kl.full", "p99", "nats"),
            ("strong", "strong_overturn", "count", "count"),
        ):
            shown = row.locator(f'td[data-figure="{key}"] .dr-value').inner_text()
            assert shown == stored(store, arm, spec, statistic, unit), (arm, key)
    groups = page.locator('table[aria-label="Candidates"] tr[data-group]')
    names = [groups.nth(at).get_attribute("data-group") for at in range(groups.count())]
    assert sorted(names) == sorted({ARMS[arm].weights for arm in ARMS if ARMS[arm].role == "candidate"})

    choose(page, "Group by", "KV")
    wait_for_address(page, "group", "kv")
    page.wait_for_selector('tr[data-group="q4_0"]')
    assert page.locator('tr[data-group="f16"]').first.inner_text().startswith("KV f16")


def test_a_plot_is_chosen_and_its_address_opens_it_again(open_page: OpenPage, store: InventedStore) -> None:
    page = open_page("?v=1&group=derivative")
    choose(page, "Figure (of", "flip rate (flip)")
    wait_for_address(page, "plot", "flip/rate")
    page.wait_for_function("document.querySelector('[data-say=plot]').innerText.includes('%')")
    said = page.locator("[data-say=plot]").inner_text()
    values = {
        arm: store.figure(arm, "flip", "rate", "with")["value"]
        for arm in ARMS
        if ARMS[arm].role in ("candidate", "follow-up") and not ARMS[arm].against
    }
    most = max(values, key=values.__getitem__)
    assert f"to {stored(store, most, 'flip', 'rate', 'share')} ({most})" in said
    fresh = open_page(page.url)
    assert fresh.locator("[data-say=plot]").inner_text() == said
    assert fresh.locator("[data-testid=stVegaLiteChart]").count() == 2


@pytest.mark.parametrize("width", [1440, 1024])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_first_column_stays_in_sight_and_hides_what_scrolls_below_it(
    scheme: str, width: int, open_page: OpenPage
) -> None:
    page = open_page("?v=1&outliers=both", width=width, scheme=scheme)
    found = page.evaluate(
        """() => {
            const table = document.querySelector('table[aria-label="Candidates"]'), box = table.parentElement;
            const head = table.querySelector('tbody tr[data-arm] th'), before = head.getBoundingClientRect().left;
            box.scrollLeft = 400;
            return {
                scrolls: box.scrollWidth > box.clientWidth,
                moved: Math.abs(head.getBoundingClientRect().left - before),
                behind: getComputedStyle(head).backgroundColor,
                page: getComputedStyle(document.querySelector('[data-testid=stApp]')).backgroundColor,
                wide: document.documentElement.scrollWidth > window.innerWidth,
            };
        }"""
    )
    assert found["moved"] < 2 and not found["wide"]
    assert found["behind"] == found["page"], "opaque, and the page's own"
    assert found["scrolls"] or width == 1440


def test_arms_are_chosen_and_compared_and_the_address_keeps_them(open_page: OpenPage, store: InventedStore) -> None:
    page = open_page("compare?v=1&arms=q8_0&arms=q4_0&arms=served")
    table = page.locator('table[aria-label="Side by side"]')
    for arm in ("q8_0", "q4_0"):
        cell = table.locator(f'td[data-arm="{arm}"][data-figure="mean"]')
        assert cell.locator(".dr-value").inner_text() == stored(store, arm, "kl.full", "mean", "nats")
    assert table.locator('td[data-figure="mean"][data-mark="best"]').get_attribute("data-arm") == "q8_0"
    assert page.locator('table[aria-label="Shown apart"] td[data-arm="served"]').count() > 0
    assert "served stands apart" in page.locator("[data-say=verdict]").inner_text()
    assert HOSTILE_TITLE in table.locator('th[data-arm="q4_0"]').inner_text() and page.title() != "owned"

    page.get_by_role("combobox", name="Arms side by side").press("Backspace")  # takes the last one away
    page.wait_for_function("!new URLSearchParams(location.search).getAll('arms').includes('served')")
    settled(page)
    assert page.locator('table[aria-label="Shown apart"]').count() == 0
    fresh = open_page(page.url)
    assert fresh.locator('table[aria-label="Side by side"] th[data-arm]').count() == 2
