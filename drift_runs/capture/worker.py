"""The engine's process that scores: one launch, its tables into the store. See ``capture.serving``."""

from __future__ import annotations

import os
import shutil
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from drift_runs import schema
from drift_runs.capture.control import Control, control_of
from drift_runs.capture.measured import calibrate
from drift_runs.capture.score import ReferenceRows, ScoredWindow, WindowTask, score_window, scored_positions
from drift_runs.capture.score_listed import score_listed_window
from drift_runs.capture.serving import Opened, ask_first, check_unchanged, open_engine, peak_bytes, send, serve
from drift_runs.engines.base import Engine, KeepsState
from drift_runs.measure.copies import copy_marks
from drift_runs.measure.literals import literal_marks
from drift_runs.store import Store, read_table, write_table

_SPARED_BYTES = 2_000_000_000
"""Free space that kept states leave to everybody else."""


def _work(job: dict[str, Any], events: TextIO) -> None:
    started = time.perf_counter()
    opened = open_engine(job)
    engine, table = opened.engine, opened.dictionary
    send(events, event="open", seconds=time.perf_counter() - started)
    store = Store(Path(job["store"]))
    calibrate(engine, store, job["capture"], keep=False)
    ask_first(opened, job, events)
    store.write_dictionary(table)
    control = control_of(engine, job["steps"][0]["tokens"], top_k=job["top_k"])
    for step in job["steps"]:
        _step(opened, store, job, step, events, control)
    send(events, event="done", peak_bytes=peak_bytes())
    engine.close()


def _step(
    opened: Opened,
    store: Store,
    job: dict[str, Any],
    step: dict[str, Any],
    events: TextIO,
    control: Control | None,
) -> None:
    engine, table = opened.engine, opened.dictionary
    calibrate(engine, store, step["capture"], keep=False)  # passes of one process are captures of their own
    name = step["window"]
    task = WindowTask(
        window=name,
        role=step["role"],
        tokens=np.asarray(step["tokens"], dtype=np.int32),
        positions=scored_positions([tuple(span) for span in step["scored"]]),
        top_k=job["top_k"],
        dictionary_size=job["dictionary"]["size"],
    )
    reference = None
    if step["comparison"]:
        task = replace(
            task,
            copy=copy_marks(task.tokens, **job["marks"])[task.positions],
            literal=literal_marks([table[token] for token in step["tokens"]])[task.positions],
        )
        rows = read_table(store.rows_file(job["reference"], name), schema.ROWS)
        logits = np.load(store.spill_file(name), mmap_mode="r")
        reference = ReferenceRows(logits=logits, row_full=rows["row_full"].to_pylist())
    spill = store.spill_file(name) if step["spill"] else None
    if spill is not None:
        spill.parent.mkdir(parents=True, exist_ok=True)
    wanted = _wanted(store, step["wanted_from"], name) if step["wanted_from"] else None
    retried = None
    if opened.opening.kind.listed:
        before = engine.retries
        scored = score_listed_window(engine, task, wanted=wanted)
        if control is not None:
            control.check()
        retried = engine.retries - before
    else:
        threads = min(opened.opening.settings.threads, os.cpu_count() or 1)
        scored = score_window(engine, task, reference=reference, spill=spill, wanted=wanted, analysis_threads=threads)
    before = time.perf_counter()
    if step["keep_state"]:
        _keep_state(engine, store, job, step)
    check_unchanged(job)
    target = store.rows_file(step["capture"], name)
    kept = target.is_file()
    if kept and _changed(target, scored):
        if step["capture"] == job["reference"]:
            send(events, event="changed", window=name)
            return
        kept = False
    # Rows last: a window is whole when they are there.
    if scored.comparison is not None:
        write_table(store.comparison_file(step["comparison"], name), scored.comparison, schema.COMPARISON)
    if not kept:
        calibrate(engine, store, step["capture"])
        store.note_process(step["capture"], name, job["process"])
        if retried is not None:
            store.note_retries(step["capture"], name, retried)
        write_table(target, scored.rows, schema.ROWS)
    send(
        events,
        event="window",
        window=name,
        capture=step["capture"],
        tokens=int(task.positions[-1]),
        positions=len(task.positions),
        engine_s=scored.engine_s,
        own_s=scored.own_s + time.perf_counter() - before,
    )


def _wanted(store: Store, capture: str, window: str) -> list[list[int]]:
    """The reference's best ids at each position, ascending."""
    rows = read_table(store.rows_file(capture, window), schema.ROWS)
    return [sorted(ids) for ids in rows["top_ids"].to_pylist()]


def _keep_state(engine: Engine, store: Store, job: dict[str, Any], step: dict[str, Any]) -> None:
    """As long as there is room: a state that is not there costs the evaluation of its window, and nothing else."""
    if not isinstance(engine, KeepsState):
        return
    need = engine.state_bytes
    room = min(job["state_room"], shutil.disk_usage(store.root).free - _SPARED_BYTES)
    if need <= room and engine.keep_state(step["tokens"], store.state_file(step["capture"], step["window"])):
        job["state_room"] -= need


def _changed(kept: Path, scored: ScoredWindow) -> bool:
    """Whether rows taken again differ from the kept ones.

    For the reference it means that what was compared with the kept rows is not comparable with what comes now.
    """
    return read_table(kept, schema.ROWS)["row_full"].to_pylist() != scored.rows["row_full"].to_pylist()


if __name__ == "__main__":
    sys.exit(serve(_work))
