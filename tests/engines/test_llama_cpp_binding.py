"""The binding refuses any library but the one whose struct layout it declares."""

from __future__ import annotations

import ctypes
import importlib.metadata

import pytest

from drift_runs.engines import llama_cpp_binding as binding
from drift_runs.errors import EngineMissing, LayoutMismatch


@pytest.fixture
def fresh():
    """``load_library`` without what an earlier test left in its cache."""
    kept = binding.load_library
    return kept.__wrapped__


def test_the_installed_library_is_the_declared_one() -> None:
    library = binding.load_library()
    assert library.llama_context_default_params().n_ubatch == 512
    assert library.llama_model_default_params().use_extra_bufts is True


@pytest.mark.parametrize(
    ("struct", "function", "known"),
    [
        (binding.ContextParams, "llama_context_default_params", binding._KNOWN_CONTEXT_DEFAULTS),
        (binding.ModelParams, "llama_model_default_params", binding._KNOWN_MODEL_DEFAULTS),
    ],
)
@pytest.mark.parametrize("at", [0, 3, 5])
def test_a_field_more_is_noticed(struct, function: str, known: dict, at: int) -> None:
    """The same bytes read through a layout with one more 32-bit field, as another version would have it."""
    fields = list(struct._fields_)
    fields.insert(at, ("new_in_another_version", ctypes.c_int32))
    shifted = type("Shifted", (ctypes.Structure,), {"_fields_": tuple(fields)})
    values = getattr(binding.load_library(), function)()
    room = ctypes.create_string_buffer(max(ctypes.sizeof(shifted), ctypes.sizeof(values)))
    ctypes.memmove(room, ctypes.byref(values), ctypes.sizeof(values))
    with pytest.raises(LayoutMismatch, match=r"llama_\w+_params\.\w+ reads .*; expected .* by default"):
        binding.check_defaults(f"llama_{function.split('_')[1]}_params", shifted.from_buffer(room), known)


def test_another_version_of_the_wheel_is_refused(fresh, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "2026.11.1")
    with pytest.raises(LayoutMismatch, match=r"xllamacpp 2026\.11\.1 is installed; expected 2026\.10\.11549") as caught:
        fresh()
    assert "pip install" in caught.value.todo


def test_no_wheel_is_named_with_what_to_install(fresh, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binding, "WHEEL", "xllamacpp_that_is_not_there")
    with pytest.raises(EngineMissing, match=r"not installed.*pip install 'drift-runs\[llama-cpp\]'"):
        fresh()


def test_a_function_that_is_not_exported_is_named(fresh, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(binding._FUNCTIONS, "llama_of_another_version", (None, []))
    with pytest.raises(LayoutMismatch, match="llama_of_another_version is not exported"):
        fresh()
