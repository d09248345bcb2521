"""Kills at random moments: whatever was hit, running again ends with the bytes and figures of an unbroken run.

A campaign cut to two windows and three arms. Its unbroken run is timed first: until its first rows, and from there to
its end. A quarter of the moments is drawn over the first time (imports, the tracking store, opening the engine), the
others over the second, each from an equal part of it, so that engines, writing and logging are all hit. ``make test``
takes a seeded sample.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil
import pytest

from drift_runs.protocol.model import Stream
from drift_runs.protocol.streams import dictionary_sha256, write_stream
from tests.campaigns import SOUND, Campaign, figures_of, new_campaign, tree
from tests.conftest import change_toml, copy_tiny

SEED = 20_261_129
KILLS = 20
EARLY = 5
"""How many of them come before the first rows."""
SAMPLE = (4, 10, 17)
"""Which of the kills ``make test`` takes: before the first rows, between, and among the last writing and logging."""

CUT = {
    **SOUND,
    "windows": lambda windows: [window for window in windows if window["name"] in ("alpha-1", "beta")],
    "ranges": lambda ranges: [span for span in ranges if span["window"] in ("alpha-1", "beta")],
    "outliers": [],
    "arms": lambda arms: [arm for arm in arms if arm["name"] in ("f16", "q4_0", "kv-q4_0")],
    "floors": [],
}
CUT.pop("floors[1]")

Maker = Callable[[Path], Campaign]


@dataclass(frozen=True)
class Unbroken:
    """What a run that nobody disturbs gives, and how long it takes."""

    make: Maker
    before_rows_s: float
    after_rows_s: float
    files: dict[str, str]
    figures: dict[str, list[dict[str, object]]]
    metrics: dict[str, dict[str, float]]


def start(campaign: Campaign) -> subprocess.Popen[str]:
    """``drift run`` in a process group of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "drift_runs.cli.main", *campaign.arguments()],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def to_the_end(campaign: Campaign) -> None:
    process = start(campaign)
    out, err = process.communicate(timeout=240)
    assert process.returncode == 0, f"{out}\n{err}"


def measured(make: Maker, folder: Path) -> Unbroken:
    campaign = make(folder)
    before = time.monotonic()
    process = start(campaign)
    first = wait_for_rows(campaign, process)
    out, err = process.communicate(timeout=240)
    end = time.monotonic()
    assert process.returncode == 0, f"{out}\n{err}"
    assert len(figures_of(campaign)) == 2
    return Unbroken(
        make=make,
        before_rows_s=first - before,
        after_rows_s=end - first,
        files=tree(campaign.root),
        figures=figures_of(campaign),
        metrics=metrics_of(campaign),
    )


def metrics_of(campaign: Campaign) -> dict[str, dict[str, float]]:
    """Logged metrics of each complete arm."""
    from mlflow import MlflowClient

    client = MlflowClient(campaign.uri)
    (record,) = campaign.records()
    return {arm.arm: dict(client.get_run(arm.run_id).data.metrics) for arm in record.arms if arm.complete}


def wait_for_rows(campaign: Campaign, process: subprocess.Popen[str]) -> float:
    """The time when the first rows are there, or when the process has ended."""
    while process.poll() is None and not list(campaign.root.glob("captures/*/*.parquet")):
        time.sleep(0.01)
    return time.monotonic()


def moment(unbroken: Unbroken, number: int) -> tuple[bool, float]:
    """Whether a kill is counted from the first rows, and after how many seconds it comes."""
    share = float(np.random.default_rng([SEED, number]).random())
    if number < EARLY:
        return False, unbroken.before_rows_s * (number + share) / EARLY
    return True, unbroken.after_rows_s * (number - EARLY + share) / (KILLS - EARLY)


