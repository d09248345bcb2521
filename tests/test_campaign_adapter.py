"""Arms that run with an adapter: what they take, what they are told apart by, and what is refused before any work."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from drift_runs.campaign.facts import observed_weights, undeclared_settings
from drift_runs.capture.process import Step, run_launch
from drift_runs.cli.main import main
from drift_runs.errors import ConfigError, ModelFileError, ProtocolError, SameRows
from drift_runs.machine import machine_text
from drift_runs.protocol.load import load_protocol
from drift_runs.tracking.reader import load_figures
from tests.campaigns import Campaign, new_campaign
from tests.tiny_adapter import tiny_factors, write_tiny_adapter
from tests.tiny_model import write_tiny_model

ALPHA, RANK = 8.0, 4
Maker = Callable[..., Campaign]


def arm(name: str, role: str = "candidate", *, scale: float | None = None, derivative: str = "ops") -> dict:
    found = {"name": name, "role": role, "derivative": derivative, "weights": "f16"}
    return found if scale is None else {**found, "settings": {"adapter_scale": scale}}


@pytest.fixture
def make(tmp_path: Path, empty_database: Path) -> Maker:
    """Campaigns on one F16 base and two adapters, ``a.gguf`` and ``b.gguf``; each arm on the base unless told."""
    base = write_tiny_model(tmp_path / "base.gguf")
    for seed, name in enumerate(("a", "b")):
        write_tiny_adapter(tmp_path / f"{name}.gguf", tiny_factors(seed=seed, size=0.05), alpha=ALPHA)

    def made(
        arms: list[dict],
        adapters: dict[str, str],
        *,
        models: dict[str, Path] | None = None,
        folder: str = "one",
        **changes: object,
    ) -> Campaign:
        machine = tmp_path / f"{folder}.toml"
        files = {"plain": base, **(models or {})}
        same = {item["name"]: "plain" for item in arms if item["name"] not in files}
        named = {name: tmp_path / f"{file}.gguf" for name, file in adapters.items()}
        machine.write_text(machine_text(files, same_model=same, threads=1, adapters=named))
        wanted = {"intervals.resamples": 100, "arms": arms, "floors": [], **changes}
        return new_campaign(tmp_path / folder, machine, empty_database, wanted)

    return made


PLAIN = arm("plain", "reference", derivative="stock")


class TestPlan:
    def test_a_scale_without_a_file(self, make: Maker) -> None:
        with pytest.raises(ConfigError, match=r"applies an adapter at scale 0\.5, and no file is named") as caught:
            make([PLAIN, arm("half", scale=0.5)], {}).executions()
        assert caught.value.where == "one.toml: arms.half"
        assert "adapter =" in caught.value.expected and "same_model_as" in caught.value.todo

    def test_a_file_without_a_scale(self, make: Maker) -> None:
        with pytest.raises(ConfigError, match="the protocol applies no adapter to this arm") as caught:
            make([PLAIN, arm("half", scale=0.5)], {"half": "a", "plain": "a"}).executions()
        assert caught.value.where == "one.toml: arms.plain.adapter"
        assert "adapter_scale" in caught.value.expected and "new version" in caught.value.todo

    def test_an_arm_takes_over_no_adapter(self, make: Maker, tmp_path: Path) -> None:
        """``plain`` is what both share; the one adapter is not handed on."""
        with pytest.raises(ConfigError, match="no file is named") as caught:
            make([arm("plain", "reference", scale=1.0), arm("other", scale=0.5)], {"plain": "a"}).executions()
        assert caught.value.where == "one.toml: arms.other"

    def test_a_file_that_is_not_there(self, make: Maker, tmp_path: Path) -> None:
        with pytest.raises(ModelFileError, match=r"none\.gguf: no such file; expected a GGUF adapter"):
            make([PLAIN, arm("half", scale=0.5)], {"half": "none"}).executions()

    def test_one_file_at_one_scale_is_one_execution(self, make: Maker) -> None:
        with pytest.raises(ModelFileError, match="two and one are the same execution"):
            make([PLAIN, arm("one", scale=1.0), arm("two", scale=1.0)], {"one": "a", "two": "a"}).executions()

    def test_what_an_identity_says(self, make: Maker, tmp_path: Path) -> None:
        arms = [PLAIN, arm("half", scale=0.5), arm("whole", scale=1), arm("b", scale=1.0)]
        found = make(arms, {"half": "a", "whole": "a", "b": "b"}).executions()
        digest = hashlib.sha256((tmp_path / "a.gguf").read_bytes()).hexdigest()
        assert found["half"].identity["adapter"] == {"sha256": digest, "scale": 0.5}
        assert found["whole"].identity["adapter"] == {"sha256": digest, "scale": 1.0}
        assert "adapter" not in found["plain"].identity
        assert len({execution.capture_id for execution in found.values()}) == 4
        others = {**found["half"].identity, "adapter": None}
        assert others == {**found["plain"].identity, "adapter": None}, "and nothing else differs"
        assert observed_weights(found["plain"]) == found["plain"].weights.label
        assert observed_weights(found["half"]) == f"{found['plain'].weights.label} + adapter {digest[:8]}"

    @pytest.mark.parametrize("kind", ["geometry", "launch"])
    def test_a_floor_of_another_scale(self, make: Maker, kind: str) -> None:
        floor = {"name": "f", "arm": "plain", "kind": kind, "settings": {"adapter_scale": 0.5, "micro_batch": 8}}
        with pytest.raises(ProtocolError, match=r"another model|changes nothing"):
            make([PLAIN], {}, floors=[floor]).executions()

    def test_a_floor_runs_with_its_arm_s_adapter(self, make: Maker) -> None:
        reference = arm("plain", "reference", scale=1.0)
        floor = {"name": "f", "arm": "plain", "kind": "geometry", "settings": {"path_shape": "decode"}}
        found = make([reference], {"plain": "a"}, floors=[floor]).executions()
        assert found["f"].identity["adapter"] == found["plain"].identity["adapter"]
        assert undeclared_settings(found["f"], found["plain"]) == {}

    @pytest.mark.parametrize("scale", [0, -1.0, 65, "one"])
    def test_a_scale_that_cannot_be(self, make: Maker, scale: object) -> None:
        with pytest.raises(ProtocolError, match="adapter_scale"):
            make([PLAIN, arm("x", scale=scale)], {"x": "a"}).executions()

    def test_another_file_under_the_same_name_is_undeclared(self, make: Maker) -> None:
        arms = [arm("plain", "reference", scale=1.0), arm("same", scale=0.5), arm("other", scale=1.0)]
        arms.append(arm("declared", scale=1.0, derivative="b"))
        arms[-1]["kv"] = "q8_0"
        arms.append(arm("without"))
        found = make(arms, {"plain": "a", "same": "a", "other": "b", "declared": "b"}).executions()
        other = found["other"].adapter
        assert other is not None
        said = {name: undeclared_settings(found[name], found["plain"]) for name in found}
        assert said.pop("other") == {"adapter": other.sha256[:8]}
        assert set(said) == {"plain", "same", "declared", "without"} and not any(said.values())

    def test_the_plan_names_it(self, make: Maker, capsys: pytest.CaptureFixture[str]) -> None:
        campaign = make([PLAIN, arm("half", scale=0.5)], {"half": "a"})
        assert main([*campaign.arguments("plan"), "--no-probe"]) == 0
        assert "arms     plain, half (adapter at 0.5)\n" in capsys.readouterr().out

    def test_the_probe_runs_the_reference_with_it(self, make: Maker, capsys: pytest.CaptureFixture[str]) -> None:
        campaign = make([arm("plain", "reference", scale=1.0)], {"plain": "a"})
        assert main(campaign.arguments("plan")) == 0
        assert "tokens/s" in capsys.readouterr().out


def mean_kl(campaign: Campaign, run_id: str) -> float:
    wanted = ("kl.full", "mean", "all", "with")
    return next(
        row["value"]
        for row in load_figures(campaign.uri, run_id).to_pylist()
        if (row["spec"], row["statistic"], row["scope_kind"], row["outliers"]) == wanted
    )


class TestRun:
    def test_run_time_and_merged(self, make: Maker, tmp_path: Path) -> None:
        """Merged F32 weights are the reference. The same adapter over the F32 base gave 1.2e-8 nats when this was
        written; half of it over the F16 base and none of it lie where half and none of an edit should."""
        factors = tiny_factors(seed=0, size=0.05)
        merged = {name: np.float32(ALPHA / RANK) * (b @ a) for name, (a, b) in factors.items()}
        models = {
            "merged": write_tiny_model(tmp_path / "merged.gguf", added=merged),
            "applied": write_tiny_model(tmp_path / "base32.gguf", added={}),
        }
        arms = [arm("merged", "reference"), arm("applied", scale=1.0), arm("half", scale=0.5), arm("none")]
        for item in arms[:2]:
            item["weights"] = "f32"
        campaign = make(arms, {"applied": "a", "half": "a"}, models=models)
        result = campaign.run()
        assert not result.failed
        records = {found.arm: found for found in campaign.records()[0].arms}
        mean = {name: mean_kl(campaign, record.run_id) for name, record in records.items()}
        assert mean["applied"] < 1e-6 < 1e-2 < mean["half"] < mean["none"] / 2
        digest = hashlib.sha256((tmp_path / "a.gguf").read_bytes()).hexdigest()
        assert json.loads(records["applied"].settings) == {"adapter_scale": 1.0}
        assert json.loads(records["half"].settings) == {"adapter_scale": 0.5} and records["none"].settings == ""
        assert records["half"].weights_observed.endswith(f" + adapter {digest[:8]}")
        assert "adapter" not in records["none"].weights_observed
        sizes = [(tmp_path / name).stat().st_size for name in ("base.gguf", "a.gguf")]
        assert records["none"].weight_bytes == sizes[0] and records["half"].weight_bytes == sum(sizes)
        assert campaign.run().already_complete

    def test_an_adapter_that_does_nothing_is_noticed(self, make: Maker, tmp_path: Path) -> None:
        zeros = {name: (a, np.zeros_like(b)) for name, (a, b) in tiny_factors().items()}
        write_tiny_adapter(tmp_path / "zero.gguf", zeros)
        result = make([PLAIN, arm("x", scale=1.0)], {"x": "zero"}).run()
        assert [type(found.error) for found in result.failed] == [SameRows]

    def test_an_adapter_of_another_model_fails_its_arm_alone(self, make: Maker, tmp_path: Path) -> None:
        a, b = tiny_factors()["blk.0.attn_q.weight"]
        write_tiny_adapter(tmp_path / "other.gguf", {"blk.0.attn_q.weight": (a, b[:64])})
        result = make([PLAIN, arm("x", scale=1.0), arm("y", scale=1.0)], {"x": "other", "y": "a"}).run()
        (failed,) = result.failed
        assert failed.execution.name == "x" and isinstance(failed.error, ModelFileError)
        assert "incorrect shape" in str(failed.error) and failed.error.where.startswith("arm x, ")

    def test_an_adapter_that_changed_since_the_plan(self, make: Maker, tmp_path: Path) -> None:
        campaign = make([PLAIN, arm("x", scale=1.0)], {"x": "a"})
        found = campaign.executions()
        write_tiny_adapter(tmp_path / "a.gguf", tiny_factors(seed=9))
        step = Step(execution=found["x"], window="beta", compare=False, spill=False)
        with pytest.raises(ModelFileError, match="the adapter changed after its digest was taken") as caught:
            list(run_launch(campaign.store, load_protocol(campaign.protocol), found["plain"], [step]))
        assert caught.value.where == f"arm x, {tmp_path / 'a.gguf'}"
        gone = replace(step, execution=found["plain"])
        assert list(run_launch(campaign.store, load_protocol(campaign.protocol), found["plain"], [gone]))
