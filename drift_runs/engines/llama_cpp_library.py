"""The library of llama.cpp in this process: loaded once, its log kept for errors, and what it is on this machine."""

from __future__ import annotations

import ctypes as c
import functools
import platform
from pathlib import Path

from drift_runs.engines import llama_cpp_binding as binding
from drift_runs.engines.base import Capabilities, EngineIdentity

CAPABILITIES = Capabilities(
    full_vocabulary=True,
    largest_top_k=None,
    path_shapes=("prefill", "decode"),
    token_ids=True,
    continues=True,
)

_log_lines: list[str] = []


@binding.LOG_CALLBACK
def _keep_log(level: int, text: bytes, _data: object) -> None:
    # The library writes to stderr by default, over the progress line; kept so that an error can quote it.
    if level >= 3 and text.strip():
        _log_lines.append(text.decode("utf-8", "replace").strip())
        del _log_lines[:-20]


def last_log() -> str:
    """What the library said last."""
    return _log_lines[-1] if _log_lines else "the library gave no reason"


@functools.cache
def library() -> c.CDLL:
    """The checked library, started, with its log kept for errors."""
    library = binding.load_library()
    library.llama_log_set(_keep_log, None)
    library.llama_backend_init()
    return library


def identity() -> EngineIdentity:
    """What this engine is on this machine; opens no model."""
    loaded = library()
    features = " ".join(loaded.llama_print_system_info().decode().split())
    return EngineIdentity(
        engine="llama_cpp",
        build=f"{binding.WHEEL} {binding.WHEEL_VERSION}",
        backend="cpu",
        hardware=f"{processor_name()}; {features.strip(' |')}",
        capabilities=CAPABILITIES,
    )


def processor_name() -> str:
    """Processor model as the system reports it, with the instruction sets that kernels are chosen by."""
    name, flags = platform.processor() or platform.machine(), ""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        for line in cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "model name":
                name = value.strip()
            if key.strip() in ("flags", "Features"):
                kept = {
                    flag
                    for flag in value.split()
                    if flag.startswith(("avx", "amx", "fma", "f16c", "sse4", "asimd", "sve", "i8mm", "bf16"))
                }
                flags = " ".join(sorted(kept))
                break
    return f"{platform.machine()} {name} [{flags}]" if flags else f"{platform.machine()} {name}"
