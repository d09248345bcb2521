"""transformers in-process on the tiny model: against llama.cpp, under every scheme and cache, and on bad folders.

Runs where torch and transformers are installed: benchmarks/real_engines/in_process_env.sh makes such an environment.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drift_runs.engines.llama_cpp import LlamaCpp
from drift_runs.errors import CannotGive, ConfigError, ContextOverflow, EngineError, ModelFileError
from drift_runs.weights.folder_file import inspect_folder
from drift_runs.weights.hf_folder import write_hf_folder
from tests.engines.conftest import rows, settings
from tests.numpy_llama import read_weights, write_weights
from tests.tiny_model import write_tiny_model

torch = pytest.importorskip("torch", reason="needs torch")
pytest.importorskip("transformers", reason="needs transformers")

from drift_runs.engines.transformers import Transformers, identity  # noqa: E402
from drift_runs.engines.transformers_cache import KINDS  # noqa: E402
from drift_runs.engines.transformers_weights import SCHEMES  # noqa: E402

Opener = Callable[..., Transformers]

PACKAGES = {"torchao": "torchao", "quanto": "optimum.quanto", "bnb": "bitsandbytes", "hqq": "hqq", "fp8": "torch"}


def needs(name: str) -> None:
    package = PACKAGES[name.partition("-")[0]]
    pytest.importorskip(package, reason=f"needs {package}")


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("transformers") / "tiny.gguf", added={})


@pytest.fixture(scope="module")
def folder(source: Path) -> Path:
    write_hf_folder(source, source.parent / "hf", dtype="float32")
    return source.parent / "hf"


@pytest.fixture
def opened(folder: Path) -> Iterator[Opener]:
    """Opens a folder in float32 under the settings given; closes all at the end."""
    engines: list[Transformers] = []

    def open_it(model: Path = folder, **changed: Any) -> Transformers:
        engine = Transformers(model, settings(**{"kv": "float", "dtype": "float32", **changed}))
        engines.append(engine)
        return engine

    yield open_it
    for engine in engines:
        engine.close()


@pytest.fixture
def broken(folder: Path, tmp_path: Path) -> Callable[..., Path]:
    """A copy of the folder with its configuration and weights changed."""

    def make(change: Callable[[dict], None] = lambda weights: None, **config: Any) -> Path:
        target = tmp_path / "broken"
        target.mkdir()
        for name in ("tokenizer.json", "tokenizer_config.json"):
            (target / name).write_bytes((folder / name).read_bytes())
        plain = json.loads((folder / "config.json").read_text("utf-8"))
        (target / "config.json").write_text(json.dumps(plain | config), "utf-8")
        weights = read_weights(folder / "model.safetensors")
        change(weights)
        write_weights(target / "model.safetensors", weights)
        return target

    return make


@pytest.mark.parametrize(
    "changed", [{}, {"micro_batch": 8}, {"path_shape": "decode"}, {"flash_attention": "off"}], ids=str
)
def test_float32_is_what_llama_cpp_computes(source: Path, opened: Opener, tokens: list[int], changed: dict) -> None:
    engine = opened(**changed)
    with LlamaCpp(source, settings(kv="f32", flash_attention="off")) as other:
        expected = rows(other, tokens)
        assert engine.token_bytes() == other.token_bytes()
        for special in (True, False):
            assert engine.tokenize("ab <s> a", special=special) == other.tokenize("ab <s> a", special=special)
    found = rows(engine, tokens)
    assert found.dtype == np.float32
    # Logits reach about 10; both are float32 sums in another order.
    assert np.abs(found - expected).max() < 2e-4
    assert rows(engine, tokens).tobytes() == found.tobytes()


def test_types_are_computed_in_as_asked(opened: Opener, tokens: list[int]) -> None:
    plain = rows(opened(), tokens)
    for dtype, label, near in (("bfloat16", "bf16", 0.5), ("float16", "f16", 0.05)):
        engine = opened(dtype=dtype)
        assert [name for name, _ in engine.types] == [label]
        away = np.abs(rows(engine, tokens) - plain).max()
        assert 1e-4 < away < near
    engine = opened(dtype=None)
    assert engine.types == inspect_folder(engine.folder).types


@pytest.mark.parametrize("scheme", SCHEMES)
def test_weights_are_quantised_but_for_the_head(opened: Opener, tokens: list[int], scheme: str) -> None:
    needs(scheme)
    engine = opened(quantise=scheme, dtype="bfloat16")
    types = dict(engine.types)
    # Two layers of Q and O 128x128, K and V 64x128, and three of 256x128.
    matrices = 2 * (2 * 128 * 128 + 2 * 64 * 128 + 3 * 256 * 128)
    # Embeddings, head and norms stay.
    assert types == {SCHEMES[scheme].label: matrices, "bf16": 2 * 32 * 128 + 5 * 128}
    found = rows(engine, tokens)
    away = np.abs(found - rows(opened(dtype="bfloat16"), tokens)).max()
    assert 1e-3 < away < (8 if scheme.endswith("4") else 1)
    assert rows(engine, tokens).tobytes() == found.tobytes()


@pytest.mark.parametrize("kv", [kind for kind in KINDS if kind not in ("float", "hqq-4")])
def test_quantised_caches_are_read(opened: Opener, tokens: list[int], kv: str) -> None:
    if kv != "fp8":
        needs(kv)
    plain = rows(opened(micro_batch=8), tokens)
    engine = opened(kv=kv, micro_batch=8, batch=16)
    found = rows(engine, tokens)
    # The first step reads its own keys and values before they are quantised.
    assert np.abs(found[:8] - plain[:8]).max() < 1e-4
    assert np.abs(found[8:] - plain[8:]).max() > 1e-3
    assert engine.hold(tokens[:-1], list(range(len(tokens) - 1))).tobytes() == found.tobytes()
    with pytest.raises(CannotGive, match=f"never read the {kv} cache"):
        rows(opened(kv=kv), tokens[:9])


def test_decoding_into_a_cache_that_is_scaled_by_one_token_is_refused(opened: Opener) -> None:
    with pytest.raises(CannotGive, match="by that one token"):
        opened(kv="fp8", path_shape="decode")


@pytest.mark.parametrize(
    "changed",
    [{}, {"path_shape": "decode"}, {"kv": "quanto-4", "micro_batch": 8, "batch": 16}, {"kv": "fp8", "micro_batch": 8}],
    ids=str,
)
def test_a_branch_is_its_history_gone_on(opened: Opener, tokens: list[int], changed: dict) -> None:
    if "quanto" in changed.get("kv", ""):
        needs("quanto")
    engine, fresh = opened(**changed), opened(**changed)
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
    broken: Callable[..., Path], opened: Opener, tokens: list[int]
) -> None:
    """Mistral's tensors have Llama's names; its layers keep the last tokens alone, and cannot be cut."""
    folder = broken(model_type="mistral", architectures=["MistralForCausalLM"], sliding_window=8)
    engine, fresh = (opened(folder, batch=8) for _ in range(2))
    found = rows(engine, tokens)
    plain = rows(opened(), tokens)
    assert np.abs(found[:8] - plain[:8]).max() < 2e-4
    assert np.abs(found[9:] - plain[9:]).max() > 1e-2
    engine.hold(tokens[:32], [])
    for count in (30, 13, 32, 13, 4):
        engine.branch(count)
        fresh.start(tokens[:count])
        for token in (7, 8, 9):
            assert np.abs(engine.append(token) - fresh.append(token)).max() < 2e-4


def test_limits_and_ends(opened: Opener, tokens: list[int]) -> None:
    engine = opened(context_tokens=200)
    with pytest.raises(ContextOverflow, match=r"at most 128 \(the positions of the model\)"):
        engine.start([3] * 129)
    engine.start([3] * 127)
    assert engine.context_left == 1
    engine.close()
    with pytest.raises(EngineError, match="closed"):
        engine.start([3])


def test_a_wider_head_gives_its_columns_and_a_narrower_is_refused(
    broken: Callable[..., Path], opened: Opener, tokens: list[int]
) -> None:
    def wider(weights: dict) -> None:
        for name in ("model.embed_tokens.weight", "lm_head.weight"):
            weights[name] = np.concatenate([weights[name], np.zeros((8, 128), np.float32)])

    found = rows(opened(broken(wider, vocab_size=40)), tokens)
    assert found.shape[1] == 40
    assert np.array_equal(found[:, :32], rows(opened(), tokens))


def test_a_narrower_head_is_refused(broken: Callable[..., Path], opened: Opener) -> None:
    def narrower(weights: dict) -> None:
        for name in ("model.embed_tokens.weight", "lm_head.weight"):
            weights[name] = weights[name][:30]

    with pytest.raises(ModelFileError, match="30 columns; expected 32"):
        opened(broken(narrower, vocab_size=30))


def lacks(weights: dict) -> None:
    del weights["model.layers.1.mlp.up_proj.weight"]


def drops(weights: dict) -> None:
    weights["model.layers.1.self_attn.q_proj.bias"] = np.ones(128, np.float32)


def misshapes(weights: dict) -> None:
    weights["model.layers.0.mlp.up_proj.weight"] = np.ones((255, 128), np.float32)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lacks, "up_proj.weight is missing"),
        (drops, "q_proj.bias has no place in the model"),
        (misshapes, "cannot load it|has another shape"),
    ],
)
def test_weights_that_do_not_fit_are_refused(
    broken: Callable[..., Path], opened: Opener, change: Callable[[dict], None], named: str
) -> None:
    with pytest.raises(ModelFileError, match=named):
        opened(broken(change))


def test_nothing_of_a_folder_is_run(broken: Callable[..., Path], opened: Opener, tmp_path: Path) -> None:
    folder = broken(model_type="own", auto_map={"AutoConfig": "own.C", "AutoModelForCausalLM": "own.M"})
    ran = tmp_path / "ran"
    (folder / "own.py").write_text(f"open({str(ran)!r}, 'w')", "utf-8")
    with pytest.raises(ModelFileError, match="cannot load it"):
        opened(folder)
    assert not ran.exists()


def test_a_pickle_is_not_opened(broken: Callable[..., Path], opened: Opener) -> None:
    folder = broken()
    torch.save(read_weights_as_tensors(folder), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    with pytest.raises(ModelFileError, match="cannot load it"):
        opened(folder)


def read_weights_as_tensors(folder: Path) -> dict[str, Any]:
    return {name: torch.tensor(values) for name, values in read_weights(folder / "model.safetensors").items()}


def test_unknown_settings_are_refused(opened: Opener, source: Path) -> None:
    with pytest.raises(ConfigError, match="unknown scheme 'awq-4'"):
        opened(quantise="awq-4")
    with pytest.raises(ConfigError, match="unknown KV type 'f16'; expected one of float"):
        opened(kv="f16")
    with pytest.raises(ConfigError, match="unknown option 'gpus'"):
        opened(server=(("gpus", "2"),))
    with pytest.raises(ConfigError, match="device 'tpu'"):
        opened(server=(("device", "tpu"),))
    with pytest.raises(EngineError, match="no device cuda:63"):
        opened(server=(("device", "cuda:63"),))
    with pytest.raises(ModelFileError, match="hf_folder"):
        opened(source)


def test_the_identity_is_what_is_there(opened: Opener) -> None:
    engine = opened(server=(("device", "cpu"),))
    assert engine.identity == identity(engine.settings)
    assert engine.identity.engine == "transformers"
    assert f"torch {torch.__version__}" in engine.identity.build
    assert engine.identity.backend == "cpu"
    assert torch.backends.cpu.get_cpu_capability() in engine.identity.hardware
    needs("torchao")
    assert "torchao" in identity(settings(kv="float", quantise="torchao-int8")).build
