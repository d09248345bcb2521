"""What a protocol asks to be executed: every arm, floor and follow-up as one engine setting over its windows.

An execution's capture id is a digest of what was really executed (weights, adapter, engine, processor, settings, token
ids, positions), never of what it is called: renaming an arm moves no data, and another processor never shares its rows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from drift_runs.engines.base import EngineIdentity, EngineSettings
from drift_runs.errors import ConfigError, ModelFileError, ProtocolError
from drift_runs.machine import Machine
from drift_runs.protocol.load import LoadedProtocol
from drift_runs.protocol.model import Arm, Capture, Floor, Settings
from drift_runs.store import comparison_id, content_id
from drift_runs.weights.gguf_file import WeightsFile, inspect

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
    identity: Mapping[str, object]
    capture_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution(Captured):
    """One engine setting over its windows: what becomes one capture."""

    arm: Arm
    weights: WeightsFile
    adapter: WeightsFile | None
    """What the engine applies to the weights at ``settings.adapter_scale``."""
    settings: EngineSettings
    launch: int
    """1 for the first; a repeat in a fresh process counts up."""
    pass_: int
    """1 for the first; a repeat in the same process counts up."""
    marks: Mapping[str, int]
    """The protocol's settings of the copy mark, where they are not the defaults: comparisons hold the mark."""

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


def plan_executions(
    loaded: LoadedProtocol,
    machine: Machine,
    engine: EngineIdentity,
    *,
    follow_ups: Sequence[Arm] = (),
    only: Sequence[str] = (),
) -> tuple[Execution, ...]:
    """Everything to execute, the reference first, then its floors, candidates and follow-ups in the protocol's order.

    Further launches of an arm come before it, so that its figures can say how far the launches lie apart; floors of an
    arm come after it, because they are compared with its rows. ``only``: names of candidates and follow-ups to take;
    the reference and its floors always belong.

    Raises
    ------
    ProtocolError
        an unknown name in ``only``.
    ModelFileError
        a weight file is missing or not of the type that the protocol declares; an adapter's file is missing.
    ConfigError
        an adapter's file is named and no scale is declared, or the other way round.
    """
    protocol = loaded.protocol
    named = [arm.name for arm in (*protocol.arms, *follow_ups)]
    for name in only:
        if name not in named:
            raise ProtocolError(f"unknown arm {name!r}", where="--arms", expected=f"some of {', '.join(named)}")
    files: dict[Path, WeightsFile] = {}

    def inspected(path: Path, what: str = "model") -> WeightsFile:
        if path not in files:
            files[path] = inspect(path, what=what)
        return files[path]

    def adapter_of(arm: Arm) -> WeightsFile | None:
        path = adapter_file(machine, arm)
        return None if path is None else inspected(path, "adapter")

    def weights_of(arm: Arm) -> WeightsFile:
        path = machine.model_file(arm.name)
        found = inspected(path)
        if found.dominant != arm.weights.lower():
            raise ModelFileError(
                f"arm {arm.name} declares weights {arm.weights}, the file holds {found.label}",
                where=str(path),
                todo="name the right file in drift.toml",
            )
        return found

    def execution(arm: Arm, kind: Kind, floor: Floor | None = None, launch: int = 1) -> Execution:
        weights = weights_of(arm)
        adapter = adapter_of(arm)
        settings = engine_settings(protocol.capture, arm, floor, threads=machine.threads(arm.name))
        if floor is not None and floor.kind == "launch":
            launch = arm.launches + 1
        pass_ = 2 if floor is not None and floor.kind == "pass" else 1
        wanted = floor.windows if floor is not None and floor.windows else ()
        windows = tuple(window.name for window in protocol.windows if not wanted or window.name in wanted)
        identity = {
            "engine": asdict(engine),
            "weights_sha256": weights.sha256,
            "settings": {name: value for name, value in asdict(settings).items() if name != "adapter_scale"},
            "capture": {"top_k": protocol.capture.top_k, "full_vocabulary": protocol.capture.full_vocabulary},
            "launch": launch,
            "pass": pass_,
            "windows": {name: _window_identity(loaded, name) for name in windows},
        }
        if adapter is not None:  # absent otherwise: what was captured before adapters were known keeps its id
            identity["adapter"] = {"sha256": adapter.sha256, "scale": settings.adapter_scale}
        return Execution(
            name=floor.name if floor is not None else f"{arm.name}#{launch}" if kind == "launch" else arm.name,
            kind=kind,
            against=protocol.reference.name if floor is None else floor.arm,
            arm=arm,
            floor=floor,
            weights=weights,
            adapter=adapter,
            settings=settings,
            launch=launch,
            pass_=pass_,
            windows=windows,
            identity=identity,
            capture_id=content_id(identity),
            marks=protocol.marks.model_dump(include=COPY_SETTINGS, exclude_defaults=True),
        )

    planned = [execution(protocol.reference, "reference")]
    floors = {arm.name: [floor for floor in protocol.floors if floor.arm == arm.name] for arm in protocol.arms}
    planned += [execution(protocol.reference, "floor", floor) for floor in floors[protocol.reference.name]]
    for arm in (*protocol.arms, *follow_ups):
        if arm.role != "reference" and (not only or arm.name in only):
            planned += [execution(arm, "launch", launch=number) for number in range(2, arm.launches + 1)]
            planned.append(execution(arm, "follow-up" if arm.role == "follow-up" else "candidate"))
            planned += [execution(arm, "floor", floor) for floor in floors.get(arm.name, ())]
    _refuse_twins(planned)
    return tuple(planned)


