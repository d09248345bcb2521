"""Progress of a campaign on stderr: arm, window, tokens a second, time left. Quiet when stderr is no terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence

from drift_runs.campaign import GenerationReport, Outcome
from drift_runs.capture.execution import Execution
from drift_runs.capture.process import WindowDone
from drift_runs.lanes.process import Generated


def duration(seconds: float) -> str:
    """``45 s``, ``3 min 05 s``, ``2 h 10 min``."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


class ProgressLine:
    """One line that is rewritten in place."""

    def __init__(self) -> None:
        self._shown = sys.stderr.isatty()
        self._width = 0

    def show(self, text: str) -> None:
        if self._shown:
            print(f"\r{text:<{self._width}}", end="", file=sys.stderr, flush=True)
            self._width = len(text)

    def clear(self) -> None:
        if self._shown and self._width:
            print("\r" + " " * self._width + "\r", end="", file=sys.stderr, flush=True)
            self._width = 0


class CampaignProgress:
    """A campaign's reporter for a terminal. ``on_outcome`` prints the table's rows."""

    def __init__(self, on_outcome: Callable[[Outcome], None]) -> None:
        self._on_outcome = on_outcome
        self._line = ProgressLine()
        self._left = 0
        self._all = 0
        self._tokens = 0
        self._busy_s = 0.0
        self._current = ""
        self._started = time.monotonic()

    def planned(self, executions: Sequence[Execution], tokens_left: int) -> None:
        self._left = self._all = tokens_left
        names = ", ".join(execution.name for execution in executions)
        if tokens_left:
            self.note(f"{len(executions)} executions ({names}): {tokens_left:,} tokens to evaluate")
        else:
            self.note(f"{len(executions)} executions ({names}): all rows are there already")

    def opening(self, execution: Execution) -> None:
        self._current = execution.name
        self._line.show(f"{execution.name}: opening {execution.opened_from}")

    def window(self, done: WindowDone) -> None:
        self._tokens += done.tokens
        self._busy_s += done.engine_s + done.own_s
        self._left -= done.tokens
        rate = self._tokens / self._busy_s if self._busy_s else 0.0
        left = f"{duration(self._left / rate)} left" if rate else ""
        part = (self._all - self._left) / self._all if self._all else 1.0
        positions = done.positions / (done.engine_s + done.own_s)
        self._line.show(
            f"{part:4.0%}  {done.execution}: {done.window}  {positions:.0f} positions/s  {rate:.0f} tokens/s  {left}"
        )

    def outcome(self, outcome: Outcome) -> None:
        self._line.clear()
        self._on_outcome(outcome)
        for warning in outcome.warnings:
            self.note(f"warning: {warning}")

    def generating(self, items: int, bounds: Sequence[str]) -> None:
        self._left = self._all = items
        self._busy_s = 0.0
        what = f"{items:,} futures, rollouts and answers to write" if items else "all that is written is there already"
        self.note(f"free generation: {what}" + (f"; bounded to {', '.join(bounds)}" if bounds else ""))

    def written(self, event: Generated) -> None:
        self._left -= event.items
        self._busy_s += event.seconds
        done = self._all - self._left
        rate = done / self._busy_s if self._busy_s else 0.0
        left = f"{duration(self._left / rate)} left" if rate else ""
        part = done / self._all if self._all else 1.0
        self._line.show(
            f"{part:4.0%}  {event.execution}: {event.lane}  {done:,} of {self._all:,}  {rate:.1f}/s  {left}"
        )

    def generated(self, report: GenerationReport) -> None:
        self._line.clear()
        if report.error is not None:
            self.note(f"warning: no generation of {report.execution.name}: {report.error.line()}")
        if again := sum(report.retries.values()):
            self.note(f"warning: {again} requests of {report.execution.name} were sent again while it wrote")

    def note(self, text: str) -> None:
        self._line.clear()
        print(text, file=sys.stderr, flush=True)

    def close(self) -> None:
        self._line.clear()
