"""The real dashboard on a real store in a real Chromium; skipped with the reason where there is no Chromium."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from dashboard.screenshot import chromium, chromium_path, served, settled
from tests.ui.synthetic import InventedStore, shared_store

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage, Page

OpenPage = Callable[..., "Page"]


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> InventedStore:
    if chromium_path() is None:
        pytest.skip("no Chromium: install it, or name it in DRIFT_CHROMIUM")
    return shared_store(tmp_path_factory)


@pytest.fixture(scope="session")
def address(store: InventedStore, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with served(store.folder, log=tmp_path_factory.mktemp("server") / "log.txt") as url:
        yield url


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One for all tests: a process can drive one only."""
    if chromium_path() is None:
        pytest.skip("no Chromium: install it, or name it in DRIFT_CHROMIUM")
    with chromium() as opened:
        yield opened


@pytest.fixture
def open_page(browser: Browser, address: str) -> Iterator[OpenPage]:
    """``open_page("ranges?v=1")`` in a fresh context.

    The test fails on a script error, on an error in the browser's console, and on a request to elsewhere.
    """
    contexts = []
    faults: list[str] = []

    def start(path: str = "", *, scheme: str = "light", width: int = 1440) -> Page:
        context = browser.new_context(viewport={"width": width, "height": 1000}, color_scheme=scheme)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: faults.append(f"script error: {error}"))
        page.on("console", lambda message: _note_error(message, faults))
        page.on("request", lambda request: _note_elsewhere(request.url, address, faults))
        page.goto(path if path.startswith("http") else f"{address}/{path}")
        settled(page)
        return page

    yield start
    for context in contexts:
        context.close()
    assert not faults, faults


def _note_error(message: ConsoleMessage, faults: list[str]) -> None:
    if message.type == "error":
        faults.append(f"console error: {message.text[:300]} ({message.location.get('url', '')[:200]})")


def _note_elsewhere(url: str, address: str, faults: list[str]) -> None:
    if not url.startswith((address, address.replace("http", "ws", 1), "data:", "blob:", "about:")):
        faults.append(f"request to {url[:200]}")
