"""The demos' weight files: from what each arm's file is made, and where it is kept.

Both demos begin with a shipped Q4_1 file and call it, dequantised to F16, the stock weights. ``QUICK`` compares those
with variants of them. ``OPS`` merges the adapter of models/smollm2-ops into them first. The merged F16 file is its
reference: quants and the ablated derivative are made from that very file, the other derivatives are the stock weights
with none, half, or half as much again of the adapter.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from drift_runs.errors import ModelFileError
from drift_runs.protocol.canonical import file_sha256
from drift_runs.weights.adapter import merge, read_adapter
from drift_runs.weights.fetch import SMOLLM2, cache_folder, fetch
from drift_runs.weights.variants import MAKE_VERSION, ablation, write_variant

ADAPTER = "smollm2-ops.gguf"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How a weight file is made; two arms with equal recipes share one file."""

    source: Recipe | None
    """What it is made from; None for the shipped file, which is fetched and not made."""
    weights: str
    scale: float = 0.0
    """How much of the adapter is merged into the source."""
    ablated: bool = False
    """Whether the source is ablated; not together with a scale."""

    @property
    def tuned(self) -> bool:
        """Whether the adapter is in it, by its own making or its source's."""
        return self.scale != 0 or (self.source is not None and self.source.tuned)

    @property
    def merged_scale(self) -> float:
        """How much of the adapter is in it altogether."""
        return self.scale + (self.source.merged_scale if self.source else 0.0)

    @property
    def chain(self) -> tuple[Recipe, ...]:
        """From the shipped file to this one: the order of making."""
        return (self,) if self.source is None else (*self.source.chain, self)


