"""A real llama model of random weights, small enough for every test: it runs the tiny protocol in milliseconds.

Its dictionary is the tiny protocol's. The weights mean nothing; engine, files and arithmetic are the real ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tests.conftest import tiny_dictionary

LAYERS, WIDTH, HIDDEN, HEADS, KV_HEADS = 2, 128, 256, 4, 2
CONTROL, NORMAL = 3, 1


class Dimensions(NamedTuple):
    """Of a model; every head has ``width / heads`` dimensions."""

    layers: int = LAYERS
    width: int = WIDTH
    hidden: int = HIDDEN
    heads: int = HEADS
    kv_heads: int = KV_HEADS


TINY = Dimensions()


def vocabulary_name(token: bytes) -> str:
    """A token as byte-level BPE writes it."""
    return token.decode().replace(" ", "\u0120").replace("\n", "\u010a")


def write_tiny_model(
    path: Path,
    *,
    seed: int = 1,
    poison: str = "",
    context: int = 128,
    add_bos: bool = False,
    tokens: Sequence[bytes] = (),
    reads_bos: bool = True,
    added: Mapping[str, NDArray[np.float32]] | None = None,
    size: Dimensions = TINY,
) -> Path:
    """Write an F16 GGUF. ``poison`` names a tensor whose weights become NaN; ``add_bos``: a text starts with BOS.

    ``tokens``: another dictionary, ASCII. ``reads_bos``: a BOS that is written in a text is one; else it is letters.
    ``added``: what is added to tensors by name; the file is then of F32, which holds such a sum to the last bit, and an
    empty mapping gives the plain model so.
    """
    import gguf

    rng = np.random.default_rng(seed)
    tokens = tokens or tiny_dictionary()
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("tiny")
    writer.add_context_length(context)
    writer.add_embedding_length(size.width)
    writer.add_block_count(size.layers)
    writer.add_feed_forward_length(size.hidden)
    writer.add_head_count(size.heads)
    writer.add_head_count_kv(size.kv_heads)
    writer.add_rope_dimension_count(size.width // size.heads)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(tokens))
    kind = gguf.LlamaFileType.MOSTLY_F16 if added is None else gguf.LlamaFileType.ALL_F32
    writer.add_file_type(kind)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list([vocabulary_name(token) for token in tokens])
    writer.add_token_types([CONTROL if reads_bos else NORMAL, CONTROL] + [NORMAL] * (len(tokens) - 2))
    writer.add_token_merges(["a b"])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)
    if add_bos:
        writer.add_add_bos_token(True)

    def matrix(name: str, rows: int, columns: int, scale: float = 1.0) -> None:
        values = (rng.standard_normal((rows, columns)) * scale / np.sqrt(columns)).astype(np.float16)
        if name == poison:
            values[:] = np.nan
        if added is not None:
            values = values.astype(np.float32) + added.get(name, np.float32(0))
        writer.add_tensor(name, values)

    def ones(name: str) -> None:
        writer.add_tensor(name, np.ones(size.width, dtype=np.float32))

    matrix("token_embd.weight", len(tokens), size.width, 8.0)
    head = size.width // size.heads
    for layer in range(size.layers):
        block = f"blk.{layer}"
        ones(f"{block}.attn_norm.weight")
        matrix(f"{block}.attn_q.weight", size.width, size.width)
        matrix(f"{block}.attn_k.weight", size.kv_heads * head, size.width)
        matrix(f"{block}.attn_v.weight", size.kv_heads * head, size.width)
        matrix(f"{block}.attn_output.weight", size.width, size.width)
        ones(f"{block}.ffn_norm.weight")
        matrix(f"{block}.ffn_gate.weight", size.hidden, size.width)
        matrix(f"{block}.ffn_up.weight", size.hidden, size.width)
        matrix(f"{block}.ffn_down.weight", size.width, size.hidden)
    ones("output_norm.weight")
    matrix("output.weight", len(tokens), size.width, 3.0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def write_tiny_arms(folder: Path, *, tokens: Sequence[bytes] = ()) -> Path:
    """The tiny protocol's weight files and their ``drift.toml``; its path. ``tokens``: another dictionary."""
    from drift_runs.machine import machine_text
    from drift_runs.weights.variants import write_variant

    folder.mkdir(parents=True, exist_ok=True)
    files = {"f16": write_tiny_model(folder / "f16.gguf", tokens=tokens)}
    for name in ("q8_0", "q4_0"):
        files[name] = folder / f"{name}.gguf"
        write_variant(files["f16"], files[name], weights=name)
    machine = folder / "drift.toml"
    text = machine_text(
        {name: Path(path.name) for name, path in files.items()}, same_model={"kv-q4_0": "f16"}, threads=1
    )
    machine.write_text(text, encoding="utf-8")
    return machine
