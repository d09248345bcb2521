"""Caches of transformers by the name of their kind: made empty, copied, cut.

A quantised cache of transformers gives the step that fills it its own keys and values back unquantised; later steps
read the quantised ones. Those of quanto and HQQ keep the last tokens in floating point (``RESIDUAL_TOKENS`` at most)
and then quantise everything again, so that the first tokens of a long text were quantised many times. That of FP8 takes
its scale from the first step for good. That is what these libraries do, and so it is what is measured.
"""

from __future__ import annotations

import copy
from typing import Any

from drift_runs.errors import CannotGive, ConfigError, EngineMissing

RESIDUAL_TOKENS = 16
GROUP_SIZE = 64

KINDS = ("float", "quanto-2", "quanto-4", "hqq-4", "hqq-8", "fp8")
"""``float``: the type that the model computes in. ``fp8``: E4M3, one scale for the keys of a layer, one for values."""


def check_kv(kv: str, path_shape: str) -> None:
    """Refuse an unknown kind, and one that a shape would measure as nobody runs it."""
    if kv not in KINDS:
        raise ConfigError(f"unknown KV type {kv!r}", where="kv", expected=f"one of {', '.join(KINDS)}")
    if kv == "fp8" and path_shape == "decode":
        # KL 0.50 against 0.006 with a first step of 16 tokens, for a model of 135 million weights.
        raise CannotGive(
            "decoding from the first token on scales the whole fp8 cache by that one token",
            where="kv",
            expected='path_shape = "prefill", with a micro_batch that is shorter than the windows',
        )


def quantises(kv: str) -> bool:
    return kv != "float"


def empty_cache(kv: str, config: Any) -> Any:
    """A cache without tokens for a model of that configuration."""
    from transformers.cache_utils import DynamicCache, QuantizedCache

    if kv == "float":
        return DynamicCache(config=config)
    try:
        if kv == "fp8":
            return QuantizedCache("fp8", config)
        library, _, bits = kv.partition("-")
        # quanto groups along the last axis of what it flattens from the first; HQQ's own advice is axis 1.
        axis = 1 if library == "hqq" else 0
        return QuantizedCache(
            library,
            config,
            nbits=int(bits),
            axis_key=axis,
            axis_value=axis,
            q_group_size=GROUP_SIZE,
            residual_length=RESIDUAL_TOKENS,
        )
    except ImportError:
        raise EngineMissing(
            f"the library of the KV type {kv} is not installed",
            todo="install it with: pip install 'drift-runs[transformers]'",
        ) from None
    except ValueError as error:
        raise ConfigError(f"the model cannot have a {kv} cache: {error}", where="kv") from None


def cut_cache(cache: Any, count: int) -> Any | None:
    """An independent cache of the first ``count`` tokens; None where a layer holds no cell for each token."""
    from transformers.cache_utils import DynamicLayer

    if any(type(layer) is not DynamicLayer for layer in cache.layers):
        return None
    cut = _shared(cache)
    for layer in cut.layers:
        if layer.is_initialized:
            layer.keys, layer.values = layer.keys[..., :count, :], layer.values[..., :count, :]
    return cut


def copy_cache(cache: Any) -> Any:
    """An independent copy of a cache of any kind."""
    from transformers.cache_utils import DynamicLayer, QuantizedCache

    if isinstance(cache, QuantizedCache) or all(type(layer) is DynamicLayer for layer in cache.layers):
        return _shared(cache)
    return copy.deepcopy(cache)


def _shared(cache: Any) -> Any:
    """A copy whose layers share their tensors: these kinds grow by making new ones, and write to none."""
    shared = copy.copy(cache)
    shared.layers = [copy.copy(layer) for layer in cache.layers]
    return shared
