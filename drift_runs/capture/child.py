"""An engine's process as its parent sees it: started with a job, read for its events, ended for whatever reason."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from typing import Any

from drift_runs.capture.execution import Execution
from drift_runs.engines.dictionary import SpelledStream
from drift_runs.errors import EngineDied, by_name
from drift_runs.protocol.load import LoadedProtocol
from drift_runs.store import Store


def opening(store: Store, loaded: LoadedProtocol, execution: Execution) -> dict[str, Any]:
    """What every job says: where the store is, and which engine is opened on which files."""
    dictionary = loaded.protocol.dictionary
    named = {"weight file": execution.weights, "adapter": execution.adapter}
    return {
        "store": str(store.root),
        "process": uuid.uuid4().hex[:12],
        "arm": execution.name,
        "capture": execution.capture_id,
        "opening": execution.opening(dictionary.size).as_json(),
        "said": dict(execution.said),
        "stamps": {what: [str(file.path), list(file.stamp)] for what, file in named.items() if file is not None},
        "dictionary": dictionary.model_dump(),
        "streams": [list(stream) for stream in _streams(loaded)],
    }


def _streams(loaded: LoadedProtocol) -> Iterator[SpelledStream]:
    """What the protocol's ids are read as, to show where an engine reads them otherwise: no stream without a new id."""
    seen: set[int] = set()
    for window in loaded.protocol.windows:
        if window.name in loaded.streams and not seen.issuperset(tokens := loaded.tokens(window.name)):
            text = loaded.streams[window.name].text
            if "\N{REPLACEMENT CHARACTER}" not in text:  # behind it a text no longer shows which id is which
                seen.update(tokens)
            yield SpelledStream(window.name, tokens, text)


def events_of(module: str, job: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Start ``python -m module`` with a job; its events as they come.

    The process is ended when the iteration is left, for whatever reason.

    Raises
    ------
    EngineError
        whatever the process reported, as the error it was; ``EngineDied`` when it ended without a word.
    """
    with tempfile.TemporaryFile() as stderr:
        process = subprocess.Popen(
            [sys.executable, "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            encoding="utf-8",
            env=_environment(),
        )
        try:
            finished = False
            assert process.stdin is not None and process.stdout is not None
            # A pipe that is broken already means that it died at once: its exit code, below, says how.
            with contextlib.suppress(BrokenPipeError):
                process.stdin.write(json.dumps(job) + "\n")
                process.stdin.flush()  # and stays open: its end is how the process learns that we died
            for line in process.stdout:
                event = json.loads(line)
                if event["event"] == "error":
                    raise by_name(event["type"])(
                        event["what"], where=event["where"], expected=event["expected"], todo=event["todo"]
                    )
                finished = finished or event["event"] == "done"
                yield event
            code = process.wait()
            if code != 0 or not finished:
                raise _died(job["arm"], code, stderr)
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None and not pipe.closed:
                    try:
                        pipe.close()
                    except BrokenPipeError:
                        continue  # nothing is left to flush to


def _environment() -> dict[str, str]:
    # The engine brings threads of its own; a second pool for numpy would fight with them over the cores.
    return {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONUTF8": "1"}


def _died(name: str, code: int, stderr: Any) -> EngineDied:
    stderr.seek(0)
    lines = stderr.read().decode("utf-8", "replace").strip().splitlines()
    last = lines[-1] if lines else ""
    if code < 0:
        how = f"killed by {signal.Signals(-code).name}"
    else:
        how = f"ended with code {code}"
    todo = "windows that were finished are safe: run the same command to go on"
    if code == -signal.SIGILL:
        todo = "this processor lacks an instruction that the library uses: install a build for it"
    if code == -signal.SIGBUS:
        todo = f"the disk may be full (spilled rows are a memory map), or the weight file changed; {todo}"
    if code == -signal.SIGKILL:
        todo = f"the system may have been short of memory; {todo}"
    return EngineDied(f"the engine's process was {how}" + (f": {last}" if last else ""), where=f"arm {name}", todo=todo)
