"""What a reference of another machine wrote and is here: nothing more can be had of it, because its engine is not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from drift_runs.capture.execution import Captured
from drift_runs.lanes.bounds import Bounds
from drift_runs.lanes.identity import futures_lane, rollouts_lane, sampled_lane, tasks_lane
from drift_runs.protocol.load import LoadedProtocol
from drift_runs.store import Store
from drift_runs.store.generation import FutureKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrived:
    """The lanes of a reference as far as they are whole in the store."""

    futures: frozenset[FutureKey]
    prompts: frozenset[str]
    """Rolled out greedily."""
    draws: Mapping[float, frozenset[str]]
    """Temperature to the prompts that have every draw."""
    answers: frozenset[str]
    """Names of tasks."""

    @property
    def empty(self) -> bool:
        return not (self.futures or self.prompts or self.answers)

    def of_roots(self, roots: pa.Table) -> pa.Table:
        """Those from which the reference's future is here, in their order."""
        rows = [
            row
            for row in roots.to_pylist()
            if FutureKey(row["window"], row["position"], row["reference_top"]) in self.futures
        ]
        return pa.Table.from_pylist([row | {"order": order} for order, row in enumerate(rows)], schema=roots.schema)

    def said(self, loaded: LoadedProtocol) -> str:
        """What came of it, for a person."""
        protocol = loaded.protocol
        words = []
        if protocol.branches is not None:
            words.append(f"{len(self.futures)} futures")
        if protocol.rollouts is not None and loaded.prompts is not None:
            words.append(f"{len(self.prompts)} of {len(loaded.prompts.prompts)} rollouts")
        if protocol.tasks:
            words.append(f"{len(self.answers)} of {len(protocol.tasks)} answers to tasks")
        return ", ".join(words)


def arrived(store: Store, loaded: LoadedProtocol, reference: Captured, bounds: Bounds) -> Arrived:
    """Look what a store holds of a reference's lanes, under these bounds."""
    protocol = loaded.protocol
    futures: frozenset[FutureKey] = frozenset()
    prompts: frozenset[str] = frozenset()
    answers: frozenset[str] = frozenset()
    draws: dict[float, frozenset[str]] = {}
    if protocol.branches is not None:
        futures = store.futures_there(futures_lane(loaded, reference, bounds).id)
    if protocol.rollouts is not None:
        prompts = store.rolled_prompts(rollouts_lane(loaded, reference).id, 0)
    if protocol.sampled is not None:
        for temperature in protocol.sampled.temperatures:
            lane = sampled_lane(loaded, reference, temperature)
            runs = [store.rolled_prompts(lane.id, draw) for draw in range(protocol.sampled.draws)]
            draws[temperature] = frozenset.intersection(*runs)
    if protocol.tasks:
        lane = tasks_lane(loaded, reference)
        answers = frozenset(task.name for task in protocol.tasks if store.answer_file(lane.id, task.name).is_file())
    return Arrived(futures=futures, prompts=prompts, draws=draws, answers=answers)
