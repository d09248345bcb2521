"""One reference on two machines in a real Chromium: figures, charts, the CSV, and the way to the other campaign."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dashboard.figures import write_number
from dashboard.screenshot import chromium_path, served, settled
from tests.ui.pair import Travelled, travelled_pair

if TYPE_CHECKING:
    from playwright.sync_api import Page

HEADLINE = "kl.topk-tail@8"
ARMS = ("q8_0", "q4_0", "kv-q4_0")


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory, tiny_arms: Path, empty_database: Path) -> Travelled:
    if chromium_path() is None:
        pytest.skip("no Chromium: install it, or name it in DRIFT_CHROMIUM")
    return travelled_pair(tmp_path_factory.mktemp("browser-machines"), tiny_arms, empty_database)


@pytest.fixture(scope="module")
def address(pair: Travelled, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with served(pair.root, log=tmp_path_factory.mktemp("server") / "log.txt") as url:
        yield url


@pytest.mark.parametrize("width", [1024, 1440])
def test_the_panels_fit_the_page(width: int, open_page, address: str) -> None:
    page: Page = open_page("?v=1&outliers=both", width=width)
    page.wait_for_selector('table[aria-label="On other machines"]', state="attached")
    found = page.evaluate(
        """() => [...document.querySelectorAll('[data-testid=stVegaLiteChart]')].map(chart => [
            chart.querySelector('svg, canvas').getBoundingClientRect().width, chart.getBoundingClientRect().width])"""
    )
    assert len(found) >= 4 and all(drawn <= room + 1 for drawn, room in found), found


def test_figures_charts_csv_and_the_link_to_the_other_campaign(open_page, address: str, pair: Travelled) -> None:
    page: Page = open_page(f"?v=1&campaign={pair.second.run_id}")
    table = page.locator('table[aria-label="On other machines"]')
    for record in (pair.first, pair.second):
        for arm in ARMS if record is pair.first else ("f16-here", *ARMS):
            row = table.locator(f'tr[data-arm="{arm}"][data-campaign="{record.run_id}"]')
            for key, spec, statistic, unit in (("flip", "flip", "rate", "share"), ("mean", HEADLINE, "mean", "nats")):
                stored = pair.summary(record, arm, spec, statistic)
                shown = row.locator(f'td[data-figure="{key}"] .dr-value').inner_text()
                assert shown == write_number(stored["value"], unit, low=stored["low"], high=stored["high"]), (arm, key)
    drawn = page.locator("[data-testid=stVegaLiteChart]").filter(has=page.locator("svg, canvas"))
    names = [drawn.nth(at).get_attribute("aria-label") or drawn.nth(at).inner_html() for at in range(drawn.count())]
    assert sum("by machine, a panel an arm" in name for name in names) == 2

    with page.expect_download() as download:
        page.locator(".st-key-csv-machines button").click()
    with Path(download.value.path()).open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 7 * 3
    for row in rows:
        record = pair.first if row["campaign"] == pair.first.run_id else pair.second
        stored = pair.summary(record, row["arm"], row["spec"], row["statistic"])
        assert row["value"] == ("" if stored["value"] is None else repr(stored["value"])) and row["n"] == str(
            stored["n"]
        )
        assert row["hardware"] == stored["hardware"] and row["reference_run"] == record.reference_run

    table.locator(f'tr[data-arm="q8_0"][data-campaign="{pair.first.run_id}"] a').click()
    page.wait_for_function("id => new URLSearchParams(location.search).get('campaign') === id", arg=pair.first.run_id)
    settled(page)
    link = page.locator(f'table[aria-label="On other machines"] tr[data-campaign="{pair.first.run_id}"] td')
    assert "shown above" in link.filter(has=page.locator("a")).first.inner_text()
