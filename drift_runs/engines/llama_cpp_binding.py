"""The part of llama.cpp's C API that is used here, bound with ctypes to the library inside the ``xllamacpp`` wheel.

Structs are passed by value, so a wrong layout would not fail: it would silently set other parameters. The wheel's
version is therefore pinned, and before anything else the library's own defaults are read through the declared layout
and compared with what that version is known to return. Any difference is a ``LayoutMismatch``.
"""

from __future__ import annotations

import ctypes as c
import functools
import importlib.metadata
import importlib.util
from pathlib import Path

from drift_runs.errors import EngineMissing, LayoutMismatch

WHEEL = "xllamacpp"
WHEEL_VERSION = "2026.10.11549"

GGML_TYPES = {
    "f32": 0,
    "f16": 1,
    "q4_0": 2,
    "q4_1": 3,
    "q5_0": 6,
    "q5_1": 7,
    "q8_0": 8,
    "iq4_nl": 20,
    "bf16": 30,
}
"""Values of ``enum ggml_type`` for the types that a KV cache may have."""

FLASH_ATTENTION = {"off": 0, "on": 1}

_TOKEN_P = c.POINTER(c.c_int32)
_VOID = c.c_void_p


class ModelParams(c.Structure):
    """``struct llama_model_params``."""

    _fields_ = (
        ("devices", _VOID),
        ("tensor_buft_overrides", _VOID),
        ("n_gpu_layers", c.c_int32),
        ("split_mode", c.c_int32),
        ("load_mode", c.c_int32),
        ("lazy_mode", c.c_int32),
        ("main_gpu", c.c_int32),
        ("tensor_split", _VOID),
        ("progress_callback", _VOID),
        ("progress_callback_user_data", _VOID),
        ("kv_overrides", _VOID),
        ("vocab_only", c.c_bool),
        ("check_tensors", c.c_bool),
        ("use_extra_bufts", c.c_bool),
        ("no_host", c.c_bool),
        ("no_alloc", c.c_bool),
        ("load_mtp", c.c_bool),
    )


class ContextParams(c.Structure):
    """``struct llama_context_params``."""

    _fields_ = (
        ("n_ctx", c.c_uint32),
        ("n_batch", c.c_uint32),
        ("n_ubatch", c.c_uint32),
        ("n_seq_max", c.c_uint32),
        ("n_rs_seq", c.c_uint32),
        ("n_outputs_max", c.c_uint32),
        ("n_outputs_max_per_seq", c.c_uint32),
        ("n_threads", c.c_int32),
        ("n_threads_batch", c.c_int32),
        ("ctx_type", c.c_int32),
        ("rope_scaling_type", c.c_int32),
        ("pooling_type", c.c_int32),
        ("attention_type", c.c_int32),
        ("flash_attn_type", c.c_int32),
        ("rope_freq_base", c.c_float),
        ("rope_freq_scale", c.c_float),
        ("yarn_ext_factor", c.c_float),
        ("yarn_attn_factor", c.c_float),
        ("yarn_beta_fast", c.c_float),
        ("yarn_beta_slow", c.c_float),
        ("yarn_orig_ctx", c.c_uint32),
        ("defrag_thold", c.c_float),
        ("cb_eval", _VOID),
        ("cb_eval_user_data", _VOID),
        ("type_k", c.c_int32),
        ("type_v", c.c_int32),
        ("moe_cache_size", c.c_size_t),
        ("abort_callback", _VOID),
        ("abort_callback_data", _VOID),
        ("embeddings", c.c_bool),
        ("offload_kqv", c.c_bool),
        ("no_perf", c.c_bool),
        ("op_offload", c.c_bool),
        ("swa_full", c.c_bool),
        ("kv_unified", c.c_bool),
        ("samplers", _VOID),
        ("n_samplers", c.c_size_t),
        ("ctx_other", _VOID),
    )


