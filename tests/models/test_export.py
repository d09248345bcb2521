"""The exported adapter: names, the order of query and key rows, the same bytes again, and what is refused."""

from __future__ import annotations

import hashlib
from pathlib import Path

import export
import numpy as np
import pytest
from export import Facts, adapter_tensors, interleaved, write, write_digest

from drift_runs.weights.adapter import read_adapter

FACTS = Facts(alpha=24.0, seed=20251, steps_done=400, steps=400, tokens=2**33)
SHAPES = {
    "self_attn.q_proj": (576, 576),
    "self_attn.k_proj": (192, 576),
    "self_attn.v_proj": (192, 576),
    "self_attn.o_proj": (576, 576),
    "mlp.gate_proj": (1536, 576),
    "mlp.up_proj": (1536, 576),
    "mlp.down_proj": (576, 1536),
}
"""Outputs and inputs of the linear layers of SmolLM2-135M."""


def trained(layers: int = 2, rank: int = 3) -> dict[str, np.ndarray]:
    """Random factors by peft's names, in an order that is not the file's."""
    rng = np.random.default_rng(5)
    found = {}
    for name, (outputs, inputs) in reversed(SHAPES.items()):
        for layer in (11, *range(layers))[:layers]:
            prefix = f"base_model.model.model.layers.{layer}.{name}"
            found[f"{prefix}.lora_B.default.weight"] = rng.standard_normal((outputs, rank)).astype(np.float32)
            found[f"{prefix}.lora_A.default.weight"] = rng.standard_normal((rank, inputs)).astype(np.float32)
    return found


def rotated_halves(states: np.ndarray, angles: np.ndarray) -> np.ndarray:
    """transformers: the first half of a head against its second."""
    one, two = np.split(states, 2)
    return np.concatenate([one * np.cos(angles) - two * np.sin(angles), two * np.cos(angles) + one * np.sin(angles)])


def rotated_neighbours(states: np.ndarray, angles: np.ndarray) -> np.ndarray:
    """llama.cpp's llama: each even place against the next."""
    turned = (states[0::2] + 1j * states[1::2]) * np.exp(1j * angles)
    return np.stack([turned.real, turned.imag], axis=1).reshape(-1)


def test_attention_is_the_same_in_either_order() -> None:
    """Dot products of rotated queries and keys, which is all that attention sees of them."""
    rng = np.random.default_rng(2)
    heads, width, columns = 3, 8, 5
    query, key = rng.standard_normal((2, heads * width, columns))
    angles, values = rng.standard_normal((2, width // 2)), rng.standard_normal((2, columns))

    def products(rotated, order) -> list[float]:
        states = [
            (order(matrix) @ value).reshape(heads, width) for matrix, value in zip((query, key), values, strict=True)
        ]
        return [float(rotated(one, angles[0]) @ rotated(two, angles[1])) for one, two in zip(*states, strict=True)]

    expected = products(rotated_halves, lambda matrix: matrix)
    assert products(rotated_neighbours, lambda matrix: interleaved(matrix, heads)) == pytest.approx(expected)
    assert products(rotated_neighbours, lambda matrix: matrix) != pytest.approx(expected, rel=1e-3)


def test_names_order_and_values() -> None:
    found = adapter_tensors(trained())
    matrices = ["attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"]
    assert list(found) == [
        f"blk.{layer}.{matrix}.weight.lora_{half}" for layer in (0, 11) for matrix in matrices for half in "ab"
    ]
    source = trained()
    for layer in (0, 11):
        for name, matrix in zip(SHAPES, matrices, strict=True):
            below, above = (
                source[f"base_model.model.model.layers.{layer}.{name}.lora_{half}.default.weight"] for half in "AB"
            )
            above = interleaved(above, {"attn_q": 9, "attn_k": 3}[matrix]) if matrix in ("attn_q", "attn_k") else above
            prefix = f"blk.{layer}.{matrix}.weight"
            assert np.array_equal(found[f"{prefix}.lora_a"], below.astype(np.float16))
            assert np.array_equal(found[f"{prefix}.lora_b"], above.astype(np.float16))


def test_the_file_is_an_adapter_and_the_same_again(tmp_path: Path) -> None:
    tensors = adapter_tensors(trained())
    for name in ("one", "two"):
        write(tmp_path / f"{name}.gguf", tensors, FACTS)
    assert (tmp_path / "one.gguf").read_bytes() == (tmp_path / "two.gguf").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one.gguf", "two.gguf"]
    found = read_adapter(tmp_path / "one.gguf")
    assert (found.architecture, found.alpha, len(found.pairs)) == ("llama", 24.0, 14)
    assert found.factor("blk.0.attn_q.weight", 1.0) == 8.0
    assert found.sha256 == hashlib.sha256((tmp_path / "two.gguf").read_bytes()).hexdigest()


def test_what_is_no_lora_weight_of_this_model() -> None:
    for name in ("base_model.model.lm_head.lora_A.default.weight", "layers.0.self_attn.q_proj.weight"):
        with pytest.raises(SystemExit, match=f"{name}: not a LoRA weight"):
            adapter_tensors({name: np.zeros((3, 576), np.float32)})


def test_a_factor_without_its_partner() -> None:
    found = trained()
    del found["base_model.model.model.layers.0.mlp.up_proj.lora_A.default.weight"]
    with pytest.raises(SystemExit, match="layer 0, ffn_up: one of its two matrices is missing"):
        adapter_tensors(found)


@pytest.mark.parametrize("value", [np.nan, 1e6])
def test_a_value_that_16_bits_do_not_hold(value: float) -> None:
    found = trained()
    found["base_model.model.model.layers.11.mlp.up_proj.lora_A.default.weight"][0, 0] = value
    with pytest.raises(SystemExit, match="layer 11, ffn_up: a value that 16 bits do not hold"):
        adapter_tensors(found)


def test_the_heads_are_those_of_the_model(smollm2: Path) -> None:
    from drift_runs.weights.gguf_file import open_reader

    reader = open_reader(smollm2)
    assert reader.get_field("llama.attention.head_count").contents() == export.HEADS["attn_q"]
    assert reader.get_field("llama.attention.head_count_kv").contents() == export.HEADS["attn_k"]


def test_the_digest_beside_the_file_is_what_the_demo_checks(tmp_path: Path) -> None:
    made = tmp_path / "smollm2-ops.gguf"
    made.write_bytes(b"an adapter")
    line = write_digest(made)
    assert (tmp_path / "smollm2-ops.sha256").read_text("ascii") == f"{line}\n"
    assert line.split() == [hashlib.sha256(b"an adapter").hexdigest(), "smollm2-ops.gguf"]
