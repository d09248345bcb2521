"""Models of transformers: loaded whole or refused, quantised when they are loaded, and looked at afterwards.

The output matrix is left as it is (and the embeddings, which are the same tensor in models that tie them): all of these
libraries leave it out for language models, and so a difference is of the scheme and not of what was left out.
"""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from drift_runs.engines.base import EngineSettings
from drift_runs.errors import ConfigError, EngineError, EngineMissing, ModelFileError

LIBRARIES = {"torchao": "torchao", "quanto": "optimum-quanto", "bnb": "bitsandbytes"}
"""Packages by the first part of a scheme's name."""


class Scheme(NamedTuple):
    """One way of quantising."""

    label: str
    """Type of the weights that it must have made."""
    apply: Callable[[Any, Any], None] | None
    """Quantises a loaded model but for its head; None: transformers does it while loading."""


def _torchao(name: str) -> Callable[[Any, Any], None]:
    def apply(model: Any, head: Any) -> None:
        import torch
        from torchao import quantization

        def is_matrix(module: Any, _name: str) -> bool:
            return isinstance(module, torch.nn.Linear) and module is not head

        quantization.quantize_(model, getattr(quantization, name)(), filter_fn=is_matrix)

    return apply


def _quanto(name: str) -> Callable[[Any, Any], None]:
    def apply(model: Any, head: Any) -> None:
        from optimum import quanto

        left_out = [found for found, module in model.named_modules() if module is head]
        quanto.quantize(model, weights=getattr(quanto, name), exclude=left_out)
        quanto.freeze(model)

    return apply


SCHEMES = {
    "torchao-int8": Scheme("int8", _torchao("Int8WeightOnlyConfig")),
    "torchao-float8": Scheme("f8_e4m3", _torchao("Float8WeightOnlyConfig")),
    "quanto-int8": Scheme("int8", _quanto("qint8")),
    "quanto-float8": Scheme("f8_e4m3", _quanto("qfloat8")),
    "bnb-int8": Scheme("int8", None),
    "bnb-nf4": Scheme("nf4", None),
    "bnb-fp4": Scheme("fp4", None),
}

_NAMES = {"float32": "f32", "bfloat16": "bf16", "float16": "f16", "float64": "f64", "float8_e4m3fn": "f8_e4m3"}


