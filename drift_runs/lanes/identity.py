"""What a lane of an execution is called: a digest of everything that its tokens follow from."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from drift_runs.capture.execution import Execution
from drift_runs.generate.coupled import SCHEME
from drift_runs.lanes.bounds import Bounds
from drift_runs.protocol.load import LoadedProtocol
from drift_runs.protocol.model import Window
from drift_runs.store import content_id

FUTURES = "futures"
ROLLOUTS = "rollouts"
SAMPLED = "sampled"
TASKS = "tasks"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """One lane of one execution."""

    kind: str
    """``futures``, ``rollouts``, ``sampled``, ``tasks``."""
    execution: Execution
    rule: Mapping[str, Any]
    """How far and how it generates; JSON."""
    grammar: str = ""
    """Of a constrained decode; empty: free."""
    identity: Mapping[str, object]
    id: str


def futures_lane(loaded: LoadedProtocol, execution: Execution, bounds: Bounds, *, grammar: str = "") -> Lane:
    """The lane of an execution's futures."""
    branches = loaded.protocol.branches
    assert branches is not None
    horizon = min(branches.horizon_tokens, bounds.horizon_tokens or branches.horizon_tokens)
    rule = {
        "horizon_tokens": horizon,
        "turns": branches.turns,
        "syntax": branches.syntax,
        "sql_dialect": branches.sql_dialect,
        "stops": "structure",
    }
    return _lane(FUTURES, loaded, execution, rule | _turns(loaded), grammar, _windows(loaded, loaded.protocol.windows))


def tasks_lane(loaded: LoadedProtocol, execution: Execution, *, grammar: str = "") -> Lane:
    """The lane of an execution's answers to tasks."""
    named = {task.window for task in loaded.protocol.tasks}
    windows = tuple(window for window in loaded.protocol.windows if window.name in named)
    branches = loaded.protocol.branches
    rule = {
        "horizon_tokens": {task.name: task.horizon_tokens for task in loaded.protocol.tasks},
        "stops": "turn",
        "syntax": branches.syntax if branches is not None else "hermes",
    }
    return _lane(TASKS, loaded, execution, rule | _turns(loaded), grammar, _windows(loaded, windows))


def rollouts_lane(loaded: LoadedProtocol, execution: Execution) -> Lane:
    """The lane of an execution's greedy rollouts. A server that takes texts writes nothing behind an end token."""
    rollouts = loaded.protocol.rollouts
    assert rollouts is not None
    rule: dict[str, Any] = {"tokens": rollouts.tokens}
    if not execution.scored:
        rule["stops"] = "end"
    return _lane(ROLLOUTS, loaded, execution, rule, "", _prompts(loaded))


def sampled_lane(loaded: LoadedProtocol, execution: Execution, temperature: float) -> Lane:
    """The lane of an execution's decoding at one temperature; draws are runs of one table."""
    sampled = loaded.protocol.sampled
    assert sampled is not None
    rule = {
        "tokens": sampled.tokens,
        "temperature": temperature,
        "seed": loaded.protocol.seeds.sampling,
        "noise": SCHEME,
    }
    return _lane(SAMPLED, loaded, execution, rule, "", _prompts(loaded))


def _turns(loaded: LoadedProtocol) -> dict[str, Any]:
    protocol = loaded.protocol
    return {
        "chat": None if protocol.chat is None else protocol.chat.model_dump(mode="json"),
        "environments": [found.model_dump(mode="json") for found in protocol.environments],
    }


def _lane(
    kind: str,
    loaded: LoadedProtocol,
    execution: Execution,
    rule: Mapping[str, Any],
    grammar: str,
    inputs: Mapping[str, object],
) -> Lane:
    # The captured rows' identity without what rows alone depend on: scored positions, how many entries are kept.
    core = {name: value for name, value in execution.identity.items() if name not in ("capture", "windows")}
    identity = {**core, "lane": kind, "rule": dict(rule), "grammar": grammar, **inputs}
    return Lane(kind=kind, execution=execution, rule=rule, grammar=grammar, identity=identity, id=content_id(identity))


def _windows(loaded: LoadedProtocol, windows: tuple[Window, ...]) -> dict[str, object]:
    return {
        "windows": {
            window.name: {
                "tokens_sha256": _digest(loaded.tokens(window.name)),
                # The engine is given all of what was scored, so that a root's history has the shape of its capture.
                "held": window.scored[-1][1] - 1,
            }
            for window in windows
        }
    }


def _prompts(loaded: LoadedProtocol) -> dict[str, object]:
    return {"prompts": {name: _digest(ids) for name, ids in loaded.prompt_ids.ids.items()}}


def _digest(ids: Any) -> str:
    return hashlib.sha256(np.asarray(ids, dtype="<u4").tobytes()).hexdigest()
