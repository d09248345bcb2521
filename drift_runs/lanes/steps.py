"""What is left to generate of a lane, as steps of one engine process."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from drift_runs.generate.environment import recorded_results
from drift_runs.lanes.identity import Lane
from drift_runs.protocol.generation import Task
from drift_runs.protocol.load import LoadedProtocol
from drift_runs.store import Store
from drift_runs.store.generation import FutureKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A future that is to be there: of one lane, at one place, from one token on."""

    window: str
    position: int
    first: int


def of_roots(roots: pa.Table, *, reference: bool = True, candidate: bool = True) -> tuple[Wanted, ...]:
    """The futures that a table ``ROOTS`` asks of one engine: from the reference's token, from the candidate's."""
    wanted: dict[Wanted, None] = {}
    for row in roots.select(["window", "position", "reference_top", "candidate_top"]).to_pylist():
        firsts = [row["reference_top"]] * reference + [row["candidate_top"]] * candidate
        for first in firsts:
            wanted[Wanted(window=row["window"], position=row["position"], first=first)] = None
    return tuple(wanted)


Best = Callable[[str, int], int | None]
"""What an execution would choose at a place of a window, as it was captured; None where that is not known."""


def future_steps(
    loaded: LoadedProtocol, store: Store, lane: Lane, wanted: Iterable[Wanted], best: Best
) -> list[dict[str, Any]]:
    """A step a window, in the protocol's order, without the futures that are there already."""
    missing: dict[str, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for item in wanted:
        if not store.future_file(lane.id, item.window, item.position, item.first).is_file():
            firsts = missing[item.window][item.position]
            if item.first not in firsts:
                firsts.append(item.first)
    return [
        {
            **_window_step(loaded, lane, window.name),
            "roots": [[position, firsts] for position, firsts in sorted(missing[window.name].items())],
            **_kept(store, lane, window.name, missing[window.name], best),
        }
        for window in loaded.protocol.windows
        if window.name in missing
    ]


def constrained_steps(loaded: LoadedProtocol, store: Store, lane: Lane, roots: pa.Table) -> list[dict[str, Any]]:
    """A step a window: from each root the token that the grammar lets the engine choose, and what follows it."""
    there = {(key.window, key.position) for key in store.futures_there(lane.id)} | store.without_future(lane.id).keys()
    missing: dict[str, set[int]] = defaultdict(set)
    for row in roots.select(["window", "position"]).to_pylist():
        if (row["window"], row["position"]) not in there:
            missing[row["window"]].add(row["position"])
    return [
        {
            **_window_step(loaded, lane, window.name),
            "roots": [[position, []] for position in sorted(missing[window.name])],
        }
        for window in loaded.protocol.windows
        if window.name in missing
    ]


def visit_steps(loaded: LoadedProtocol, store: Store, lane: Lane, visits: pa.Table) -> list[dict[str, Any]]:
    """A step a window: at each place what the engine writes there, if it is another token than the reference's."""
    own, refused, futures = store.own_tokens(lane.id), store.without_future(lane.id), store.futures_there(lane.id)
    missing: dict[str, dict[int, int]] = defaultdict(dict)
    for row in visits.select(["window", "position", "reference_top"]).to_pylist():
        place, top = (row["window"], row["position"]), row["reference_top"]
        # A token that was the reference's may be another than that of the reference of today.
        known = place in own and (own[place] == top or FutureKey(*place, own[place]) in futures)
        if place not in refused and not known:
            missing[row["window"]][row["position"]] = top
    return [
        {
            **_window_step(loaded, lane, window.name),
            "visits": [[position, token] for position, token in sorted(missing[window.name].items())],
        }
        for window in loaded.protocol.windows
        if window.name in missing
    ]


def task_steps(
    loaded: LoadedProtocol, store: Store, lane: Lane, tasks: Sequence[Task], best: Best
) -> list[dict[str, Any]]:
    """A step a window, in the protocol's order, without the answers that are there already."""
    missing: dict[str, list[Task]] = defaultdict(list)
    refused = store.refused_tasks(lane.id)
    for task in tasks:
        if task.name not in refused and not store.answer_file(lane.id, task.name).is_file():
            missing[task.window].append(task)
    return [
        {
            **_window_step(loaded, lane, window.name),
            "tasks": [[task.at, task.name, task.horizon_tokens] for task in missing[window.name]],
            **_kept(store, lane, window.name, {task.at for task in missing[window.name]}, best),
        }
        for window in loaded.protocol.windows
        if window.name in missing
    ]


def prompt_step(
    loaded: LoadedProtocol, store: Store, lane: Lane, prompts: Sequence[str], runs: Sequence[int]
) -> list[dict[str, Any]]:
    """One step with every prompt that a run lacks."""
    left = []
    for number in runs:
        done = store.rolled_prompts(lane.id, number) | store.refused_prompts(lane.id, number).keys()
        left += [[number, name, list(loaded.prompt_ids.ids[name])] for name in prompts if name not in done]
    return [{"lane": lane.kind, "generation": lane.id, "rule": dict(lane.rule), "prompts": left}] if left else []


def _kept(store: Store, lane: Lane, window: str, positions: Iterable[int], best: Best) -> dict[str, Any]:
    """Where the window's state would lie, and what its rows said at the roots: with both nothing is evaluated again."""
    said = {position: best(window, position) for position in positions}
    if any(token is None for token in said.values()):
        return {}
    return {
        "state": str(store.state_file(lane.execution.capture_id, window)),
        "best": [[position, token] for position, token in said.items()],
    }


def _window_step(loaded: LoadedProtocol, lane: Lane, name: str) -> dict[str, Any]:
    window = loaded.protocol.window(name)
    stream = loaded.streams[name]
    environment = next((found for found in loaded.protocol.environments if name in found.windows), None)
    results = []
    if environment is not None and environment.recorded and loaded.protocol.chat is not None:
        results = [
            found.model_dump(mode="json")
            for found in recorded_results(stream.text, lane.rule["syntax"], loaded.protocol.chat, tools=stream.tools)
        ]
    return {
        "lane": lane.kind,
        "generation": lane.id,
        "rule": dict(lane.rule),
        "grammar": lane.grammar,
        "window": name,
        "tokens": list(loaded.tokens(name))[: window.scored[-1][1]],
        "held": window.scored[-1][1] - 1,
        "tools": list(stream.tools),
        "environment": environment.model_dump(mode="json") if environment is not None else None,
        "recorded": results,
    }