SHIPPED = Recipe(source=None, weights="q4_1")
STOCK = Recipe(source=SHIPPED, weights="f16")
TUNED = Recipe(source=STOCK, weights="f16", scale=1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Demo:
    """A shipped protocol and the weights of its arms, follow-ups included."""

    protocol: str
    reference: str
    arms: Mapping[str, Recipe]
    """Every arm with weights of its own."""
    same_model: Mapping[str, str]
    """Arms that run another arm's weights under another setting."""
    adapted: tuple[str, ...] = ()
    """Arms whose engine loads the adapter, so that nothing is merged."""

    @property
    def needs_adapter(self) -> bool:
        return bool(self.adapted) or any(recipe.tuned for recipe in self.arms.values())


QUICK = Demo(
    protocol="smollm2-quick",
    reference="f16",
    arms={
        "q4_1": SHIPPED,
        "f16": STOCK,
        **{name: Recipe(source=STOCK, weights=name) for name in ("q8_0", "q5_0", "q4_0")},
        "ablated": Recipe(source=STOCK, weights="f16", ablated=True),
    },
    same_model={"kv-q8_0": "f16", "kv-q4_0": "f16", "fa-off": "f16", "kv-bf16": "f16"},
)

OPS = Demo(
    protocol="smollm2-ops",
    reference="f16",
    arms={
        "f16": TUNED,
        **{name: Recipe(source=TUNED, weights=name) for name in ("q8_0", "q5_0", "q4_0", "mxfp4")},
        "base": STOCK,
        "adapter-0.5": Recipe(source=STOCK, weights="f16", scale=0.5),
        "adapter-1.5": Recipe(source=STOCK, weights="f16", scale=1.5),
        "ablated": Recipe(source=TUNED, weights="f16", ablated=True),
        "adapter-loaded": STOCK,
    },
    same_model={"kv-q8_0": "f16", "kv-q4_0": "f16"},
    adapted=("adapter-loaded",),
)

DEMOS = {demo.protocol: demo for demo in (OPS, QUICK)}


class Prepared(NamedTuple):
    """Files by arm, as ``machine_text`` takes them."""

    models: dict[str, Path]
    adapters: dict[str, Path]
    """Of the arms whose engine loads one."""


def adapter_file() -> Path:
    """The shipped adapter, in a checkout or in an installed package, checked against the digest beside it.

    Raises ``ModelFileError`` where it is missing or not what was shipped.
    """
    package = Path(__file__).resolve().parents[1]
    folders = (package.parent / "models" / "smollm2-ops", package / "shipped_models")
    found = next((folder / ADAPTER for folder in folders if (folder / ADAPTER).is_file()), None)
    if found is None:
        raise ModelFileError(
            "the demo's adapter is not there",
            where=str(folders[0] / ADAPTER),
            expected="a file of this package",
            todo="install the package again, or export the adapter with models/smollm2-ops/export.py",
        )
    noted = found.with_suffix(".sha256")
    try:
        expected = noted.read_text(encoding="ascii").split()[0]
    except (OSError, ValueError, IndexError):
        raise ModelFileError(
            "its digest is not there", where=str(noted), expected="a SHA-256", todo="install the package again"
        ) from None
    if (digest := file_sha256(found)) != expected:
        raise ModelFileError(
            f"its SHA-256 is {digest}", where=str(found), expected=expected, todo="install the package again"
        )
    return found


def recipe_file(recipe: Recipe, cache: Path, *, adapter_sha256: str = "") -> Path:
    """Where a recipe's file lies: its name holds the digests of what it is made from and the version of the making."""
    folder = cache / "models"
    if recipe.source is None:
        return folder / Path(SMOLLM2.member).name
    label, model, digests = recipe.weights, "SmolLM2-135M-Instruct", SMOLLM2.sha256[:8]
    if recipe.ablated:
        label = "ablated" if recipe.weights == "f16" else f"ablated-{recipe.weights}"
    if recipe.tuned:
        model = f"SmolLM2-135M-ops-{recipe.merged_scale:g}"
        digests += f"-{adapter_sha256[:8]}"
    return folder / f"{model}.{label}.{digests}-v{MAKE_VERSION}.gguf"


def prepare(
    demo: Demo,
    *,
    progress: Callable[[int, int], None] | None = None,
    note: Callable[[str], None] = lambda text: None,
) -> Prepared:
    """Fetch the model and make what is missing.

    Raises ``FetchError`` when the model is neither there nor to be had, ``ModelFileError`` for an adapter that is not
    what was shipped.
    """
    # The adapter first: what is wrong with it is known before 93 MB are fetched.
    adapter = adapter_file() if demo.needs_adapter else None
    digest = file_sha256(adapter) if adapter else ""
    cache = cache_folder()
    shipped = fetch(SMOLLM2, cache=cache, progress=progress)

    def file_of(recipe: Recipe) -> Path:
        return shipped if recipe.source is None else recipe_file(recipe, cache, adapter_sha256=digest)

    # A file that no arm runs is made too if another is made from it; it goes by the name of its type.
    names = {step: step.weights for recipe in demo.arms.values() for step in recipe.chain if step.source}
    names |= {recipe: arm for arm, recipe in reversed(demo.arms.items()) if recipe.source}
    missing = [recipe for recipe in names if not file_of(recipe).is_file()]
    for length in sorted({len(recipe.chain) for recipe in missing}):
        now = [recipe for recipe in missing if len(recipe.chain) == length]
        note(_told(now, names, shipped))
        calls = [(recipe, file_of(recipe.source), file_of(recipe), adapter) for recipe in now if recipe.source]
        if len(calls) == 1:
            _make(*calls[0])
            continue
        # Numpy works on one core here; two processes halve the wait. Each writes its file whole or not at all.
        try:
            with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
                list(pool.map(_make, *zip(*calls, strict=True)))
        except BrokenProcessPool:
            raise ModelFileError(
                "a process that makes weight files was killed",
                where=str(cache / "models"),
                expected="room in memory for two of them",
                todo="close other programs and run it again: what was finished is kept",
            ) from None
    models = {arm: file_of(recipe) for arm, recipe in demo.arms.items()}
    return Prepared(models, {arm: adapter for arm in demo.adapted} if adapter else {})


def _told(now: list[Recipe], names: Mapping[Recipe, str], shipped: Path) -> str:
    if now == [STOCK]:
        return f"dequantising {shipped.name} to F16: the stock weights of this demo"
    merging = [names[recipe] for recipe in now if recipe.scale]
    made = [names[recipe] for recipe in now if not recipe.scale]
    parts = [f"merging the adapter into the stock weights: {', '.join(merging)}"] if merging else []
    return "; ".join([*parts, *([f"making {', '.join(made)}"] if made else [])])


def _make(recipe: Recipe, source: Path, target: Path, adapter: Path | None) -> None:
    edit = None
    if recipe.scale:
        if adapter is None:
            raise ModelFileError("an adapter is merged and none is given", where=target.name)
        edit = merge(read_adapter(adapter), recipe.scale, model=source)
    elif recipe.ablated:
        edit = ablation(source)
    write_variant(source, target, weights=recipe.weights, edit=edit)
