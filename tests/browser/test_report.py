"""The report in a real browser without a network: it asks for nothing, and shows what is stored."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from drift_runs.report import build
from drift_runs.report.content import find_campaign
from drift_runs.report.figures import write_number
from tests.ui.synthetic import HOSTILE_TITLE, InventedStore

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    from tests.browser.conftest import OpenPage

UNITS = {"flip": ("flip", "rate", "share"), "mean": ("kl.full", "mean", "nats"), "p95": ("kl.full", "p95", "nats")}


@pytest.fixture(scope="module")
def file(store: InventedStore, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    campaign = find_campaign(store.uri, "latest")
    text = build.report_html(store.uri, campaign, outliers="both", now_ms=int(time.time() * 1000))
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture
def page(browser: Browser, file: Path) -> Iterator[Page]:
    """The file in a browser that is cut off from every network; a request or a message of its console is a fault."""
    context = browser.new_context(viewport={"width": 1440, "height": 900}, offline=True, color_scheme="dark")
    opened = context.new_page()
    faults: list[str] = []
    opened.on("console", lambda message: faults.append(message.text))
    opened.on("pageerror", lambda error: faults.append(str(error)))
    opened.on("request", lambda request: faults.append(request.url) if request.url != file.as_uri() else None)
    opened.goto(file.as_uri())
    yield opened
    context.close()
    assert not faults, faults


def test_figures_on_the_page_are_the_stored_ones(page: Page, store: InventedStore) -> None:
    table = page.get_by_role("table", name="Candidates")
    rows = table.locator("tbody tr")
    assert rows.count() == 10, "five ranked candidates, with and without outliers"
    for row in rows.all():
        arm, outliers = row.get_attribute("data-arm"), row.get_attribute("data-outliers")
        assert arm and outliers
        for figure, (spec, statistic, unit) in UNITS.items():
            stored = store.figure(arm, spec, statistic, outliers)
            shown = row.locator(f"[data-figure={figure}] .value").inner_text()
            assert shown == write_number(stored["value"], unit, low=stored["low"], high=stored["high"])


def test_texts_and_charts_are_there_and_nothing_ran(page: Page) -> None:
    assert page.title() == "Drift report: Invented campaign"
    assert HOSTILE_TITLE in page.get_by_role("table", name="Candidates").inner_text()
    assert page.locator("figure svg").count() == 4
    assert page.locator("figure svg").first.bounding_box()["height"] > 100
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def test_it_is_dark_ink_on_white_paper_whatever_the_browser_prefers(page: Page) -> None:
    colours = page.evaluate("[getComputedStyle(document.documentElement)].map(s => [s.backgroundColor, s.color])[0]")
    assert colours[0] == "rgb(255, 255, 255)" and colours[1] == "rgb(38, 42, 51)"


def test_it_prints_to_a4_pages_that_nothing_sticks_out_of(page: Page) -> None:
    printed = page.pdf(prefer_css_page_size=True, print_background=True)
    assert printed.startswith(b"%PDF")
    assert b"841.9" in printed or b"842" in printed, "A4 across is 842 points wide"
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 1047, "height": 700})  # 277 mm: A4 across without its margins
    wide = page.evaluate(
        "[...document.querySelectorAll('table, figure')].filter(e => e.getBoundingClientRect().right > 1048)"
        ".map(e => e.getAttribute('aria-label') || e.dataset.chart)"
    )
    assert wide == []


def test_the_page_protocol_hands_the_same_file_out(open_page: OpenPage, file: Path, tmp_path: Path) -> None:
    page = open_page("protocol?v=1&outliers=both")
    with page.expect_download(timeout=60_000) as download:
        page.get_by_role("button", name="Report (HTML)").click()
    assert download.value.suggested_filename.startswith("drift-invented-v2-")
    download.value.save_as(tmp_path / "got.html")
    wanted, got = (path.read_text(encoding="utf-8").partition("<footer>")[0] for path in (file, tmp_path / "got.html"))
    assert got == wanted
