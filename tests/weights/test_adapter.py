"""An adapter that is read and merged: a known answer, what the engine makes of the same file, and what is refused."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from pathlib import Path

import gguf
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drift_runs.engines.llama_cpp import LlamaCpp
from drift_runs.errors import ConfigError, ModelFileError
from drift_runs.weights.adapter import Adapter, Pair, merge, read_adapter
from drift_runs.weights.variants import write_variant
from tests.engines.conftest import rows, settings
from tests.tiny_adapter import tiny_factors, write_tiny_adapter
from tests.weights.test_variants import tensors

ALPHA, RANK = 8.0, 4


@pytest.fixture(scope="module")
def f16(tiny_arms: Path) -> Path:
    return tiny_arms.parent / "f16.gguf"


@pytest.fixture(scope="module")
def adapter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_adapter(tmp_path_factory.mktemp("adapter") / "a.gguf", tiny_factors(size=0.1), alpha=ALPHA)


def test_what_is_read(adapter: Path) -> None:
    found = read_adapter(adapter)
    assert found.sha256 == hashlib.sha256(adapter.read_bytes()).hexdigest()
    assert (found.architecture, found.alpha) == ("llama", ALPHA)
    expected = tiny_factors(size=0.1)
    assert found.pairs.keys() == expected.keys()
    for name, (a, b) in expected.items():
        assert np.array_equal(found.pairs[name].a, a) and np.array_equal(found.pairs[name].b, b)
        assert found.factor(name, 0.5) == 0.5 * ALPHA / RANK


class TestMerge:
    @pytest.mark.parametrize("scale", [1.0, 0.5, -1.5])
    def test_a_known_answer(self, f16: Path, adapter: Path, tmp_path: Path, scale: float) -> None:
        write_variant(f16, tmp_path / "m.gguf", weights="f16", edit=merge(read_adapter(adapter), scale, model=f16))
        before, after, factors = tensors(f16), tensors(tmp_path / "m.gguf"), tiny_factors(size=0.1)
        for name, matrix in before.items():
            if name not in factors:
                assert np.array_equal(after[name], matrix), name
                continue
            a, b = (half.astype(np.float64) for half in factors[name])
            expected = matrix + scale * ALPHA / RANK * np.einsum("or,ri->oi", b, a)
            # Half a unit in the last place of a float16.
            assert np.all(np.abs(after[name] - expected) <= np.maximum(np.abs(expected) * 2.0**-11, 2.0**-25) * 1.001)

    def test_scale_0_is_the_model(self, f16: Path, adapter: Path, tmp_path: Path) -> None:
        write_variant(f16, tmp_path / "m.gguf", weights="f16", edit=merge(read_adapter(adapter), 0.0, model=f16))
        write_variant(f16, tmp_path / "plain.gguf", weights="f16")
        assert (tmp_path / "m.gguf").read_bytes() == (tmp_path / "plain.gguf").read_bytes()

    def test_alpha_0_leaves_the_rank_out(self, f16: Path, tmp_path: Path) -> None:
        """llama.cpp's rule for a file without an alpha."""
        name, (a, b) = next(iter(tiny_factors().items()))
        path = write_tiny_adapter(tmp_path / "a.gguf", {name: (a, b)}, alpha=0.0)
        matrix = tensors(f16)[name]
        merged = merge(read_adapter(path), 0.5, model=f16)(name, matrix)
        assert np.allclose(merged, matrix + 0.5 * (b @ a), atol=1e-6)

    @given(st.integers(1, 130), st.integers(1, 5), st.integers(0, 2**32 - 1))
    def test_each_element_is_the_exact_sum_rounded_once(self, count: int, rank: int, seed: int) -> None:
        """Written out with exact fractions for one element; so neither blocks of rows nor the order of axes matter."""
        rng = np.random.default_rng(seed)
        a = rng.standard_normal((rank, 3)).astype(np.float16).astype(np.float32)
        b = rng.standard_normal((count, rank)).astype(np.float16).astype(np.float32)
        matrix = rng.standard_normal((count, 3)).astype(np.float32)
        pairs = {"m": Pair(a, b)}
        found = Adapter(path=Path("a"), sha256="", architecture="llama", alpha=float(rank), pairs=pairs)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("drift_runs.weights.adapter._check_fit", lambda adapter, model: None)
            merged = merge(found, 1.0, model=Path("m"))("m", matrix)
        row = seed % count
        exact = math.fsum([float(matrix[row, 1]), *(float(x) * float(y) for x, y in zip(b[row], a[:, 1], strict=True))])
        assert merged[row, 1] == pytest.approx(np.float32(exact), rel=1.5e-7, abs=1e-12)

    def test_the_engine_makes_the_same_of_the_file(self, f16: Path, adapter: Path, tmp_path: Path) -> None:
        """Applied at run time, by the engine, to the same base: only the rounding of merged weights is between them."""
        write_variant(f16, tmp_path / "m.gguf", weights="f16", edit=merge(read_adapter(adapter), 0.5, model=f16))
        tokens = [0, *range(2, 20)]
        with (
            LlamaCpp(f16, settings(adapter_scale=0.5), adapter=adapter) as applied,
            LlamaCpp(tmp_path / "m.gguf", settings()) as merged,
            LlamaCpp(f16, settings()) as plain,
        ):
            one, two, without = (rows(engine, tokens) for engine in (applied, merged, plain))
        assert np.abs(one - two).mean() < np.abs(one - without).mean() / 50

    def test_a_scale_that_is_no_number(self, f16: Path, adapter: Path) -> None:
        with pytest.raises(ConfigError, match="scale is nan; expected a finite number"):
            merge(read_adapter(adapter), math.nan, model=f16)


