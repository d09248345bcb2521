"""Campaigns with arms that write and give no rows: a real llama.cpp server behind OpenAI's interfaces."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from drift_runs.cli.main import main
from drift_runs.tracking import artifacts, reader
from drift_runs.tracking.mlflow_store import artifact
from drift_runs.weights.hf_folder import write_hf_folder
from tests.campaigns import SOUND, Campaign, new_campaign
from tests.conftest import DELETE
from tests.engines.llama_server_process import RunningServer, llama_server
from tests.test_campaign_generation import CHAT, write_prompts

F16 = {"name": "f16", "role": "reference", "derivative": "stock", "weights": "f16"}
Q4_0 = {**F16, "name": "q4_0", "role": "candidate", "weights": "q4_0"}
WRITER = {**Q4_0, "name": "writer", "engine": "generic"}
PROTOCOL = {
    **SOUND,
    "arms": [F16, Q4_0, WRITER],
    "floors": [],
    "chat": CHAT,
    "branches": {"cap": 6, "per_range": 3, "horizon_tokens": 16},
    "rollouts": {"prompts": "prompts.toml", "ids": "prompt-ids.json", "tokens": 8},
    "tasks": [
        {"name": "a-word", "window": "beta", "at": 6, "check": "pattern", "expected": ["[a-z]"], "horizon_tokens": 12}
    ],
}


@pytest.fixture(scope="module")
def server(tiny_arms: Path) -> Iterator[RunningServer]:
    with llama_server(tiny_arms.parent / "q4_0.gguf") as running:
        yield running


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory, tiny_arms: Path) -> Path:
    folder = tmp_path_factory.mktemp("tokenizer") / "folder"
    write_hf_folder(tiny_arms.parent / "f16.gguf", folder, dtype="float16")
    return folder


def prepared(folder: Path, arms: Path, database: Path, url: str, tokenizer: Path, changes: dict | None = None) -> Campaign:
    (folder / "protocol").mkdir(parents=True)
    write_prompts(folder / "protocol")
    campaign = new_campaign(folder, arms, database, {**PROTOCOL, **(changes or {})})
    models = {name: json.dumps(str(arms.parent / f"{name}.gguf")) for name in ("f16", "q4_0")}
    campaign.machine = folder / "drift.toml"
    campaign.machine.write_text(
        f'schema = "drift.machine/1"\n[defaults]\nthreads = 1\n[arms.f16]\nmodel = {models["f16"]}\n'
        f"[arms.q4_0]\nmodel = {models['q4_0']}\n"
        f'[arms.writer]\nurl = "{url}"\ntokenizer = {json.dumps(str(tokenizer))}\n',
        "utf-8",
    )
    return campaign


@pytest.fixture(scope="module")
def ran(
    tmp_path_factory: pytest.TempPathFactory,
    tiny_arms: Path,
    empty_database: Path,
    server: RunningServer,
    tokenizer: Path,
) -> Campaign:
    folder = tmp_path_factory.mktemp("written") / "campaign"
    campaign = prepared(folder, tiny_arms, empty_database, server.url, tokenizer)
    campaign.result = campaign.run()
    return campaign


def test_it(ran: Campaign) -> None:
    for outcome in (*ran.result.failed, *ran.result.failed_generation):
        print(outcome.execution.name, outcome.error.line())
    assert ran.result.failed == () and ran.result.failed_generation == ()
    report = next(found for found in ran.result.generation if found.execution.name == "writer")
    print(report.explored.visited.to_pylist())
    print(report.outcomes.to_pylist())
    print(report.tables["rollouts.parquet"].to_pylist() if "rollouts.parquet" in report.tables else report.tables.keys())
    assert 0
