"""MLX in-process on the tiny model: against llama.cpp, with quantised weights and caches, and on bad folders.

Runs where mlx and mlx_lm are installed: benchmarks/real_engines/in_process_env.sh makes such an environment.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drift_runs.engines.llama_cpp import LlamaCpp
from drift_runs.errors import ConfigError, ContextOverflow, EngineError, ModelFileError
from drift_runs.weights.folder_file import inspect_folder
from drift_runs.weights.hf_folder import write_hf_folder
from tests.engines.conftest import rows, settings
from tests.tiny_model import write_tiny_model

pytest.importorskip("mlx.core", reason="needs mlx")
pytest.importorskip("mlx_lm", reason="needs mlx-lm")

from drift_runs.engines.mlx import MLX, identity

Opener = Callable[..., MLX]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("mlx") / "tiny.gguf", added={})


@pytest.fixture(scope="module")
def folder(source: Path) -> Path:
    write_hf_folder(source, source.parent / "hf", dtype="float32")
    return source.parent / "hf"


@pytest.fixture
def opened(folder: Path) -> Iterator[Opener]:
    """Opens a folder under the settings given; closes all at the end."""
    engines: list[MLX] = []

    def open_it(model: Path = folder, **changed: Any) -> MLX:
        engine = MLX(model, settings(**{"kv": "float", **changed}))
        engines.append(engine)
        return engine

    yield open_it
    for engine in engines:
        engine.close()


@pytest.mark.parametrize("changed", [{}, {"micro_batch": 8}, {"path_shape": "decode"}], ids=str)
def test_float32_is_what_llama_cpp_computes(source: Path, opened: Opener, tokens: list[int], changed: dict) -> None:
    engine = opened(**changed)
    with LlamaCpp(source, settings(kv="f32", flash_attention="off")) as other:
        expected = rows(other, tokens)
        assert engine.token_bytes() == other.token_bytes()
        assert engine.tokenize("ab <s> a") == other.tokenize("ab <s> a")
    found = rows(engine, tokens)
    # Logits reach about 10; both are float32 sums in another order.
    assert np.abs(found - expected).max() < 2e-4
    assert rows(engine, tokens).tobytes() == found.tobytes()


@pytest.mark.parametrize(("bits", "label", "near"), [(8, "q8_g64", 0.5), (4, "q4_g64", 6.0)])
def test_a_converted_folder_is_read_as_what_it_is(
    folder: Path, opened: Opener, tokens: list[int], tmp_path: Path, bits: int, label: str, near: float
) -> None:
    from mlx_lm.convert import convert

    convert(str(folder), mlx_path=str(tmp_path / "q"), quantize=True, q_bits=bits, q_group_size=64, dtype="float32")
    assert inspect_folder(tmp_path / "q").dominant == label
    away = np.abs(rows(opened(tmp_path / "q"), tokens) - rows(opened(), tokens)).max()
    assert 1e-3 < away < near


@pytest.mark.parametrize("kv", ["q8", "q4"])
def test_quantised_caches_are_read_from_the_first_token_on(opened: Opener, tokens: list[int], kv: str) -> None:
    plain, found = rows(opened(), tokens), rows(opened(kv=kv), tokens)
    assert (np.abs(found - plain).max(axis=1) > 1e-5).all()
    decoded = rows(opened(kv=kv, path_shape="decode"), tokens)
    assert np.abs(found - decoded).max() < 1e-3


@pytest.mark.parametrize("changed", [{}, {"path_shape": "decode"}, {"kv": "q4", "micro_batch": 8}], ids=str)
def test_a_branch_is_its_history_gone_on(opened: Opener, tokens: list[int], changed: dict) -> None:
    engine, fresh = opened(**changed), opened(**changed)
    held = engine.hold(tokens[:32], list(range(31)))
    assert held.tobytes() == rows(engine, tokens[:32]).tobytes()
    engine.hold(tokens[:32], [])
    seen: dict[int, bytes] = {}
    for count in (5, 24, 32, 5, 24):
        engine.branch(count)
        found = np.stack([engine.append(token) for token in (7, 8, 9)])
        assert seen.setdefault(count, found.tobytes()) == found.tobytes()
        fresh.start(tokens[:count])
        expected = np.stack([fresh.append(token) for token in (7, 8, 9)])
        assert np.abs(found - expected).max() < 2e-4
    assert len(set(seen.values())) == 3


def test_a_layer_that_forgets_is_branched_from_copies(
    folder: Path, opened: Opener, tokens: list[int], tmp_path: Path
) -> None:
    shutil.copytree(folder, tmp_path / "sliding")
    config = json.loads((folder / "config.json").read_text("utf-8"))
    config |= {"layer_types": ["sliding_attention", "full_attention"], "sliding_window": 8}
    (tmp_path / "sliding" / "config.json").write_text(json.dumps(config), "utf-8")
    engine, fresh = (opened(tmp_path / "sliding", batch=8) for _ in range(2))
    found, plain = rows(engine, tokens), rows(opened(), tokens)
    assert np.abs(found[:8] - plain[:8]).max() < 2e-4
    assert np.abs(found[9:] - plain[9:]).max() > 1e-2
    engine.hold(tokens[:32], [])
    for count in (30, 13, 32, 13, 4):
        engine.branch(count)
        fresh.start(tokens[:count])
        for token in (7, 8, 9):
            assert np.abs(engine.append(token) - fresh.append(token)).max() < 2e-4
    with pytest.raises(ConfigError, match="cannot be quantised"):
        opened(tmp_path / "sliding", kv="q8")


def test_types_are_computed_in_as_asked(opened: Opener, tokens: list[int]) -> None:
    away = np.abs(rows(opened(dtype="bfloat16"), tokens) - rows(opened(), tokens)).max()
    assert 1e-3 < away < 0.5


def test_limits_and_ends(opened: Opener) -> None:
    engine = opened(context_tokens=200)
    with pytest.raises(ContextOverflow, match=r"at most 128 \(the positions of the model\)"):
        engine.start([3] * 129)
    engine.close()
    with pytest.raises(EngineError, match="closed"):
        engine.start([3])


def test_unknown_settings_are_refused(opened: Opener) -> None:
    with pytest.raises(ConfigError, match="unknown KV type 'f16'; expected one of float, q8, q4"):
        opened(kv="f16")
    with pytest.raises(ConfigError, match="when it was converted"):
        opened(quantise="torchao-int8")
    with pytest.raises(ConfigError, match="device 'npu'"):
        opened(server=(("device", "npu"),))
    with pytest.raises(ConfigError, match="unknown option"):
        opened(server=(("metal", "1"),))


def test_folders_that_are_not_whole_are_refused(folder: Path, opened: Opener, tmp_path: Path) -> None:
    target = tmp_path / "broken"
    shutil.copytree(folder, target)
    config = json.loads((target / "config.json").read_text("utf-8"))
    ran = tmp_path / "ran"
    (target / "own.py").write_text(f"open({str(ran)!r}, 'w')", "utf-8")
    (target / "config.json").write_text(json.dumps(config | {"model_file": "own.py"}), "utf-8")
    with pytest.raises(ModelFileError, match="mlx_lm cannot load it"):
        opened(target)
    assert not ran.exists()
    (target / "config.json").write_text(json.dumps(config | {"num_hidden_layers": 3}), "utf-8")
    with pytest.raises(ModelFileError, match="mlx_lm cannot load it"):
        opened(target)
    (target / "model.safetensors").unlink()
    with pytest.raises(ModelFileError, match="mlx_lm cannot load it"):
        opened(target)


def test_the_identity_is_what_is_there(opened: Opener) -> None:
    engine = opened(server=(("device", "cpu"),))
    assert engine.identity == identity(engine.settings)
    assert (engine.identity.engine, engine.identity.backend) == ("mlx", "cpu")
    assert "mlx-lm" in engine.identity.build
