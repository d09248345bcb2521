"""What the engines' processes have in common: a job on stdin, events on stdout, errors as events.

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
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

from drift_runs.capture.measured import said_by
from drift_runs.engines.dictionary import SpelledStream, first_difference, used_beyond
from drift_runs.errors import CannotGive, DriftError, EngineError, ModelFileError, ServerError, StoreError
from drift_runs.protocol.canonical import dictionary_sha256

if TYPE_CHECKING:
    from drift_runs.engines.registry import Opening

PARENT_GONE = 3


class _NoPandas(importlib.abc.MetaPathFinder):
    """pyarrow imports pandas at the first array that it makes: a second a launch, for nothing that is used here."""

    def find_spec(self, fullname: str, path: object, target: object = None) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError("pandas is left out of the engine's process", name=fullname)


_THEY_IMPORT_PANDAS = ("transformers", "mlx", "tensorrt_llm")
"""Engines whose libraries look whether pandas is there and then import it."""


def serve(work: Callable[[dict[str, Any], TextIO], None]) -> int:
    """Read a job from stdin, do it, say what went wrong as an event; the exit code."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle; it ends this process
    events = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8", buffering=1)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # a library that prints must not break the event stream
    job = json.loads(sys.stdin.readline())
    if job["opening"]["engine"] not in _THEY_IMPORT_PANDAS:
        sys.meta_path.insert(0, _NoPandas())
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        work(job, events)
    except DriftError as error:
        send(
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
        send(
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
        send(
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


def send(events: TextIO, **event: Any) -> None:
    """Write one event."""
    events.write(json.dumps(event) + "\n")
    events.flush()


class Opened(NamedTuple):
    """An engine and what its ids say."""

    engine: Any
    """An ``Engine`` or a ``ListedEngine``; a ``Branching`` one where that was asked for."""
    dictionary: list[bytes]
    opening: Opening


def check_unchanged(job: dict[str, Any]) -> None:
    """The identity of these rows names the digests of files: they must still be those files."""
    for what, (name, stamp) in job["stamps"].items():
        path = Path(name)
        # A file that is gone is for the engine to name, or is still open.
        if path.exists() and list(_stamp(path)) != stamp:
            raise ModelFileError(
                f"the {what} changed after its digest was taken",
                where=name,
                expected="the file of the start",
                todo="leave it alone while a campaign runs, and run again",
            )


def _check_same(job: dict[str, Any], opened: Opening, engine: Any) -> None:
    """The identity of these rows names what a server said when the run was planned: it must still be that server.

    Hours may lie between the two. What was measured of a server, beside what it says, is no part of either.
    """
    planned = job["said"]
    if not planned:
        return
    now = said_by(engine)
    for key in sorted({*planned, *now}):
        before, after = planned.get(key, "not said"), now.get(key, "not said")
        if before != after:
            raise (ModelFileError if opened.rows else ServerError)(
                f"it is another than when the run began: {key} was {before}, is {after}",
                where=_place(opened),
                expected="one from the first arm to the last",
                todo="finished windows are safe: put it right, or run again to take what it is now",
            )


def _place(opened: Opening) -> str:
    return str(opened.model or opened.rows or (opened.place and opened.place.shown))


def _stamp(path: Path) -> tuple[int, ...]:
    if path.is_dir():
        from drift_runs.weights.folder_file import folder_stamp

        return folder_stamp(path)
    from drift_runs.weights.gguf_file import file_stamp

    return file_stamp(path)


def open_engine(job: dict[str, Any], *, branches: bool = False) -> Opened:
    """The engine of a job, whose dictionary is the one that the protocol names; ``branches``: one that can branch."""
    check_unchanged(job)
    from drift_runs.engines import registry

    opening = registry.Opening.of_json(job["opening"])
    engine = registry.open_engine(opening, branches=branches)
    _check_same(job, opening, engine)
    table = engine.token_bytes()
    where = _place(opening)
    if table is None:
        raise CannotGive(
            "nothing says the bytes of its tokens",
            where=where,
            expected="the protocol's dictionary, id by id",
            todo='name the tokenizer in drift.toml: tokenizer = "…", a Hugging Face folder or its tokenizer.json',
        )
    size = job["dictionary"]["size"]
    kept = table[:size]
    found = dictionary_sha256(kept)
    if len(kept) < size or found != job["dictionary"]["sha256"]:
        raise ModelFileError(
            f"its dictionary has {len(kept)} entries with SHA-256 {found[:16]}…; {_difference(job, kept)}",
            where=where,
            expected=f"{size} entries with {job['dictionary']['sha256'][:16]}…, as frozen",
            todo="use a model with the protocol's tokenizer: token-level figures need the same dictionary",
        )
    # What a model puts on padding is left out of its rows. On a token that it may say it would be left out too.
    if used := used_beyond(table, size):
        raise ModelFileError(
            f"its dictionary has {used}",
            where=where,
            expected=f"nothing but padding beyond the {size} entries of the protocol's dictionary",
            todo="use a model with the protocol's tokenizer, or write a protocol for this one",
        )
    return Opened(engine, kept, opening)


def ask_first(opened: Opened, job: dict[str, Any], events: TextIO) -> None:
    """Ask the engine what it gives, where the job says so; ``CannotGive`` where the protocol needs what it lacks."""
    if job["probe"] is None:
        return
    from drift_runs.engines.probe.answers import ProbeTask
    from drift_runs.engines.probe.run import GROUPS, IDS_ALONE, probe

    task = replace(ProbeTask.of_json(job["probe"]), dictionary=tuple(opened.dictionary))
    # Its library is checked against its binding when it is opened, and its tokenizer is the weight file's.
    groups = IDS_ALONE if job["opening"]["engine"] == "llama_cpp" else GROUPS
    report = probe(opened.engine, task, groups=groups)
    if report.blocking:
        answer = report.blocking[0]
        more = f", and {len(report.blocking) - 1} more" if len(report.blocking) > 1 else ""
        raise CannotGive(
            f"{answer.title} {answer.answer}: {answer.evidence}{more}",
            where="probe",
            todo=answer.way_round or "see drift probe",
        )
    send(events, event="probe", arm=job["arm"], report=report.as_json())


def _difference(job: dict[str, Any], table: list[bytes]) -> str:
    """The first id that says something else, by the dictionary that another arm left in the store or by the windows."""
    from drift_runs.store import Store

    store, digest = Store(Path(job["store"])), job["dictionary"]["sha256"]
    known = store.read_dictionary(digest) if store.dictionary_file(digest).is_file() else None
    return first_difference(table, known=known, streams=[SpelledStream(*stream) for stream in job["streams"]])


def peak_bytes() -> int:
    """Largest resident size of this process."""
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
