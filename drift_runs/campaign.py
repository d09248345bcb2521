"""One execution of a protocol: load, capture, measure, track. The one place that knows all of them.

Order of work: the reference, its floors, then candidates and follow-ups, so that every row of the table has its floor
beside it from the start. What a killed run left is found on disk and not taken again.
"""

from __future__ import annotations

import contextlib
import json
import platform
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol as Interface

import pyarrow as pa

from drift_runs import __version__
from drift_runs.capture.execution import Execution, plan_executions
from drift_runs.capture.group import DEFAULT_SPILL_BYTES, Launch, evaluated_tokens, forget, groups, pending
from drift_runs.capture.process import Event, Finished, Opened, ReferenceChanged, WindowDone, run_launch
from drift_runs.engines.base import EngineIdentity
from drift_runs.errors import ConfigError, DriftError, EngineError, SameRows, StoreError
from drift_runs.machine import Machine
from drift_runs.measure.comparability import key_of
from drift_runs.measure.determinism import DeterminismSummary, determinism_table, summarise_determinism
from drift_runs.measure.summary import summarise
from drift_runs.protocol.canonical import canonical_json
from drift_runs.protocol.load import LoadedProtocol
from drift_runs.protocol.lock import lock_path
from drift_runs.protocol.model import Arm
from drift_runs.store import PlannedCapture, Store, content_id, write_plan
from drift_runs.tracking.tags import CampaignFacts, ComparisonFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a campaign is asked to do."""

    loaded: LoadedProtocol
    machine: Machine
    store: Store
    tracking_uri: str
    follow_ups: tuple[Arm, ...] = ()
    only: tuple[str, ...] = ()
    """Names of candidates and follow-ups to take; empty means all."""
    spill_bytes: int = DEFAULT_SPILL_BYTES


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

    @property
    def failed(self) -> tuple[Outcome, ...]:
        return tuple(outcome for outcome in self.outcomes if outcome.error is not None)


class Reporter(Interface):
    """Who is told how it goes."""

    def planned(self, executions: Sequence[Execution], tokens_left: int) -> None: ...

    def opening(self, execution: Execution) -> None: ...

    def window(self, done: WindowDone) -> None: ...

    def outcome(self, outcome: Outcome) -> None: ...

    def note(self, text: str) -> None: ...


@dataclass(slots=True)
class _Clock:
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


def campaign_key(executions: Sequence[Execution]) -> str:
    """Identity of a campaign: everything that the protocol makes it execute. Follow-ups join it without changing it."""
    return content_id(sorted(execution.capture_id for execution in executions if execution.kind != "follow-up"))


def run_campaign(request: Request, engine: EngineIdentity, reporter: Reporter) -> Result:
    """Execute a protocol, or go on with it.

    A failed candidate does not end the campaign: it is reported, and the others go on. A failed reference does.

    Raises
    ------
    DriftError
        anything that makes the campaign as a whole impossible.
    """
    store, loaded = request.store, request.loaded
    store.open(create=True)
    with store.locked():
        executions = plan_executions(
            loaded,
            request.machine,
            engine,
            follow_ups=request.follow_ups,
            only=request.only,
        )
        return _Campaign(request, engine, executions, reporter).run()


class _Campaign:
    def __init__(
        self, request: Request, engine: EngineIdentity, executions: tuple[Execution, ...], reporter: Reporter
    ) -> None:
        from drift_runs.tracking.mlflow_store import Tracker

        self.request = request
        self.store = request.store
        self.loaded = request.loaded
        self.engine = engine
        self.executions = executions
        self.reference = executions[0]
        self.reporter = reporter
        self.clock = _Clock()
        self.outcomes: dict[str, Outcome] = {}
        self.floors: dict[str, pa.Table] = {}
        self.tracker = Tracker(request.tracking_uri)
        self.run_id = ""

    def run(self) -> Result:
        facts = self._facts()
        found = self.tracker.find_campaign(facts.protocol_name, facts.protocol_sha256, facts.campaign_key)
        self.run_id = found.run_id if found is not None and found.complete else self._start(facts)
        complete_before = found is not None and found.complete
        self._write_plan()
        parts = groups(self.loaded, self.request.spill_bytes)
        left = sum(self._tokens(pending(self.store, self.executions, group)) for group in parts)
        again = [name for group in parts for name in self._taken_again(group)]
        self.reporter.planned(self.executions, left)
        if again:
            self.reporter.note(
                f"{len(again)} windows of the reference are evaluated again: its full rows are never kept, and what is "
                "left must be compared with them"
            )
        try:
            self._check_room(parts)
            for number, group in enumerate(parts):
                self._take(group, last=number == len(parts) - 1)
            self._measure_rest()
        except (DriftError, KeyboardInterrupt) as error:
            if not complete_before:
                # The first error is the cause: on a full disk this fails too. An unmarked run is found as dead later.
                with contextlib.suppress(DriftError):
                    self.tracker.fail(self.run_id, str(error) or "interrupted")
            raise
        outcomes = tuple(
            self.outcomes[execution.name] for execution in self.executions if execution.name in self.outcomes
        )
        whole = not self.request.only and all(outcome.error is None for outcome in outcomes)
        if whole and not complete_before:
            self.tracker.complete(self.run_id)
        elif not complete_before:
            failed = [outcome.execution.name for outcome in outcomes if outcome.error is not None]
            reason = f"only {', '.join(self.request.only)} were asked for"
            if failed:
                reason = f"failed arms: {', '.join(failed)}"
            self.tracker.fail(self.run_id, reason)
            if not failed:
                self.reporter.note(f"the campaign stays incomplete: {reason}")
        return Result(
            run_id=self.run_id,
            outcomes=outcomes,
            timing=self.clock.read(),
            already_complete=complete_before and left == 0,
        )

    def _facts(self) -> CampaignFacts:
        protocol = self.loaded.protocol
        return CampaignFacts(
            protocol_name=protocol.name,
            protocol_version=protocol.version,
            protocol_sha256=self.loaded.protocol_sha256,
            draft=self.loaded.draft,
            title=protocol.title,
            question=protocol.question,
            notes=protocol.notes,
            outliers=tuple((outlier.window, outlier.reason) for outlier in protocol.outliers),
            reference=self.reference.name,
            reference_capture_id=self.reference.capture_id,
            campaign_key=campaign_key(self.executions),
            tool_version=__version__,
            host={
                "hardware": self.engine.hardware,
                "engine": self.engine.build,
                "python": platform.python_version(),
                "system": platform.platform(),
            },
        )

    def _start(self, facts: CampaignFacts) -> str:
        lock = lock_path(self.loaded.path)
        return self.tracker.start_campaign(
            facts,
            protocol_text=self.loaded.path.read_text(encoding="utf-8"),
            protocol_json=canonical_json(self.loaded.protocol.model_dump(mode="json", by_alias=True)).decode(),
            lock_text=lock.read_text(encoding="utf-8") if lock.is_file() else None,
        ).run_id

    def _write_plan(self) -> None:
        """Which capture is which arm: what ``drift measure`` starts from, with no model at hand."""
        entries = tuple(
            PlannedCapture(
                name=execution.name,
                kind=execution.kind,
                capture=execution.capture_id,
                comparison="" if execution is self.reference else execution.compared_with(self.reference),
                windows=execution.windows,
            )
            for execution in self.executions
        )
        write_plan(
            self.store, self.loaded.protocol_sha256, campaign_key(self.executions), run_id=self.run_id, captures=entries
        )

    def _taken_again(self, group: Sequence[str]) -> list[str]:
        """Windows of the reference that are whole on disk and needed once more."""
        return [
            step.window
            for launch in pending(self.store, self.executions, group)
            for step in launch.steps
            if step.spill and self.store.rows_file(self.reference.capture_id, step.window).is_file()
        ]

    def _tokens(self, launches: Sequence[Launch]) -> int:
        return sum(evaluated_tokens(self.loaded, step.window) for launch in launches for step in launch.steps)

    def _check_room(self, parts: Sequence[Sequence[str]]) -> None:
        from drift_runs.capture.group import full_row_bytes, scored_count

        def spilled(group: Sequence[str]) -> int:
            needed = {
                step.window
                for launch in pending(self.store, self.executions, group)
                for step in launch.steps
                if step.spill
            }
            return sum(scored_count(self.loaded, name) for name in needed) * full_row_bytes(self.loaded)

        need = max((spilled(group) for group in parts), default=0)
        free = shutil.disk_usage(self.store.root).free
        if need > free:
            raise StoreError(
                f"{free / 1e9:.1f} GB free",
                where=str(self.store.root),
                expected=f"{need / 1e9:.1f} GB for the reference's full rows of one group",
                todo="free some space, name another folder with --store, or lower --spill-gb",
            )

    def _take(self, group: Sequence[str], *, last: bool) -> None:
        """Every execution of one group; a group whose reference changed starts again, once."""
        for attempt in (1, 2):
            if self._take_once(group, last=last):
                break
            self._forget(group)
            if attempt == 2:
                raise EngineError(
                    "rows taken twice differ",
                    where=f"reference {self.reference.name}",
                    expected="the same rows after an interruption",
                    todo="run without interruption, or use an engine that is deterministic",
                )
            self.reporter.note(
                "the reference's rows differ from those kept before the interruption: this group starts again"
            )
        shutil.rmtree(self.store.spill_folder, ignore_errors=True)

    def _forget(self, group: Sequence[str]) -> None:
        """Remove a group's rows, and before that the figures that were logged from them."""
        for execution in self.executions[1:]:
            if not set(group).isdisjoint(execution.windows):
                self.tracker.withdraw_comparison(self.run_id, execution.compared_with(self.reference))
        forget(self.store, self.executions, group)

    def _take_once(self, group: Sequence[str], *, last: bool) -> bool:
        for execution in self.executions:
            self.store.write_identity(
                self.store.capture_folder(execution.capture_id), "capture.json", dict(execution.identity)
            )
        for launch in pending(self.store, self.executions, group):
            if launch.execution.name in self.outcomes:
                continue  # it failed in an earlier group
            self.reporter.opening(launch.execution)
            try:
                # Closed at once when left: until then its process goes on writing.
                with contextlib.closing(run_launch(self.store, self.loaded, self.reference, launch.steps)) as events:
                    if not self._follow(events):
                        return False
            except (EngineError, ConfigError) as error:  # an engine refuses a setting with a ConfigError
                if launch.execution is self.reference:
                    raise
                self._finish(launch.execution, error=error)
                continue
            if last:
                self._measure_rest(up_to=launch.execution)
        return True

    def _follow(self, events: Iterator[Event]) -> bool:
        """Hand on what a launch says; False when the reference's rows changed."""
        for event in events:
            match event:
                case Opened():
                    self.clock.add(open_s=event.seconds)
                case WindowDone():
                    self.clock.add(
                        engine_s=event.engine_s, own_s=event.own_s, tokens=event.tokens, positions=event.positions
                    )
                    self.reporter.window(event)
                    self.tracker.beat(self.run_id)
                case ReferenceChanged():
                    return False
                case Finished():
                    self.clock.peak(event.peak_bytes)
        return True

    def _measure_rest(self, up_to: Execution | None = None) -> None:
        """Measure what is whole and not measured yet, in order."""
        for execution in self.executions:
            if execution.name not in self.outcomes and execution.kind != "reference":
                try:
                    self._finish(execution)
                except SameRows as error:
                    self._finish(execution, error=error)
            if execution is up_to:
                return

    def _comparison(self, execution: Execution) -> pa.Table:
        return self.store.read_comparison(execution.compared_with(self.reference), execution.windows)

    def _finish(self, execution: Execution, error: DriftError | None = None) -> None:
        from drift_runs.tracking.mlflow_store import load_figures

        facts = self._comparison_facts(execution)
        started = self.tracker.start_comparison(self.run_id, facts)
        figures = determinism = None
        warnings: tuple[str, ...] = ()
        if error is not None:
            self.tracker.fail(started.run_id, str(error))
        else:
            comparison = self._comparison(execution)
            table = determinism_table(comparison, arm=execution.name, against=self.reference.name)
            determinism = summarise_determinism(table)
            check_switch(execution, determinism)
            warnings = refuted(execution, determinism) + self._several_processes(execution)
            if execution.kind == "floor":
                self.floors[execution.name] = comparison
            if started.complete:
                figures = load_figures(self.tracker.uri, started.run_id)
            else:
                floors = self.floors if execution.kind != "floor" else {}
                figures = summarise(comparison, self.loaded.protocol, arm=execution.name, floors=floors)
                comparison_id = execution.compared_with(self.reference)
                self.store.write_identity(
                    self.store.comparison_folder(comparison_id),
                    "comparison.json",
                    {"reference": self.reference.capture_id, "candidate": execution.capture_id},
                )
                rows = {name: self.store.comparison_file(comparison_id, name) for name in execution.windows}
                self.tracker.log_figures(started.run_id, figures, rows, table)
                self.tracker.complete(started.run_id)
        outcome = Outcome(
            execution=execution,
            figures=figures,
            determinism=determinism,
            run_id=started.run_id,
            error=error,
            warnings=warnings,
        )
        self.outcomes[execution.name] = outcome
        self.reporter.outcome(outcome)

    def _several_processes(self, execution: Execution) -> tuple[str, ...]:
        """One sentence when an interruption made a launch of several processes: it is no single launch then."""
        known = self.store.processes(execution.capture_id)
        count = len({known[name] for name in execution.windows if name in known})
        return (f"launch {execution.name} is made of {count} processes",) if count > 1 else ()

    def _comparison_facts(self, execution: Execution) -> ComparisonFacts:
        arm = execution.arm
        changed = {
            name: value
            for name, value in sorted(_as_settings(execution).items())
            if value != _as_settings(self.reference)[name]
        }
        return ComparisonFacts(
            comparison_id=execution.compared_with(self.reference),
            arm=execution.name,
            title=execution.title,
            role=execution.kind,
            derivative=arm.derivative,
            weights=arm.weights,
            weights_observed=execution.weights.label,
            kv=arm.kv,
            hardware=self.engine.hardware,
            engine=f"{self.engine.engine} ({self.engine.build})",
            settings=json.dumps(changed, sort_keys=True) if changed else "",
            capture_id=execution.capture_id,
            weight_bytes=execution.weights.size_bytes,
            weights_sha256=execution.weights.sha256,
            # Figures that were made while a floor had failed stand beside other floors: they are made again.
            comparability={**self._key(), "floors": "" if execution.kind == "floor" else ",".join(sorted(self.floors))},
            floor_kind=execution.floor.kind if execution.floor else "",
            rows_expected=execution.floor.rows if execution.floor else "",
        )

    def _key(self) -> Mapping[str, str]:
        return key_of(
            self.loaded.protocol,
            protocol_sha256=self.loaded.protocol_sha256,
            reference_capture_id=self.reference.capture_id,
        ).as_tags()


