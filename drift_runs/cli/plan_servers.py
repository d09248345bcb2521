"""What a plan knows of arms whose engine or server cannot be asked now: what it said earlier, or nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from drift_runs.capture.execution import Execution
    from drift_runs.capture.planning import LeftOut
    from drift_runs.protocol.load import LoadedProtocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Silent:
    """An arm or floor whose engine or server could not be asked now."""

    name: str
    state: str
    """``remembered``, or ``left out`` where nothing is known of it."""
    why: str
    """What came of asking it."""
    last_answered: str = ""
    """In UTC; empty where it is not known, or where it never did."""

    def line(self) -> str:
        if self.state == "left out":
            return f"{self.name}: left out, nothing of it is known and all of its rows count as missing ({self.why})"
        when = f" at {self.last_answered}" if self.last_answered else ""
        return f"{self.name}: from memory, as it said when it last answered{when} ({self.why})"


def silent_of(executions: Sequence[Execution] | None, left_out: Sequence[LeftOut]) -> list[Silent]:
    """Who could not be asked, those that are remembered first."""
    remembered = [
        Silent(
            name=execution.name,
            state="remembered",
            why=execution.remembered.why,
            last_answered=_utc(execution.remembered.last_ms),
        )
        for execution in executions or ()
        if execution.remembered is not None
    ]
    return remembered + [Silent(name=found.arm, state="left out", why=found.error.line()) for found in left_out]


def _utc(time_ms: int | None) -> str:
    if time_ms is None:
        return ""
    return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def missing_tokens(loaded: LoadedProtocol, follow_ups: Sequence, left_out: Sequence[LeftOut]) -> int:
    """What the engines of arms that are left out evaluate, launches and floors included: no row of theirs can be in
    a store, because what they say is part of its name."""
    from drift_runs.capture.group import evaluated_tokens
    from drift_runs.protocol.model import WRITERS

    protocol = loaded.protocol
    whole = sum(evaluated_tokens(loaded, window.name) for window in protocol.windows)
    names = {found.arm for found in left_out}
    arms = [arm for arm in (*protocol.arms, *follow_ups) if arm.name in names and arm.engine not in WRITERS]
    count = sum(arm.launches for arm in arms) * whole
    for floor in protocol.floors:
        if floor.arm in names:
            count += sum(evaluated_tokens(loaded, name) for name in floor.windows) if floor.windows else whole
    return count
