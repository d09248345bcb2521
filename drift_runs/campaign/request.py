"""What a campaign is asked to do, what it tells while it works, and what becomes of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol as Interface

import pyarrow as pa

from drift_runs import schema
from drift_runs.capture.execution import Captured, Execution
from drift_runs.capture.group import DEFAULT_SPILL_BYTES, DEFAULT_STATE_BYTES
from drift_runs.capture.planning import LeftOut
from drift_runs.capture.process import WindowDone
from drift_runs.errors import DriftError
from drift_runs.lanes.bounds import WHOLE, Bounds
from drift_runs.lanes.plan import Explored
from drift_runs.lanes.process import Generated
from drift_runs.machine import Machine
from drift_runs.measure.determinism import DeterminismSummary
from drift_runs.protocol.load import LoadedProtocol
from drift_runs.protocol.model import Arm
from drift_runs.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a campaign is asked to do."""

    loaded: LoadedProtocol
    machine: Machine
    store: Store
    tracking_uri: str
    follow_ups: tuple[Arm, ...] = ()
    reference_run: str = ""
    """Campaign of another machine whose reference is compared with, by its run id; empty: it is run here."""
    reference_uri: str = ""
    """Tracking store of that campaign; empty: this one's own."""
    only: tuple[str, ...] = ()
    """Names of candidates and follow-ups to take; empty means all."""
    spill_bytes: int = DEFAULT_SPILL_BYTES
    state_bytes: int = DEFAULT_STATE_BYTES
    """Room on disk for what engines' memories held behind their windows, until generation has read it."""
    bounds: Bounds = WHOLE
    ask_again: bool = False
    """Ask servers of texts again what they could not be asked before."""
    """How much of the protocol's generation is run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of one execution."""

    execution: Execution
    figures: pa.Table | None
    """Schema ``FIGURES``; None for the reference and for an arm that failed."""
    determinism: DeterminismSummary | None
    run_id: str
    error: DriftError | None
    warnings: tuple[str, ...] = ()
    listed: pa.Table | None = None
    """Schema ``LISTED``; None where there are no figures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationReport:
    """What one execution wrote freely, judged."""

    execution: Captured
    outcomes: pa.Table = field(default_factory=schema.OUTCOMES.empty_table)
    """Schema ``OUTCOMES``, constrained decodes of the arm included; no row for the reference."""
    tasks: pa.Table = field(default_factory=schema.TASKS.empty_table)
    """Schema ``TASKS``."""
    figures: pa.Table = field(default_factory=schema.FIGURES.empty_table)
    """Schema ``FIGURES``."""
    explored: Explored | None = None
    """Its roots; None for the reference, and where none are followed."""
    tables: Mapping[str, pa.Table] = field(default_factory=dict)
    """All that is logged of it: artifact to table."""
    retries: Mapping[str, int] = field(default_factory=dict)
    """Lane of a server to the requests of it that were sent again: each answer is one request's all the same."""
    error: DriftError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Where the time went, in seconds."""

    engine_s: float = 0.0
    """Inside the engines."""
    own_s: float = 0.0
    """Analysis and writing beside the engines."""
    open_s: float = 0.0
    """Opening engines."""
    tokens: int = 0
    positions: int = 0
    peak_bytes: int = 0
    """Largest resident size of an engine's process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A whole campaign."""

    run_id: str
    outcomes: tuple[Outcome, ...]
    timing: Timing
    already_complete: bool
    agreement: pa.Table
    """Schema ``AGREEMENT``: whether the figures put the arms in the same order."""
    generation: tuple[GenerationReport, ...] = ()
    """One an execution, the reference's first; empty where the protocol generates nothing."""
    generation_timing: Timing = field(default_factory=Timing)
    task_order: pa.Table = field(default_factory=schema.TASK_ORDER.empty_table)
    """Schema ``TASK_ORDER``: whether what drifts more fails more."""

    left_out: tuple[LeftOut, ...] = ()
    """Arms whose engine or server refused before any work, and why."""

    @property
    def failed(self) -> tuple[Outcome, ...]:
        return tuple(outcome for outcome in self.outcomes if outcome.error is not None)

    @property
    def failed_generation(self) -> tuple[GenerationReport, ...]:
        return tuple(report for report in self.generation if report.error is not None)


class Reporter(Interface):
    """Who is told how it goes."""

    def planned(self, executions: Sequence[Execution], tokens_left: int) -> None: ...

    def opening(self, execution: Execution) -> None: ...

    def window(self, done: WindowDone) -> None: ...

    def outcome(self, outcome: Outcome) -> None: ...

    def generating(self, items: int, bounds: Sequence[str]) -> None:
        """How many futures, rollouts and answers are left to write, and what of the protocol is bounded."""
        ...

    def written(self, event: Generated) -> None: ...

    def generated(self, report: GenerationReport) -> None: ...

    def note(self, text: str) -> None: ...


@dataclass(slots=True)
class Clock:
    """Sums of what the events say."""

    timing: dict[str, float] = field(default_factory=dict)

    def add(self, **values: float) -> None:
        for name, value in values.items():
            self.timing[name] = self.timing.get(name, 0) + value

    def peak(self, value: int) -> None:
        self.timing["peak_bytes"] = max(self.timing.get("peak_bytes", 0), value)

    def read(self) -> Timing:
        values = {
            name: int(v) if name in ("tokens", "positions", "peak_bytes") else v for name, v in self.timing.items()
        }
        return Timing(**values)
