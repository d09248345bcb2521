"""The engine's process that generates: futures, rollouts and answers of one execution. See ``capture.serving``."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from drift_runs.capture.measured import calibrate
from drift_runs.capture.serving import Opened, ask_first, check_unchanged, open_engine, peak_bytes, send, serve
from drift_runs.engines.listed_branches import ListedBranches
from drift_runs.lanes.identity import FUTURES, TASKS
from drift_runs.lanes.rolling import roll_step
from drift_runs.lanes.scenes import ends_in_order
from drift_runs.lanes.text_step import TextStep
from drift_runs.lanes.window_step import Bench, WindowStep
from drift_runs.protocol.generation import Chat
from drift_runs.protocol.model import WRITERS
from drift_runs.store import Store


def _work(job: dict[str, Any], events: TextIO) -> None:
    started = time.perf_counter()
    opened = open_engine(job, branches=True)
    send(events, event="open", seconds=time.perf_counter() - started)
    ask_first(opened, job, events)
    engine = opened.engine
    calibrate(engine, Store(Path(job["store"])), job["capture"])
    chat = Chat(**job["chat"]) if job["chat"] else None
    ends = () if chat is None else ends_in_order(chat, opened.dictionary)
    if opened.opening.kind.listed:
        engine = ListedBranches(
            engine,
            context_tokens=opened.opening.settings.context_tokens,
            dictionary=opened.dictionary,
            ends=ends,
        )
    bench = Bench(engine, Store(Path(job["store"])), opened.dictionary, ends, events)
    bench.store.write_dictionary(opened.dictionary)
    of_window = TextStep if opened.opening.engine in WRITERS else WindowStep
    for step in job["steps"]:
        with _retries_noted(opened, bench.store, step):
            if step["lane"] in (FUTURES, TASKS):
                of_window(bench, step).take()
            else:
                _rolled(bench, step)
        check_unchanged(job)
    send(events, event="done", peak_bytes=peak_bytes())
    opened.engine.close()


@contextlib.contextmanager
def _retries_noted(opened: Opened, store: Store, step: dict[str, Any]) -> Iterator[None]:
    """Requests that are sent again count, whatever becomes of the step."""
    if not opened.opening.kind.listed:
        yield
        return
    before = opened.engine.retries
    try:
        yield
    finally:
        store.add_lane_retries(step["generation"], opened.engine.retries - before)


def _rolled(bench: Bench, step: dict[str, Any]) -> None:
    def told(items: int, tokens: int, seconds: float) -> None:
        send(bench.events, event="generated", lane=step["lane"], items=items, tokens=tokens, seconds=seconds)

    if step["rule"].get("stops") == "end":
        bench.engine.ahead_tokens = step["rule"]["tokens"]
    roll_step(bench.engine, bench.store, bench.dictionary, step, told, ends=bench.ends)


if __name__ == "__main__":
    sys.exit(serve(_work))