def killed(campaign: Campaign, unbroken: Unbroken, number: int, *, scale: float) -> bool:
    """Start, kill without warning, wait until nothing of it is left; False when it had ended by itself before."""
    process = start(campaign)
    from_rows, wait_s = moment(unbroken, number)
    if from_rows:
        wait_for_rows(campaign, process)
    time.sleep(wait_s * scale)
    running = process.poll() is None
    children: list[psutil.Process] = []
    with contextlib.suppress(psutil.NoSuchProcess):
        children = psutil.Process(process.pid).children(recursive=True) if running else []
    if number % 2 == 0 and running:
        os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
    process.communicate()
    _, alive = psutil.wait_procs(children, timeout=5)
    assert not alive, "an engine's process must end with its parent"
    return running


def state_of(campaign: Campaign) -> str:
    if not any((campaign.root / part).exists() for part in ("captures", "comparisons")):
        return "before anything was captured"
    records = campaign.records()
    if records and records[0].complete:
        return "after the end"
    done = sum(arm.complete for record in records for arm in record.arms)
    return f"with {done} of 2 arms logged"


def check_what_is_there(campaign: Campaign, unbroken: Unbroken) -> None:
    """Right after the kill: what says that it is whole is whole."""
    if state_of(campaign).startswith("before"):
        return
    for name, digest in tree(campaign.root).items():
        if not name.endswith((".part", ".tmp")):
            assert unbroken.files[name] == digest, f"{name} is there and not whole"
    for arm, figures in (figures_of(campaign) if campaign.records() else {}).items():
        assert figures == unbroken.figures[arm]
    for record in campaign.records():
        assert not record.complete or sum(arm.complete for arm in record.arms) == 2


def survive(unbroken: Unbroken, folder: Path, number: int, *, go_on: Callable[[Campaign], object] = to_the_end) -> str:
    """One kill and what follows; says what was hit. ``go_on`` runs the campaign to its end."""
    for attempt in range(4):  # the machine may be quicker now than when the unbroken run was timed
        campaign = unbroken.make(folder / str(attempt))
        if killed(campaign, unbroken, number, scale=0.6**attempt):
            break
    hit = state_of(campaign)
    check_what_is_there(campaign, unbroken)
    go_on(campaign)
    assert tree(campaign.root) == unbroken.files
    assert figures_of(campaign) == unbroken.figures
    assert metrics_of(campaign) == unbroken.metrics
    (record,) = campaign.records()
    assert record.complete and record.status == "FINISHED"
    assert sorted((arm.arm, arm.complete) for arm in record.arms) == [(arm, True) for arm in sorted(unbroken.figures)]
    assert not campaign.store.spill_folder.exists()
    leftovers = [path for path in campaign.root.rglob("*") if path.name.endswith((".part", ".tmp"))]
    assert leftovers == []
    return hit


def all_of(unbroken: Unbroken, folder: Path) -> Counter[str]:
    hits: Counter[str] = Counter()
    for number in range(KILLS):
        hit = survive(unbroken, folder / str(number), number)
        hits[hit] += 1
        shutil.rmtree(folder / str(number))
    whole_s = unbroken.before_rows_s + unbroken.after_rows_s
    print(f"\n{KILLS} kills over {whole_s:.1f} s, first rows after {unbroken.before_rows_s:.1f} s: {dict(hits)}")
    return hits


@pytest.fixture(scope="module")
def unbroken_tiny(tmp_path_factory: pytest.TempPathFactory, tiny_arms: Path, empty_database: Path) -> Unbroken:
    def make(folder: Path) -> Campaign:
        return new_campaign(folder, tiny_arms, empty_database, CUT)

    return measured(make, tmp_path_factory.mktemp("unbroken") / "campaign")


@pytest.mark.parametrize("number", SAMPLE)
def test_a_kill_costs_no_byte(unbroken_tiny: Unbroken, tmp_path: Path, number: int) -> None:
    survive(unbroken_tiny, tmp_path / "campaign", number, go_on=Campaign.run)