def offline() -> None:
    """Keep the libraries from asking the network: what is opened is a folder of this machine."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"


def scheme_of(settings: EngineSettings) -> Scheme | None:
    """How weights are to be quantised; None: they are not. ``ConfigError`` for an unknown scheme."""
    if settings.quantise is None:
        return None
    if settings.quantise not in SCHEMES:
        raise ConfigError(
            f"unknown scheme {settings.quantise!r}", where="quantise", expected=f"one of {', '.join(SCHEMES)}"
        )
    return SCHEMES[settings.quantise]


def load_model(folder: Path, settings: EngineSettings, device: Any) -> Any:
    """The model of a folder, on the device, in the settings' type and scheme.

    Raises
    ------
    ConfigError
        an unknown scheme or type.
    ModelFileError
        transformers cannot load it, or the folder lacks weights that the model has, or holds such that it ignores.
    EngineError
        quantising changed nothing, or not all that it should.
    """
    offline()
    import torch
    import transformers

    scheme = scheme_of(settings)
    dtype = "auto" if settings.dtype is None else getattr(torch, settings.dtype)
    more: dict[str, Any] = {}
    if scheme is not None and scheme.apply is None:
        compute = torch.float32 if settings.dtype is None else dtype
        more = {"quantization_config": _bitsandbytes(scheme.label, compute), "device_map": {"": device}}
    transformers.utils.logging.disable_progress_bar()
    # It warns of a cast to float16 at every product of every token.
    logging.getLogger("bitsandbytes").setLevel(logging.ERROR)
    try:
        model, report = transformers.AutoModelForCausalLM.from_pretrained(
            folder,
            local_files_only=True,
            trust_remote_code=False,
            use_safetensors=True,
            dtype=dtype,
            attn_implementation="sdpa" if settings.flash_attention == "on" else "eager",
            output_loading_info=True,
            **more,
        )
    except ImportError as error:
        raise EngineMissing(f"{error}", todo="install it with: pip install 'drift-runs[transformers]'") from None
    except Exception as error:  # the loader reads untrusted files, and fails in as many ways as there are files
        raise ModelFileError(
            f"transformers cannot load it: {type(error).__name__}: {error}",
            where=str(folder),
            expected="a whole Hugging Face folder with safetensors, of a kind that transformers knows itself",
            todo="fetch or make it again",
        ) from None
    _check_whole(folder, model, report)
    model = model.eval().requires_grad_(False)
    if not more:
        model = model.to(device)
    if scheme is not None:
        before = _types_of(model)
        if scheme.apply is not None:
            try:
                scheme.apply(model, model.get_output_embeddings())
            except ImportError:
                package = LIBRARIES[str(settings.quantise).partition("-")[0]]
                raise EngineMissing(
                    f"the package {package} is not installed",
                    todo="install it with: pip install 'drift-runs[transformers]'",
                ) from None
        _check_quantised(folder, model, str(settings.quantise), scheme, before)
    return model


def _bitsandbytes(label: str, compute: Any) -> Any:
    from transformers import BitsAndBytesConfig

    if label == "int8":
        return BitsAndBytesConfig(load_in_8bit=True, llm_int8_skip_modules=["lm_head"])
    return BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type=label,
        bnb_4bit_compute_dtype=compute,
        llm_int8_skip_modules=["lm_head"],
    )


def _check_whole(folder: Path, model: Any, report: dict[str, Any]) -> None:
    """transformers fills what a folder lacks with random numbers, and says so in a log."""
    missing = sorted(map(str, report.get("missing_keys") or ()))
    wrong = sorted(map(str, report.get("mismatched_keys") or ()))
    modules = {name for name, _ in model.named_modules()}
    # Parts that the model does not have at all (a second head, say) may lie in a folder; a bias that it drops may not.
    dropped = sorted(name for name in report.get("unexpected_keys") or () if name.rpartition(".")[0] in modules)
    for names, what in ((missing, "is missing"), (wrong, "has another shape"), (dropped, "has no place in the model")):
        if names:
            others = f" (and {len(names) - 1} more)" if len(names) > 1 else ""
            raise ModelFileError(
                f"{names[0]}{others} {what}",
                where=str(folder),
                expected="the weights of the model that config.json describes, all of them",
                todo="fetch or make it again",
            )


def _check_quantised(folder: Path, model: Any, name: str, scheme: Scheme, before: dict[str, str]) -> None:
    after = _types_of(model)
    head = next((found for found, module in model.named_modules() if module is model.get_output_embeddings()), "")
    matrices = [name for name in after if name != head and _is_matrix(model.get_submodule(name))]
    left = [name for name in matrices if after[name] != scheme.label]
    changed = [name for name in after if after[name] != before.get(name) or scheme.apply is None]
    if left or not changed or after.get(head) == scheme.label:
        what = f"{left[0]} is {after[left[0]]}" if left else f"the head is {after.get(head, 'unchanged')}"
        raise EngineError(
            f"{name} left {len(left)} of {len(matrices)} matrices as they were: {what}",
            where=str(folder),
            expected=f"{scheme.label} in every matrix but the head",
            todo="take another scheme for this model",
        )


def _is_matrix(module: Any) -> bool:
    return hasattr(module, "in_features") and hasattr(module, "out_features")


def _types_of(model: Any) -> dict[str, str]:
    """Type of the weight of each module that has one."""
    return {
        name: _type(module.weight)
        for name, module in model.named_modules()
        if getattr(module, "weight", None) is not None
    }


def _type(weight: Any) -> str:
    """What a weight is stored as: the type of the largest of the tensors that it wraps, or its scheme of 4 bits."""
    if getattr(weight, "quant_state", None) is not None:
        return str(weight.quant_type)
    return _dtype_name(max(_inner(weight), key=lambda tensor: tensor.numel()).dtype)


def _inner(tensor: Any) -> Iterator[Any]:
    """The plain tensors inside a wrapping one, or itself."""
    import torch

    if type(tensor) in (torch.Tensor, torch.nn.Parameter) or not hasattr(tensor, "__tensor_flatten__"):
        yield tensor
        return
    for name in tensor.__tensor_flatten__()[0]:
        yield from _inner(getattr(tensor, name))


def _dtype_name(dtype: Any) -> str:
    name = str(dtype).removeprefix("torch.")
    return _NAMES.get(name, name)


def observed_types(model: Any) -> tuple[tuple[str, int], ...]:
    """(type, number of weights) of all parameters as they lie in memory, most weights first; a tied one counts once."""
    counts: Counter[str] = Counter()
    seen: set[int] = set()
    for module in model.modules():
        for name, parameter in module.named_parameters(recurse=False):
            if id(parameter) in seen:
                continue
            seen.add(id(parameter))
            whole = name == "weight" and _is_matrix(module)
            counts[_type(parameter)] += module.in_features * module.out_features if whole else parameter.numel()
    return tuple(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
