"""What a protocol asks to be executed: every arm, floor and follow-up as one engine setting over its windows.

An execution's capture id is a digest of what was really executed (weights, adapter, engine, processor, settings, token
ids, positions), never of what it is called: renaming an arm moves no data, and another processor never shares its rows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np

from drift_runs.capture.observed import Observer
from drift_runs.engines.base import EngineIdentity, EngineSettings
from drift_runs.engines.registry import ENGINES, Opening
from drift_runs.errors import ModelFileError, ProtocolError
from drift_runs.machine import Machine, Place
from drift_runs.protocol.load import LoadedProtocol
from drift_runs.protocol.model import Arm, Capture, Floor, Settings
from drift_runs.store import comparison_id, content_id
from drift_runs.weights.gguf_file import WeightsFile

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
    place: Place | None = None
    """Where its server stands."""
    rows: Path | None = None
    """The recorded capture that is played."""
    said: Mapping[str, str] = field(default_factory=dict)
    """What its server says of itself."""

    @property
    def listed(self) -> bool:
        """Whether its engine lists the best entries of a row and gives no logits."""
        return ENGINES[self.arm.engine].listed

    @property
    def opened_from(self) -> str:
        """A short name of what its engine opens."""
        if self.place is not None:
            return self.place.url
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


def plan_executions(
    loaded: LoadedProtocol,
    machine: Machine,
    engine: EngineIdentity | None = None,
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
        an adapter's file is named and no scale is declared, or the other way round; a server that is not named.
    """
    protocol = loaded.protocol
    named = [arm.name for arm in (*protocol.arms, *follow_ups)]
    for name in only:
        if name not in named:
            raise ProtocolError(f"unknown arm {name!r}", where="--arms", expected=f"some of {', '.join(named)}")
    observer = Observer(machine, protocol.dictionary.size, engine)
    full_rows = protocol.capture.full_vocabulary == "yes"
    planned: list[Execution] = []

    def execution(arm: Arm, kind: Kind, floor: Floor | None = None, launch: int = 1) -> Execution:
        weights, adapter = observer.weights(arm), observer.adapter(arm)
        settings = engine_settings(protocol.capture, arm, floor, threads=machine.threads(arm.name))
        if floor is not None and floor.kind == "launch":
            launch = arm.launches + 1
        pass_ = 2 if floor is not None and floor.kind == "pass" else 1
        found = observer.found(arm, settings, floor=floor, launch=launch)
        wanted = floor.windows if floor is not None and floor.windows else ()
        windows = tuple(window.name for window in protocol.windows if not wanted or window.name in wanted)
        capture: dict[str, object] = {
            "top_k": protocol.capture.top_k,
            "full_vocabulary": protocol.capture.full_vocabulary,
        }
        wanted_from = ""
        against = protocol.reference.name if floor is None else floor.arm
        if kind != "reference" and protocol.capture.divergence == "kl.topk-tail" and not full_rows:
            wanted_from = next(found.capture_id for found in planned if found.name == against)
            capture["wanted_from"] = wanted_from
        identity = {
            "engine": asdict(found.engine),
            "weights_sha256": None if weights is None else weights.sha256,
            "settings": settings_identity(arm, settings, found.place),
            "capture": capture,
            "launch": launch,
            "pass": pass_,
            "windows": {name: _window_identity(loaded, name) for name in windows},
        }
        if adapter is not None:  # absent otherwise: what was captured before adapters were known keeps its id
            identity["adapter"] = {"sha256": adapter.sha256, "scale": settings.adapter_scale}
        if found.said:
            identity["server"] = dict(found.said)
        return Execution(
            name=floor.name if floor is not None else f"{arm.name}#{launch}" if kind == "launch" else arm.name,
            kind=kind,
            against=against,
            arm=arm,
            full_rows=full_rows,
            wanted_from=wanted_from,
            engine=found.engine,
            place=found.place,
            rows=found.rows,
            said=found.said,
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

    planned.append(execution(protocol.reference, "reference"))
    floors = {arm.name: [floor for floor in protocol.floors if floor.arm == arm.name] for arm in protocol.arms}
    planned += [execution(protocol.reference, "floor", floor) for floor in floors[protocol.reference.name]]
    for arm in (*protocol.arms, *follow_ups):
        if arm.role != "reference" and (not only or arm.name in only):
            planned += [execution(arm, "launch", launch=number) for number in range(2, arm.launches + 1)]
            planned.append(execution(arm, "follow-up" if arm.role == "follow-up" else "candidate"))
            planned += [execution(arm, "floor", floor) for floor in floors.get(arm.name, ())]
    _refuse_twins(planned)
    return tuple(planned)


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


_OF_LLAMA_CPP = ("flash_attention", "micro_batch")
_OF_THIS_PROCESS = (*_OF_LLAMA_CPP, "batch", "threads")


def settings_identity(arm: Arm, settings: EngineSettings, place: Place | None) -> dict[str, object]:
    """The settings that an engine takes, by name: what it would ignore is no part of what was executed.

    What is absent leaves no key, so that a setting that engines learn later changes no id of rows that are stored.
    """
    ignored: tuple[str, ...] = ()
    if arm.engine != "llama_cpp":
        ignored = _OF_THIS_PROCESS if ENGINES[arm.engine].needs in ("place", "rows") else _OF_LLAMA_CPP
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
