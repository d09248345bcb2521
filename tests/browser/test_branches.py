"""The page of branches in a real browser: the viewer by keyboard, the address, and texts that would do harm."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

import pytest

from dashboard.screenshot import chromium_path, served, settled
from drift_runs.tracking import reader
from tests.browser.conftest import OpenPage
from tests.browser.hostile import ARM, IMAGE, LONG, SCRIPT, TEXTS, Hostile, hostile_store

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Locator, Page


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory, tiny_arms: Path) -> Hostile:
    if chromium_path() is None:
        pytest.skip("no Chromium: install it, or name it in DRIFT_CHROMIUM")
    return hostile_store(tmp_path_factory.mktemp("hostile"), tiny_arms)


@pytest.fixture(scope="module")
def address(hostile: Hostile, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """In place of the invented campaign's server."""
    with served(hostile.campaign.root, log=tmp_path_factory.mktemp("server") / "log.txt") as url:
        yield url


def query(page: Page) -> dict[str, list[str]]:
    return parse_qs(urlsplit(page.url).query)


def opened(open_page: OpenPage, hostile: Hostile, **more: object) -> Page:
    page = open_page(f"branches?v=1&arm={ARM}&root={hostile.window}/{hostile.position}", **more)
    page.locator(".viewer .token").first.wait_for()
    return page


def stream(page: Page, side: int) -> Locator:
    return page.locator(f'.viewer [data-side="{side}"] .stream .token')


def card(page: Page) -> str:
    return page.locator(".viewer .card").inner_text()


def focused(page: Page) -> str:
    """Label of the token that has the focus, inside the component's own tree."""
    return page.evaluate(
        """() => {
            let found = document.activeElement;
            while (found && found.shadowRoot) found = found.shadowRoot.activeElement;
            return found?.getAttribute('aria-label') ?? '';
        }"""
    )


def stored_future(hostile: Hostile) -> dict:
    (record,) = hostile.campaign.records()
    run_id = next(arm.run_id for arm in record.arms if arm.arm == ARM)
    rows = reader.load_futures(hostile.campaign.uri, run_id).to_pylist()
    return next(row for row in rows if hostile.first in row["tokens"])


def test_arrows_move_between_tokens_enter_pins_and_escape_closes(open_page: OpenPage, hostile: Hostile) -> None:
    page = opened(open_page, hostile)
    tokens = stream(page, 1)
    assert page.locator('.viewer .token[tabindex="0"]').count() == 1, "one stop of the Tab key for all tokens"
    tokens.first.focus()
    assert "the root, given" in focused(page) and "given, not chosen" in card(page)
    page.keyboard.press("ArrowRight")
    assert "token 2" in focused(page) and page.locator('.viewer .token[tabindex="0"]').count() == 1
    assert tokens.nth(1).evaluate("node => getComputedStyle(node).outlineStyle") == "solid"
    assert page.locator(".viewer .card .line").count() == 5
    page.keyboard.press("Enter")
    assert tokens.nth(1).get_attribute("aria-pressed") == "true" and "pinned" in card(page)
    page.keyboard.press("ArrowRight")
    assert "token 3" in focused(page) and "token 2 of" in card(page), "a pinned card stays"
    page.keyboard.press("Escape")
    assert not page.locator(".viewer .card").is_visible()
    page.keyboard.press("ArrowUp")
    left = stream(page, 0)
    assert left.nth(min(2, left.count() - 1)).evaluate("node => node.matches(':focus')")
    page.keyboard.press("Home")
    assert left.first.evaluate("node => node.matches(':focus')")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("End")
    assert f"token {tokens.count()}" in focused(page)
    assert not page.locator('.viewer [aria-pressed="true"]').count()


def test_what_a_token_shows_is_what_is_stored(open_page: OpenPage, hostile: Hostile) -> None:
    future = stored_future(hostile)
    page = opened(open_page, hostile)
    tokens = stream(page, 1)
    assert tokens.count() == len(future["tokens"])
    for at in (1, 4):
        tokens.nth(at).hover()
        shown = card(page)
        share = 100 * math.exp(future["logprobs"][at])
        assert f"token {at + 1} of {len(future['tokens'])}, id {future['tokens'][at]}" in shown
        assert f"probability {share:.2f} %" in shown or f"probability {share:.1f} %" in shown
        values = page.locator(".viewer .card .line .value").all_inner_texts()
        wanted = [100 * math.exp(value) for value in future["top_logprobs"][at]]
        assert values == [f"{value:.2f} %" if value < 10 else f"{value:.1f} %" for value in wanted]
    page.locator("h1").hover()
    assert not page.locator(".viewer .card").is_visible()


