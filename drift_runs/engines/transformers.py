"""transformers in-process: a Hugging Face folder in torch, with weights and caches quantised when they are loaded.

The processor is used, or CUDA where it is there. Nothing is fetched and no code of a folder is run: the folder is read
from this machine, its weights from safetensors alone.
"""

from __future__ import annotations

import gc
import importlib.metadata
import inspect
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from drift_runs.engines.base import EngineIdentity, EngineSettings
from drift_runs.engines.cached_model import CAPABILITIES, CachedModel, refuse_closed
from drift_runs.engines.llama_cpp_library import processor_name
from drift_runs.engines.transformers_cache import check_kv, copy_cache, cut_cache, empty_cache, quantises
from drift_runs.engines.transformers_weights import LIBRARIES, load_model, observed_types, offline, scheme_of
from drift_runs.errors import ConfigError, EngineError, EngineMissing

if TYPE_CHECKING:
    import torch

INSTALL = "install it with: pip install 'drift-runs[transformers]'"
OPTIONS = ("device",)


def identity(settings: EngineSettings) -> EngineIdentity:
    """What this engine is on this machine under these settings; opens no model, and refuses settings that it lacks."""
    torch = _torch()
    device = device_of(settings)
    check_kv(settings.kv, settings.path_shape)
    packages = ["transformers", "torch"]
    if scheme_of(settings) is not None:
        packages.append(LIBRARIES[str(settings.quantise).partition("-")[0]])
    if (cache := settings.kv.partition("-")[0]) in ("quanto", "hqq"):
        packages.append("optimum-quanto" if cache == "quanto" else "hqq")
    try:
        build = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in dict.fromkeys(packages))
    except importlib.metadata.PackageNotFoundError as error:
        raise EngineMissing(f"the package {error.name} is not installed", todo=INSTALL) from None
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        major, minor = properties.major, properties.minor
        backend = f"cuda {torch.version.cuda}, driver {_driver()}"
        hardware = f"{properties.name}, {properties.total_memory // 2**20} MiB, compute {major}.{minor}"
    else:
        backend = "cpu"
        hardware = f"{processor_name()}; torch's kernels: {torch.backends.cpu.get_cpu_capability()}"
    return EngineIdentity(
        engine="transformers", build=build, backend=backend, hardware=hardware, capabilities=CAPABILITIES
    )


def _torch() -> Any:
    offline()
    try:
        import torch
        import transformers  # noqa: F401
    except ImportError as error:
        raise EngineMissing(f"{error.name or 'transformers'} is not installed", todo=INSTALL) from None
    return torch


def device_of(settings: EngineSettings) -> torch.device:
    """``device`` of ``settings.server``; without it CUDA where it is there, else the processor."""
    import torch

    named = dict(settings.server)
    if unknown := named.keys() - set(OPTIONS):
        raise ConfigError(f"unknown option {min(unknown)!r}", where="engine transformers", expected="device")
    if "device" not in named:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(named["device"])
    except RuntimeError:
        device = None
    if device is None or device.type not in ("cpu", "cuda"):
        raise ConfigError(f"device {named['device']!r}", where="engine transformers", expected="cpu, cuda or cuda:0")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise EngineError(
            f"no device {named['device']}",
            where="engine transformers",
            expected=f"one of the {torch.cuda.device_count()} that torch sees",
        )
    return device


def _driver() -> str:
    """Version of the kernel's driver for the device."""
    file = Path("/proc/driver/nvidia/version")
    words = file.read_text("utf-8", "replace").split("\n", 1)[0].split() if file.is_file() else []
    return next((word for word in words if word[:1].isdigit() and "." in word), "not established")


class Transformers(CachedModel):
    """One model of a Hugging Face folder. ``flash_attention``: on is torch's own attention, off is transformers'."""

    engine = "transformers"

    def __init__(self, model: Path, settings: EngineSettings) -> None:
        self._model: Any = None
        self._identity = identity(settings)
        super().__init__(model, settings)
        torch = _torch()
        torch.set_num_threads(settings.threads)
        self._device = device_of(settings)
        self._model = load_model(self.folder, settings, self._device)
        self._types = observed_types(self._model)
        taken = inspect.signature(self._model.forward).parameters
        self._selects = "logits_to_keep" in taken
        self._cache_name = "cache" if "cache" in taken else "past_key_values"
        self._opened(getattr(self._model.config.get_text_config(), "max_position_embeddings", None))

    @property
    def identity(self) -> EngineIdentity:
        return self._identity

    @property
    def types(self) -> tuple[tuple[str, int], ...]:
        """(type, number of weights) as they lie in memory, most weights first: what quantising really did."""
        return self._types

    @property
    def _first_step_is_float(self) -> bool:
        return quantises(self.settings.kv)

    def _empty(self) -> Any:
        refuse_closed(self._model, self.folder)
        return empty_cache(self.settings.kv, self._model.config)

    def _cut(self, cache: Any, count: int) -> Any | None:
        return cut_cache(cache, count)

    def _copy(self, cache: Any) -> Any:
        return copy_cache(cache)

    def _forward(self, cache: Any, tokens: NDArray[np.int64], wanted: NDArray[np.int64]) -> NDArray[np.float32]:
        import torch

        refuse_closed(self._model, self.folder)
        ids = torch.from_numpy(np.ascontiguousarray(tokens))[None].to(self._device)
        # A model computes one row at least.
        kept = torch.from_numpy(wanted if wanted.size else np.zeros(1, np.int64)).to(self._device)
        named = {self._cache_name: cache} | ({"logits_to_keep": kept} if self._selects else {})
        try:
            with torch.no_grad():
                found = self._model(input_ids=ids, use_cache=True, **named)
        except torch.OutOfMemoryError:
            raise EngineError(
                "the device has no memory left",
                where=f"engine transformers, {self.folder.name}",
                todo="lower micro_batch",
            ) from None
        except RuntimeError as error:  # what a kernel or a quantised cache says of shapes that it cannot take
            raise EngineError(
                f"torch failed: {str(error)[:300]}",
                where=f"engine transformers, {self.folder.name}, behind {self._used} tokens",
                expected=f"{len(tokens)} more tokens with a {self.settings.kv} cache",
            ) from None
        rows = found.logits[0] if self._selects else found.logits[0, kept]
        return rows[: len(wanted)].float().cpu().numpy()

    def close(self) -> None:
        super().close()
        if self._model is not None:
            self._model = None
            gc.collect()
