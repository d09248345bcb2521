"""Run one launch in a process of its own and hand its events to the campaign."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from drift_runs.capture.execution import COPY_SETTINGS, Execution
from drift_runs.errors import EngineDied, by_name
from drift_runs.protocol.load import LoadedProtocol
from drift_runs.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One window of one execution."""

    execution: Execution
    window: str
    compare: bool
    """Compare with the reference's spilled rows."""
    spill: bool
    """Keep the full rows for others to compare with: the reference's first pass."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowDone:
    """A window is whole on disk."""

    execution: str
    window: str
    tokens: int
    """Tokens that the engine evaluated."""
    positions: int
    engine_s: float
    own_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """The engine is open."""

    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceChanged:
    """Rows of the reference, taken again after an interruption, are not the kept ones."""

    window: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """The process ended well."""

    peak_bytes: int


Event = Opened | WindowDone | ReferenceChanged | Finished


def run_launch(store: Store, loaded: LoadedProtocol, reference: Execution, steps: Sequence[Step]) -> Iterator[Event]:
    """Take ``steps`` in order in one fresh process.

    All steps belong to one engine setting: executions that differ in their pass alone share a process. The process is
    ended when the iteration is left, for whatever reason.

    Raises
    ------
    EngineError
        whatever the process reported, as the error it was; ``EngineDied`` when it ended without a word.
    """
    first = steps[0].execution
    job = {
        "store": str(store.root),
        "process": uuid.uuid4().hex[:12],
        "arm": first.name,
        "model": str(first.weights.path),
        "stamp": list(first.weights.stamp),
        "adapter": first.adapter and {"file": str(first.adapter.path), "stamp": list(first.adapter.stamp)},
        "settings": asdict(first.settings),
        "dictionary": loaded.protocol.dictionary.model_dump(),
        "top_k": loaded.protocol.capture.top_k,
        "marks": loaded.protocol.marks.model_dump(include=COPY_SETTINGS),
        "reference": reference.capture_id,
        "steps": [_step(loaded, reference, step) for step in steps],
    }
    names = {step.execution.capture_id: step.execution.name for step in steps}
    command = [sys.executable, "-m", "drift_runs.capture.worker"]
    with tempfile.TemporaryFile() as stderr:
        process = subprocess.Popen(
            command,
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
                yield _event(event, names)
            code = process.wait()
            if code != 0 or not finished:
                raise _died(first.name, code, stderr)
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


def _step(loaded: LoadedProtocol, reference: Execution, step: Step) -> dict[str, Any]:
    window = loaded.protocol.window(step.window)
    return {
        "window": step.window,
        "role": loaded.protocol.panel(window.panel).role,
        "tokens": list(loaded.tokens(step.window)),
        "scored": [list(span) for span in window.scored],
        "capture": step.execution.capture_id,
        "comparison": step.execution.compared_with(reference) if step.compare else None,
        "spill": step.spill,
    }


def _environment() -> dict[str, str]:
    # The engine brings threads of its own; a second pool for numpy would fight with them over the cores.
    return {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONUTF8": "1"}


def _event(event: dict[str, Any], names: dict[str, str]) -> Event:
    match event["event"]:
        case "open":
            return Opened(seconds=event["seconds"])
        case "changed":
            return ReferenceChanged(window=event["window"])
        case "done":
            return Finished(peak_bytes=event["peak_bytes"])
        case _:
            return WindowDone(
                execution=names[event["capture"]],
                window=event["window"],
                tokens=event["tokens"],
                positions=event["positions"],
                engine_s=event["engine_s"],
                own_s=event["own_s"],
            )


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
