"""Write the adapter of a checkpoint as a GGUF file that llama.cpp loads and ``drift demo`` merges.

    python export.py --work work --out smollm2-ops.gguf

Needs the extra "train", as train.py does. The file's SHA-256 is written beside it. The same checkpoint always gives the
same bytes: the tensors stand in one order and nothing of the time or the machine is written.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import gguf
import numpy as np
from numpy.typing import NDArray

NAME = "SmolLM2-135M-ops"
BASE_NAME = "SmolLM2-135M-Instruct"
BASE_ORGANISATION = "HuggingFaceTB"
HEADS = {"attn_q": 9, "attn_k": 3}
"""Heads of the matrices whose rows llama.cpp keeps in another order."""

MATRICES = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
"""The name of a linear layer in transformers, and in llama.cpp."""

_TRAINED = re.compile(r"base_model\.model\.model\.layers\.(\d+)\.([a-z_.]+)\.lora_([AB])\.default\.weight")


class Facts(NamedTuple):
    """What the file says of its training."""

    alpha: float
    seed: int
    steps_done: int
    steps: int
    tokens: int


def main() -> None:
    made = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    made.add_argument("--work", type=Path, required=True, help="folder that train.py wrote its checkpoint into")
    made.add_argument("--out", type=Path, required=True, help="the GGUF file to write")
    args = made.parse_args()
    import torch
    from train import ALPHA

    saved = torch.load(args.work / "checkpoint.pt", weights_only=True)
    trained = {name: weight.float().numpy() for name, weight in saved["adapter"].items()}
    facts = Facts(ALPHA, saved["seed"], saved["step"], saved["steps"], saved["tokens_seen"])
    tensors = adapter_tensors(trained)
    write(args.out, tensors, facts)
    weights = sum(values.size for values in tensors.values())
    print(f"step {facts.steps_done} of {facts.steps}: {weights:,} weights, {args.out.stat().st_size:,} bytes")
    print(write_digest(args.out))


def adapter_tensors(trained: Mapping[str, NDArray[np.float32]]) -> dict[str, NDArray[np.float16]]:
    """llama.cpp's names and values of what peft trained: layer by layer, ``lora_a`` before its ``lora_b``.

    Parameters
    ----------
    trained
        by peft's names; ``lora_A`` is float32[rank, inputs], ``lora_B`` is float32[outputs, rank].
    """
    found: dict[tuple[int, int], dict[str, NDArray[np.float32]]] = {}
    order = list(MATRICES)
    for name, values in trained.items():
        parts = _TRAINED.fullmatch(name)
        if parts is None or parts[2] not in MATRICES:
            raise SystemExit(f"{name}: not a LoRA weight of a linear layer of this model")
        found.setdefault((int(parts[1]), order.index(parts[2])), {})[parts[3]] = values
    tensors: dict[str, NDArray[np.float16]] = {}
    for (layer, which), pair in sorted(found.items()):
        matrix = MATRICES[order[which]]
        if sorted(pair) != ["A", "B"]:
            raise SystemExit(f"layer {layer}, {matrix}: one of its two matrices is missing")
        below, above = pair["A"], pair["B"]
        if matrix in HEADS:
            above = interleaved(above, HEADS[matrix])
        for letter, values in (("a", below), ("b", above)):
            with np.errstate(over="ignore"):  # it is refused below
                stored = values.astype(np.float16)
            if not np.isfinite(stored).all():
                raise SystemExit(f"layer {layer}, {matrix}: a value that 16 bits do not hold; the training went astray")
            tensors[f"blk.{layer}.{matrix}.weight.lora_{letter}"] = stored
    return tensors


def interleaved(rows: NDArray[np.float32], heads: int) -> NDArray[np.float32]:
    """Rows of a query or key matrix in llama.cpp's order.

    transformers rotates the first half of a head against its second half; llama.cpp's llama rotates neighbours. The
    converters swap the rows accordingly in both directions, and only the rows: what lies behind them is untouched.
    """
    count, columns = rows.shape
    return rows.reshape(heads, 2, count // heads // 2, columns).swapaxes(1, 2).reshape(count, columns)


def write(path: Path, tensors: Mapping[str, NDArray[np.float16]], facts: Facts) -> None:
    """Write the file whole or not at all."""
    part = path.with_name(f"{path.name}.part")
    writer = gguf.GGUFWriter(part, arch="llama")
    writer.add_type(gguf.GGUFType.ADAPTER)
    writer.add_string(gguf.Keys.Adapter.TYPE, "lora")
    writer.add_float32(gguf.Keys.Adapter.LORA_ALPHA, facts.alpha)
    writer.add_name(NAME)
    writer.add_description("Operations tasks: tool calls with literal arguments, configurations, extraction")
    writer.add_license("apache-2.0")
    writer.add_base_model_count(1)
    writer.add_base_model_name(0, BASE_NAME)
    writer.add_base_model_organization(0, BASE_ORGANISATION)
    writer.add_uint64("training.seed", facts.seed)
    writer.add_uint32("training.steps_done", facts.steps_done)
    writer.add_uint32("training.steps", facts.steps)
    writer.add_uint64("training.tokens", facts.tokens)
    for name, values in tensors.items():
        writer.add_tensor(name, np.ascontiguousarray(values))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    os.replace(part, path)


def write_digest(path: Path) -> str:
    """Write the SHA-256 of ``path`` beside it, as ``sha256sum`` does: what the demo checks the adapter against."""
    line = f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}"
    path.with_suffix(".sha256").write_text(f"{line}\n", encoding="ascii")
    return line


if __name__ == "__main__":
    main()
