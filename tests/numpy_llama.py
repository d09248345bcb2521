"""A Hugging Face folder of a Llama in numpy and float64, to hold engines against, and its weights to be changed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from drift_runs.weights.safetensors_file import StoredTensor, read_header, write_tensors

Weights = dict[str, NDArray[np.float32]]


def read_weights(file: Path) -> Weights:
    """The tensors of a file, read once more by hand: header, then bytes in the order of the header."""
    data = file.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    found = {}
    for tensor in read_header(file):
        width = {"F32": 4, "F16": 2, "BF16": 2}[tensor.type]
        part = data[start : start + width * tensor.elements]
        start += len(part)
        if tensor.type == "BF16":
            values = (np.frombuffer(part, "<u2").astype(np.uint32) << 16).view(np.float32)
        else:
            values = np.frombuffer(part, "<f4" if width == 4 else "<f2").astype(np.float32)
        found[tensor.name] = values.reshape(tensor.shape)
    return found


def write_weights(file: Path, weights: Weights) -> None:
    """A file of float32 tensors."""
    stored = [StoredTensor(name, "F32", values.shape) for name, values in weights.items()]
    write_tensors(file, stored, (values.astype("<f4") for values in weights.values()), metadata={"format": "pt"})


def llama_logits(weights: Weights, config: dict, tokens: list[int]) -> NDArray[np.float64]:
    """The model as Hugging Face's Llama computes it, in float64: a rotation turns a head's first and second half."""
    heads, groups, size = (config[key] for key in ("num_attention_heads", "num_key_value_heads", "head_dim"))
    count = len(tokens)
    angles = np.arange(count)[:, None] * config["rope_theta"] ** (-np.arange(0, size, 2) / size)
    cosine, sine = (np.concatenate([f(angles)] * 2, axis=1)[:, None] for f in (np.cos, np.sin))

    def through(name: str, x: NDArray[np.float64]) -> NDArray[np.float64]:
        # No BLAS: its threads wait for each other on a busy machine, far longer than such a product takes.
        return np.einsum("ik,jk->ij", x, weights[f"{name}.weight"].astype(np.float64))

    def normed(x: NDArray[np.float64], name: str) -> NDArray[np.float64]:
        return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + config["rms_norm_eps"]) * weights[f"{name}.weight"]

    def turned(x: NDArray[np.float64]) -> NDArray[np.float64]:
        first, second = np.split(x, 2, axis=-1)
        return x * cosine + np.concatenate([-second, first], axis=-1) * sine

    x = weights["model.embed_tokens.weight"][tokens].astype(np.float64)
    for layer in range(config["num_hidden_layers"]):
        block = f"model.layers.{layer}"
        y = normed(x, f"{block}.input_layernorm")
        q, k, v = (
            through(f"{block}.self_attn.{name}_proj", y).reshape(count, number, size)
            for name, number in (("q", heads), ("k", groups), ("v", groups))
        )
        k, v = np.repeat(turned(k), heads // groups, axis=1), np.repeat(v, heads // groups, axis=1)
        scores = np.einsum("qhd,khd->hqk", turned(q), k) / np.sqrt(size)
        scores[:, np.triu(np.ones((count, count), dtype=bool), 1)] = -np.inf
        share = np.exp(scores - scores.max(axis=-1, keepdims=True))
        share /= share.sum(axis=-1, keepdims=True)
        mixed = np.einsum("hqk,khd->qhd", share, v).reshape(count, -1)
        x = x + through(f"{block}.self_attn.o_proj", mixed)
        y = normed(x, f"{block}.post_attention_layernorm")
        gate = through(f"{block}.mlp.gate_proj", y)
        gated = gate / (1 + np.exp(-gate)) * through(f"{block}.mlp.up_proj", y)
        x = x + through(f"{block}.mlp.down_proj", gated)
    return through("lm_head", normed(x, "model.norm"))
