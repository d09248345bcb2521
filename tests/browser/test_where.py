"""Tails, determinism, the text of a range and outliers in a real browser: figures, hostile text, keyboard, address."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dashboard.figures import write_number
from dashboard.screenshot import settled
from drift_runs.tracking.reader import load_rows
from tests.browser.conftest import OpenPage
from tests.browser.test_dashboard import chosen, click_switch, query, wait_for_address
from tests.ui.synthetic import OUTLIER, InventedStore

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

HOSTILE_RANGE = "ranges?v=1&arm=q4_0&span=sql-1-0"


def cell(page: Page, table: str, arm: str, figure: str, outliers: str) -> Locator:
    row = page.locator(f'table[aria-label="{table}"] tr[data-arm="{arm}"]')
    return row.and_(page.locator(f'[data-outliers="{outliers}"]')).locator(f'td[data-figure="{figure}"]')


def stored(store: InventedStore, arm: str, statistic: str, outliers: str, unit: str = "nats") -> str:
    row = store.figure(arm, "kl.full", statistic, outliers)
    return write_number(row["value"], unit, low=row["low"], high=row["high"])


def tip(token: Locator) -> str:
    """What the browser draws for a token that is pointed at or focused; ``none`` where it draws nothing."""
    return token.evaluate("element => getComputedStyle(element, '::after').content")


def test_tails_show_the_stored_quantiles_of_each_set(open_page: OpenPage, store: InventedStore) -> None:
    page = open_page("tails")
    for statistic in ("p90", "p95", "max"):
        value = cell(page, "Quantiles", "q4_0", statistic, "with").locator(".dr-value").inner_text()
        assert value == stored(store, "q4_0", statistic, "with")
    click_switch(page, "without")
    page.wait_for_selector('table[aria-label="Quantiles"] tr[data-outliers="without"]')
    value = cell(page, "Quantiles", "q4_0", "p95", "without").locator(".dr-value").inner_text()
    assert value == stored(store, "q4_0", "p95", "without")
    click_switch(page, "both")
    page.wait_for_selector('table[aria-label="Quantiles"] tr[data-outliers="with"]')
    assert page.get_by_text("incl. outlier").first.is_visible()
    fresh = open_page(page.url)
    assert chosen(fresh) == "both" and query(fresh) == query(page)


def test_determinism_shows_what_was_found(open_page: OpenPage, store: InventedStore) -> None:
    page = open_page("determinism?v=1&outliers=without")
    rows = store.figure("launch", "kl.full", "mean", "without")["n"]
    assert cell(page, "Determinism", "launch", "windows_identical", "without").inner_text() == "6 of 6"
    said = cell(page, "Determinism", "micro-batch", "rows_identical", "without").inner_text()
    assert said.startswith(f"0 of {rows:,}")
    assert page.get_by_text("2 of 2 floors are as the protocol expects").is_visible()


def test_a_hostile_text_is_shown_harmlessly(open_page: OpenPage) -> None:
    page = open_page(HOSTILE_RANGE)
    tokens = page.locator(".dr-tokens")
    shown = tokens.inner_text()
    assert "<img src=x onerror=alert(1)>" in shown and "\\u001b[31m" in shown and "\x1b" not in shown
    assert tokens.locator("img, script, a, iframe").count() == 0
    assert page.locator("[onerror], [onclick]").count() == 0


def test_a_token_says_what_both_sides_gave_by_keyboard_and_by_pointing(
    open_page: OpenPage, store: InventedStore
) -> None:
    page = open_page("ranges?v=1&arm=ablated&span=call-1-1")
    run = next(arm.run_id for arm in store.records() if arm.arm == "ablated")
    rows = {row["position"]: row for row in load_rows(store.uri, run, "call-1").to_pylist()}
    first = page.locator('.dr-tok[data-position="340"]')
    second = page.locator('.dr-tok[data-position="341"]')
    assert tip(first) == "none"
    first.focus()
    assert "position 340" in tip(first)
    page.keyboard.press("Tab")
    assert tip(first) == "none" and "position 341" in tip(second)
    assert f"kl.full {write_number(rows[341]['kl_full_nats'], 'nats')} nats" in tip(second)
    assert f"P {rows[341]['reference_p1']:.4f}" in tip(second)
    first.hover()
    assert "position 340" in tip(first)
    assert page.evaluate("document.activeElement.dataset.position") == "341"


def test_the_range_and_its_colours_are_in_the_address(open_page: OpenPage) -> None:
    page = open_page("ranges?v=1&arm=ablated")
    page.get_by_role("radio", name="flips", exact=True).click()
    settled(page)
    wait_for_address(page, "colouring", "flip")
    assert page.locator(".dr-tokens .dr-flip-on").count() == page.locator('.dr-tokens [data-flip="yes"]').count() > 0
    page.get_by_role("combobox", name="Range").last.click()
    page.get_by_role("option", name="sql-1-0 (sql)").click()
    settled(page)
    wait_for_address(page, "span", "sql-1-0")
    page.wait_for_selector('[data-range-text="sql-1-0"]')
    page.reload()
    settled(page)
    assert page.locator('[data-range-text="sql-1-0"]').is_visible()
    fresh = open_page(page.url)
    assert fresh.locator('[data-range-text="sql-1-0"]').is_visible()
    assert query(fresh)["colouring"] == ["flip"] and query(fresh) == query(page)


def test_outliers_stand_both_ways_with_their_difference(open_page: OpenPage, store: InventedStore) -> None:
    page = open_page("outliers")
    label = 'table[aria-label="Aggregates with and without outliers"]'
    row = page.locator(f'{label} tr[data-arm="q4_0"][data-row="mean"]')
    for outliers in ("with", "without"):
        value = row.locator(f'td[data-outliers="{outliers}"] .dr-value').inner_text()
        assert value == stored(store, "q4_0", "mean", outliers)
    with_, without = (store.figure("q4_0", "kl.full", "mean", kind)["value"] for kind in ("with", "without"))
    sign = "+" if with_ > without else "-"
    assert row.locator('td[data-figure="mean.difference"]').inner_text().startswith(sign)
    assert page.locator('table[aria-label="Declared outlier windows"]').inner_text().count(OUTLIER) == 1


@pytest.mark.parametrize("path", ["tails", "determinism", HOSTILE_RANGE, "outliers?v=1&outliers=both"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_is_wider_than_a_small_window(path: str, scheme: str, open_page: OpenPage) -> None:
    page = open_page(path, scheme=scheme, width=1024)
    main = page.locator("[data-testid=stMain]")
    assert main.evaluate("element => element.scrollWidth <= element.clientWidth")
