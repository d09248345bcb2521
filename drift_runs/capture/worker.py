"""The engine's own process: one launch. Reads a job on stdin, writes events on stdout, tables into the store.

A launch has to be a process: kernels, thread pools and caches start from nothing, and a crash of a native library
costs a window and not the campaign. Events are lines of JSON; whatever a library prints goes to stderr.

The process ends when its parent does, however that dies: it reads stdin to its end in a thread.
"""

from __future__ import annotations

import importlib.abc
import json
import os
import signal
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from drift_runs import schema
from drift_runs.capture.score import ReferenceRows, ScoredWindow, WindowTask, score_window, scored_positions
from drift_runs.engines.base import Engine, EngineSettings
from drift_runs.errors import DriftError, EngineError, ModelFileError, StoreError
from drift_runs.measure.copies import copy_marks
from drift_runs.measure.literals import literal_marks
from drift_runs.protocol.canonical import dictionary_sha256
from drift_runs.store import Store, read_table, write_table

PARENT_GONE = 3


class _NoPandas(importlib.abc.MetaPathFinder):
    """pyarrow imports pandas at the first array that it makes: a second a launch, for nothing that is used here."""

    def find_spec(self, fullname: str, path: object, target: object = None) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError("pandas is left out of the engine's process", name=fullname)


def main() -> int:
    sys.meta_path.insert(0, _NoPandas())
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle; it ends this process
    events = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8", buffering=1)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # a library that prints must not break the event stream
    job = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        _work(job, events)
    except DriftError as error:
        _send(
            events,
            event="error",
            type=type(error).__name__,
            what=error.what,
            where=f"arm {job['arm']}, {error.where}" if error.where else f"arm {job['arm']}",
            expected=error.expected,
            todo=error.todo,
        )
        return error.exit_code
    except OSError as error:
        _send(
            events,
            event="error",
            type="StoreError",
            what=f"cannot be read or written: {error.strerror}",
            where=str(error.filename or job["store"]),
            expected="",
            todo="free some space, or name another folder with --store",
        )
        return StoreError.exit_code
    except MemoryError:
        _send(
            events,
            event="error",
            type="EngineError",
            what="out of memory",
            where=f"arm {job['arm']}",
            expected="",
            todo="shorten the windows or close other programs",
        )
        return EngineError.exit_code
    return 0


def _end_with_parent() -> None:
    while os.read(sys.stdin.fileno(), 4096):
        continue
    os._exit(PARENT_GONE)


def _send(events: TextIO, **event: Any) -> None:
    events.write(json.dumps(event) + "\n")
    events.flush()


def _work(job: dict[str, Any], events: TextIO) -> None:
    started = time.perf_counter()
    _check_unchanged(job)
    engine = _open(job)
    table = engine.token_bytes()[: job["dictionary"]["size"]]
    found = dictionary_sha256(table)
    if len(table) < job["dictionary"]["size"] or found != job["dictionary"]["sha256"]:
        raise ModelFileError(
            f"its dictionary has {len(table)} entries with SHA-256 {found[:16]}…",
            where=job["model"],
            expected=f"{job['dictionary']['size']} entries with {job['dictionary']['sha256'][:16]}…, as frozen",
            todo="use a model with the protocol's tokenizer: token-level figures need the same dictionary",
        )
    _send(events, event="open", seconds=time.perf_counter() - started)
    store = Store(Path(job["store"]))
    store.write_dictionary(table)
    for step in job["steps"]:
        _step(engine, store, job, step, table, events)
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    _send(events, event="done", peak_bytes=peak if sys.platform == "darwin" else peak * 1024)
    engine.close()


def _check_unchanged(job: dict[str, Any]) -> None:
    """The identity of these rows names the digests of files: they must still be those files."""
    from drift_runs.weights.gguf_file import file_stamp

    files = [("weight file", job["model"], job["stamp"])]
    if job["adapter"]:
        files.append(("adapter", job["adapter"]["file"], job["adapter"]["stamp"]))
    for what, name, stamp in files:
        path = Path(name)
        # A file that is gone is for the engine to name, or is still open.
        if path.exists() and list(file_stamp(path)) != stamp:
            raise ModelFileError(
                f"the {what} changed after its digest was taken",
                where=name,
                expected="the file of the start",
                todo="leave it alone while a campaign runs, and run again",
            )


def _open(job: dict[str, Any]) -> Engine:
    from drift_runs.engines.llama_cpp import LlamaCpp

    adapter = Path(job["adapter"]["file"]) if job["adapter"] else None
    return LlamaCpp(Path(job["model"]), EngineSettings(**job["settings"]), adapter=adapter)


def _step(
    engine: Engine, store: Store, job: dict[str, Any], step: dict[str, Any], table: list[bytes], events: TextIO
) -> None:
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
    threads = min(job["settings"]["threads"], os.cpu_count() or 1)
    scored = score_window(engine, task, reference=reference, spill=spill, analysis_threads=threads)
    before = time.perf_counter()
    _check_unchanged(job)
    target = store.rows_file(step["capture"], name)
    kept = target.is_file()
    if kept and _changed(target, scored):
        if step["spill"]:
            _send(events, event="changed", window=name)
            return
        kept = False
    # Rows last: a window is whole when they are there.
    if scored.comparison is not None:
        write_table(store.comparison_file(step["comparison"], name), scored.comparison, schema.COMPARISON)
    if not kept:
        store.note_process(step["capture"], name, job["process"])
        write_table(target, scored.rows, schema.ROWS)
    _send(
        events,
        event="window",
        window=name,
        capture=step["capture"],
        tokens=int(task.positions[-1]),
        positions=len(task.positions),
        engine_s=scored.engine_s,
        own_s=scored.own_s + time.perf_counter() - before,
    )


def _changed(kept: Path, scored: ScoredWindow) -> bool:
    """Whether rows taken again differ from the kept ones.

    For the reference it means that what was compared with the kept rows is not comparable with what comes now.
    """
    return read_table(kept, schema.ROWS)["row_full"].to_pylist() != scored.rows["row_full"].to_pylist()


if __name__ == "__main__":
    sys.exit(main())