def adapter_file(machine: Machine, arm: Arm) -> Path | None:
    """The adapter that an arm is run with; None for none.

    A file alone would change every number of the arm without the protocol's knowledge, so it takes both: the scale in
    the protocol, the file in ``drift.toml``.
    """
    path, scale = machine.adapter_file(arm.name), arm.settings.adapter_scale
    where = f"{machine.path.name}: arms.{arm.name}"
    if path is None and scale is not None:
        raise ConfigError(
            f"the protocol applies an adapter at scale {scale:g}, and no file is named",
            where=where,
            expected='adapter = "…"',
            todo="name the adapter's file; same_model_as takes over the weight file alone",
        )
    if path is not None and scale is None:
        raise ConfigError(
            "the protocol applies no adapter to this arm",
            where=f"{where}.adapter",
            expected=f"no such key, or settings = {{ adapter_scale = 1.0 }} for arm {arm.name} in the protocol",
            todo="take the key away, or declare the scale in a new version of the protocol",
        )
    return path


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
    )


def _set(settings: Settings) -> list[str]:
    return [name for name in type(settings).model_fields if name in settings.model_fields_set]


def _window_identity(loaded: LoadedProtocol, name: str) -> dict[str, object]:
    ids = np.asarray(loaded.tokens(name), dtype="<u4").tobytes()
    spans = [list(span) for span in loaded.protocol.window(name).scored]
    return {"tokens_sha256": hashlib.sha256(ids).hexdigest(), "scored": spans}


def _refuse_twins(planned: Sequence[Execution]) -> None:
    """Two names for one execution would be compared with itself, or counted twice."""
    seen: dict[str, str] = {}
    for execution in planned:
        twin = seen.setdefault(execution.capture_id, execution.name)
        if twin != execution.name:
            todo = "drift.toml gives them the same weights and settings"
            if execution.floor is not None and execution.floor.settings and execution.floor.settings.threads:
                todo = f"{twin} already runs with {execution.settings.threads} threads: set another count in drift.toml"
            raise ModelFileError(
                f"{execution.name} and {twin} are the same execution",
                where=f"arms {twin} and {execution.name}",
                expected="another weight file or setting",
                todo=todo,
            )