class TestFit:
    def refused(self, path: Path, model: Path, match: str) -> None:
        with pytest.raises(ModelFileError, match=match) as caught:
            merge(read_adapter(path), 1.0, model=model)
        assert caught.value.where == str(path) and model.name in str(caught.value)

    def test_a_matrix_that_the_model_lacks(self, f16: Path, tmp_path: Path) -> None:
        factors = {"blk.7.attn_q.weight": tiny_factors()["blk.0.attn_q.weight"]}
        path = write_tiny_adapter(tmp_path / "a.gguf", factors)
        self.refused(path, f16, r"the model has no tensor blk\.7\.attn_q\.weight")

    def test_another_shape(self, f16: Path, tmp_path: Path) -> None:
        a, b = tiny_factors()["blk.0.ffn_up.weight"]
        path = write_tiny_adapter(tmp_path / "a.gguf", {"blk.0.attn_k.weight": (a, b)})
        self.refused(path, f16, r"has the shape \(256, 128\); expected \(64, 128\)")

    def test_a_vector(self, f16: Path, tmp_path: Path) -> None:
        factors = {"blk.0.attn_norm.weight": (np.ones((1, 128), np.float32), np.ones((1, 1), np.float32))}
        self.refused(write_tiny_adapter(tmp_path / "a.gguf", factors), f16, r"shape \(1, 128\); expected \(128,\)")

    def test_another_architecture(self, f16: Path, tmp_path: Path) -> None:
        path = write_tiny_adapter(tmp_path / "a.gguf", architecture="qwen2")
        self.refused(path, f16, "for the architecture 'qwen2'; expected 'llama'")


Change = Callable[[gguf.GGUFWriter], None]
A, B = np.ones((RANK, 128), np.float32), np.ones((128, RANK), np.float32)


def header(writer: gguf.GGUFWriter, kind: str = "adapter", adapter_type: str = "lora", alpha: float = ALPHA) -> None:
    writer.add_type(kind)
    writer.add_string("adapter.type", adapter_type)
    writer.add_float32("adapter.lora.alpha", alpha)


def pair(writer: gguf.GGUFWriter, a: np.ndarray = A, b: np.ndarray = B) -> None:
    writer.add_tensor("m.weight.lora_a", a)
    writer.add_tensor("m.weight.lora_b", b)


BROKEN: dict[str, tuple[list[Change], str]] = {
    "model": ([lambda w: header(w, kind="model"), pair], "general.type is 'model': this is no adapter"),
    "control": ([lambda w: header(w, adapter_type="control"), pair], "adapter.type is 'control'; expected 'lora'"),
    "alpha": ([lambda w: header(w, alpha=math.inf), pair], "adapter.lora.alpha is inf; expected a finite number"),
    "other": ([header, lambda w: w.add_tensor("m.weight", A)], "tensor m.weight; expected only tensors named"),
    "empty": ([header, lambda w: None], "it changes no matrix"),
    "half": ([header, lambda w: w.add_tensor("m.weight.lora_a", A)], r"m\.weight\.lora_b is missing"),
    "rank": ([header, lambda w: pair(w, b=B[:, :3].copy())], "lora_a is of rank 4, lora_b of rank 3"),
    "vector": ([header, lambda w: pair(w, a=A[0].copy())], "lora_a has 1 dimensions; expected a matrix"),
    "nan": ([header, lambda w: pair(w, a=A * np.nan)], "lora_a holds a value that is not finite"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_file_that_is_no_adapter(tmp_path: Path, case: str) -> None:
    path, (steps, expected) = tmp_path / "x.gguf", BROKEN[case]
    writer = gguf.GGUFWriter(path, "llama")
    for step in steps:
        step(writer)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with pytest.raises(ModelFileError, match=expected) as caught:
        read_adapter(path)
    assert caught.value.where == str(path) and caught.value.todo


def test_one_that_waits_for_certain_tokens(tmp_path: Path) -> None:
    path = write_tiny_adapter(tmp_path / "a.gguf", invocation_tokens=[3])
    with pytest.raises(ModelFileError, match="active at certain tokens only"):
        read_adapter(path)


def test_a_weight_file_of_a_model(f16: Path) -> None:
    with pytest.raises(ModelFileError, match=r"general\.type is None: this is no adapter"):
        read_adapter(f16)


@pytest.mark.parametrize("content", [b"", b"no model\n" * 50])
def test_no_gguf(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.gguf").write_bytes(content)
    with pytest.raises(ModelFileError, match="not a readable GGUF file"):
        read_adapter(tmp_path / "a.gguf")
