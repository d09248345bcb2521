"""The pages on a store of 1,000 campaigns of 8 arms, the newest of 100,000 positions, beside MLflow's own search.

The store is made first: see ``_many_campaigns`` for what in it is real. Then, each in a process of its own: the index
is built, opened again, and refreshed after one new campaign; the same records are read through MLflow's search; the
server is started and the overview of the many positions opened in a real Chromium until its table of candidates is
there; and the switch of outliers is changed until the table shows it. Seconds are those of the clock, and of the
processor, which other work on the machine does not lengthen. Without Chromium the pages are left out, and that is said.

``DRIFT_BENCH_CAMPAIGNS`` and ``DRIFT_BENCH_STORE`` (a folder to make the store in, or to find it) set it otherwise.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from benchmarks import _many_campaigns as many

if TYPE_CHECKING:
    from playwright.sync_api import Page
    from psutil import Process

CAMPAIGNS = int(os.environ.get("DRIFT_BENCH_CAMPAIGNS", "1000"))
PROTOCOLS = 20
LARGE = many.Size(50, 2000)
CLICKS = 4
LIMITS = {"cold_s": 3.0, "click_s": 0.3, "memory_mb": 1000.0}
_CANDIDATES = "table[aria-label='Candidates'], [aria-label='Candidates'] table"
_CLICK = """async ([label, wanted]) => {
  const button = [...document.querySelectorAll('[data-testid=stButtonGroup] button')]
    .find(found => found.innerText.trim() === label);
  const shown = () => {
    const rows = [...document.querySelectorAll('tr[data-arm="q8_0"][data-outliers]')];
    return [...new Set(rows.map(row => row.dataset.outliers))].sort().join() === wanted;
  };
  const began = performance.now();
  button.click();
  while (!shown() && performance.now() - began < 30000) await new Promise(done => requestAnimationFrame(done));
  return performance.now() - began;
}"""


class Side(NamedTuple):
    """One process that reads campaigns."""

    seconds: float
    """After its imports, but for those that the reading itself makes."""
    cpu_s: float
    peak_mb: float
    campaigns: int


class Shown(NamedTuple):
    """One server and what a visitor waits for."""

    cold_s: float
    """From the start of the command to the table of candidates."""
    cold_cpu_s: float
    """Of them, seconds of the server's processor."""
    clicks_s: tuple[float, ...]
    """From the click to the table with the other figures."""
    clicks_cpu_s: float
    """Seconds of the server's processor for one click, everything on the page included."""
    memory_mb: float
    """The server's largest resident memory."""


def side(kind: str, uri: str) -> Side:
    """The work of one process."""
    from drift_runs.tracking import index, reader

    readers: dict[str, Callable[[], int]] = {
        "index": lambda: index.open_index(uri).total(),
        "rebuild": lambda: _rebuilt(index.open_index(uri)),
        "summary": lambda: index.open_index(uri).summaries("panel-00").num_rows,
        "search": lambda: len(reader.list_campaigns(uri)),
    }
    began, cpu = time.perf_counter(), time.process_time()
    count = readers[kind]()
    seconds, cpu_s = time.perf_counter() - began, time.process_time() - cpu
    unit = 1 if sys.platform == "darwin" else 1024
    return Side(seconds, cpu_s, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6, count)


def _rebuilt(found: object) -> int:
    found.refresh(rebuild=True)
    return found.total()


def in_a_process(kind: str, uri: str) -> Side:
    command = [sys.executable, "-m", "benchmarks.dashboard", kind, uri]
    return Side(*json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))


def shown(store: Path, campaign: str) -> Shown:
    """Start the server, open a campaign's overview, click; everything as a visitor does it."""
    from dashboard.screenshot import chromium, served, settled

    with chromium() as browser:
        page = browser.new_context(viewport={"width": 1440, "height": 1000}).new_page()
        began = time.perf_counter()
        with served(store) as url:
            server = _server(url)
            page.goto(f"{url}/?v=1&campaign={campaign}", wait_until="commit")
            page.wait_for_selector('tr[data-arm="q8_0"]', timeout=60_000)
            cold_s, cold_cpu_s = time.perf_counter() - began, _cpu_s(server)
            settled(page)
            page.wait_for_timeout(1000)
            before = _cpu_s(server)
            clicks = _clicks(page)
            spent = (_cpu_s(server) - before) / len(clicks)
            return Shown(cold_s, cold_cpu_s, tuple(clicks), spent, _peak_mb(server))


