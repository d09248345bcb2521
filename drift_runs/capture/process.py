"""Run one launch in a process of its own and hand its events to the campaign."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from drift_runs.capture.child import events_of, opening
from drift_runs.capture.execution import COPY_SETTINGS, Execution
from drift_runs.engines.probe.task import probe_task
from drift_runs.protocol.load import LoadedProtocol
from drift_runs.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One window of one execution."""

    execution: Execution
    window: str
    compare: bool
    """Compare with the reference's spilled rows."""
    spill: bool
    """Keep the full rows for others to compare with: the reference's first pass."""
    wanted_from: str = ""
    """Capture whose best ids are asked for at each position, beside the execution's own."""
    keep_state: bool = False
    """Keep what the engine's memory holds behind the window, for what is generated from it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowDone:
    """A window is whole on disk."""

    execution: str
    window: str
    tokens: int
    """Tokens that the engine evaluated."""
    positions: int
    engine_s: float
    own_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """The engine is open."""

    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceChanged:
    """Rows of the reference, taken again after an interruption, are not the kept ones."""

    window: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """The process ended well."""

    peak_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Probed:
    """The engine was asked what it gives, and gives what is needed."""

    execution: str
    report: Mapping[str, Any]
    """``ProbeReport.as_json``."""


Event = Opened | Probed | WindowDone | ReferenceChanged | Finished


def run_launch(
    store: Store, loaded: LoadedProtocol, reference: Execution, steps: Sequence[Step], *, state_room: int = 0
) -> Iterator[Event]:
    """Take ``steps`` in order in one fresh process. ``state_room``: bytes that kept states may take.

    All steps belong to one engine setting: executions that differ in their pass alone share a process. The process is
    ended when the iteration is left, for whatever reason.

    Raises
    ------
    EngineError
        whatever the process reported, as the error it was; ``EngineDied`` when it ended without a word.
    """
    first = steps[0].execution
    job = {
        **opening(store, loaded, first),
        "top_k": loaded.protocol.capture.top_k,
        "marks": loaded.protocol.marks.model_dump(include=COPY_SETTINGS),
        "reference": reference.capture_id,
        "state_room": state_room,
        "steps": [_step(loaded, reference, step) for step in steps],
        "probe": _probe(loaded, first),
    }
    names = {step.execution.capture_id: step.execution.name for step in steps}
    for event in events_of("drift_runs.capture.worker", job):
        yield _event(event, names)


def _probe(loaded: LoadedProtocol, execution: Execution) -> dict[str, Any] | None:
    """What is asked of an engine before it is trusted.

    None for a recording, which holds the answers to the windows themselves and to nothing else.
    """
    if execution.arm.engine == "replay":
        return None
    return asdict(probe_task(loaded, execution.arm, execution.settings))


def _step(loaded: LoadedProtocol, reference: Execution, step: Step) -> dict[str, Any]:
    window = loaded.protocol.window(step.window)
    return {
        "window": step.window,
        "role": loaded.protocol.panel(window.panel).role,
        "tokens": list(loaded.tokens(step.window)),
        "scored": [list(span) for span in window.scored],
        "capture": step.execution.capture_id,
        "comparison": step.execution.compared_with(reference) if step.compare else None,
        "spill": step.spill,
        "wanted_from": step.wanted_from,
        "keep_state": step.keep_state,
    }


def _event(event: dict[str, Any], names: dict[str, str]) -> Event:
    match event["event"]:
        case "open":
            return Opened(seconds=event["seconds"])
        case "probe":
            return Probed(execution=event["arm"], report=event["report"])
        case "changed":
            return ReferenceChanged(window=event["window"])
        case "done":
            return Finished(peak_bytes=event["peak_bytes"])
        case _:
            return WindowDone(
                execution=names[event["capture"]],
                window=event["window"],
                tokens=event["tokens"],
                positions=event["positions"],
                engine_s=event["engine_s"],
                own_s=event["own_s"],
            )
