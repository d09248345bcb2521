"""The container safetensors: eight bytes of length, a JSON header that names every tensor, and their bytes.

The format is small enough to be read and written here, so that a folder of weights can be looked at without the library
and without torch. Nothing in it is code. Format: https://github.com/huggingface/safetensors#format.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, RootModel, ValidationError

from drift_runs.errors import ModelFileError

SUFFIX = ".safetensors"
LARGEST_HEADER_BYTES = 100_000_000
"""The limit of the format's own library."""

_BYTES_BY_TYPE = {
    "BOOL": 1,
    "U8": 1,
    "I8": 1,
    "F8_E4M3": 1,
    "F8_E5M2": 1,
    "F8_E8M0": 1,
    "I16": 2,
    "U16": 2,
    "F16": 2,
    "BF16": 2,
    "I32": 4,
    "U32": 4,
    "F32": 4,
    "I64": 8,
    "U64": 8,
    "F64": 8,
}

_Size = Annotated[int, Field(ge=0, le=2**63 - 1)]


class _Entry(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")

    dtype: str
    shape: list[_Size]
    data_offsets: list[_Size]


class _Header(RootModel[dict[str, _Entry]]):
    pass


class StoredTensor(NamedTuple):
    """One tensor of a file."""

    name: str
    type: str
    """As the file says it: ``F32``, ``BF16``, ``U32``, …"""
    shape: tuple[int, ...]

    @property
    def elements(self) -> int:
        return math.prod(self.shape)


def read_header(path: Path) -> list[StoredTensor]:
    """Every tensor that the file holds, in the order of its header.

    Raises
    ------
    ModelFileError
        no safetensors file, or one that is cut short or longer than its header says.
    """

    def refuse(what: str, expected: str) -> ModelFileError:
        return ModelFileError(what, where=str(path), expected=expected, todo="fetch or make it again")

    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if size < 8 or not 2 <= length <= min(LARGEST_HEADER_BYTES, size - 8):
                raise refuse(f"its header would be {length} bytes of {size}", "a safetensors file")
            content = json.loads(file.read(length))
        if isinstance(content, dict):
            content.pop("__metadata__", None)
        header = _Header.model_validate(content).root
    except OSError as error:
        raise refuse(f"cannot be read: {error.strerror}", "a safetensors file") from None
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise refuse(f"its header is no JSON: {error}", "a safetensors file") from None
    except ValidationError as failure:
        first = failure.errors(include_url=False)[0]
        raise refuse(f"{'.'.join(map(str, first['loc']))}: {first['msg'].lower()}", "a safetensors header") from None
    end = 0
    for name, entry in sorted(header.items(), key=lambda item: item[1].data_offsets):
        width = _BYTES_BY_TYPE.get(entry.dtype)
        if width is None:
            raise refuse(f"{name} is of the type {entry.dtype!r}", f"one of {', '.join(_BYTES_BY_TYPE)}")
        want = [end, end + width * math.prod(entry.shape)]
        if entry.data_offsets != want:
            raise refuse(f"{name} lies at {entry.data_offsets}", f"{want}: tensors without a gap and of their size")
        end = want[1]
    if size != 8 + length + end:
        raise refuse(f"the file has {size} bytes", f"{8 + length + end} by its own header")
    return [StoredTensor(name, entry.dtype, tuple(entry.shape)) for name, entry in header.items()]


def write_tensors(
    path: Path,
    tensors: Sequence[StoredTensor],
    values: Iterator[NDArray[np.generic]],
    *,
    metadata: Mapping[str, str],
) -> None:
    """Write a file, one tensor in memory at a time.

    ``values``: the arrays of ``tensors`` in their order; their bytes are written as they are.
    """
    header: dict[str, object] = {"__metadata__": dict(metadata)}
    begin = 0
    for tensor in tensors:
        end = begin + tensor.elements * _BYTES_BY_TYPE[tensor.type]
        header[tensor.name] = {"dtype": tensor.type, "shape": list(tensor.shape), "data_offsets": [begin, end]}
        begin = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little"))
        file.write(text)
        for tensor, array in zip(tensors, values, strict=True):
            if array.nbytes != tensor.elements * _BYTES_BY_TYPE[tensor.type]:
                raise ValueError(f"{tensor.name}: {array.nbytes} bytes for {tensor.shape} of {tensor.type}")
            file.write(np.ascontiguousarray(array).data)
