"""Makes the documentation's pictures from a store: ``python -m dashboard.screenshot --store DIR --out docs/images``.

It starts the real server and a real Chromium, so a picture shows what a user sees.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.request import urlopen

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

PAGES = {
    "overview": "",
    "compare": "compare",
    "history": "history",
    "ranges": "ranges",
    "tails": "tails",
    "outliers": "outliers",
    "rows": "rows",
    "branches": "branches",
    "rollouts": "rollouts",
    "answers": "answers",
    "determinism": "determinism",
    "measures": "measures",
    "protocol": "protocol",
    "published": "published",
}
CHROMIUM_ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
READY_LIMIT_MS = 60_000
COMMON_COLOURS = 96


def chromium_path() -> str | None:
    """Where this machine's Chromium is; ``DRIFT_CHROMIUM`` names another."""
    named = os.environ.get("DRIFT_CHROMIUM")
    return named or shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@contextmanager
def served(store: Path, *, log: Path | None = None) -> Iterator[str]:
    """The dashboard on a free loopback port, through its own command; yields the address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "drift_runs.cli.main", "dashboard", "--no-browser"]
    command += ["--port", str(port), "--store", str(store)]
    environment = {key: value for key, value in os.environ.items() if key not in ("MLFLOW_TRACKING_URI",)}
    with open(log or os.devnull, "wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=environment)
        try:
            url = f"http://127.0.0.1:{port}"
            _wait(process, url)
            yield url
        finally:
            process.terminate()
            process.wait(timeout=20)


def _wait(process: subprocess.Popen, url: str) -> None:
    for _ in range(300):
        if process.poll() is not None:
            raise RuntimeError(f"the dashboard ended with code {process.returncode}")
        try:
            with urlopen(f"{url}/_stcore/health", timeout=2):
                return
        except OSError:
            time.sleep(0.2)
    raise RuntimeError("the dashboard did not answer within 60 s")


@contextmanager
def chromium() -> Iterator[Browser]:
    """A headless browser of this machine."""
    from playwright.sync_api import sync_playwright

    path = chromium_path()
    if path is None:
        raise RuntimeError("no Chromium was found; install it or name it in DRIFT_CHROMIUM")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(CHROMIUM_ARGUMENTS))
        try:
            yield browser
        finally:
            browser.close()


def settled(page: Page) -> None:
    """Wait until the script of a page has run and its charts are drawn."""
    page.wait_for_timeout(150)  # a click needs a moment before the state says that something runs
    page.wait_for_selector("[data-test-script-state=notRunning]", timeout=READY_LIMIT_MS, state="attached")
    page.wait_for_selector("h1", timeout=READY_LIMIT_MS)
    page.wait_for_selector("[data-test-script-state=notRunning]", timeout=READY_LIMIT_MS, state="attached")
    for chart in page.locator("[data-testid=stVegaLiteChart]").all():
        chart.scroll_into_view_if_needed()  # a chart below the fold is not drawn before it is seen
        chart.locator("svg.marks, canvas.marks").first.wait_for(timeout=READY_LIMIT_MS)


def take(
    store: Path,
    out: Path,
    *,
    pages: Sequence[str] = tuple(PAGES),
    query: str = "",
    width: int = 1440,
    height: int = 6000,
    heading: str = "",
    schemes: tuple[str, ...] = ("light",),
) -> list[Path]:
    """Write a picture of each page in every colour scheme, at most ``height`` pixels high; returns the files."""
    out.mkdir(parents=True, exist_ok=True)
    files = []
    with served(store) as url, chromium() as browser:
        for scheme in schemes:
            for name, path in ((name, PAGES[name]) for name in pages):
                context = browser.new_context(
                    viewport={"width": width, "height": 900}, color_scheme=scheme, device_scale_factor=1
                )
                page = context.new_page()
                page.goto(f"{url}/{path}{'?' + query if query else ''}")
                settled(page)
                # The page scrolls inside its frame: a taller window shows all of it.
                whole = page.evaluate("document.querySelector('[data-testid=stMain]').scrollHeight")
                page.set_viewport_size({"width": width, "height": int(min(max(whole, 600), height))})
                page.wait_for_timeout(1200)
                settled(page)
                page.evaluate("document.querySelector('[data-testid=stMain]').scrollTo(0, 0)")
                if heading:
                    page.get_by_role("heading", name=heading).first.evaluate("found => found.scrollIntoView(true)")
                page.wait_for_timeout(200)
                words = [name, *re.findall("[a-z0-9]+", heading.lower()), *([] if scheme == "light" else [scheme])]
                files.append(out / f"{'-'.join(words)}.png")
                page.screenshot(path=str(files[-1]))
                _fewer_colours(files[-1])
                context.close()
    return files


def _fewer_colours(file: Path) -> None:
    """A palette of 256 makes a smaller picture that looks the same: its commonest colours stay as they are, and of the
    others none, however rare, is far off."""
    import numpy as np
    from PIL import Image

    with Image.open(file) as taken:
        picture = taken.convert("RGB")
    counted = sorted(picture.getcolors(picture.width * picture.height), reverse=True)
    common = [colour for _, colour in counted[:COMMON_COLOURS]]
    others = picture.quantize(256 - len(common), method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    palette = np.array([*common, *np.array(others.getpalette()).reshape(-1, 3)], dtype=np.int32)
    pixels = np.asarray(picture, dtype=np.int32) @ [1 << 16, 1 << 8, 1]
    colours, at = np.unique(pixels, return_inverse=True)
    apart = np.stack([colours >> 16, colours >> 8 & 255, colours & 255], axis=1)[:, None] - palette
    nearest = (apart**2).sum(axis=2).argmin(axis=1).astype(np.uint8)
    small = Image.fromarray(nearest[at].reshape(picture.height, picture.width), "P")
    small.putpalette(palette.astype(np.uint8).ravel().tolist())
    small.save(file, optimize=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m dashboard.screenshot", description=__doc__)
    parser.add_argument("--store", type=Path, required=True, metavar="DIR", help="store to show")
    parser.add_argument(
        "--pages", nargs="+", choices=PAGES, default=list(PAGES), metavar="PAGE", help="pages to take (default: all)"
    )
    parser.add_argument("--out", type=Path, default=Path("docs/images"), metavar="DIR", help="folder of the pictures")
    parser.add_argument("--query", default="", help="view as in a page's address, for instance v=1&outliers=both")
    parser.add_argument("--width", type=int, default=1440, metavar="PX", help="width of the window (default 1440)")
    parser.add_argument("--height", type=int, default=6000, metavar="PX", help="greatest height (default: the page)")
    parser.add_argument("--heading", default="", metavar="TEXT", help="begin at the heading that begins so")
    parser.add_argument("--dark", action="store_true", help="take each page in dark as well")
    args = parser.parse_args()
    schemes = ("light", "dark") if args.dark else ("light",)
    for file in take(
        args.store,
        args.out,
        pages=args.pages,
        query=args.query,
        width=args.width,
        height=args.height,
        heading=args.heading,
        schemes=schemes,
    ):
        print(file)
    return 0


if __name__ == "__main__":
    sys.exit(main())
