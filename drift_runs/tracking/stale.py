"""Runs whose owner is dead: a process that is killed leaves its run RUNNING for ever.

The owner writes four tags when it starts a run: host, process id, start time of the process, last sign of life. On the
same host the process table decides. For another host only the last sign of life can be judged, so silence is named
*silent*, not *dead*.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

HOST_TAG = "drift.owner.host"
PID_TAG = "drift.owner.pid"
STARTED_TAG = "drift.owner.started_s"
HEARTBEAT_TAG = "drift.owner.heartbeat_s"

SILENCE_S = 1800.0
"""After so long without a sign of life an owner on another host is taken for gone."""
_CLOCK_SLACK_S = 5.0  # a start time is derived from the boot time, which moves when the clock is set

State = Literal["alive", "dead", "silent"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """The process that writes a run."""

    host: str
    pid: int
    started_s: float
    """Start of the process, seconds since the epoch: a process id alone is reused."""
    heartbeat_s: float
    """Last sign of life, seconds since the epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnfinishedRun:
    """A run without the tag that says *complete*."""

    run_id: str
    kind: str
    """``campaign`` or ``comparison``."""
    name: str
    status: str
    started_ms: int
    owner: Owner | None
    """``None`` when the tags are missing or damaged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StaleRun:
    """An unfinished run that nobody writes any more."""

    run: UnfinishedRun
    state: State
    reason: str


def this_process(now_s: float) -> Owner:
    """The owner that this process is."""
    import psutil

    pid = os.getpid()
    return Owner(host=platform.node(), pid=pid, started_s=psutil.Process(pid).create_time(), heartbeat_s=now_s)


def tags_of(owner: Owner) -> dict[str, str]:
    """Tags that say who writes a run."""
    return {
        HOST_TAG: owner.host,
        PID_TAG: str(owner.pid),
        STARTED_TAG: f"{owner.started_s:.2f}",
        HEARTBEAT_TAG: f"{owner.heartbeat_s:.0f}",
    }


def owner_of(tags: Mapping[str, str]) -> Owner | None:
    """The owner that tags name; ``None`` when one is missing or is no number."""
    try:
        return Owner(
            host=tags[HOST_TAG],
            pid=int(tags[PID_TAG]),
            started_s=float(tags[STARTED_TAG]),
            heartbeat_s=float(tags[HEARTBEAT_TAG]),
        )
    except (KeyError, ValueError):
        return None


def state_of(owner: Owner | None, *, now_s: float) -> tuple[State, str]:
    """Whether the owner still lives, and why it is thought so."""
    if owner is None:
        return "dead", "no owner is recorded"
    if owner.host != platform.node():
        silent_s = now_s - owner.heartbeat_s
        if silent_s > SILENCE_S:
            return "silent", f"no sign of life from {owner.host} for {silent_s / 60:.0f} minutes"
        return "alive", f"a process on {owner.host} gave a sign of life {max(silent_s, 0) / 60:.0f} minutes ago"
    return _state_here(owner)


def _state_here(owner: Owner) -> tuple[State, str]:
    import psutil

    try:
        process = psutil.Process(owner.pid)
        started_s = process.create_time()
        ended = process.status() == psutil.STATUS_ZOMBIE
    except (psutil.NoSuchProcess, ValueError):
        return "dead", f"process {owner.pid} has ended"
    except psutil.AccessDenied:
        return "alive", f"process {owner.pid} belongs to another user"
    if ended:
        return "dead", f"process {owner.pid} has ended"
    if abs(started_s - owner.started_s) > _CLOCK_SLACK_S:
        return "dead", f"process {owner.pid} is another one by now"
    return "alive", f"process {owner.pid} on this machine is at work"


def stale_of(runs: Iterable[UnfinishedRun], *, now_s: float) -> list[StaleRun]:
    """Those of the runs whose owner no longer lives, in the order given."""
    found = []
    for run in runs:
        state, reason = state_of(run.owner, now_s=now_s)
        if state != "alive":
            found.append(StaleRun(run=run, state=state, reason=reason))
    return found
