"""What one window's step of a worker does: its stream is held, and what is missing is written."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import numpy as np
from numpy.typing import NDArray

from drift_runs.capture.serving import send
from drift_runs.engines.base import TakesState
from drift_runs.engines.grammar import Grammar, Grammars
from drift_runs.engines.listed_branches import ListedBranches
from drift_runs.errors import NotAllowed
from drift_runs.generate.future import Future, Scene
from drift_runs.generate.futures import Rule, follow, futures_table
from drift_runs.generate.listed import Listed, best_of
from drift_runs.lanes.identity import FUTURES
from drift_runs.lanes.scenes import scene_of
from drift_runs.protocol.generation import Chat, Environment, ScriptedResult
from drift_runs.store import Store


class Bench(NamedTuple):
    """What every step of a worker works with."""

    engine: Any
    """A ``Branching`` engine that starts and appends."""
    store: Store
    dictionary: Sequence[bytes]
    ends: tuple[int, ...]
    """Ids of the protocol's ends of a turn, in its order."""
    events: TextIO


class WindowStep:
    """A window's stream is held, and every branch of it that is missing is taken."""

    def __init__(self, bench: Bench, step: dict[str, Any]) -> None:
        self.bench = bench
        self.step = step
        rule = step["rule"]
        self.chat = Chat(**rule["chat"]) if rule["chat"] else None
        self.ends = frozenset(bench.ends)
        self.environment = Environment(**step["environment"]) if step["environment"] else None
        self.recorded = tuple(ScriptedResult(**found) for found in step["recorded"])
        self.grammars: Grammars | None = None
        self.evaluated = 0

    def take(self) -> None:
        branches = self.step["roots"] if self.step["lane"] == FUTURES else self.step["tasks"]
        positions = sorted({branch[0] for branch in branches})
        started = time.perf_counter()
        # All of it, whatever is missing: which roots are explored must not change what is computed.
        held = self.step["tokens"][: self.step["held"]]
        engine = self.bench.engine
        if self._taken_up(held):
            best = dict(self.step["best"])
        else:
            logits = engine.hold(held, [position - 1 for position in positions])
            best = {at: self._best(row) for at, row in zip(positions, logits, strict=True)}
            self.evaluated = len(held)
        for branch in branches:
            if self.step["grammar"]:
                position, _ = branch
                self._constrained(position, logits[positions.index(position)], best[position])
                started = self._tell(started)
            elif self.step["lane"] == FUTURES:
                position, firsts = branch
                for first in firsts:
                    self._keep_future(self._follow(self._scene(position), first, best[position]))
                    started = self._tell(started)
            else:
                position, name, horizon = branch
                answer = self._follow(self._scene(position), best[position], best[position], horizon=horizon)
                self.bench.store.write_answer(self.step["generation"], name, futures_table([answer]))
                started = self._tell(started)

    def _taken_up(self, held: Sequence[int]) -> bool:
        """Whether the engine holds the text without evaluating it again, and what it chose there is known."""
        if "best" not in self.step:
            return False
        engine = self.bench.engine
        if isinstance(engine, ListedBranches):
            engine.take(held)
            return True
        return isinstance(engine, TakesState) and engine.take_state(held, Path(self.step["state"]))

    def _best(self, row: NDArray[np.float32] | Listed) -> int:
        return best_of(row, len(self.bench.dictionary))

    def _scene(self, position: int) -> Scene:
        rule = self.step["rule"]
        return scene_of(
            self.step["tokens"],
            position,
            dictionary=self.bench.dictionary,
            chat=self.chat,
            ends=self.ends,
            tools=self.step["tools"],
            syntax=rule["syntax"],
            sql_dialect=rule.get("sql_dialect", "sqlite"),
        )

    def _constrained(self, position: int, logits: NDArray[np.float32], best: int) -> None:
        """From a root under a grammar: the best token that it allows, and what follows. None where it allows none."""
        scene = self._scene(position)
        try:
            grammar = self._grammar(scene)
        except NotAllowed as refused:  # the stream itself is outside the grammar here
            self._keep_none(position, refused.what)
            return
        masked = grammar.mask(logits)
        first = int(np.argmax(masked[: len(self.bench.dictionary)]))
        if np.isfinite(masked[first]):
            self._keep_future(self._follow(scene, first, best, grammar=grammar))
        else:
            self._keep_none(position, "the grammar allows no token")

    def _grammar(self, scene: Scene) -> Grammar:
        if self.grammars is None:
            self.grammars = Grammars(self.bench.dictionary, self.ends)
        if self.step["grammar"] == "json":
            return self.grammars.json(written=scene.turn)
        return self.grammars.tools(scene.tools, syntax=scene.syntax, written=scene.turn)

    def _follow(
        self, scene: Scene, first: int, best: int, *, horizon: int | None = None, grammar: Grammar | None = None
    ) -> Future:
        rule = self.step["rule"]
        future = follow(
            self.bench.engine,
            scene,
            first,
            Rule(
                horizon_tokens=horizon or rule["horizon_tokens"],
                stops=rule["stops"],
                turns=rule.get("turns", 1),
                tool_turn=self.chat.tool_turn if self.chat is not None else "",
            ),
            window=self.step["window"],
            position=len(scene.history),
            best=best,
            grammar=grammar,
            environment=self.environment,
            recorded=self.recorded,
        )
        self.evaluated += len(future.tokens)
        return future

    def _keep_none(self, position: int, reason: str) -> None:
        self.bench.store.write_no_future(self.step["generation"], self.step["window"], position, reason)

    def _keep_future(self, future: Future) -> None:
        self.bench.store.write_future(self.step["generation"], futures_table([future]))

    def _tell(self, started: float) -> float:
        now = time.perf_counter()
        send(
            self.bench.events,
            event="generated",
            lane=self.step["lane"],
            items=1,
            tokens=self.evaluated,
            seconds=now - started,
        )
        self.evaluated = 0
        return now
