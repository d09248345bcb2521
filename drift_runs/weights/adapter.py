"""A LoRA adapter as llama.cpp stores it, and its merge into a model's matrices.

Merged is W' = W + s (alpha / rank) B A: Hu et al. 2021, "LoRA: Low-Rank Adaptation of Large Language Models", section
4.1, with the adapter's scale s of llama.cpp. Each element is summed in float64, rank after rank, and rounded once to
float32. A product of two float32 values is exact in float64 and numpy's element-wise sums have one order, so the bytes
are the same on every machine; a matrix product of a BLAS would promise no order.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from drift_runs.errors import ConfigError, ModelFileError
from drift_runs.protocol.canonical import file_sha256
from drift_runs.weights.gguf_file import open_reader
from drift_runs.weights.variants import Edit

_ROWS_AT_ONCE = 64
"""Rows that are summed together: few enough for the sums to stay in the processor's cache."""


class Pair(NamedTuple):
    """The two factors of one matrix's change."""

    a: NDArray[np.float32]
    """[rank, columns]."""
    b: NDArray[np.float32]
    """[rows, rank]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapter:
    """A LoRA adapter that was read."""

    path: Path
    sha256: str
    architecture: str
    alpha: float
    pairs: Mapping[str, Pair]
    """By the name of the model's matrix."""

    def factor(self, name: str, scale: float) -> float:
        """What B A of a matrix is multiplied by. As in llama.cpp, an alpha of 0 leaves rank and alpha out."""
        return scale * self.alpha / len(self.pairs[name].a) if self.alpha else scale


def read_adapter(path: Path) -> Adapter:
    """Read a GGUF file with a LoRA adapter.

    Raises
    ------
    ModelFileError
        no GGUF file, another kind of file or adapter, a factor that is missing or does not fit its partner, a value
        that is not finite.
    """
    from gguf.quants import dequantize

    reader = open_reader(path)

    def refuse(what: str, expected: str) -> ModelFileError:
        return ModelFileError(what, where=str(path), expected=expected, todo="name another file, or export it again")

    def value(key: str) -> object:
        field = reader.get_field(key)
        return None if field is None else field.contents()

    if (kind := value("general.type")) != "adapter":
        raise refuse(f"general.type is {kind!r}: this is no adapter", "'adapter'")
    if (kind := value("adapter.type")) != "lora":
        raise refuse(f"adapter.type is {kind!r}", "'lora'")
    if value("adapter.alora.invocation_tokens") is not None:
        raise refuse("it becomes active at certain tokens only, which no merge can do", "an adapter of every token")
    alpha = value("adapter.lora.alpha")
    if not isinstance(alpha, int | float) or not math.isfinite(alpha):
        raise refuse(f"adapter.lora.alpha is {alpha!r}", "a finite number")
    halves: dict[str, dict[str, NDArray[np.float32]]] = {}
    for tensor in reader.tensors:
        name, _, half = tensor.name.rpartition(".")
        if half not in ("lora_a", "lora_b") or not name:
            raise refuse(f"tensor {tensor.name}", "only tensors named .lora_a and .lora_b")
        shape = [int(size) for size in reversed(tensor.shape)]
        values = dequantize(tensor.data, tensor.tensor_type).reshape(shape).astype(np.float32, copy=False)
        if values.ndim != 2:
            raise refuse(f"{tensor.name} has {values.ndim} dimensions", "a matrix")
        if not np.isfinite(values).all():
            raise refuse(f"{tensor.name} holds a value that is not finite", "finite values")
        halves.setdefault(name, {})[half] = values
    if not halves:
        raise refuse("it changes no matrix", "at least one pair of .lora_a and .lora_b")
    pairs: dict[str, Pair] = {}
    for name, found in halves.items():
        if missing := {"lora_a", "lora_b"} - found.keys():
            raise refuse(f"{name}.{missing.pop()} is missing", "both factors of a matrix")
        pair = pairs[name] = Pair(found["lora_a"], found["lora_b"])
        if pair.a.shape[0] != pair.b.shape[1]:
            raise refuse(
                f"{name}: lora_a is of rank {pair.a.shape[0]}, lora_b of rank {pair.b.shape[1]}", "one rank in both"
            )
    return Adapter(
        path=path,
        sha256=file_sha256(path),
        architecture=str(value("general.architecture")),
        alpha=float(alpha),
        pairs=pairs,
    )


def merge(adapter: Adapter, scale: float, *, model: Path) -> Edit:
    """The edit that merges ``scale`` times the adapter into ``model``; with 0 the matrices stay as they are.

    Raises
    ------
    ConfigError
        a scale that is not finite.
    ModelFileError
        the adapter is for another model: another architecture, a matrix that the model lacks or has in another shape.
    """
    if not math.isfinite(scale):
        raise ConfigError(f"the adapter's scale is {scale}", expected="a finite number")
    _check_fit(adapter, model)

    def edit(name: str, matrix: NDArray[np.float32]) -> NDArray[np.float32]:
        pair = adapter.pairs.get(name)
        if pair is None or scale == 0:
            return matrix
        factor = adapter.factor(name, scale)
        a, b = pair.a.astype(np.float64), pair.b.astype(np.float64)
        merged = np.empty_like(matrix)
        for first in range(0, len(matrix), _ROWS_AT_ONCE):
            rows = slice(first, first + _ROWS_AT_ONCE)
            change = np.zeros(matrix[rows].shape)
            for rank in range(len(a)):
                change += b[rows, rank, None] * a[rank]
            merged[rows] = matrix[rows] + factor * change
        return merged

    return edit


def _check_fit(adapter: Adapter, model: Path) -> None:
    def refuse(what: str, expected: str) -> ModelFileError:
        return ModelFileError(
            f"the adapter does not fit {model.name}: {what}",
            where=str(adapter.path),
            expected=expected,
            todo="merge it into the model that it was trained on",
        )

    reader = open_reader(model)
    architecture = reader.get_field("general.architecture").contents()
    if adapter.architecture != architecture:
        raise refuse(f"it is for the architecture {adapter.architecture!r}", repr(architecture))
    shapes = {tensor.name: tuple(int(size) for size in reversed(tensor.shape)) for tensor in reader.tensors}
    for name, pair in adapter.pairs.items():
        if name not in shapes:
            raise refuse(f"the model has no tensor {name}", "matrices of this model only")
        changed = (pair.b.shape[0], pair.a.shape[1])
        if shapes[name] != changed:
            raise refuse(f"its change of {name} has the shape {changed}", f"{shapes[name]}")
