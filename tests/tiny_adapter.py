"""A LoRA adapter of random weights for the tiny model, in the form that llama.cpp reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tests.tiny_model import HEADS, HIDDEN, KV_HEADS, LAYERS, WIDTH

KV_WIDTH = KV_HEADS * WIDTH // HEADS
SHAPES = {
    "attn_q": (WIDTH, WIDTH),
    "attn_k": (KV_WIDTH, WIDTH),
    "attn_v": (KV_WIDTH, WIDTH),
    "attn_output": (WIDTH, WIDTH),
    "ffn_gate": (HIDDEN, WIDTH),
    "ffn_up": (HIDDEN, WIDTH),
    "ffn_down": (WIDTH, HIDDEN),
}
"""Output and input widths of each linear layer of a block."""

Factors = Mapping[str, tuple[NDArray[np.float32], NDArray[np.float32]]]
"""By the name of the tensor that they change: A of float32[rank, input] and B of float32[output, rank]."""


def tiny_factors(*, seed: int = 3, rank: int = 4, size: float = 0.3) -> Factors:
    """Random factors for every linear layer; ``size``: the product's entries in units of the weights' own."""
    rng = np.random.default_rng(seed)
    found = {}
    for layer in range(LAYERS):
        for part, (rows, columns) in SHAPES.items():
            a = rng.standard_normal((rank, columns)) / np.sqrt(columns)
            b = rng.standard_normal((rows, rank)) * size / np.sqrt(rank)
            found[f"blk.{layer}.{part}.weight"] = (a.astype(np.float32), b.astype(np.float32))
    return found


def write_tiny_adapter(
    path: Path,
    factors: Factors | None = None,
    *,
    alpha: float = 8.0,
    architecture: str = "llama",
    invocation_tokens: Sequence[int] = (),
) -> Path:
    """Write an F32 adapter. ``invocation_tokens``: from which on it is to be active, where it is of that sort."""
    import gguf

    writer = gguf.GGUFWriter(path, architecture)
    writer.add_type("adapter")
    writer.add_string("adapter.type", "lora")
    writer.add_float32("adapter.lora.alpha", alpha)
    if invocation_tokens:
        writer.add_key_value(
            "adapter.alora.invocation_tokens",
            list(invocation_tokens),
            gguf.GGUFValueType.ARRAY,
            sub_type=gguf.GGUFValueType.UINT32,
        )
    for name, (a, b) in (tiny_factors() if factors is None else factors).items():
        writer.add_tensor(f"{name}.lora_a", a)
        writer.add_tensor(f"{name}.lora_b", b)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