class Batch(c.Structure):
    """``struct llama_batch``."""

    _fields_ = (
        ("n_tokens", c.c_int32),
        ("token", _TOKEN_P),
        ("embd", c.POINTER(c.c_float)),
        ("pos", _TOKEN_P),
        ("n_seq_id", _TOKEN_P),
        ("seq_id", c.POINTER(_TOKEN_P)),
        ("logits", c.POINTER(c.c_int8)),
    )


LOG_CALLBACK = c.CFUNCTYPE(None, c.c_int, c.c_char_p, _VOID)

_FUNCTIONS: dict[str, tuple[object, list[object]]] = {
    "llama_backend_init": (None, []),
    "llama_log_set": (None, [LOG_CALLBACK, _VOID]),
    "llama_print_system_info": (c.c_char_p, []),
    "llama_model_default_params": (ModelParams, []),
    "llama_context_default_params": (ContextParams, []),
    "llama_model_load_from_file": (_VOID, [c.c_char_p, ModelParams]),
    "llama_model_free": (None, [_VOID]),
    "llama_init_from_model": (_VOID, [_VOID, ContextParams]),
    "llama_free": (None, [_VOID]),
    "llama_n_ubatch": (c.c_uint32, [_VOID]),
    "llama_n_ctx": (c.c_uint32, [_VOID]),
    "llama_model_is_recurrent": (c.c_bool, [_VOID]),
    "llama_model_is_hybrid": (c.c_bool, [_VOID]),
    "llama_model_n_params": (c.c_uint64, [_VOID]),
    "llama_model_get_vocab": (_VOID, [_VOID]),
    "llama_model_chat_template": (c.c_char_p, [_VOID, c.c_char_p]),
    "llama_vocab_n_tokens": (c.c_int32, [_VOID]),
    "llama_vocab_is_eog": (c.c_bool, [_VOID, c.c_int32]),
    "llama_vocab_get_add_bos": (c.c_bool, [_VOID]),
    "llama_vocab_bos": (c.c_int32, [_VOID]),
    "llama_tokenize": (c.c_int32, [_VOID, c.c_char_p, c.c_int32, _TOKEN_P, c.c_int32, c.c_bool, c.c_bool]),
    "llama_token_to_piece": (c.c_int32, [_VOID, c.c_int32, c.c_char_p, c.c_int32, c.c_int32, c.c_bool]),
    "llama_adapter_lora_init": (_VOID, [_VOID, c.c_char_p]),
    "llama_adapter_lora_free": (None, [_VOID]),
    "llama_adapter_get_alora_n_invocation_tokens": (c.c_uint64, [_VOID]),
    "llama_set_adapters_lora": (c.c_int32, [_VOID, c.POINTER(_VOID), c.c_size_t, c.POINTER(c.c_float)]),
    "llama_get_memory": (_VOID, [_VOID]),
    "llama_memory_clear": (None, [_VOID, c.c_bool]),
    "llama_memory_seq_rm": (c.c_bool, [_VOID, c.c_int32, c.c_int32, c.c_int32]),
    "llama_memory_seq_cp": (None, [_VOID, c.c_int32, c.c_int32, c.c_int32, c.c_int32]),
    "llama_state_seq_get_size": (c.c_size_t, [_VOID, c.c_int32]),
    "llama_state_seq_get_data": (c.c_size_t, [_VOID, c.POINTER(c.c_uint8), c.c_size_t, c.c_int32]),
    "llama_state_seq_set_data": (c.c_size_t, [_VOID, c.POINTER(c.c_uint8), c.c_size_t, c.c_int32]),
    "llama_decode": (c.c_int32, [_VOID, Batch]),
    "llama_get_logits": (c.POINTER(c.c_float), [_VOID]),
    "llama_get_logits_ith": (c.POINTER(c.c_float), [_VOID, c.c_int32]),
}

