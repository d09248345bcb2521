"""What is measured of a server, against what it says: the one is kept beside a capture, the other makes it another one.

A server that says something else is another server, and its rows are another capture. What is measured of it may come
out otherwise each time, so it is no part of a capture's identity. Where rows depend on it, all of one capture take the
value of the first process that took any: rows made with two values would differ by nothing that the server did.
"""

from __future__ import annotations

from typing import Any

from drift_runs.engines.base import Calibrated, ListedEngine
from drift_runs.store import Store


def said_by(engine: ListedEngine) -> dict[str, str]:
    """What a server says of itself, by name and in order, without what was measured of it."""
    measured = engine.measured() if isinstance(engine, Calibrated) else ()
    return {name: text for name, text in sorted(engine.said().items()) if name not in measured}


def calibrate(engine: Any, store: Store, capture: str, *, keep: bool = True) -> None:
    """Let an engine of any kind use what the rows of ``capture`` were made with; keep what it uses where nothing is
    kept yet.

    Without ``keep`` nothing is written: a server that is refused before it gave a row must not bind the one that is
    started in its place. An engine goes on with the number that it measured first.
    """
    if not isinstance(engine, Calibrated):
        return
    kept = store.measured(capture)
    if kept:
        engine.calibrate(kept)
    elif keep:
        store.note_measured(capture, engine.calibration())
