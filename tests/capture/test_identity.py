"""What a capture's id is made of: an id that changed would make every stored row look as if it had not been taken."""

from __future__ import annotations

from pathlib import Path

import pytest

from drift_runs.capture.execution import Execution
from drift_runs.capture.planning import plan_executions
from drift_runs.engines.base import Capabilities, EngineIdentity
from drift_runs.machine import load_machine, machine_text
from drift_runs.protocol.load import find_protocol, load_followups, load_protocol
from drift_runs.store import content_id
from drift_runs.weights.variants import write_variant
from tests.tiny_model import write_tiny_model

ENGINE = EngineIdentity(
    engine="llama_cpp",
    build="b",
    backend="cpu",
    hardware="h",
    capabilities=Capabilities(
        full_vocabulary=True,
        largest_top_k=None,
        path_shapes=("prefill", "decode"),
        token_ids=True,
        continues=True,
    ),
)

SMOLLM2_QUICK = {
    "f16": "04ab2cce420788f0",
    "launch": "59695a5c81aa8037",
    "pass": "b475ce52b7a3558c",
    "threads": "ed8935d9d48fd3fc",
    "micro-batch": "1cd1b36ecee74304",
    "q8_0": "04ab2cce420788f0",
    "q5_0": "04ab2cce420788f0",
    "q4_0": "04ab2cce420788f0",
    "q4_1": "04ab2cce420788f0",
    "kv-q8_0": "33ff99c7eabb4516",
    "kv-q4_0": "d993049a648cc047",
    "fa-off": "272a684e7b9a9782",
    "ablated": "04ab2cce420788f0",
    "kv-bf16": "9bd7ae58ddbc5312",
}
"""Ids of the shipped protocol's executions on ``ENGINE`` with two threads and a weights digest of zeros, as version
0.1.0 made them. A change here needs a way for stores that exist."""


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> tuple[Execution, ...]:
    path = find_protocol("smollm2-quick")
    loaded = load_protocol(path)
    follow_ups = load_followups(path.with_name("smollm2-quick.followups.toml"), loaded)
    folder = tmp_path_factory.mktemp("weights")
    files: dict[str, Path] = {}
    for number, arm in enumerate((*loaded.protocol.arms, *follow_ups)):
        files[arm.name] = folder / f"{arm.name}.gguf"
        if arm.weights == "f16":
            write_tiny_model(files[arm.name], seed=number + 1)
        else:
            write_variant(files["f16"], files[arm.name], weights=arm.weights)
    machine = folder / "drift.toml"
    machine.write_text(machine_text(files, same_model={}, threads=2))
    return plan_executions(loaded, load_machine(machine), ENGINE, follow_ups=follow_ups)


def test_ids_of_the_shipped_protocol_stay_as_they_are(planned: tuple[Execution, ...]) -> None:
    assert {
        execution.name: content_id({**execution.identity, "weights_sha256": "0" * 64}) for execution in planned
    } == SMOLLM2_QUICK
    assert all(execution.capture_id == content_id(execution.identity) for execution in planned)


def test_an_arm_without_an_adapter_says_nothing_of_adapters(planned: tuple[Execution, ...]) -> None:
    for execution in planned:
        assert "adapter" not in execution.identity and execution.adapter is None
        assert set(execution.identity["settings"]) == {
            "path_shape",
            "context_tokens",
            "batch",
            "micro_batch",
            "threads",
            "kv",
            "flash_attention",
        }
