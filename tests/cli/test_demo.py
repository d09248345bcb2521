"""``drift demo`` from an empty store, on a tiny model in the place of the pinned one."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from drift_runs.cli.main import main
from drift_runs.machine import load_machine
from drift_runs.protocol.load import load_protocol
from drift_runs.tracking.uris import sqlite_uri
from drift_runs.weights import demo
from drift_runs.weights.demo import Demo, Prepared
from tests.conftest import copy_tiny
from tests.tiny_adapter import tiny_factors, write_tiny_adapter


def test_the_demo_with_an_adapter(
    tmp_path: Path,
    tiny_arms: Path,
    empty_database: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Protocol and follow-ups by name, the machine file from the demo's files, the table; and all of it done at once
    the second time."""
    monkeypatch.chdir(tmp_path)
    for name in ("MLFLOW_TRACKING_URI", "DRIFT_STORE"):
        monkeypatch.delenv(name, raising=False)
    reference = {"name": "f16", "role": "reference", "derivative": "tiny", "weights": "f16"}
    arms = [reference, {**reference, "name": "same", "role": "candidate", "kv": "q4_0"}]
    path = copy_tiny(tmp_path / "protocols", {"intervals.resamples": 100, "floors": [], "arms": arms})
    (tmp_path / "protocols" / "tiny.followups.toml").write_text(
        f'schema = "drift.followups/1"\nprotocol = "tiny"\nprotocol_sha256 = "{load_protocol(path).protocol_sha256}"\n'
        '[[arms]]\nname = "adapted"\nrole = "follow-up"\nderivative = "ops"\nweights = "f16"\n'
        "settings = { adapter_scale = 0.5 }\n"
    )
    adapter = write_tiny_adapter(tmp_path / "adapter.gguf", tiny_factors(size=0.1))
    model = tiny_arms.parent / "f16.gguf"
    chosen = Demo(protocol="tiny", reference="f16", arms={}, same_model={"same": "f16"}, adapted=("adapted",))
    files = Prepared({"f16": model, "adapted": model}, {"adapted": adapter})
    monkeypatch.setattr(demo, "DEMOS", {"smollm2-ops": chosen})
    monkeypatch.setattr(demo, "prepare", lambda found, **told: files if found is chosen else None)

    arguments = ["demo", "--protocol", "smollm2-ops", "--store", "s", "--threads", "1"]
    arguments += ["--tracking-uri", sqlite_uri(shutil.copy(empty_database, tmp_path / "mlflow.db"))]
    assert main(arguments) == 0
    table, notes = capsys.readouterr()
    rows = {line.split()[0] for line in table.splitlines() if line}
    assert {"same", "adapted"} <= rows
    assert "drift dashboard --store s" in notes
    machine = load_machine(tmp_path / "s" / "drift.toml")
    assert machine.adapter_file("adapted") == adapter and machine.adapter_file("f16") is None
    assert machine.model_file("same") == model and machine.threads("adapted") == 1

    assert main(arguments) == 0
    again, notes = capsys.readouterr()
    assert again == table and "all rows are there already" in notes


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [(["--threads", "0"], "--threads: 0 threads; expected 1 or more"), (["--protocol", "x"], "invalid choice: 'x'")],
)
def test_what_is_refused(arguments: list[str], expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", *arguments]) == 2
    assert expected in capsys.readouterr().err
