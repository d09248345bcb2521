"""Rows that real engines gave, played: vLLM on a processor, transformers with weights quantised at load, MLX against
llama.cpp; and what was followed across the last two, judged again.

``tests/data/recorded`` holds windows of three whole runs, kept by ``python -m drift_runs.capture.recording``. The
figures below are those of the runs, over the same windows: read from their comparisons before anything was kept.
"""

from __future__ import annotations

import json
import shutil
import tomllib
from pathlib import Path

import pyarrow.compute as pc
import pytest

from drift_runs import schema
from drift_runs.generate.futures import futures_of
from drift_runs.generate.outcomes import judge
from drift_runs.lanes.scenes import Scenes
from drift_runs.protocol.load import load_protocol
from drift_runs.store import read_table
from tests.campaigns import Campaign
from tests.conftest import dump_toml

ROOT = Path(__file__).resolve().parents[2]
RECORDED = ROOT / "tests" / "data" / "recorded"
BRANCH = "branch"


def played(folder: Path, name: str, database: Path) -> Campaign:
    """A protocol's arms as recordings, on the recorded windows."""
    content = tomllib.loads((ROOT / "protocols" / f"{name}.toml").read_text("utf-8"))
    recorded = {path.parent.name for path in (RECORDED / name).glob("*/capture.json")}
    reference = next(arm["name"] for arm in content["arms"] if arm["role"] == "reference")
    windows = set(json.loads((RECORDED / name / reference / "capture.json").read_text("utf-8"))["windows"])
    for table in ("chat", "branches"):
        content.pop(table, None)
    content["capture"] |= {"full_vocabulary": "no", "divergence": "kl.topk-shared"}
    content["intervals"]["resamples"] = 200
    for table, key in (("windows", "name"), ("ranges", "window"), ("outliers", "window")):
        content[table] = [entry for entry in content.get(table, []) if entry[key] in windows]
    content["arms"] = [
        {**arm, "engine": "replay", "settings": {}} for arm in content["arms"] if arm["name"] in recorded
    ]
    # A recording has no geometry to change: what a floor gave is played as a launch of its own.
    floors = [floor for floor in content["floors"] if floor["name"] in recorded]
    content["floors"] = [{"name": floor["name"], "arm": floor["arm"], "kind": "launch"} for floor in floors]
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
        (
            "smollm2-mlx",
            {
                "micro-batch": (0, 144, 4.02426e-6),
                "mlx-f32": (0, 144, 1.91265e-6),
                "mlx-q8": (1, 144, 0.00103832),
                "mlx-q4": (45, 144, 0.293532),
            },
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
        assert found[arm][2] == pytest.approx(mean, rel=1e-3, abs=2e-7), arm


@pytest.mark.parametrize(("arm", "roots"), [("mlx-q4", 3), ("mlx-q8", 1)])
def test_what_was_followed_across_two_engines_is_judged_the_same(arm: str, roots: int) -> None:
    """llama.cpp went on from its token, MLX from its own: the stored tokens give the stored outcome again."""
    loaded = load_protocol(ROOT / "protocols" / "smollm2-mlx.toml")
    dictionary = read_table(RECORDED / "dictionary.parquet", schema.DICTIONARY)["bytes"].to_pylist()
    scenes = Scenes(loaded, [bytes(value) for value in dictionary])
    followed = RECORDED / "smollm2-mlx" / "followed"
    ours, theirs = (futures_of(read_table(followed / f"{name}.parquet", schema.FUTURES)) for name in ("gguf", arm))
    rows = read_table(followed / f"{arm}-outcomes.parquet", schema.OUTCOMES).to_pylist()
    rows = [row for row in rows if row["pair"] == BRANCH]
    assert len(rows) == roots
    for row in rows:
        place = row["window"], row["position"]
        ((one, other),) = [
            (one, other)
            for one in ours
            for other in theirs
            if (one.window, one.position) == (other.window, other.position) == place
            and (one.text, other.text) == (row["reference_text"], row["candidate_text"])
        ]
        scene = scenes.at(*place)
        assert (
            one.first != other.first and scene.read(one.tokens) == one.text and scene.read(other.tokens) == other.text
        )
        found = judge(scene, one, other)
        assert (found.outcome, found.rule) == (row["outcome"], row["rule"])