def _clicks(page: Page) -> list[float]:
    found = []
    views = {"without outliers": "without", "side by side": "with,without", "with outliers": "with"}
    for _ in range(CLICKS):
        for label, wanted in views.items():
            found.append(page.evaluate(_CLICK, [label, wanted]) / 1000)
            page.wait_for_timeout(800)
    return found


def _server(url: str) -> Process:
    import psutil

    port = url.rpartition(":")[2]
    (found,) = (
        child
        for child in psutil.Process().children(recursive=True)
        if "--server.port" in child.cmdline() and port in child.cmdline()
    )
    return found


def _cpu_s(server: Process) -> float:
    times = server.cpu_times()
    return times.user + times.system


def _peak_mb(server: Process) -> float:
    """The kernel's own mark where it keeps one, else what is resident now."""
    status = Path(f"/proc/{server.pid}/status")
    if status.is_file():
        (line,) = (line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024 / 1e6
    return server.memory_info().rss / 1e6


def main() -> None:
    chosen = os.environ.get("DRIFT_BENCH_STORE")
    with tempfile.TemporaryDirectory(prefix="drift-bench-") as name:
        folder = Path(chosen or name)
        _report(folder, _made(folder))


def _made(folder: Path) -> str:
    """The store's address; it is made where there is none."""
    folder.mkdir(parents=True, exist_ok=True)
    if (folder / "mlflow.db").is_file():
        return many.sqlite_uri(folder.absolute() / "mlflow.db")
    began = time.perf_counter()
    uri = many.make(folder, campaigns=CAMPAIGNS, protocols=PROTOCOLS, large=LARGE).uri
    print(f"store            made in {time.perf_counter() - began:.0f} s", flush=True)
    return uri


def _report(folder: Path, uri: str) -> None:
    from dashboard.screenshot import chromium_path

    positions = LARGE.windows * LARGE.positions
    in_a_process("index", uri)  # the first process reads the libraries and the database from the disk
    built = in_a_process("rebuild", uri)
    print(f"campaigns        {built.campaigns:,} of {len(many.ARMS)} arms; the newest has {positions:,} positions")
    opened = in_a_process("index", uri)
    many.write_campaign(many.Tracker(uri), "panel-00", many.SMALL, f"new-{time.time_ns()}")
    renewed = in_a_process("index", uri)
    first, again = in_a_process("summary", uri), in_a_process("summary", uri)
    searched = in_a_process("search", uri)
    for words, found in (
        ("index built", built),
        ("index opened", opened),
        ("one new campaign", renewed),
        ("MLflow's search", searched),
    ):
        ratio = searched.seconds / found.seconds
        print(
            f"{words:<17}{found.seconds:7.2f} s, {found.cpu_s:6.2f} CPU s, peak {found.peak_mb:5.0f} MB, "
            f"search takes {ratio:,.0f} times as long",
            flush=True,
        )
    figures = f"{first.campaigns:,} figures of a protocol"
    print(f"summary          {figures} in {first.seconds:.2f} s, {again.seconds:.2f} s again")
    if chromium_path() is None:
        print("pages            not measured: no Chromium, install it or name it in DRIFT_CHROMIUM")
        return
    from drift_runs.tracking.index import open_index

    large = open_index(uri).newest("large")
    assert large is not None
    shown(folder, large.run_id)  # the first server reads the libraries from the disk
    page = shown(folder, large.run_id)
    click_s = statistics.median(page.clicks_s)
    server = f"{page.cold_cpu_s:.2f} CPU s of the server"
    print(f"cold overview    {page.cold_s:.2f} s, {server} {_held('cold_s', page.cold_s)}")
    server = f"{page.clicks_cpu_s:.2f} CPU s of the server"
    longest = f"longest {max(page.clicks_s):.2f} of {len(page.clicks_s)}"
    print(f"a click          {click_s:.2f} s, {longest}, {server} {_held('click_s', click_s)}")
    print(f"server           peak {page.memory_mb:.0f} MB {_held('memory_mb', page.memory_mb)}")
    ratios = f"{searched.seconds / page.cold_s:.1f} cold overviews, {searched.seconds / click_s:.0f} clicks"
    print(f"MLflow's search  takes as long as {ratios}")


def _held(name: str, value: float) -> str:
    limit = LIMITS[name]
    return f"(at most {limit:g}: {'held' if value <= limit else 'not held'})"


if __name__ == "__main__":
    print(json.dumps(side(sys.argv[1], sys.argv[2])))
