"""Windows in groups whose full reference rows fit the spill budget, and what is left to take of a group.

Full distributions never reach the store: the reference's rows of one group are spilled, every other execution is
compared with them, the spill is deleted, the next group follows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from drift_runs.capture.execution import Execution
from drift_runs.capture.process import Step
from drift_runs.protocol.load import LoadedProtocol
from drift_runs.store import Store

DEFAULT_SPILL_BYTES = 8_000_000_000
_LOGIT_BYTES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """Steps of one fresh process."""

    execution: Execution
    steps: tuple[Step, ...]


def scored_count(loaded: LoadedProtocol, window: str) -> int:
    """Scored positions of a window."""
    return sum(end - start for start, end in loaded.protocol.window(window).scored)


def evaluated_tokens(loaded: LoadedProtocol, window: str) -> int:
    """Tokens that an engine evaluates for a window: up to the last scored position."""
    return loaded.protocol.window(window).scored[-1][1] - 1


def full_row_bytes(loaded: LoadedProtocol) -> int:
    """Bytes of one full row of raw logits in float32."""
    return loaded.protocol.dictionary.size * _LOGIT_BYTES


def groups(loaded: LoadedProtocol, spill_bytes: int) -> tuple[tuple[str, ...], ...]:
    """Window names, in the protocol's order, in groups within the budget; a window above it is a group of its own."""
    result: list[list[str]] = []
    room = 0
    for window in loaded.protocol.windows:
        need = scored_count(loaded, window.name) * full_row_bytes(loaded)
        if not result or need > room:
            result.append([])
            room = spill_bytes
        result[-1].append(window.name)
        room -= need
    return tuple(tuple(group) for group in result)


def is_whole(store: Store, execution: Execution, reference: Execution, window: str) -> bool:
    """Whether a window of an execution needs nothing more."""
    if not store.rows_file(execution.capture_id, window).is_file():
        return False
    if execution.kind == "reference":
        return True
    return store.comparison_file(execution.compared_with(reference), window).is_file()


def pending(store: Store, executions: Sequence[Execution], group: Sequence[str]) -> tuple[Launch, ...]:
    """What is left of a group, the reference's launch first.

    A window that any execution misses needs the reference's full rows, so the reference takes it again even when its
    own rows are kept: the spill died with the process that wrote it. Passes after the first share the reference's
    process, and each needs the pass before it.
    """
    reference = executions[0]
    missing = {
        execution.name: [
            name for name in group if name in execution.windows and not is_whole(store, execution, reference, name)
        ]
        for execution in executions
    }
    spilled = [name for name in group if any(name in names for names in missing.values())]
    if not spilled:
        return ()
    same_process = [execution for execution in executions[1:] if _shares_process(execution, reference)]
    steps = [Step(execution=reference, window=name, compare=False, spill=True) for name in spilled]
    for execution in same_process:
        steps += [Step(execution=execution, window=name, compare=True, spill=False) for name in missing[execution.name]]
    launches = [Launch(execution=reference, steps=tuple(steps))]
    for execution in executions[1:]:
        names = missing[execution.name]
        if names and execution not in same_process:
            launches.append(
                Launch(
                    execution=execution,
                    steps=tuple(Step(execution=execution, window=name, compare=True, spill=False) for name in names),
                )
            )
    return tuple(launches)


def _shares_process(execution: Execution, reference: Execution) -> bool:
    return execution.pass_ > 1 and execution.launch == reference.launch and execution.settings == reference.settings


def forget(store: Store, executions: Sequence[Execution], group: Sequence[str]) -> None:
    """Remove a group's rows and comparisons of every execution: the reference they were made against is gone.

    The reference's go last. A kill before that leaves them to be found changed once more; a kill after they had gone
    first would leave comparisons with them that nothing shows to be stale.
    """
    reference = executions[0]
    for execution in (*executions[1:], reference):
        for name in group:
            store.remove_window(execution.capture_id, name)
            if execution is not reference:
                store.remove_comparison(execution.compared_with(reference), name)