def test_texts_that_would_do_harm_are_only_shown(open_page: OpenPage, hostile: Hostile) -> None:
    page = opened(open_page, hostile)
    page.wait_for_timeout(300)
    assert page.title() != "owned"
    assert page.locator("img[src=x], .viewer script, .viewer img, .viewer a").count() == 0
    texts = stream(page, 1).all_inner_texts()[1:]
    assert len(texts) == len(TEXTS) and texts[0] == SCRIPT and texts[4] == LONG and texts[5] == "😀"
    assert "\\u202edlrow\\u202c" in texts[2] and "\\u001b[31mred" in texts[3]
    assert texts[6] == "E3 81" and texts[7] == "82"
    assert texts[8].startswith("\\u0000\u240d\u21b5") and texts[8].rstrip().endswith("\u21e5\u2423")
    assert texts[9] == "\\u200b\\ufeff\\u2028"
    whole = page.locator("[data-testid=stMain]").inner_text()
    assert not set(whole) & {"\u202e", "\x1b", "\u200b", "\x00"}
    calls = page.locator('table[aria-label="Calls"]').inner_text()
    assert SCRIPT in calls and IMAGE in calls


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1440, 1024])
def test_ten_thousand_characters_without_a_space_do_not_widen_the_page(
    scheme: str, width: int, open_page: OpenPage, hostile: Hostile
) -> None:
    page = opened(open_page, hostile, scheme=scheme, width=width)
    main = page.locator("[data-testid=stMain]")
    assert main.evaluate("node => node.scrollWidth - node.clientWidth") <= 0
    box = page.locator(".viewer .streams")
    for found in box.locator(".stream").all():
        assert found.evaluate("node => node.scrollWidth - node.clientWidth") <= 0
    ink, ground = page.locator(".viewer .token.step4").last.evaluate(
        "node => [getComputedStyle(node).color, getComputedStyle(node).backgroundColor]"
    )
    assert ink != ground


def test_one_press_opens_a_root_and_the_address_opens_it_again(open_page: OpenPage, hostile: Hostile) -> None:
    page = open_page(f"branches?v=1&arm={ARM}")
    page.locator(".viewer .token").first.wait_for()
    roots = page.locator("[data-root]")
    assert roots.count() > 1
    wanted = roots.nth(1).get_attribute("data-root")
    window, position = wanted.split("/")
    page.get_by_role("button", name=f"{window} {int(position):,}", exact=True).click()
    page.locator(f'[data-root="{wanted}"][data-open="true"]').wait_for()
    settled(page)
    page.wait_for_function("wanted => new URLSearchParams(location.search).get('root') === wanted", arg=wanted)
    before = stream(page, 1).all_inner_texts()
    again = open_page(page.url)
    again.locator(".viewer .token").first.wait_for()
    assert again.locator("[data-open=true]").get_attribute("data-root") == wanted
    assert stream(again, 1).all_inner_texts() == before and query(again) == query(page)


def test_the_history_before_the_root_is_the_streams_own(open_page: OpenPage, hostile: Hostile) -> None:
    page = opened(open_page, hostile)
    (record,) = hostile.campaign.records()
    streams = reader.load_streams(hostile.campaign.uri, record.run_id).to_pylist()
    tokens = next(row["tokens"] for row in streams if row["window"] == hostile.window)[: hostile.position]
    words = reader.load_dictionary(hostile.campaign.uri, record.run_id)["bytes"].to_pylist()
    last = b"".join(words[token] for token in tokens[-40:]).decode().replace(" ", "\u2423").replace("\n", "\u21b5\n")
    shown = page.locator(".viewer .history .stream").inner_text()
    assert shown.replace("… ", "").replace("\n", "") == last.replace("\n", "")
    fold = page.locator(".viewer button.fold")
    if len(tokens) > 40:
        fold.click()
        assert fold.get_attribute("aria-expanded") == "true"
        assert page.locator(".viewer .history .past").count() == min(len(tokens), 200)
