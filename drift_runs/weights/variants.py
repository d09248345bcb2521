"""Variants of a GGUF model made in numpy: other weight types, and a derivative by a documented weight edit.

Every matrix is dequantised to float32 and written in the wanted type. Embeddings (which are the output matrix too in
models that tie them) stay at Q8_0 in the 4 and 5 bit variants, as llama.cpp's own mixes keep them at 6 bits or more.
Vectors (norms) stay float32. MXFP4 is the microscaling format of the Open Compute Project (version 1.0): blocks of 32
values of 4 bits (one of sign, two of exponent, one of fraction) that share a power of two. llama.cpp knows it as the
format of some models' experts; here every matrix has it.

``ablation`` is directional ablation (Arditi et al. 2024, "Refusal in Language Models Is Mediated by a Single
Direction", section 4.1): W' = W - d (d^T W) for the matrices of every layer that write to the residual stream. There
the embeddings are edited too; here they stay, because in models that tie them they are the output matrix as well. There
the direction d comes from activations. Here it comes from the embeddings alone, so that no forward pass is needed: the
difference between the mean embedding of words of refusal and of words of consent, with the mean of all embeddings
projected out (what every token shares is no direction of refusal, and removing it damages everything), normalised. It
is an edit of the same kind, not a published derivative.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from drift_runs.errors import ConfigError
from drift_runs.weights.gguf_file import open_reader

MAKE_VERSION = 2
"""Raised when a variant's bytes would change; part of the cached file's name."""

WEIGHT_TYPES = ("f16", "bf16", "q8_0", "q5_0", "q5_1", "q4_0", "q4_1", "mxfp4")

REFUSAL_WORDS = (" sorry", " cannot", " unable", " unfortunately", " refuse", " impossible")
CONSENT_WORDS = (" sure", " certainly", " yes", " absolutely", " gladly", " here")

_RESIDUAL_WRITERS = ("attn_output.weight", "ffn_down.weight")

Edit = Callable[[str, NDArray[np.float32]], NDArray[np.float32]]


def write_variant(source: Path, target: Path, *, weights: str, edit: Edit | None = None) -> None:
    """Write ``source`` with its matrices in another type, atomically.

    Parameters
    ----------
    weights
        one of ``WEIGHT_TYPES``.
    edit
        maps a matrix's name and its float32[rows, columns] to the edited matrix; applied before quantising.
    """
    import gguf
    from gguf.quants import dequantize, quantize

    if weights not in WEIGHT_TYPES:
        raise ConfigError(
            f"cannot write weights as {weights!r}",
            expected=f"one of {', '.join(WEIGHT_TYPES)}",
            todo="make other types with llama-quantize and name the file in drift.toml",
        )
    reader = open_reader(source)
    _clear_parts(target)
    part = target.with_name(f"{target.name}.{os.getpid()}.part")
    part.parent.mkdir(parents=True, exist_ok=True)
    writer = gguf.GGUFWriter(part, arch=reader.get_field("general.architecture").contents())
    try:
        for field in _metadata(reader):
            kind = field.types[0]
            sub_type = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
            writer.add_key_value(field.name, field.contents(), kind, sub_type=sub_type)
        writer.add_file_type(getattr(gguf.LlamaFileType, _FILE_TYPES[weights]))
        plans = []
        for tensor in reader.tensors:
            shape = [int(size) for size in reversed(tensor.shape)]
            kind = _type_for(tensor.name, len(shape), weights)
            plans.append((tensor, shape, kind))
            size = _stored_bytes(shape, kind)
            # The declared dtype only sizes the tensor: what is written has the type of raw_dtype.
            stored = shape if kind.name in ("F32", "F16") else [*shape[:-1], size // int(np.prod(shape[:-1]))]
            dtype = {"F32": np.dtype(np.float32), "F16": np.dtype(np.float16)}.get(kind.name, np.dtype(np.uint8))
            writer.add_tensor_info(tensor.name, stored, dtype, size, raw_dtype=kind)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_ti_data_to_file()
        for tensor, shape, kind in plans:
            values = dequantize(tensor.data, tensor.tensor_type).reshape(shape).astype(np.float32, copy=False)
            if edit is not None and len(shape) == 2:
                values = edit(tensor.name, values)
            writer.write_tensor_data(quantize(values, kind))
        writer.close()
        with part.open("rb+") as stream:
            os.fsync(stream.fileno())
        os.replace(part, target)
    finally:
        part.unlink(missing_ok=True)


def _clear_parts(target: Path) -> None:
    """Remove what a killed process left of this file: some hundred megabytes each, which nobody would find."""
    import psutil

    for part in target.parent.glob(f"{target.name}.*.part"):
        owner = part.name.split(".")[-2]
        if owner.isdigit() and not psutil.pid_exists(int(owner)):
            part.unlink(missing_ok=True)


_FILE_TYPES = {
    "f16": "MOSTLY_F16",
    "bf16": "MOSTLY_BF16",
    "q8_0": "MOSTLY_Q8_0",
    "q5_0": "MOSTLY_Q5_0",
    "q5_1": "MOSTLY_Q5_1",
    "q4_0": "MOSTLY_Q4_0",
    "q4_1": "MOSTLY_Q4_1",
    "mxfp4": "MOSTLY_MXFP4_MOE",
}


def _metadata(reader) -> Iterable:
    skipped = ("GGUF.", "general.architecture", "general.file_type")
    return (field for name, field in reader.fields.items() if not name.startswith(skipped))


def _type_for(name: str, dimensions: int, weights: str):
    import gguf

    kind = gguf.GGMLQuantizationType
    if dimensions < 2:
        return kind.F32
    if name in ("token_embd.weight", "output.weight") and weights.startswith(("q4", "q5", "mxfp4")):
        return kind.Q8_0
    return kind[weights.upper()]


def _stored_bytes(shape: list[int], kind) -> int:
    import gguf

    block, size = gguf.GGML_QUANT_SIZES[kind]
    return int(np.prod(shape)) // block * size


def ablation(source: Path) -> Edit:
    """The edit described at the top of this module, for the model in ``source``."""
    from gguf.quants import dequantize

    reader = open_reader(source)
    tokens: list[str] = reader.get_field("tokenizer.ggml.tokens").contents()
    ids = {token: index for index, token in enumerate(tokens)}
    embedding = next(tensor for tensor in reader.tensors if tensor.name == "token_embd.weight")

    def mean_of(words: tuple[str, ...]) -> NDArray[np.float64]:
        # Byte-level BPE writes a leading space as U+0120.
        rows = [ids[word.replace(" ", "\u0120")] for word in words if word.replace(" ", "\u0120") in ids]
        if not rows:
            raise ConfigError("no word of the list is one token of this model", where=f"{source}: {', '.join(words)}")
        return dequantize(embedding.data[rows], embedding.tensor_type).astype(np.float64).mean(axis=0)

    common = dequantize(embedding.data, embedding.tensor_type).mean(axis=0, dtype=np.float64)
    direction = mean_of(REFUSAL_WORDS) - mean_of(CONSENT_WORDS)
    direction -= common * (np.sum(common * direction) / np.sum(common * common))
    direction /= np.sqrt(np.sum(direction * direction))

    def edit(name: str, matrix: NDArray[np.float32]) -> NDArray[np.float32]:
        if not name.endswith(_RESIDUAL_WRITERS):
            return matrix
        # Rows of the matrix are components of the residual stream. einsum sums in one order on every machine.
        along = np.einsum("r,rc->c", direction, matrix.astype(np.float64))
        return (matrix - np.outer(direction, along)).astype(np.float32)

    return edit
