"""The engine's own process: its events, its end, and what it says when it fails."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from drift_runs.capture.child import opening
from drift_runs.capture.process import Finished, Opened, Probed, Step, WindowDone, run_launch
from drift_runs.errors import EngineDied, ModelFileError, StoreError
from drift_runs.protocol.load import load_protocol
from tests.campaigns import TWO_ARMS, Campaign, new_campaign


@pytest.fixture
def campaign(tmp_path: Path, tiny_arms: Path) -> Campaign:
    made = new_campaign(
        tmp_path / "campaign", tiny_arms, None, {key: value for key, value in TWO_ARMS.items() if key != "floors[1]"}
    )
    made.store.open(create=True)
    return made


def launch(campaign: Campaign, windows: tuple[str, ...] = ("alpha-1", "beta")):
    reference = campaign.executions()["f16"]
    steps = [Step(execution=reference, window=name, compare=False, spill=True) for name in windows]
    return run_launch(campaign.store, load_protocol(campaign.protocol), reference, steps)


LONG = ("alpha-1",) * 500
"""Work that is not done before a test has found the process."""


def workers() -> list[psutil.Process]:
    return [child for child in psutil.Process().children() if "drift_runs.capture.worker" in child.cmdline()]


def test_events_of_a_launch(campaign: Campaign) -> None:
    events = list(launch(campaign))
    assert [type(event) for event in events] == [Opened, Probed, WindowDone, WindowDone, Finished]
    assert [answer["question"] for answer in events[1].report["answers"]] == ["dictionary", "round-trip", "bos"]
    done = events[2]
    assert (done.execution, done.window, done.tokens, done.positions) == ("f16", "alpha-1", 23, 21)
    assert done.engine_s > 0 and done.own_s > 0 and events[-1].peak_bytes > 10_000_000
    capture = campaign.executions()["f16"].capture_id
    assert list(campaign.store.processes(capture)) == ["alpha-1", "beta"]
    assert len(set(campaign.store.processes(capture).values())) == 1
    assert workers() == []


def test_what_a_library_prints_does_not_break_the_events(
    campaign: Campaign, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Python starts, and a library prints to the process's stdout at import and later, past Python's own stream."""
    (tmp_path / "noise").mkdir()
    (tmp_path / "noise" / "sitecustomize.py").write_text(
        "import os, sys, threading\n"
        "def noise():\n"
        "    for _ in range(200):\n"
        '        os.write(1, b\'{"event": "window"} not an event\\n\')\n'
        "        print('nor is this')\n"
        "class Late:\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        if name == 'drift_runs.engines.llama_cpp':\n"
        "            threading.Thread(target=noise).start()\n"
        "if 'drift_runs.capture.worker' in ' '.join(sys.orig_argv):\n"
        "    sys.meta_path.insert(0, Late())\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "noise"))
    assert [type(event) for event in launch(campaign)] == [Opened, Probed, WindowDone, WindowDone, Finished]


def test_a_killed_process_is_named_with_its_signal(campaign: Campaign) -> None:
    events = launch(campaign, LONG)
    next(events)
    (worker,) = workers()
    worker.suspend()
    worker.kill()
    with pytest.raises(EngineDied) as caught:
        list(events)
    assert "arm f16: the engine's process was killed by SIGKILL" in str(caught.value)
    assert "run the same command to go on" in caught.value.todo and caught.value.exit_code == 5


@pytest.mark.parametrize(
    ("number", "todo"),
    [
        (signal.SIGILL, "lacks an instruction"),
        (signal.SIGBUS, "disk may be full"),
        (signal.SIGSEGV, "windows that were"),
    ],
)
def test_signals_say_what_to_do(campaign: Campaign, number: signal.Signals, todo: str) -> None:
    events = launch(campaign, LONG)
    next(events)
    (worker,) = workers()
    worker.suspend()
    worker.send_signal(number)
    worker.resume()
    with pytest.raises(EngineDied, match=number.name) as caught:
        list(events)
    assert todo in caught.value.todo


def test_an_iteration_that_is_left_ends_the_process(campaign: Campaign) -> None:
    events = launch(campaign, LONG)
    next(events)
    assert len(workers()) == 1
    events.close()
    assert workers() == []


def test_the_process_ends_when_its_parent_is_killed(campaign: Campaign, tmp_path: Path) -> None:
    """The parent gets no chance to say anything: the worker sees its stdin end."""
    script = tmp_path / "parent.py"
    script.write_text(
        "import subprocess, sys, time\n"
        "command = [sys.executable, '-m', 'drift_runs.capture.worker']\n"
        "child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)\n"
        f"child.stdin.write({json.dumps(endless_job(campaign)).encode()!r} + b'\\n')\n"
        "child.stdin.flush()\n"
        "[child.stdout.readline() for _ in range(5)]\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    parent = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    worker = psutil.Process(int(parent.stdout.readline()))
    assert worker.is_running() and len(campaign.store.processes(campaign.executions()["f16"].capture_id)) == 1
    os.kill(parent.pid, signal.SIGKILL)
    parent.communicate()
    _, alive = psutil.wait_procs([worker], timeout=2)
    for process in alive:
        process.kill()
    assert alive == []


def endless_job(campaign: Campaign) -> dict:
    """A job that keeps the engine at work for minutes."""

    loaded = load_protocol(campaign.protocol)
    reference = campaign.executions()["f16"]
    step = {
        "window": "alpha-1",
        "role": "prompt",
        "tokens": list(loaded.tokens("alpha-1")),
        "scored": [[1, 13]],
        "capture": reference.capture_id,
        "comparison": None,
        "spill": False,
        "wanted_from": "",
        "keep_state": False,
    }
    return {
        **opening(campaign.store, loaded, reference),
        "top_k": 8,
        "marks": {"copy_tokens": 12, "copy_distance_tokens": 2048},
        "reference": reference.capture_id,
        "steps": [step] * 20_000,
        "probe": None,
    }


def test_an_error_crosses_the_process_as_what_it_was(campaign: Campaign, tmp_path: Path) -> None:
    executions = campaign.executions()
    weights = executions["f16"].weights
    moved = tmp_path / "moved.gguf"
    moved.write_bytes(weights.path.read_bytes()[:5000])
    from dataclasses import replace

    from drift_runs.weights.gguf_file import file_stamp

    cut = replace(executions["f16"], weights=replace(weights, path=moved, stamp=file_stamp(moved)))
    step = Step(execution=cut, window="beta", compare=False, spill=False)
    with pytest.raises(ModelFileError) as caught:
        list(run_launch(campaign.store, load_protocol(campaign.protocol), cut, [step]))
    assert caught.value.where == f"arm f16, {moved}" and caught.value.todo == "fetch or make it again"


def test_a_store_that_cannot_be_written(campaign: Campaign) -> None:
    """A file lies where the capture's folder should be."""
    captures = campaign.root / "captures"
    captures.mkdir()
    (captures / campaign.executions()["f16"].capture_id).write_text("in the way")
    started = time.monotonic()
    with pytest.raises(StoreError, match="cannot be") as caught:
        list(launch(campaign))
    assert "captures" in caught.value.where and time.monotonic() - started < 30


def test_the_process_is_light() -> None:
    """A dozen launches a campaign: what one imports is paid for each time."""
    code = (
        "import sys; from drift_runs.capture import serving; sys.meta_path.insert(0, serving._NoPandas())\n"
        "import pyarrow as pa; pa.array([1]); import drift_runs.engines.llama_cpp\n"
        "print([name for name in ('pandas', 'pydantic', 'mlflow', 'gguf') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
