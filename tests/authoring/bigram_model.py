"""A real llama model whose best next token depends on the last token alone: what it writes is known beforehand."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.tiny_model import write_tiny_model

TOKENS = [b"<|im_start|>", b"<|im_end|>", b"\n", *(bytes([code]) for code in range(32, 127))]
"""One id a character, and the two that frame a turn."""


def write_bigram_model(path: Path, following: Mapping[bytes, bytes]) -> Path:
    """Behind each key its value is the best token; behind any other all tokens tie."""
    import gguf

    write_tiny_model(path, tokens=TOKENS)
    reader = gguf.GGUFReader(path, "r+")
    tensors = {tensor.name: tensor.data for tensor in reader.tensors}
    for name, data in tensors.items():
        if name.endswith(("attn_output.weight", "ffn_down.weight")) or name in ("token_embd.weight", "output.weight"):
            data[:] = 0
    for token, name in enumerate(TOKENS):
        tensors["token_embd.weight"][token, token] = 1
        if name in following:
            tensors["output.weight"][TOKENS.index(following[name]), token] = 1
    for data in tensors.values():
        data.flush()
    return path
