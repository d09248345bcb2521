"""The table of tensors in a GGUF file, read by llama.cpp itself.

It takes milliseconds; a reader in Python takes seconds for a large vocabulary.
"""

from __future__ import annotations

import ctypes as c
import functools
from pathlib import Path
from typing import NamedTuple

from drift_runs.engines.llama_cpp_library import last_log, library
from drift_runs.errors import ModelFileError


class TensorEntry(NamedTuple):
    """One tensor of the table."""

    name: str
    type: str
    """In lower case: ``f16``, ``q4_0``, …"""
    weights: int
    end: int
    """Offset of its last byte plus one."""


class _InitParams(c.Structure):
    """``struct gguf_init_params``."""

    _fields_ = (("no_alloc", c.c_bool), ("ctx", c.c_void_p))


@functools.cache
def _library() -> c.CDLL:
    loaded = library()
    loaded.gguf_init_from_file.restype = c.c_void_p
    loaded.gguf_init_from_file.argtypes = [c.c_char_p, _InitParams]
    loaded.gguf_free.argtypes = [c.c_void_p]
    loaded.gguf_free.restype = None
    loaded.gguf_get_n_tensors.restype = c.c_int64
    loaded.gguf_get_n_tensors.argtypes = [c.c_void_p]
    loaded.gguf_get_data_offset.restype = c.c_size_t
    loaded.gguf_get_data_offset.argtypes = [c.c_void_p]
    for name, result in (
        ("gguf_get_tensor_name", c.c_char_p),
        ("gguf_get_tensor_type", c.c_int),
        ("gguf_get_tensor_size", c.c_size_t),
        ("gguf_get_tensor_offset", c.c_size_t),
    ):
        function = getattr(loaded, name)
        function.restype = result
        function.argtypes = [c.c_void_p, c.c_int64]
    for name, result in (("ggml_type_name", c.c_char_p), ("ggml_blck_size", c.c_int64), ("ggml_type_size", c.c_size_t)):
        function = getattr(loaded, name)
        function.restype = result
        function.argtypes = [c.c_int]
    return loaded


def tensor_table(path: Path) -> list[TensorEntry]:
    """Every tensor that the file declares; whether its bytes are there is for the caller to check.

    Raises ``ModelFileError`` for a file that is no GGUF or whose header is cut.
    """
    loaded = _library()
    handle = loaded.gguf_init_from_file(str(path).encode(), _InitParams(True, None))
    if not handle:
        raise ModelFileError(f"not a readable GGUF file: {last_log()}", where=str(path), todo="fetch or make it again")
    try:
        start = loaded.gguf_get_data_offset(handle)
        entries = []
        for index in range(loaded.gguf_get_n_tensors(handle)):
            kind = loaded.gguf_get_tensor_type(handle, index)
            size = loaded.gguf_get_tensor_size(handle, index)
            entries.append(
                TensorEntry(
                    name=loaded.gguf_get_tensor_name(handle, index).decode("utf-8", "replace"),
                    type=loaded.ggml_type_name(kind).decode().lower(),
                    weights=size // loaded.ggml_type_size(kind) * loaded.ggml_blck_size(kind),
                    end=start + loaded.gguf_get_tensor_offset(handle, index) + size,
                )
            )
        return entries
    finally:
        loaded.gguf_free(handle)
