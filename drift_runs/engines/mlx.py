"""MLX in-process: a folder that mlx_lm reads, as it was converted, on Apple's GPU or on a processor.

Weights are quantised when a folder is converted (``mlx_lm.convert -q``); what they are is read from the folder. A
quantised cache quantises every key and value before it is first read, so that prefill and decode read the same.
"""

from __future__ import annotations

import gc
import importlib.metadata
import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drift_runs.engines.base import EngineIdentity, EngineSettings
from drift_runs.engines.cached_model import CAPABILITIES, CachedModel, refuse_closed
from drift_runs.engines.llama_cpp_library import processor_name
from drift_runs.errors import ConfigError, EngineError, EngineMissing, ModelFileError

INSTALL = "install it with: pip install 'drift-runs[mlx]'"
OPTIONS = ("device",)
KV_BITS = {"float": None, "q8": 8, "q4": 4}
GROUP_SIZES = (64, 32)
"""Keys and values are quantised in groups of 64, or of 32 where a head is no multiple of 64."""


def identity(settings: EngineSettings) -> EngineIdentity:
    """What this engine is on this machine under these settings; opens no model."""
    mx = _library()
    device = device_of(settings)
    names = ["mlx", "mlx-lm"]
    if device.type == mx.cpu and platform.system() == "Linux":
        names.append("mlx-cpu")
    build = []
    for name in names:
        try:
            build.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            build.append(f"{name} (unknown version)")
    if device.type == mx.gpu:
        found = mx.device_info(device) if hasattr(mx, "device_info") else {}
        hardware = str(found.get("device_name") or found.get("architecture") or "GPU, name not established")
        backend = "metal" if mx.metal.is_available() else "cuda"
    else:
        backend, hardware = "cpu", processor_name()
    return EngineIdentity(
        engine="mlx", build=", ".join(build), backend=backend, hardware=hardware, capabilities=CAPABILITIES
    )


def _library() -> Any:
    from drift_runs.engines.transformers_weights import offline

    offline()
    try:
        import mlx.core as mx
        import mlx_lm  # noqa: F401
    except ImportError as error:
        raise EngineMissing(f"{error.name or 'mlx'} is not installed", todo=INSTALL) from None
    return mx


def device_of(settings: EngineSettings) -> Any:
    """``device`` of ``settings.server``; without it MLX's own choice."""
    import mlx.core as mx

    named = dict(settings.server)
    if unknown := named.keys() - set(OPTIONS):
        raise ConfigError(f"unknown option {min(unknown)!r}", where="engine mlx", expected="device")
    wanted = named.get("device")
    if wanted not in (None, "cpu", "gpu"):
        raise ConfigError(f"device {wanted!r}", where="engine mlx", expected="cpu or gpu")
    if wanted is None:
        return mx.default_device()
    device = mx.Device(mx.cpu if wanted == "cpu" else mx.gpu, 0)
    if not mx.is_available(device):
        raise EngineError(f"no device {wanted}", where="engine mlx", expected="one that MLX has on this machine")
    return device


