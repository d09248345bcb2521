"""The demo's weight files: the shipped Q4_1, dequantised to F16 as the reference, and variants of that."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from drift_runs.weights.fetch import SMOLLM2, cache_folder, fetch
from drift_runs.weights.variants import MAKE_VERSION, ablation, write_variant

REFERENCE = "f16"
SHIPPED = "q4_1"
VARIANTS = ("q8_0", "q5_0", "q4_0", "ablated")
"""Made from the reference; each is the name of an arm."""

SAME_MODEL = {"kv-q8_0": REFERENCE, "kv-q4_0": REFERENCE, "fa-off": REFERENCE, "kv-bf16": REFERENCE}
"""Arms that run the reference's weights under another setting."""


def variant_file(name: str, cache: Path) -> Path:
    """Where a variant lies: its name holds the source's digest and the version of the making."""
    return cache / "models" / f"SmolLM2-135M-Instruct.{name}.{SMOLLM2.sha256[:8]}-v{MAKE_VERSION}.gguf"


def prepare(
    *, progress: Callable[[int, int], None] | None = None, note: Callable[[str], None] = lambda text: None
) -> dict[str, Path]:
    """Fetch the model and make what is missing; arm name to weight file.

    Raises ``FetchError`` when the model is neither there nor to be had.
    """
    cache = cache_folder()
    shipped = fetch(SMOLLM2, cache=cache, progress=progress)
    files = {SHIPPED: shipped, REFERENCE: variant_file(REFERENCE, cache)}
    files |= {name: variant_file(name, cache) for name in VARIANTS}
    if not files[REFERENCE].is_file():
        note(f"dequantising {shipped.name} to F16: the stock weights of this demo")
        write_variant(shipped, files[REFERENCE], weights="f16")
    missing = [name for name in VARIANTS if not files[name].is_file()]
    if missing:
        note(f"making {', '.join(missing)}")
        # Numpy works on one core here; two processes halve the wait. Each writes its file whole or not at all.
        with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
            list(pool.map(_make, missing, [files[REFERENCE]] * len(missing), [files[name] for name in missing]))
    return files


def _make(name: str, reference: Path, target: Path) -> None:
    if name == "ablated":
        write_variant(reference, target, weights="f16", edit=ablation(reference))
    else:
        write_variant(reference, target, weights=name)