def test_ctrl_c_says_how_to_go_on(unbroken_tiny: Unbroken, tmp_path: Path) -> None:
    campaign = unbroken_tiny.make(tmp_path / "campaign")
    process = start(campaign)
    deadline = time.monotonic() + 60
    while not list(campaign.root.glob("captures/*/*.parquet")) and time.monotonic() < deadline:
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the engine's process as well
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err.splitlines()[-1] == ("drift: interrupted; every finished window is safe: run the same command to go on")
    assert "Traceback" not in err
    check_what_is_there(campaign, unbroken_tiny)
    assert campaign.run().failed == ()
    assert tree(campaign.root) == unbroken_tiny.files and figures_of(campaign) == unbroken_tiny.figures


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_twenty_kills_from_an_empty_folder(tmp_path: Path, tiny_arms: Path) -> None:
    """Also while the tracking store is being made."""

    def make(folder: Path) -> Campaign:
        return new_campaign(folder, tiny_arms, None, CUT)

    hits = all_of(measured(make, tmp_path / "unbroken"), tmp_path)
    assert len(hits) >= 3, f"the moments hit too little of a run: {hits}"


TEXT = (
    "interface eth0\n address 192.0.2.17\n mtu 9000\ninterface eth1\n address 198.51.100.4\n mtu 1500\n"
    "def port_of(name):\n    return {'web': 8443, 'database': 5432}[name]\n"
)


@pytest.fixture(scope="module")
def unbroken_smollm2(tmp_path_factory: pytest.TempPathFactory, smollm2: Path) -> Unbroken:
    """The demo's model: two windows of about 120 tokens, F16, Q8_0, and KV cache in Q4_0."""
    from drift_runs.engines.llama_cpp import LlamaCpp
    from drift_runs.machine import machine_text
    from drift_runs.weights.demo import QUICK, recipe_file
    from drift_runs.weights.fetch import cache_folder
    from drift_runs.weights.variants import write_variant
    from tests.engines.conftest import settings

    folder = tmp_path_factory.mktemp("smollm2")
    models = {name: recipe_file(QUICK.arms[name], cache_folder()) for name in ("f16", "q8_0")}
    for name, path in models.items():
        if not path.is_file():
            write_variant(smollm2 if name == "f16" else models["f16"], path, weights=name)
    machine = folder / "drift.toml"
    machine.write_text(machine_text(models, same_model={"kv-q4_0": "f16"}, threads=1))
    with LlamaCpp(smollm2, settings()) as engine:
        table = engine.token_bytes()
        streams = {name: engine.tokenize(text)[:120] for name, text in (("alpha", TEXT), ("beta", TEXT[::-1]))}
    changes = {
        **CUT,
        "name": "kills",
        "dictionary": {"size": len(table), "sha256": dictionary_sha256(table)},
        "capture": {"top_k": 64, "context_tokens": 256, "batch": 256, "micro_batch": 64},
        "windows[0].scored": lambda _: [[20, len(streams["alpha"])]],
        "windows[1].scored": lambda _: [[20, len(streams["beta"])]],
        "ranges": lambda _: [
            {"name": f"{name}-all", "window": window, "kind": "cli", "from": 20, "to": len(streams[name])}
            for name, window in (("alpha", "alpha-1"), ("beta", "beta"))
        ],
        "arms[1].name": "q8_0",
        "arms[1].weights": "q8_0",
    }

    def make(target: Path) -> Campaign:
        campaign = Campaign(folder=target, protocol=copy_tiny(target / "protocol"), machine=machine)
        for name, ids in streams.items():
            text = b"".join(table[token] for token in ids).decode("utf-8", "replace")
            source = "generated" if name == "beta" else "authored"
            stream = Stream(
                schema="drift.stream/1",
                name=name,
                tokens=tuple(ids),
                text=text,
                source=source,
                prompt_tokens=10 if source == "generated" else 0,
            )
            write_stream(campaign.protocol.parent / "streams" / f"{name}.json", stream)
        change_toml(campaign.protocol, changes)
        return campaign

    return measured(make, folder / "unbroken")


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_twenty_kills_of_the_demo_model(unbroken_smollm2: Unbroken, tmp_path: Path) -> None:
    hits = all_of(unbroken_smollm2, tmp_path)
    assert len(hits) >= 3, f"the moments hit too little of a run: {hits}"
