"""The demos' files: what is made from what, what is kept, and what a wrong adapter does."""

from __future__ import annotations

import hashlib
import os
import signal
from pathlib import Path

import pytest

from drift_runs.cli import demo as command
from drift_runs.errors import ModelFileError
from drift_runs.machine import load_machine, machine_text
from drift_runs.protocol.load import find_protocol, load_followups, load_protocol
from drift_runs.weights import demo, fetch
from drift_runs.weights.adapter import merge, read_adapter
from drift_runs.weights.demo import DEMOS, OPS, QUICK, Demo, Recipe, adapter_file, prepare, recipe_file
from drift_runs.weights.fetch import SMOLLM2, PinnedModel
from drift_runs.weights.variants import ablation, write_variant
from tests.conftest import tiny_dictionary
from tests.tiny_adapter import tiny_factors, write_tiny_adapter
from tests.tiny_model import write_tiny_model


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache with a tiny model, which has words for the ablation, as the pinned one; and a tiny adapter."""
    folder = tmp_path / "cache" / "models"
    folder.mkdir(parents=True)
    member = "tiny.Q8_0.gguf"
    write_tiny_model(tmp_path / "f16.gguf", tokens=[*tiny_dictionary(), b" sorry", b" sure"])
    write_variant(tmp_path / "f16.gguf", folder / member, weights="q8_0")
    content = (folder / member).read_bytes()
    pinned = PinnedModel(
        title="tiny",
        package="none",
        version="0",
        wheel_sha256="",
        wheel_bytes=0,
        member=member,
        sha256=hashlib.sha256(content).hexdigest(),
        size_bytes=len(content),
        licence="none",
    )
    monkeypatch.setattr(demo, "SMOLLM2", pinned)
    monkeypatch.setattr(fetch, "_download", lambda *arguments: pytest.fail("nothing is to be fetched"))
    monkeypatch.setenv("DRIFT_CACHE", str(tmp_path / "cache"))
    use_adapter(tmp_path / "adapter.gguf", 3, monkeypatch)
    return folder


def use_adapter(path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> str:
    write_tiny_adapter(path, tiny_factors(seed=seed, size=0.1))
    monkeypatch.setattr(demo, "adapter_file", lambda: path)
    return hashlib.sha256(path.read_bytes()).hexdigest()[:8]


def stamps(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}


class TestPrepare:
    def test_the_stock_demo(self, cache: Path, tmp_path: Path) -> None:
        notes: list[str] = []
        files = prepare(QUICK, note=notes.append)
        assert notes == [
            "dequantising tiny.Q8_0.gguf to F16: the stock weights of this demo",
            "making q8_0, q5_0, q4_0, ablated",
        ]
        assert files.adapters == {} and list(files.models) == ["q4_1", "f16", "q8_0", "q5_0", "q4_0", "ablated"]
        stock = files.models["f16"]
        write_variant(cache / "tiny.Q8_0.gguf", tmp_path / "stock.gguf", weights="f16")
        write_variant(stock, tmp_path / "ablated.gguf", weights="f16", edit=ablation(stock))
        write_variant(stock, tmp_path / "q4_0.gguf", weights="q4_0")
        assert stock.read_bytes() == (tmp_path / "stock.gguf").read_bytes()
        for name in ("ablated", "q4_0"):
            assert files.models[name].read_bytes() == (tmp_path / f"{name}.gguf").read_bytes()

    def test_the_tuned_demo(self, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        notes: list[str] = []
        files = prepare(OPS, note=notes.append)
        assert notes[1:] == [
            "merging the adapter into the stock weights: f16, adapter-0.5, adapter-1.5",
            "making q8_0, q5_0, q4_0, mxfp4, ablated",
        ]
        assert files.adapters == {"adapter-loaded": tmp_path / "adapter.gguf"}
        models = files.models
        assert models["base"] == models["adapter-loaded"] != models["f16"]
        found, stock, tuned = read_adapter(tmp_path / "adapter.gguf"), models["base"], models["f16"]
        made = {
            "f16": (stock, "f16", merge(found, 1.0, model=stock)),
            "adapter-0.5": (stock, "f16", merge(found, 0.5, model=stock)),
            "adapter-1.5": (stock, "f16", merge(found, 1.5, model=stock)),
            "q8_0": (tuned, "q8_0", None),
            "mxfp4": (tuned, "mxfp4", None),
            "ablated": (tuned, "f16", ablation(tuned)),
        }
        for name, (source, weights, edit) in made.items():
            write_variant(source, tmp_path / "again.gguf", weights=weights, edit=edit)
            assert models[name].read_bytes() == (tmp_path / "again.gguf").read_bytes(), name
        assert len({path.read_bytes() for path in models.values()}) == len(models) - 1

        before = stamps(cache)
        assert prepare(OPS, note=lambda text: pytest.fail(text)) == files
        assert prepare(QUICK).models["f16"] == models["base"], "both demos share the stock weights"
        after = stamps(cache)
        assert {name: after[name] for name in before} == before

        # Another adapter: what holds it is made anew under another name, the stock weights stay.
        digest = use_adapter(tmp_path / "other.gguf", 4, monkeypatch)
        others = prepare(OPS).models
        assert others["base"] == models["base"]
        tuned_arms = set(models) - {"base", "adapter-loaded"}
        assert all(digest in others[name].name and others[name] != models[name] for name in tuned_arms)

    def test_only_what_is_missing_is_made(self, cache: Path) -> None:
        files = prepare(OPS)
        before = stamps(cache)
        for name in ("base", "q4_0"):
            files.models[name].unlink()
        notes: list[str] = []
        prepare(OPS, note=notes.append)
        assert notes == ["dequantising tiny.Q8_0.gguf to F16: the stock weights of this demo", "making q4_0"]
        after = stamps(cache)
        assert before.keys() == after.keys()
        changed = {name for name in before if before[name] != after[name]}
        assert changed == {files.models["base"].name, files.models["q4_0"].name}

    def test_a_maker_that_is_killed(self, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        files = prepare(OPS)
        for name in ("q8_0", "q4_0"):
            files.models[name].unlink()
        with monkeypatch.context() as patched:
            patched.setattr(demo, "_make", killed)
            with pytest.raises(ModelFileError, match="was killed; expected room in memory"):
                prepare(OPS)
        assert prepare(OPS) == files
        assert files.models["q4_0"].is_file()

    def test_a_source_that_no_arm_runs(self, cache: Path) -> None:
        only = Demo(protocol="x", reference="q4_0", arms={"q4_0": OPS.arms["q4_0"]}, same_model={})
        notes: list[str] = []
        files = prepare(only, note=notes.append)
        assert [note.split()[0] for note in notes] == ["dequantising", "merging", "making"]
        assert list(files.models) == ["q4_0"] and files.adapters == {}


@pytest.mark.parametrize("name", DEMOS)
def test_a_demo_has_weights_for_every_arm_of_its_protocol(name: str, tmp_path: Path) -> None:
    path = find_protocol(name)
    if not path.with_name(f"{name}.lock.json").is_file():
        pytest.skip(f"the protocol {name} is not recorded and frozen yet")
    loaded, chosen = load_protocol(path), DEMOS[name]
    follow_up_file = path.with_name(f"{name}.followups.toml")
    arms = [*loaded.protocol.arms, *(load_followups(follow_up_file, loaded) if follow_up_file.is_file() else ())]
    assert loaded.protocol.reference.name == chosen.reference
    models = {arm: recipe_file(recipe, tmp_path) for arm, recipe in chosen.arms.items()}
    text = machine_text(
        models,
        same_model=chosen.same_model,
        threads=1,
        adapters=dict.fromkeys(chosen.adapted, tmp_path / "adapter.gguf"),
    )
    (tmp_path / "drift.toml").write_text(text, encoding="utf-8")
    machine = load_machine(tmp_path / "drift.toml")
    assert {arm.name for arm in arms} == {*chosen.arms, *chosen.same_model}
    for arm in arms:
        assert machine.model_file(arm.name) == models[chosen.same_model.get(arm.name, arm.name)]
        assert (machine.adapter_file(arm.name) is not None) == (arm.settings.adapter_scale is not None)


def test_the_command_knows_the_demos() -> None:
    assert set(command.PROTOCOLS) == set(DEMOS) and command.PROTOCOL in DEMOS


def test_names_of_files(tmp_path: Path) -> None:
    """The stock demo's are those of the first release: nobody makes them twice."""
    base = SMOLLM2.sha256[:8]
    names = {arm: recipe_file(recipe, tmp_path, adapter_sha256="0123456789").name for arm, recipe in QUICK.arms.items()}
    assert names == {
        "q4_1": "SmolLM2-135M-Instruct.Q4_1.gguf",
        **{arm: f"SmolLM2-135M-Instruct.{arm}.{base}-v2.gguf" for arm in ("f16", "q8_0", "q5_0", "q4_0", "ablated")},
    }
    tuned = {arm: recipe_file(recipe, tmp_path, adapter_sha256="0123456789").name for arm, recipe in OPS.arms.items()}
    assert tuned["base"] == tuned["adapter-loaded"] == names["f16"]
    assert tuned["adapter-0.5"] == f"SmolLM2-135M-ops-0.5.f16.{base}-01234567-v2.gguf"
    assert tuned["ablated"] == f"SmolLM2-135M-ops-1.ablated.{base}-01234567-v2.gguf"
    assert len(set(tuned.values())) == len(tuned) - 1


