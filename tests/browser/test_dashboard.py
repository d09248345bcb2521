"""What a person sees and clicks: figures on the page equal the stored ones, and the address carries the view."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

import pytest

from dashboard.figures import write_number
from dashboard.screenshot import settled
from drift_runs.tracking.reader import load_answers
from tests.browser.conftest import OpenPage
from tests.ui.synthetic import HOSTILE_TITLE, OUTLIER, InventedStore

if TYPE_CHECKING:
    from playwright.sync_api import Page

PATHS = (
    "",
    "measures?v=1&arm=q8_0",
    "ranges",
    "rows?v=1&arm=ablated&listed=kl",
    "answers?v=1&arm=ablated",
    "compare",
    "outliers",
    "published",
)
SWITCH = {"with": "with outliers", "without": "without outliers", "both": "side by side"}


def click_switch(page: Page, outliers: str) -> None:
    page.get_by_role("radio", name=SWITCH[outliers], exact=True).click()
    settled(page)


def chosen(page: Page) -> str:
    label = page.get_by_role("radio", checked=True).first.inner_text()
    return next(key for key, words in SWITCH.items() if words == label)


def value_on_page(page: Page, arm: str, figure: str, outliers: str) -> str:
    """The number itself, as it stands in the cell."""
    row = page.locator(f'table[aria-label="Candidates"] tr[data-arm="{arm}"][data-outliers="{outliers}"]')
    return row.locator(f'td[data-figure="{figure}"] .dr-value').inner_text()


def stored(store: InventedStore, arm: str, spec: str, statistic: str, outliers: str, unit: str) -> str:
    row = store.figure(arm, spec, statistic, outliers)
    return write_number(row["value"], unit, low=row["low"], high=row["high"])


def wait_for_address(page: Page, name: str, value: str) -> None:
    """Wait until the address has this value: it is written a moment after the page."""
    page.wait_for_function(
        "([name, value]) => new URLSearchParams(location.search).getAll(name).includes(value)", arg=[name, value]
    )


def query(page: Page) -> dict[str, list[str]]:
    return parse_qs(urlsplit(page.url).query)


# First, while the server has seen nobody: a link to a page must not depend on an earlier visit to the front page.
@pytest.mark.parametrize("path", ["ranges?v=1&outliers=both", "measures?v=1&outliers=without"])
def test_a_link_to_another_page_opens_it_as_it_was(path: str, open_page: OpenPage) -> None:
    page = open_page(path)
    assert f"outliers={chosen(page)}" in path
    assert page.get_by_role("link", name="Overview").is_visible()
    assert urlsplit(page.url).path == "/" + path.partition("?")[0]


def test_the_switch_shows_the_stored_figure_and_the_address_reopens_it(
    open_page: OpenPage, store: InventedStore
) -> None:
    page = open_page()
    before = value_on_page(page, "q4_0", "mean", "with")
    assert before == stored(store, "q4_0", "kl.full", "mean", "with", "nats")
    click_switch(page, "without")
    page.wait_for_selector('tr[data-arm="q4_0"][data-outliers="without"]')
    after = value_on_page(page, "q4_0", "mean", "without")
    assert after == stored(store, "q4_0", "kl.full", "mean", "without", "nats")
    assert after != before
    assert value_on_page(page, "q8_0", "flip", "without") == stored(store, "q8_0", "flip", "rate", "without", "share")
    assert query(page)["outliers"] == ["without"]
    assert query(page)["v"] == ["1"] and query(page)["campaign"] == [store.campaign]

    page.reload()
    settled(page)
    assert value_on_page(page, "q4_0", "mean", "without") == after
    fresh = open_page(page.url)
    assert chosen(fresh) == "without"
    assert value_on_page(fresh, "q4_0", "mean", "without") == after
    assert query(fresh) == query(page)


def test_side_by_side_shows_both_with_a_badge(open_page: OpenPage, store: InventedStore) -> None:
    page = open_page()
    click_switch(page, "both")
    page.wait_for_selector('tr[data-arm="q8_0"][data-outliers="without"]')
    for outliers in ("with", "without"):
        assert value_on_page(page, "q8_0", "mean", outliers) == stored(
            store, "q8_0", "kl.full", "mean", outliers, "nats"
        )
    assert page.get_by_text("incl. outlier").first.is_visible()


def test_the_view_goes_along_through_the_navigation(open_page: OpenPage) -> None:
    page = open_page()
    click_switch(page, "without")
    page.get_by_role("link", name="Ranges").click()
    page.wait_for_selector('table[aria-label="Ranges"]')
    settled(page)
    assert chosen(page) == "without" and query(page)["outliers"] == ["without"]
    assert page.locator(f'tr[data-range="{OUTLIER}-0"]').count() == 0
    page.get_by_role("link", name="Outliers").click()
    page.wait_for_selector('table[aria-label="Declared outlier windows"]')
    settled(page)
    assert chosen(page) == "without"


def test_the_new_pages_show_what_is_stored_and_keep_their_choices_in_the_address(
    open_page: OpenPage, store: InventedStore
) -> None:
    page = open_page("measures?v=1&arm=q4_0&arms=q8_0&arms=q4_0")
    row = store.figure("q4_0", "dnll", "mean", "with")
    cell = page.locator('tr[data-spec="dnll"][data-statistic="mean"] .dr-value')
    assert cell.inner_text() == write_number(row["value"], "nats", low=row["low"], high=row["high"])
    # Definitions by arm, history, depth.
    page.wait_for_function("document.querySelectorAll('[data-testid=stVegaLiteChart]').length === 3")

    page.get_by_role("link", name="Rows").click()
    page.wait_for_selector('table[aria-label="Rows"]')
    settled(page)
    wait_for_address(page, "arm", "q4_0")  # it goes along
    page.get_by_role("radio", name="largest divergence", exact=True).click()
    page.wait_for_function("document.querySelector('h3')?.innerText.startsWith('Largest divergence')")
    settled(page)
    wait_for_address(page, "listed", "kl")
    assert page.locator(".dr-text img, .dr-text script, .dr-text a").count() == 0
    assert "<img src=x onerror=alert(1)>" in page.locator('table[aria-label="Rows"]').inner_text()

    page.get_by_role("link", name="Compare").click()
    page.wait_for_selector('table[aria-label="Pairs"]')
    settled(page)
    assert (
        page.locator('tr[data-left="q8_0"][data-right="q4_0"] td[data-figure="sign_flip"]')
        .inner_text()
        .startswith("p ")
    )
    wait_for_address(page, "figure", "kl.full/mean")

    page.get_by_role("link", name="Published").click()
    page.wait_for_selector("text=none of them is ranked")
    settled(page)
    page.get_by_text("published, not recomputable").first.wait_for()
    wait_for_address(page, "campaign", store.campaign)


def test_a_link_to_the_answers_of_an_arm_marks_where_each_goes_wrong(open_page: OpenPage, store: InventedStore) -> None:
    page = open_page("answers?v=1&arm=ablated&sort=answers&order=asc")
    run_id = next(record.run_id for record in store.records() if record.arm == "ablated")
    stored = {row["answer"]: row for row in load_answers(store.uri, run_id).to_pylist()}
    rows = page.locator('table[aria-label="Lost answers"] tbody tr')
    assert rows.count() == sum(bool(row["reference_exact"] and row["exact"] is False) for row in stored.values())
    first = rows.first
    row = stored[first.get_attribute("data-answer")]
    marks = first.locator(".dr-text b")
    assert marks.count() == 2 and marks.first.is_visible()
    assert marks.first.inner_text().replace("\u2423", " ") == row["text"][row["wrong_from"] : row["wrong_to"]]
    assert marks.last.inner_text().replace("\u2423", " ") == row["candidate_text"]
    assert page.locator("[data-testid=stVegaLiteChart]").count() == 2
    assert page.locator('table[aria-label="Exact answers"] tbody tr').first.get_attribute("data-arm") == "f16"
    assert query(page)["arm"] == ["ablated"] and query(page)["sort"] == ["answers"]


def test_hostile_text_stays_text(open_page: OpenPage) -> None:
    page = open_page()
    title = page.locator('tr[data-arm="q4_0"] th').first
    assert HOSTILE_TITLE in title.inner_text()
    assert page.title() != "owned"
    assert page.locator('tr[data-arm="q4_0"] a, tr[data-arm="q4_0"] img, tr[data-arm="q4_0"] script').count() == 0
    noted = open_page("?v=1&outliers=%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E")
    assert noted.get_by_role("alert").filter(has_text="<img src=x").is_visible()
    assert noted.locator("img[src=x]").count() == 0


def test_a_filter_and_a_sort_are_in_the_address(open_page: OpenPage) -> None:
    page = open_page("?v=1&kv=q4_0&kv=f16&sort=flip&order=asc")
    rows = page.locator('table[aria-label="Candidates"] tbody tr')
    arms = [rows.nth(at).get_attribute("data-arm") for at in range(rows.count())]
    assert arms[0] == "fa-off" and arms[-1] == "ablated"
    page.get_by_role("radio", name="largest first", exact=True).click()
    page.wait_for_function("document.querySelector('table tbody tr').dataset.arm === 'ablated'")
    settled(page)
    assert query(page)["order"] == ["desc"] and query(page)["kv"] == ["q4_0", "f16"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_is_readable_in_both_schemes(scheme: str, open_page: OpenPage) -> None:
    selectors = {
        "": (".dr-value", ".dr-small", ".dr-chip", ".dr-question"),
        "rows?v=1&arm=ablated&listed=kl": (".dr-text", ".dr-text b", ".dr-token"),
        "measures?v=1&arm=q8_0": (".dr-spec", ".dr-title"),
    }
    for path, found in selectors.items():
        page = open_page(path, scheme=scheme)
        for selector in found:
            assert contrast(page, selector) >= 4.5, (scheme, selector)


def contrast(page: Page, selector: str) -> float:
    """WCAG contrast of an element's ink on the page, its own opacity counted in."""
    page.locator(selector).first.wait_for()
    return page.evaluate(
        """selector => {
            const element = document.querySelector(selector);
            const parse = text => (text.match(/[\\d.]+/g) || []).map(Number);
            const back = parse(getComputedStyle(document.querySelector('[data-testid=stApp]')).backgroundColor);
            const style = getComputedStyle(element), ink = parse(style.color), alpha = Number(style.opacity);
            const mixed = ink.slice(0, 3).map((part, at) => part * alpha + back[at] * (1 - alpha));
            const light = rgb => rgb.slice(0, 3).map(part => part / 255)
                .map(part => part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)
                .reduce((sum, part, at) => sum + part * [0.2126, 0.7152, 0.0722][at], 0);
            const [high, low] = [light(mixed), light(back)].sort((a, b) => b - a);
            return (high + 0.05) / (low + 0.05);
        }""",
        selector,
    )


@pytest.mark.parametrize("width", [1440, 1024])
def test_nothing_is_wider_than_the_page(width: int, open_page: OpenPage) -> None:
    for path in PATHS:
        page = open_page(path, width=width)
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        main = page.evaluate(
            "(() => { const main = document.querySelector('[data-testid=stMain]');"
            " return main.scrollWidth - main.clientWidth; })()"
        )
        assert main <= 0, (path, width)


def test_a_table_is_handed_out_at_full_precision(open_page: OpenPage, store: InventedStore) -> None:
    page = open_page()
    with page.expect_download() as download:
        page.get_by_role("button", name="CSV").first.click()
    assert download.value.suggested_filename == "invented-v2-candidates-with.csv"
    text = download.value.path().read_text("utf-8")
    assert repr(store.figure("q4_0", "kl.full", "mean", "with")["value"]) in text