def _as_settings(execution: Execution) -> dict[str, object]:
    settings = execution.settings
    return {
        "batch": settings.batch,
        "flash_attention": settings.flash_attention,
        "micro_batch": settings.micro_batch,
        "path_shape": settings.path_shape,
        "threads": settings.threads,
    }


def check_switch(execution: Execution, found: DeterminismSummary) -> None:
    """``SameRows`` when an execution that the protocol says differs gave the reference's bytes."""
    must_differ = execution.kind != "floor" or (execution.floor is not None and execution.floor.rows == "differ")
    if must_differ and found.identical:
        raise SameRows(
            f"all {found.rows} rows are byte-identical to the reference's",
            where=f"arm {execution.name}",
            expected="other rows: the protocol says that this arm differs",
            todo="check the weight file and settings in drift.toml: the switch did nothing",
        )


def refuted(execution: Execution, found: DeterminismSummary) -> tuple[str, ...]:
    """One sentence when rows that had to be identical are not."""
    if execution.floor is None or execution.floor.rows != "identical" or found.identical:
        return ()
    where = f", first at {found.first_difference[0]}:{found.first_difference[1]}" if found.first_difference else ""
    return (
        f"determinism refuted by {execution.name}: "
        f"{found.rows - found.rows_identical} of {found.rows} rows differ{where}",
    )
