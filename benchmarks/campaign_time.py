"""A campaign's time over the bare engine's time for the same tokens, and the bytes it stores a scored position.

Both sides do the same engine work in one run of this benchmark: a fresh process a launch, the same windows, the same
outputs. The bare side opens the engine and asks for the rows, and does nothing with them. The campaign side is
everything that ``drift run`` does: hashing, comparing, storing, measuring, MLflow. The two take turns, launch by launch
on the bare side and as a whole on the other, so quote the ratio from a machine that does nothing else.

Needs the demo's weights: run ``drift demo`` or ``make demo`` once. ``DRIFT_BENCH_FULL=1`` runs every arm; by default
the reference, the micro-batch floor, q8_0 and kv-q4_0 run on every other window.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from drift_runs import schema
from drift_runs.campaign import Request, run_campaign
from drift_runs.capture.execution import Execution
from drift_runs.capture.planning import plan_executions
from drift_runs.engines.llama_cpp import identity
from drift_runs.machine import load_machine, machine_text
from drift_runs.protocol.load import LoadedProtocol, find_protocol, load_protocol
from drift_runs.store import Store
from drift_runs.tracking.uris import resolve_uri
from drift_runs.weights.demo import QUICK, prepare

THREADS = 2
ARMS = ("q8_0", "kv-q4_0")

_BARE = """
import json, sys, time
started = time.perf_counter()
from pathlib import Path
from drift_runs.engines.base import EngineSettings
from drift_runs.engines.llama_cpp import LlamaCpp
job = json.loads(sys.stdin.read())
adapter = job["adapter"] and Path(job["adapter"])
engine = LlamaCpp(Path(job["model"]), EngineSettings(**job["settings"]), adapter=adapter)
opened = time.perf_counter()
for window in job["windows"]:
    for block in engine.score(window["tokens"], window["positions"]):
        block.logits[-1, -1]
print(json.dumps({"open_s": opened - started, "engine_s": time.perf_counter() - opened}))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignTime:
    """Seconds and bytes of one comparison."""

    tokens: int
    positions: int
    bare_engine_s: float
    """Inside the bare engines, opening left out."""
    bare_s: float
    """The bare side's processes from start to end."""
    campaign_engine_s: float
    campaign_own_s: float
    campaign_s: float
    row_bytes: float
    comparison_bytes: float
    full_bytes: float
    """2 bytes an entry of the dictionary."""


class _Silent:
    """A reporter that says nothing."""

    def planned(self, executions, tokens_left) -> None: ...

    def opening(self, execution) -> None: ...

    def window(self, done) -> None: ...

    def outcome(self, outcome) -> None:
        if outcome.error is not None:
            raise outcome.error

    def note(self, text: str) -> None: ...


def cut(loaded: LoadedProtocol, folder: Path) -> LoadedProtocol:
    """The demo's protocol with every other window, the micro-batch floor and two candidates."""
    content = json.loads(json.dumps(loaded.content))
    kept = {window["name"] for window in content["windows"][::2]}
    content["windows"] = [window for window in content["windows"] if window["name"] in kept]
    content["ranges"] = [span for span in content["ranges"] if span["window"] in kept]
    content["outliers"] = [outlier for outlier in content["outliers"] if outlier["window"] in kept]
    content["arms"] = [arm for arm in content["arms"] if arm["role"] == "reference" or arm["name"] in ARMS]
    content["floors"] = [
        floor for floor in content["floors"] if floor["kind"] == "geometry" and not floor.get("windows")
    ]
    from drift_runs.protocol.model import Protocol

    protocol = Protocol.model_validate(content)
    path = folder / "cut.toml"
    path.write_text("# the cut exists in memory only\n", encoding="utf-8")
    streams = {name: stream for name, stream in loaded.streams.items() if name in kept}
    return LoadedProtocol(
        protocol=protocol,
        path=path,
        content=content,
        streams=streams,
        protocol_sha256="0" * 64,
        file_digests={},
        lock=None,
        draft=True,
    )


def bare(executions: tuple[Execution, ...], loaded: LoadedProtocol) -> tuple[float, float]:
    """(seconds inside the engines, seconds of the processes)."""
    engine_s = process_s = 0.0
    for execution in executions:
        windows = []
        for name in execution.windows:
            spans = loaded.protocol.window(name).scored
            positions = [position for start, end in spans for position in range(start, end)]
            windows.append({"tokens": list(loaded.tokens(name)), "positions": positions})
        job = {
            "model": str(execution.weights.path),
            "adapter": execution.adapter and str(execution.adapter.path),
            "settings": asdict(execution.settings),
            "windows": windows,
        }
        started = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-c", _BARE], input=json.dumps(job), capture_output=True, text=True, check=True
        )
        process_s += time.perf_counter() - started
        engine_s += json.loads(done.stdout)["engine_s"]
    return engine_s, process_s


def folder_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob("*/*.parquet"))


def measure() -> CampaignTime:
    loaded = load_protocol(find_protocol(QUICK.protocol))
    with tempfile.TemporaryDirectory(prefix="drift-bench-") as name:
        folder = Path(name)
        if not os.environ.get("DRIFT_BENCH_FULL"):
            loaded = cut(loaded, folder)
        machine_file = folder / "drift.toml"
        text = machine_text(prepare(QUICK).models, same_model=QUICK.same_model, threads=THREADS)
        machine_file.write_text(text, encoding="utf-8")
        machine = load_machine(machine_file)
        executions = plan_executions(loaded, machine, identity())
        bare_engine_s, bare_s = bare(executions, loaded)
        store = Store(folder / "store")
        request = Request(loaded=loaded, machine=machine, store=store, tracking_uri=resolve_uri(None, store.root))
        started = time.perf_counter()
        result = run_campaign(request, identity(), _Silent())
        campaign_s = time.perf_counter() - started
        compared = sum(
            store.read_comparison(execution.compared_with(executions[0]), execution.windows).num_rows
            for execution in executions[1:]
        )
        return CampaignTime(
            tokens=result.timing.tokens,
            positions=result.timing.positions,
            bare_engine_s=bare_engine_s,
            bare_s=bare_s,
            campaign_engine_s=result.timing.engine_s,
            campaign_own_s=result.timing.own_s,
            campaign_s=campaign_s,
            row_bytes=folder_bytes(store.root / "captures") / result.timing.positions,
            comparison_bytes=folder_bytes(store.root / "comparisons") / compared,
            full_bytes=2 * loaded.protocol.dictionary.size,
        )


def main() -> None:
    found = measure()
    stored = found.row_bytes + found.comparison_bytes
    print(f"tokens, rows          {found.tokens:,}, {found.positions:,} ({schema.version_of(schema.ROWS)})")
    print(f"bare engine           {found.bare_engine_s:.1f} s ({found.tokens / found.bare_engine_s:.0f} tokens/s)")
    print(f"bare processes        {found.bare_s:.1f} s")
    print(f"campaign              {found.campaign_s:.1f} s (engines {found.campaign_engine_s:.1f} s, beside them "
          f"{found.campaign_own_s:.1f} s)")  # fmt: skip
    print(f"campaign / engine     {found.campaign_s / found.bare_engine_s:.3f}")
    print(f"campaign / processes  {found.campaign_s / found.bare_s:.3f}")
    parts = f"{found.row_bytes:.0f} B rows + {found.comparison_bytes:.0f} B comparison"
    print(f"stored a position     {parts} = {stored:.0f} B")
    print(f"of 2 bytes an entry   {stored / found.full_bytes:.2%} of {found.full_bytes:,.0f} B")
