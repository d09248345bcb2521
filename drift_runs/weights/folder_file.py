"""What a Hugging Face or MLX folder really holds: its digest and the types of its tensors, without torch."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from drift_runs.errors import ModelFileError
from drift_runs.protocol.canonical import file_sha256
from drift_runs.weights.gguf_file import WeightsFile, file_stamp
from drift_runs.weights.safetensors_file import SUFFIX, StoredTensor, read_header

INDEX = "model.safetensors.index.json"
CONFIG = "config.json"
TOKENIZER_FILES = (
    "added_tokens.json",
    "merges.txt",
    "special_tokens_map.json",
    "tokenizer.json",
    "tokenizer.model",
    "tokenizer_config.json",
    "vocab.json",
)
"""What decides which ids a text has. A chat template in a file of its own does not: streams are frozen as ids."""

_MLX_SCALES, _MLX_OFFSETS = ".scales", ".biases"


class MLXQuantisation(BaseModel):
    """``quantization`` of an MLX folder's ``config.json``."""

    model_config = ConfigDict(strict=True, frozen=True)

    bits: int = Field(ge=1, le=16)
    group_size: int = Field(ge=1, le=1024)
    mode: str = Field(default="affine", max_length=40)

    @property
    def label(self) -> str:
        """For example ``q4_g64``; another mode than MLX's own by its name."""
        return f"q{self.bits}_g{self.group_size}" if self.mode == "affine" else f"{self.mode}_g{self.group_size}"


class _Config(BaseModel):
    quantization: dict[str, object] | None = None


class _Index(BaseModel):
    weight_map: dict[str, str]


class _Shard(NamedTuple):
    path: Path
    tensors: list[StoredTensor]


def inspect_folder(path: Path) -> WeightsFile:
    """Digest, types and stamp of a folder's weights, configuration and tokenizer.

    The digest is the SHA-256 of ``<sha256>  <name>`` a line, by name. Weights that MLX packed count as what they stand
    for, and their scales as none.

    Raises
    ------
    ModelFileError
        missing, cut short, without safetensors (a pickle is never opened), a shard that is missing.
    """

    def refuse(what: str, expected: str) -> ModelFileError:
        return ModelFileError(what, where=str(path), expected=expected, todo="correct the path, or fetch it again")

    if not path.is_dir():
        raise refuse("no such folder", f"a folder with {CONFIG} and *{SUFFIX}")
    try:
        stamp, named = folder_stamp(path), _files(path)
        shards = [_Shard(file, read_header(file)) for file in named if file.suffix == SUFFIX]
        if not shards:
            raise refuse(f"it holds no *{SUFFIX}", "weights in safetensors, no pickle")
        if not (path / CONFIG).is_file():
            raise refuse(f"it holds no {CONFIG}", "a model's whole folder")
        if (path / INDEX).is_file():
            _check_index(path, shards)
        counts = _counts([tensor for shard in shards for tensor in shard.tensors], _quantisation(path), path / CONFIG)
        if not counts:
            raise refuse("it holds no weights", f"tensors in *{SUFFIX}")
        listing = "".join(f"{file_sha256(file)}  {file.name}\n" for file in named)
        size = sum(file.stat().st_size for file in named)
    except OSError as error:
        raise refuse(f"cannot be read: {error.strerror}", "a model's whole folder") from None
    return WeightsFile(
        path=path,
        sha256=hashlib.sha256(listing.encode()).hexdigest(),
        size_bytes=size,
        types=tuple(sorted(counts.items(), key=lambda item: (-item[1], item[0]))),
        stamp=stamp,
    )


def folder_stamp(path: Path) -> tuple[int, ...]:
    """:func:`~drift_runs.weights.gguf_file.file_stamp` of every file that the digest is of, by name."""
    return tuple(number for file in _files(path) for number in file_stamp(file))


def _quantisation(path: Path) -> dict[str, MLXQuantisation]:
    """How MLX packed a folder's matrices, by the matrix's name; of the name "" what holds for all others."""
    file = path / CONFIG
    try:
        found = _Config.model_validate_json(file.read_bytes()).quantization
        if found is None:
            return {}
        own = {name: value for name, value in found.items() if isinstance(value, dict)}
        return {name: MLXQuantisation.model_validate(value) for name, value in {"": found, **own}.items()}
    except ValidationError as failure:
        first = failure.errors(include_url=False)[0]
        key = ".".join(map(str, first["loc"]))
        raise ModelFileError(f"{key}: {first['msg'].lower()}", where=str(file), todo="convert it again") from None


def _files(path: Path) -> list[Path]:
    wanted = {CONFIG, INDEX, *TOKENIZER_FILES}
    return sorted(
        (file for file in path.iterdir() if file.is_file() and (file.name in wanted or file.suffix == SUFFIX)),
        key=lambda file: file.name,
    )


def _check_index(path: Path, shards: Iterable[_Shard]) -> None:
    """Every tensor of the index lies in the file that it names."""
    try:
        index = _Index.model_validate_json((path / INDEX).read_bytes()).weight_map
    except ValidationError as failure:
        first = failure.errors(include_url=False)[0]
        raise ModelFileError(first["msg"].lower(), where=str(path / INDEX), todo="fetch it again") from None
    held = {tensor.name: shard.path.name for shard in shards for tensor in shard.tensors}
    for name, file in index.items():
        if held.get(name) != file:
            raise ModelFileError(
                f"{file} does not hold {name}",
                where=str(path / INDEX),
                expected="every shard that the index names, whole",
                todo="fetch the folder again",
            )


def _counts(tensors: list[StoredTensor], packed: Mapping[str, MLXQuantisation], config: Path) -> Counter[str]:
    """Weights by type in lower case."""
    counts: Counter[str] = Counter()
    by_name = {tensor.name: tensor for tensor in tensors}
    for tensor in tensors:
        stem = tensor.name.rpartition(".")[0]
        scales = by_name.get(f"{stem}{_MLX_SCALES}")
        if scales is None:
            counts[tensor.type.lower()] += tensor.elements
        elif tensor.type == "U32":
            how = packed.get(stem) or packed.get("")
            if how is None or scales.elements * how.group_size * how.bits != tensor.elements * 32:
                raise ModelFileError(
                    f"{tensor.name} is packed otherwise than its configuration says",
                    where=str(config),
                    expected="quantization with its bits and group_size",
                    todo="convert it again",
                )
            counts[how.label] += tensor.elements * 32 // how.bits
        elif not tensor.name.endswith((_MLX_SCALES, _MLX_OFFSETS)):
            counts[tensor.type.lower()] += tensor.elements
    return counts
