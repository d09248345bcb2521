"""A window's step of a server that takes texts: it is asked for all that is wanted at once, place by place.

What it wrote need not become the same tokens again when it is sent back, so nothing that it was not given is sent.
What it cannot be asked (a history that is no text or no whole turns, or that it reads as other tokens) is kept with its
reason.
"""

from __future__ import annotations

import time
from typing import ClassVar

from drift_runs.errors import CannotAsk
from drift_runs.generate.futures import futures_table
from drift_runs.lanes.window_step import WindowStep


class TextStep(WindowStep):
    """Visits of places, and tasks."""

    fewest_tokens: ClassVar[int] = 1
    """Of a first look at a place: most of the time it is the reference's token, and nothing more is wanted."""

    def take(self) -> None:
        started = time.perf_counter()
        self.bench.engine.take(self.step["tokens"][: self.step["held"]])
        for position, reference_top in self.step.get("visits", ()):
            try:
                self._visit(position, reference_top)
            except CannotAsk as refused:
                self._keep_none(position, refused.line())
            started = self._tell(started)
        for position, name, horizon in self.step.get("tasks", ()):
            try:
                best = self._written(position, horizon + 1)
                answer = self._follow(self._scene(position), best, best, horizon=horizon)
                self.bench.store.write_answer(self.step["generation"], name, futures_table([answer]))
            except CannotAsk as refused:
                self.bench.store.refuse_task(self.step["generation"], name, refused.line())
            started = self._tell(started)

    def _visit(self, position: int, reference_top: int) -> None:
        """What the arm writes at a place, and what follows where that is not the reference's token."""
        own = self._written(position, self.fewest_tokens)
        if own != reference_top:
            # A server that does not repeat itself may write another token now: this one has the future.
            own = self._written(position, self.step["rule"]["horizon_tokens"] + 1)
            self._keep_future(self._follow(self._scene(position), own, own))
        self.bench.store.write_own(self.step["generation"], self.step["window"], position, own)

    def _written(self, position: int, ahead_tokens: int) -> int:
        """The token that it writes at a place, by a request for so many."""
        engine = self.bench.engine
        engine.ahead_tokens = ahead_tokens
        self.evaluated += position
        return self._best(engine.ask(position))
