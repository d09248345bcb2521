"""An adapter applied at run time: the same as weights with it merged in, and every file that is none for this model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from drift_runs.engines.llama_cpp import LlamaCpp
from drift_runs.errors import ConfigError, EngineError, ModelFileError
from tests.engines.conftest import rows, settings
from tests.tiny_adapter import Factors, tiny_factors, write_tiny_adapter
from tests.tiny_model import write_tiny_model

ALPHA, RANK = 8.0, 4
EXACT = {"kv": "f32", "flash_attention": "off"}
"""Everything in F32: with flash attention, keys and values are rounded to F16 whatever the cache holds."""


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("base") / "base.gguf", added={})


@pytest.fixture(scope="module")
def adapter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_adapter(tmp_path_factory.mktemp("adapter") / "adapter.gguf", alpha=ALPHA)


def logits(tokens: list[int], model: Path, adapter: Path | None = None, **changed: object) -> np.ndarray:
    with LlamaCpp(model, settings(**EXACT, **changed), adapter=adapter) as engine:
        return rows(engine, tokens)


@pytest.mark.parametrize("scale", [0.5, 1.0, 1.5])
def test_it_is_as_if_it_were_merged(tmp_path: Path, base: Path, adapter: Path, tokens: list[int], scale: float) -> None:
    """W + s * alpha / rank * B A, in F32. Logits span 18 and the adapter moves them by 7 and more; what is left of it
    is the rounding of F32 in two orders of summation, at most 1.5e-5 when this was written."""
    merged = {name: np.float32(scale * ALPHA / RANK) * (b @ a) for name, (a, b) in tiny_factors(rank=RANK).items()}
    expected = logits(tokens, write_tiny_model(tmp_path / "merged.gguf", added=merged))
    found = logits(tokens, base, adapter, adapter_scale=scale)
    np.testing.assert_allclose(found, expected, atol=1e-4, rtol=0)
    assert np.abs(found - logits(tokens, base)).max() > 5


def test_token_by_token_too(base: Path, adapter: Path, tokens: list[int]) -> None:
    at_once = logits(tokens, base, adapter, adapter_scale=1.0)
    np.testing.assert_allclose(
        logits(tokens, base, adapter, adapter_scale=1.0, path_shape="decode"), at_once, atol=1e-4
    )


def test_the_less_of_it_the_nearer_to_none(base: Path, adapter: Path, tokens: list[int]) -> None:
    plain = logits(tokens, base)
    far = [np.abs(logits(tokens, base, adapter, adapter_scale=s) - plain).max() for s in (1.0, 1e-2, 1e-4, 1e-12)]
    assert far[0] > 10 * far[1] > 100 * far[2] > 0
    assert far[3] == 0


def test_it_holds_for_its_own_engine_alone(base: Path, adapter: Path, tokens: list[int]) -> None:
    plain = logits(tokens, base)
    with LlamaCpp(base, settings(**EXACT, adapter_scale=1.0), adapter=adapter) as engine:
        with_it = rows(engine, tokens)
        assert logits(tokens, base).tobytes() == plain.tobytes()
        assert rows(engine, tokens).tobytes() == with_it.tobytes(), "nor does another engine's end take it away"
    engine.close()
    with pytest.raises(EngineError, match="closed"):
        rows(engine, tokens)


def test_quantised_weights_take_it_as_well(tmp_path: Path, adapter: Path, tokens: list[int]) -> None:
    """The use of it: many adapters over one quantised base."""
    from drift_runs.weights.variants import write_variant

    f16, q8_0 = write_tiny_model(tmp_path / "f16.gguf"), tmp_path / "q8_0.gguf"
    write_variant(f16, q8_0, weights="q8_0")
    plain = np.abs(logits(tokens, f16) - logits(tokens, q8_0)).max()
    adapted = np.abs(logits(tokens, f16, adapter, adapter_scale=1.0) - logits(tokens, q8_0, adapter, adapter_scale=1.0))
    assert 0 < adapted.max() < 3 * plain


def changed(name: str = "blk.0.attn_q.weight", a: slice = slice(None), b: slice = slice(None)) -> Factors:
    """One layer's factors with input (``a``) or output (``b``) columns taken away, under a name."""
    first, second = tiny_factors()["blk.0.attn_q.weight"]
    return {name: (np.ascontiguousarray(first[:, a]), second[b])}


@pytest.mark.parametrize(
    ("factors", "reason"),
    [
        (changed(b=slice(64)), r"tensor 'blk\.0\.attn_q\.weight' has incorrect shape"),
        (changed(a=slice(64)), r"tensor 'blk\.0\.attn_q\.weight' has incorrect shape"),
        (changed("blk.7.attn_q.weight"), r"'blk\.7\.attn_q\.weight' does not exist in base model"),
    ],
)
def test_an_adapter_of_another_model(tmp_path: Path, base: Path, factors: Factors, reason: str) -> None:
    file = write_tiny_adapter(tmp_path / "other.gguf", factors)
    with pytest.raises(ModelFileError, match=rf"other\.gguf: .*cannot apply it to base\.gguf: .*{reason}") as caught:
        LlamaCpp(base, settings(adapter_scale=1.0), adapter=file)
    assert caught.value.where == str(file) and "made for this model" in caught.value.expected


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"architecture": "qwen2"}, "model arch and LoRA arch mismatch"),
        ({"invocation_tokens": [3, 4]}, "active from its invocation tokens on only"),
    ],
)
def test_an_adapter_of_another_sort(tmp_path: Path, base: Path, options: dict, reason: str) -> None:
    file = write_tiny_adapter(tmp_path / "other.gguf", **options)
    with pytest.raises(ModelFileError, match=rf"other\.gguf: .*{reason}"):
        LlamaCpp(base, settings(adapter_scale=1.0), adapter=file)


def test_a_file_that_is_no_adapter(tmp_path: Path, base: Path, adapter: Path) -> None:
    text, cut = tmp_path / "readme.gguf", tmp_path / "cut.gguf"
    text.write_text("This is a text.\n" * 100)
    cut.write_bytes(adapter.read_bytes()[:20_000])
    for file, reason in ((base, "general.type"), (text, "failed to load"), (cut, "incomplete")):
        with pytest.raises(ModelFileError, match=rf"{file.name}: llama\.cpp cannot apply it.*{reason}"):
            LlamaCpp(base, settings(adapter_scale=1.0), adapter=file)
    with pytest.raises(ModelFileError, match=r"none\.gguf: no such file; expected a GGUF adapter"):
        LlamaCpp(base, settings(adapter_scale=1.0), adapter=tmp_path / "none.gguf")


def test_a_scale_and_a_file_belong_together(base: Path, adapter: Path) -> None:
    with pytest.raises(ConfigError, match="a scale without an adapter"):
        LlamaCpp(base, settings(adapter_scale=1.0))
    with pytest.raises(ConfigError, match="an adapter without a scale"):
        LlamaCpp(base, settings(), adapter=adapter)
