"""Rows that real engines gave, played: vLLM on a processor, and transformers with weights quantised at load.

``tests/data/recorded`` holds four windows of two whole runs, kept by ``python -m drift_runs.capture.recording``. The
figures below are those of the runs, over the same four windows: read from their comparisons before anything was kept.
"""

from __future__ import annotations

import json
import shutil
import tomllib
from pathlib import Path

import pyarrow.compute as pc
import pytest

from tests.campaigns import Campaign
from tests.conftest import dump_toml

ROOT = Path(__file__).resolve().parents[2]
RECORDED = ROOT / "tests" / "data" / "recorded"
WINDOWS = ("pa-migration-notes", "pa-prose", "pb-architecture", "pb-shell")


def played(folder: Path, name: str, database: Path) -> Campaign:
    """A protocol's arms as recordings, on the recorded windows."""
    content = tomllib.loads((ROOT / "protocols" / f"{name}.toml").read_text("utf-8"))
    content["capture"] |= {"full_vocabulary": "no", "divergence": "kl.topk-shared"}
    content["intervals"]["resamples"] = 200
    for table, key in (("windows", "name"), ("ranges", "window"), ("outliers", "window")):
        content[table] = [entry for entry in content[table] if entry[key] in WINDOWS]
    recorded = {path.name for path in (RECORDED / name).iterdir() if path.is_dir()}
    content["arms"] = [
        {**arm, "engine": "replay", "settings": {}} for arm in content["arms"] if arm["name"] in recorded
    ]
    content["floors"] = [floor for floor in content["floors"] if floor["name"] in recorded]
    path = folder / "protocol" / f"{name}.toml"
    for entry in content["windows"]:
        target = path.parent / entry["stream"]
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / "protocols" / entry["stream"], target)
    path.write_text(dump_toml(content), "utf-8")
    machine = folder / "drift.toml"
    tables = [f"[arms.{arm}]\nrows = {json.dumps(str(RECORDED / name / arm))}" for arm in sorted(recorded)]
    machine.write_text("\n".join(['schema = "drift.machine/1"', *tables]), "utf-8")
    campaign = Campaign(folder=folder, protocol=path, machine=machine)
    campaign.root.mkdir()
    shutil.copy(database, campaign.root / "mlflow.db")
    return campaign


def figures(campaign: Campaign) -> dict[str, tuple[int, int, float]]:
    """By arm: flips, positions, mean of the divergence over shared tokens."""
    found = {}
    for outcome in campaign.run().outcomes:
        assert outcome.error is None, outcome.error
        if outcome.figures is not None:
            whole = outcome.figures.filter((pc.field("scope_kind") == "all") & (pc.field("outliers") == "with"))
            rows = {(row["spec"], row["statistic"]): row for row in whole.to_pylist()}
            mean = rows["kl.topk-shared@20", "mean"]
            found[outcome.execution.name] = int(rows["flip", "count"]["value"]), mean["n"], mean["value"]
    return found


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "smollm2-vllm",
            {"launch": (0, 925, 0.0), "vllm-kv-fp8": (61, 925, 0.0163304), "transformers": (14, 925, 0.00133103)},
        ),
        (
            "smollm2-transformers",
            {"int8": (30, 925, 0.00405425), "fp8": (56, 925, 0.0130394), "nf4": (248, 925, 0.182216)},
        ),
    ],
)
def test_recorded_rows_give_the_figures_of_the_run(
    name: str, expected: dict[str, tuple[int, int, float]], tmp_path: Path, empty_database: Path
) -> None:
    found = figures(played(tmp_path / "played", name, empty_database))
    assert found.keys() == expected.keys()
    for arm, (flips, positions, mean) in expected.items():
        assert found[arm][:2] == (flips, positions), arm
        assert found[arm][2] == pytest.approx(mean, rel=1e-3, abs=1e-12), arm