_KNOWN_CONTEXT_DEFAULTS = {
    "n_ctx": 512,
    "n_batch": 2048,
    "n_ubatch": 512,
    "n_seq_max": 1,
    "n_threads": 4,
    "n_threads_batch": 4,
    "rope_scaling_type": -1,
    "pooling_type": -1,
    "attention_type": -1,
    "flash_attn_type": -1,
    "yarn_ext_factor": -1.0,
    "yarn_attn_factor": -1.0,
    "yarn_beta_fast": -1.0,
    "yarn_beta_slow": -1.0,
    "defrag_thold": -1.0,
    "type_k": 1,
    "type_v": 1,
    "embeddings": False,
    "offload_kqv": True,
    "no_perf": True,
    "op_offload": True,
    "swa_full": True,
    "kv_unified": False,
    "samplers": None,
    "n_samplers": 0,
    "ctx_other": None,
}
_KNOWN_MODEL_DEFAULTS = {
    "devices": None,
    "tensor_buft_overrides": None,
    "n_gpu_layers": -1,
    "split_mode": 1,
    "load_mode": -1,
    "lazy_mode": 1,
    "main_gpu": 0,
    "tensor_split": None,
    "progress_callback": None,
    "kv_overrides": None,
    "vocab_only": False,
    "check_tensors": False,
    "use_extra_bufts": True,
    "no_host": False,
    "no_alloc": False,
}


@functools.cache
def load_library() -> c.CDLL:
    """The library with argument types declared and its layout checked.

    Raises
    ------
    EngineMissing
        the wheel is not installed or its library does not load.
    LayoutMismatch
        another version is installed, a function is missing, or defaults read through the declared layout are not the
        known ones.
    """
    todo = f"install it with: pip install 'drift-runs[llama-cpp]' ({WHEEL}=={WHEEL_VERSION})"
    spec = importlib.util.find_spec(WHEEL)
    if spec is None or spec.origin is None:
        raise EngineMissing(f"the llama.cpp wheel {WHEEL} is not installed", where="engine llama_cpp", todo=todo)
    version = importlib.metadata.version(WHEEL)
    if version != WHEEL_VERSION:
        raise LayoutMismatch(
            f"{WHEEL} {version} is installed",
            where="engine llama_cpp",
            expected=f"{WHEEL_VERSION}, whose struct layout this binding declares",
            todo=todo,
        )
    folder = Path(spec.origin).parent
    files = sorted([*folder.glob("xllamacpp*.so"), *folder.glob("xllamacpp*.pyd"), *folder.glob("xllamacpp*.dylib")])
    if not files:
        raise EngineMissing("the wheel holds no shared library", where=str(folder), todo=todo)
    try:
        library = c.CDLL(str(files[0]))
    except OSError as error:
        if "libgomp" in str(error):  # a slim Debian leaves it out, and installing the wheel again would not help
            todo = "install GNU's OpenMP (Debian: apt-get install libgomp1)"
        raise EngineMissing(f"the library does not load: {error}", where=files[0].name, todo=todo) from None
    for name, (result, arguments) in _FUNCTIONS.items():
        try:
            function = getattr(library, name)
        except AttributeError:
            raise LayoutMismatch(f"{name} is not exported", where=files[0].name, todo=todo) from None
        function.restype = result
        function.argtypes = arguments
    check_defaults("llama_context_params", library.llama_context_default_params(), _KNOWN_CONTEXT_DEFAULTS)
    check_defaults("llama_model_params", library.llama_model_default_params(), _KNOWN_MODEL_DEFAULTS)
    return library


def check_defaults(struct: str, values: c.Structure, known: dict[str, object]) -> None:
    """Compare fields read through the declared layout with the defaults that the pinned version is known to return."""
    for field, expected in known.items():
        found = getattr(values, field)
        if found != expected:
            raise LayoutMismatch(
                f"{struct}.{field} reads {found!r}",
                where=f"engine llama_cpp ({WHEEL} {WHEEL_VERSION})",
                expected=f"{expected!r} by default: the library's struct layout is not the declared one",
                todo=f"reinstall {WHEEL}=={WHEEL_VERSION}",
            )