def test_a_merge_counts_all_that_is_in_its_source(tmp_path: Path) -> None:
    twice = Recipe(source=OPS.arms["adapter-0.5"], weights="f16", scale=0.25)
    assert recipe_file(twice, tmp_path).name.startswith("SmolLM2-135M-ops-0.75.f16.")


def killed(*_of: object) -> None:
    """In place of making a file: what a process without memory meets."""
    os.kill(os.getpid(), signal.SIGKILL)


class TestShippedAdapter:
    @pytest.fixture(params=["models/smollm2-ops", "drift_runs/shipped_models"])
    def folder(self, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        """Where it lies in a checkout and in an installed package."""
        monkeypatch.setattr(demo, "__file__", str(tmp_path / "drift_runs" / "weights" / "demo.py"))
        folder = tmp_path / request.param
        folder.mkdir(parents=True)
        return folder

    def test_it_is_found(self, folder: Path) -> None:
        (folder / "smollm2-ops.gguf").write_bytes(b"weights")
        (folder / "smollm2-ops.sha256").write_text(f"{hashlib.sha256(b'weights').hexdigest()}  smollm2-ops.gguf\n")
        assert adapter_file() == folder / "smollm2-ops.gguf"

    def test_it_is_missing(self, folder: Path) -> None:
        with pytest.raises(ModelFileError, match="the demo's adapter is not there; expected a file of this package"):
            adapter_file()

    @pytest.mark.parametrize("noted", [None, b"", b"\xff\xfe"])
    def test_no_digest(self, folder: Path, noted: bytes | None) -> None:
        (folder / "smollm2-ops.gguf").write_bytes(b"weights")
        if noted is not None:
            (folder / "smollm2-ops.sha256").write_bytes(noted)
        with pytest.raises(ModelFileError, match=r"smollm2-ops\.sha256: its digest is not there"):
            adapter_file()

    def test_another_file(self, folder: Path) -> None:
        (folder / "smollm2-ops.gguf").write_bytes(b"weights")
        (folder / "smollm2-ops.sha256").write_text(f"{'0' * 64}  smollm2-ops.gguf\n")
        with pytest.raises(ModelFileError, match=r"smollm2-ops\.gguf: its SHA-256 is [0-9a-f]{64}; expected 0{64};"):
            adapter_file()
