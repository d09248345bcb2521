"""What a campaign generates: the roots of every arm and floor, their lanes, and what is left of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from drift_runs.capture.execution import Execution
from drift_runs.generate.roots import Existing, every_root, existing, null_roots, select_roots, visited_places
from drift_runs.lanes.arrived import Arrived
from drift_runs.lanes.bounds import Bounds
from drift_runs.lanes.identity import Lane, futures_lane, rollouts_lane, sampled_lane, tasks_lane
from drift_runs.lanes.steps import (
    Best,
    Wanted,
    constrained_steps,
    future_steps,
    of_roots,
    prompt_step,
    task_steps,
    visit_steps,
)
from drift_runs.lanes.visits import came_of, left
from drift_runs.protocol.generation import Constrained, Task
from drift_runs.protocol.load import LoadedProtocol
from drift_runs.protocol.model import Protocol
from drift_runs.store import Store

Comparison = Callable[[Execution], pa.Table]


@dataclass(frozen=True, slots=True, kw_only=True)
class Explored:
    """The roots of one execution."""

    roots: pa.Table
    """Schema ``ROOTS``: those that are followed, in order."""
    existing: Existing | None = None
    """Followed or not; None of an arm without rows, whose flips nobody sees."""
    visited: pa.Table | None = None
    """Of such an arm: every place where it was asked, as ``lanes.visits.came_of`` found it."""


class LanePlan:
    """Every lane of a protocol for the executions of a campaign.

    ``comparison``: the stored comparison of an execution. An execution that failed is left out of ``executions``.
    ``arrived``: of a reference of another machine, what it wrote: nobody is asked for more than stands beside that.
    """

    def __init__(
        self,
        loaded: LoadedProtocol,
        executions: Sequence[Execution],
        bounds: Bounds,
        comparison: Comparison,
        *,
        arrived: Arrived | None = None,
    ) -> None:
        self.arrived = arrived
        self.loaded = loaded
        self.bounds = bounds
        self.executions = [execution for execution in executions if execution.kind != "launch"]
        self.reference = executions[0]
        self.roots: dict[str, Explored] = {}
        """Of the executions with rows."""
        self.visits: dict[str, pa.Table] = {}
        """Of those without: where they are followed, schema ``ROOTS``."""
        self._comparison = comparison
        if loaded.protocol.branches is not None:
            self._select(comparison)

    def _select(self, comparison: Comparison) -> None:
        protocol = self.loaded.protocol
        followed: dict[str, pa.Table] = {}
        for execution in self.executions:
            if execution.scored and execution.kind in ("candidate", "follow-up"):
                rows = comparison(execution)
                roots = self._here(execution, select_roots(rows, protocol, arm=execution.name))
                # Of all of them, bounded or not: a floor may cover few windows.
                followed[execution.name] = roots
                self.roots[execution.name] = Explored(
                    roots=roots.slice(0, self.bounds.roots),
                    existing=existing(every_root(rows, protocol, arm=execution.name)),
                )
        for execution in self.executions:
            if execution.floor is not None:
                rows = comparison(execution)
                own = select_roots(rows, protocol, arm=execution.name)
                of_reference = execution.against == self.reference.name
                others = list(followed.values()) if of_reference else [followed.get(execution.against, own.slice(0, 0))]
                roots = null_roots([own, *others], protocol, execution.floor)
                roots = roots.slice(0, self.bounds.of_floor(self.bounds.roots))
                self.roots[execution.name] = Explored(
                    roots=roots, existing=existing(every_root(rows, protocol, arm=execution.name))
                )

        for execution in self.executions:
            if not execution.scored:
                others = [self.roots[name].roots for name in followed if self._against(name) == execution.against]
                followed_there = any(table.num_rows for table in others)
                compared = None if followed_there else self._most_compared(execution.against)
                places = visited_places(
                    others,
                    protocol,
                    arm=execution.name,
                    comparison=None if compared is None else comparison(compared),
                )
                self.visits[execution.name] = self._here(execution, places).slice(0, self.bounds.roots)

    def _here(self, execution: Execution, roots: pa.Table) -> pa.Table:
        """The roots that can be followed: of those beside a reference of another machine the ones that it followed."""
        beside = self.arrived is not None and execution.against == self.reference.name
        return self.arrived.of_roots(roots) if beside else roots

    def _against(self, name: str) -> str:
        return next(execution.against for execution in self.executions if execution.name == name)

    def _most_compared(self, reference: str) -> Execution | None:
        """Of what is compared with an execution, what has the most windows."""
        others = [other for other in self.executions if other.against == reference != other.name and other.scored]
        return max(others, key=lambda other: len(other.windows), default=None)

    def explored(self, store: Store, execution: Execution) -> Explored | None:
        """The roots of an execution; of one without rows from what it wrote, all of which must be there."""
        places = self.visits.get(execution.name)
        if places is None:
            return self.roots.get(execution.name)
        visited = came_of(store, self.futures(execution), places)
        return Explored(roots=left(visited), visited=visited)

    def temperatures(self, execution: Execution) -> tuple[float, ...]:
        """At which an execution is decoded with common noise: that needs logits, which no server of texts gives."""
        sampled = self.loaded.protocol.sampled
        if sampled is None or not self.bounds.sampled or not execution.scored or not self.sampled_prompts(execution):
            return ()
        return sampled.temperatures

    @property
    def tasks(self) -> tuple[Task, ...]:
        found = bounded_tasks(self.loaded.protocol, self.bounds.tasks)
        return found if self.arrived is None else tuple(task for task in found if task.name in self.arrived.answers)

    def prompts(self, execution: Execution) -> tuple[str, ...]:
        """Names of the prompts that an execution rolls out greedily."""
        rollouts = self.loaded.protocol.rollouts
        there = None if self.arrived is None else self.arrived.prompts
        return () if rollouts is None else self._prompts(rollouts.subset, execution, there)

    def sampled_prompts(self, execution: Execution) -> tuple[str, ...]:
        """Those that it decodes at a temperature."""
        sampled = self.loaded.protocol.sampled
        # The same prompts at every temperature: those that have every draw at each of them.
        there = None if self.arrived is None else frozenset.intersection(*self.arrived.draws.values(), self._all())
        return () if sampled is None else self._prompts(sampled.prompts, execution, there)

    def _all(self) -> frozenset[str]:
        return frozenset(prompt.name for prompt in self.loaded.prompts.prompts)

    def _prompts(self, subset: str, execution: Execution, there: frozenset[str] | None) -> tuple[str, ...]:
        names = [prompt.name for prompt in self.loaded.prompts.prompts if subset == "all" or prompt.quick]
        names = [name for name in names if there is None or name in there]
        count = self.bounds.prompts
        return tuple(names[: count if execution.floor is None else self.bounds.of_floor(count)])

    def futures(self, execution: Execution) -> Lane:
        return futures_lane(self.loaded, execution, self.bounds)

    def constrained(self, execution: Execution) -> tuple[tuple[Constrained, Lane], ...]:
        """The constrained decodes of an arm."""
        if self.loaded.protocol.branches is None:
            return ()
        return tuple(
            (found, futures_lane(self.loaded, execution, self.bounds, grammar=found.grammar))
            for found in self.loaded.protocol.constrained
            if found.arm == execution.name
        )

    def crosses(self, execution: Execution) -> bool:
        """Whether both sides of its roots go on from the other side's token too.

        Without rows it is not known beforehand from which token the reference would have to, and one of another machine
        cannot.
        """
        beside = self.arrived is not None and execution.against == self.reference.name
        return self.bounds.crossed and execution.floor is None and execution.scored and not beside

    def wanted(self, execution: Execution) -> tuple[Wanted, ...]:
        """The futures that an execution's own engine takes."""
        found: dict[Wanted, None] = {}
        if execution.name in self.roots:
            roots = self.roots[execution.name].roots
            found |= dict.fromkeys(of_roots(roots, reference=self.crosses(execution)))
        for other in self.executions:
            if other.against != execution.name or other is execution:
                continue
            if other.name in self.roots:
                roots = self.roots[other.name].roots
                found |= dict.fromkeys(of_roots(roots, candidate=self.crosses(other)))
            elif other.name in self.visits:
                found |= dict.fromkeys(of_roots(self.visits[other.name], candidate=False))
        return tuple(found)

    def _best(self, execution: Execution) -> Best:
        """What an execution's own rows say that it would choose."""
        # Every comparison with the reference says the same of it; that of most windows says it of the most places.
        side, compared = "candidate_top", execution if execution.scored else None
        if execution is self.reference:
            side, compared = "reference_top", self._most_compared(execution.name)
        if compared is None:
            return lambda window, position: None
        table = self._comparison(compared)
        known = table.filter(pc.fill_null(pc.greater_equal(table[side], 0), False))
        places = zip(known["window"].to_pylist(), known["position"].to_pylist(), strict=True)
        tops = dict(zip(places, known[side].to_pylist(), strict=True))
        return lambda window, position: tops.get((window, position))

    def lanes(self, execution: Execution) -> tuple[Lane, ...]:
        """Every lane that an execution has."""
        loaded = self.loaded
        found = [lane for _, lane in self.constrained(execution)]
        if loaded.protocol.branches is not None:
            found.append(self.futures(execution))
        if self.prompts(execution):
            found.append(rollouts_lane(loaded, execution))
        found += [sampled_lane(loaded, execution, temperature) for temperature in self.temperatures(execution)]
        if self.tasks:
            found.append(tasks_lane(loaded, execution))
        return tuple(found)

    def steps(self, store: Store, execution: Execution) -> list[dict[str, Any]]:
        """What is left of every lane of an execution."""
        loaded, steps = self.loaded, []
        best = self._best(execution)
        if execution.name in self.visits:
            steps += visit_steps(loaded, store, self.futures(execution), self.visits[execution.name])
        elif loaded.protocol.branches is not None:
            steps += future_steps(loaded, store, self.futures(execution), self.wanted(execution), best)
            for _, lane in self.constrained(execution):
                steps += constrained_steps(loaded, store, lane, self.roots[execution.name].roots)
        if prompts := self.prompts(execution):
            steps += prompt_step(loaded, store, rollouts_lane(loaded, execution), prompts, [0])
        for temperature in self.temperatures(execution):
            lane = sampled_lane(loaded, execution, temperature)
            prompts, draws = self.sampled_prompts(execution), range(loaded.protocol.sampled.draws)
            steps += prompt_step(loaded, store, lane, prompts, draws)
        if self.tasks:
            steps += task_steps(loaded, store, tasks_lane(loaded, execution), self.tasks, best)
        return steps


def bounded_tasks(protocol: Protocol, count: int | None) -> tuple[Task, ...]:
    """The first tasks, one of each window, then the second of each, and so on; in the protocol's order."""
    by_window: dict[str, list[Task]] = {}
    for task in protocol.tasks:
        by_window.setdefault(task.window, []).append(task)
    spread = [task for tasks in zip_longest(*by_window.values()) for task in tasks if task is not None]
    kept = {task.name for task in spread[:count]}
    return tuple(task for task in protocol.tasks if task.name in kept)


def items_of(steps: Sequence[Mapping[str, Any]]) -> int:
    """Futures, rollouts and answers of some steps."""
    count = 0
    for step in steps:
        count += sum(max(1, len(firsts)) for _, firsts in step.get("roots", ()))
        count += sum(len(step.get(name, ())) for name in ("tasks", "prompts", "visits"))
    return count
