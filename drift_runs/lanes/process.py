"""Run the lanes of one execution in a process of its own and hand its events to the campaign."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from drift_runs.capture.child import events_of, opening
from drift_runs.capture.execution import Execution
from drift_runs.capture.process import Finished, Opened, Probed
from drift_runs.engines.probe.task import probe_task
from drift_runs.protocol.load import LoadedProtocol
from drift_runs.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Generated:
    """Some futures, rollouts or answers are whole on disk."""

    execution: str
    lane: str
    items: int
    tokens: int
    """Tokens that the engine evaluated for them, what it was given included."""
    seconds: float


Event = Opened | Probed | Generated | Finished


def run_lanes(
    store: Store, loaded: LoadedProtocol, execution: Execution, steps: Sequence[dict[str, Any]]
) -> Iterator[Event]:
    """Take ``steps`` in order in one fresh process, which is ended when the iteration is left. Errors as a launch's."""
    chat = loaded.protocol.chat
    job = {
        **opening(store, loaded, execution),
        "steps": list(steps),
        "chat": None if chat is None else chat.model_dump(mode="json"),
        # What scores was asked before its rows were taken.
        "probe": None if execution.scored else asdict(probe_task(loaded, execution.arm, execution.settings)),
    }
    for event in events_of("drift_runs.lanes.worker", job):
        match event["event"]:
            case "open":
                yield Opened(seconds=event["seconds"])
            case "probe":
                yield Probed(execution=event["arm"], report=event["report"])
            case "done":
                yield Finished(peak_bytes=event["peak_bytes"])
            case _:
                yield Generated(
                    execution=execution.name,
                    lane=event["lane"],
                    items=event["items"],
                    tokens=event["tokens"],
                    seconds=event["seconds"],
                )