class MLX(CachedModel):
    """One model of a folder of mlx_lm. ``threads`` and ``flash_attention`` have no effect: MLX offers neither."""

    engine = "mlx"

    def __init__(self, model: Path, settings: EngineSettings) -> None:
        self._model: Any = None
        self._identity = identity(settings)
        super().__init__(model, settings)
        if settings.kv not in KV_BITS:
            raise ConfigError(f"unknown KV type {settings.kv!r}", where="kv", expected=f"one of {', '.join(KV_BITS)}")
        if settings.quantise is not None:
            raise ConfigError(
                f"quantise is {settings.quantise!r}",
                where="engine mlx",
                expected="a folder that was quantised when it was converted",
                todo="convert one with python -m mlx_lm convert -q, and name it in drift.toml",
            )
        import mlx.core as mx

        mx.set_default_device(device_of(settings))
        self._model, config = self._load()
        if settings.dtype is not None:
            self._model.set_dtype(getattr(mx, settings.dtype))
            mx.eval(self._model.parameters())
        limit = config.get("max_position_embeddings")
        self._opened(limit if isinstance(limit, int) else None)

    def _load(self) -> tuple[Any, dict[str, Any]]:
        from mlx_lm.utils import load_model

        try:
            return load_model(self.folder, lazy=False, strict=True, trust_remote_code=False)
        except Exception as error:  # the loader reads untrusted files, and fails in as many ways as there are files
            raise ModelFileError(
                f"mlx_lm cannot load it: {type(error).__name__}: {str(error)[:300]}",
                where=str(self.folder),
                expected="a whole folder with safetensors, of a kind that mlx_lm knows itself",
                todo="convert it again with python -m mlx_lm convert",
            ) from None

    @property
    def identity(self) -> EngineIdentity:
        return self._identity

    def _empty(self) -> Any:
        from mlx_lm.models.cache import KVCache, make_prompt_cache

        refuse_closed(self._model, self.folder)
        layers = make_prompt_cache(self._model)
        bits = KV_BITS[self.settings.kv]
        if bits is None:
            return layers
        if any(type(layer) is not KVCache for layer in layers):
            raise ConfigError(
                f"the model's cache cannot be quantised: {type(layers[0]).__name__}", where="kv", expected="float"
            )
        return [layer.to_quantized(group_size=self._group, bits=bits) for layer in layers]

    @property
    def _group(self) -> int:
        arguments = self._model.args
        size = getattr(arguments, "head_dim", None) or arguments.hidden_size // arguments.num_attention_heads
        for group in GROUP_SIZES:
            if size % group == 0:
                return group
        raise ConfigError(f"heads of {size} components cannot be quantised", where="kv", expected="a multiple of 32")

    def _cut(self, cache: Any, count: int) -> Any | None:
        from mlx_lm.models.cache import KVCache, QuantizedKVCache

        if any(type(layer) not in (KVCache, QuantizedKVCache) for layer in cache):
            return None
        return [_layer_of(layer, lambda array: array[..., :count, :], offset=count) for layer in cache]

    def _copy(self, cache: Any) -> Any:
        import copy

        whole = self._cut(cache, self._size(cache))
        return copy.deepcopy(cache) if whole is None else whole

    @staticmethod
    def _size(cache: Any) -> int:
        return int(getattr(cache[0], "offset", 0))

    def _forward(self, cache: Any, tokens: NDArray[np.int64], wanted: NDArray[np.int64]) -> NDArray[np.float32]:
        import mlx.core as mx

        refuse_closed(self._model, self.folder)
        try:
            logits = self._model(mx.array(tokens.astype(np.int32))[None], cache=cache)[0]
            rows = logits[mx.array(wanted.astype(np.int32))] if wanted.size else logits[:1]
            rows = rows.astype(mx.float32)
            mx.eval(rows, [layer.state for layer in cache])
        except (RuntimeError, ValueError) as error:
            raise EngineError(
                f"MLX failed: {str(error)[:300]}",
                where=f"engine mlx, {self.folder.name}, behind {self._used} tokens",
                expected=f"{len(tokens)} more tokens with a {self.settings.kv} cache",
            ) from None
        return np.asarray(rows)[: len(wanted)]

    def close(self) -> None:
        super().close()
        if self._model is not None:
            self._model = None
            gc.collect()


def _layer_of(layer: Any, of: Callable[[Any], Any], *, offset: int) -> Any:
    """A layer's copy with new arrays: MLX writes into those that a layer has."""
    import copy

    from mlx.utils import tree_map

    new = copy.copy(layer)
    if layer.keys is not None:
        new.keys, new.values = tree_map(of, layer.keys), tree_map(of, layer.values)
    new.offset = offset
    return new
