"""What a protocol asks to be executed: every arm, floor and follow-up as one engine setting over its windows.

An execution's capture id is a digest of what was really executed (weights, adapter, engine, processor, settings, token
ids, positions), never of what it is called: renaming an arm moves no data, and another processor never shares its rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from drift_runs.engines.base import EngineIdentity, EngineSettings
from drift_runs.engines.registry import ENGINES, Opening
from drift_runs.machine import Place
from drift_runs.protocol.model import Arm, Capture, Floor, Settings
from drift_runs.store import comparison_id
from drift_runs.weights.gguf_file import WeightsFile

if TYPE_CHECKING:
    from drift_runs.capture.observed import Remembered

COPY_SETTINGS = {"copy_tokens", "copy_distance_tokens"}
"""Of a protocol's marks, what columns of a stored comparison depend on."""

Kind = Literal["reference", "floor", "candidate", "follow-up", "launch"]
"""``launch``: a further launch of a candidate or follow-up, in a fresh process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Captured:
    """What a store knows of an execution, with no weight file at hand."""

    name: str
    """The arm's name; a floor's own name; ``<arm>#<number>`` for a further launch."""
    kind: Kind
    against: str
    """Name of the execution whose rows its figures are against: the reference, or the arm that a floor repeats."""
    floor: Floor | None
    windows: tuple[str, ...]
    """That it scores; none of an engine that writes and gives no rows."""
    identity: Mapping[str, object]
    capture_id: str
    from_run: str = ""
    """Run of the tracking store whose rows these are; empty: they are taken here."""

    @property
    def scored(self) -> bool:
        """Whether it has rows to be compared by. Without them it is followed and asked, and nothing else."""
        return bool(self.windows)

    @property
    def stored(self) -> bool:
        """Whether its rows came with a run of another machine, and no engine of this one takes them."""
        return bool(self.from_run)


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution(Captured):
    """One engine setting over its windows: what becomes one capture."""

    arm: Arm
    engine: EngineIdentity
    """What was observed of the engine that takes it."""
    weights: WeightsFile | None
    """None: a server's, whose owner names no file."""
    adapter: WeightsFile | None
    """What the engine applies to the weights at ``settings.adapter_scale``."""
    settings: EngineSettings
    launch: int
    """1 for the first; a repeat in a fresh process counts up."""
    pass_: int
    """1 for the first; a repeat in the same process counts up."""
    marks: Mapping[str, int]
    """The protocol's settings of the copy mark, where they are not the defaults: comparisons hold the mark."""
    full_rows: bool = True
    """Whether full distributions are compared; otherwise the stored rows of both sides are."""
    wanted_from: str = ""
    """Capture id of what it is set against, whose best ids are asked for beside its own; empty: none are."""
    may_equal: bool = False
    """A candidate that may give the rows of what it is set against: the reference's own arm on this machine."""
    place: Place | None = None
    """Where its server stands."""
    rows: Path | None = None
    """The recorded capture that is played."""
    said: Mapping[str, str] = field(default_factory=dict)
    """What its server says of itself."""
    remembered: Remembered | None = None
    """Why it is taken for what it said earlier; None: it was asked now."""

    @property
    def listed(self) -> bool:
        """Whether its engine lists the best entries of a row and gives no logits."""
        return ENGINES[self.arm.engine].listed

    @property
    def opened_from(self) -> str:
        """A short name of what its engine opens."""
        if self.place is not None:
            return self.place.shown
        file = self.rows if self.weights is None else self.weights.path
        return "" if file is None else file.name

    def opening(self, dictionary_size: int) -> Opening:
        """What its engine is opened with."""
        return Opening(
            engine=self.arm.engine,
            settings=self.settings,
            dictionary_size=dictionary_size,
            model=None if self.weights is None else self.weights.path,
            adapter=None if self.adapter is None else self.adapter.path,
            place=self.place,
            rows=self.rows,
        )

    @property
    def title(self) -> str:
        if self.kind == "launch":
            return f"{self.arm.name} again: launch {self.launch}"
        if self.floor is None:
            return self.arm.title or self.name
        changed = self.floor.settings
        what = "" if changed is None else ", " + ", ".join(f"{k} {getattr(changed, k)}" for k in _set(changed))
        return f"{self.floor.arm} again: {self.floor.kind}{what}"

    def compared_with(self, reference: Execution) -> str:
        """Id of the comparison with a reference."""
        return comparison_id(reference.capture_id, self.capture_id, self.marks)


def engine_settings(capture: Capture, arm: Arm, floor: Floor | None, *, threads: int) -> EngineSettings:
    """The arm's settings over the capture's; a floor's changed settings over both."""
    chosen = {name: getattr(arm.settings, name) for name in _set(arm.settings)}
    if floor is not None and floor.settings is not None:
        chosen |= {name: getattr(floor.settings, name) for name in _set(floor.settings)}
    return EngineSettings(
        path_shape=chosen.get("path_shape") or capture.path_shape,
        context_tokens=capture.context_tokens,
        batch=chosen.get("batch") or capture.batch,
        micro_batch=chosen.get("micro_batch") or capture.micro_batch,
        threads=chosen.get("threads") or threads,
        kv=arm.kv,
        flash_attention=chosen.get("flash_attention") or arm.settings.flash_attention,
        adapter_scale=arm.settings.adapter_scale,
        dtype=arm.settings.dtype,
        quantise=arm.settings.quantise,
        cache_prompt=chosen.get("cache_prompt"),
        server=tuple(sorted((name, str(value)) for name, value in arm.settings.server.items())),
    )


_OF_THIS_PROCESS = ("flash_attention", "micro_batch", "batch", "threads")
_IGNORED = {"mlx": ("flash_attention", "threads"), "tensorrt_llm": _OF_THIS_PROCESS}


def settings_identity(arm: Arm, settings: EngineSettings, place: Place | None) -> dict[str, object]:
    """The settings that an engine takes, by name: what it would ignore is no part of what was executed.

    What is absent leaves no key, so that a setting that engines learn later changes no id of rows that are stored.
    """
    ignored = _IGNORED.get(arm.engine, ())
    if ENGINES[arm.engine].needs in ("place", "rows"):
        ignored = _OF_THIS_PROCESS
    found = {
        name: value
        for name, value in asdict(settings).items()
        if name != "adapter_scale" and name not in ignored and value is not None and value != ()
    }
    if settings.server:
        found["server"] = dict(settings.server)
    if place is not None:
        found["concurrency"] = place.concurrency
    return found


def _set(settings: Settings) -> list[str]:
    return [name for name in type(settings).model_fields if name in settings.model_fields_set]
