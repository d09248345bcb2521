"""One execution of a protocol: load, capture, measure, track. The one place that knows all of them.

Order of work: the reference, its floors, then candidates and follow-ups, so that every row of the table has its floor
beside it from the start. What a killed run left is found on disk and not taken again.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator, Sequence

from drift_runs.campaign.generation import Generation
from drift_runs.campaign.judging import generates
from drift_runs.campaign.logbook import Logbook
from drift_runs.campaign.request import Clock, Reporter, Request, Result
from drift_runs.campaign.travelled import reference_files, take_reference, take_writing
from drift_runs.capture.execution import Execution
from drift_runs.capture.group import Launch, evaluated_tokens, forget, full_row_bytes, groups, pending, scored_count
from drift_runs.capture.planning import LeftOut, plan_executions
from drift_runs.capture.process import (
    Event,
    Finished,
    Opened,
    Probed,
    ReferenceChanged,
    WindowDone,
    run_launch,
)
from drift_runs.engines.base import EngineIdentity
from drift_runs.errors import ConfigError, DriftError, EngineError, NotComparable, SameRows, StoreError
from drift_runs.lanes.arrived import Arrived


def run_campaign(request: Request, engine: EngineIdentity | None, reporter: Reporter) -> Result:
    """Execute a protocol, or go on with it. ``engine``: identity of ``llama_cpp`` where it is known already.

    A failed candidate does not end the campaign: it is reported, and the others go on. A failed reference does.

    Raises
    ------
    DriftError
        anything that makes the campaign as a whole impossible.
    """
    store, loaded = request.store, request.loaded
    store.open(create=True)
    with store.locked():
        reference = None
        if request.reference_run:
            uri = request.reference_uri or request.tracking_uri
            reference = take_reference(store, loaded, uri, request.reference_run)
        left_out: list[LeftOut] = []
        executions = plan_executions(
            loaded,
            request.machine,
            engine,
            reference=reference,
            follow_ups=request.follow_ups,
            only=request.only,
            store=store,
            left_out=left_out,
        )
        for arm, why in left_out:
            reporter.note(f"arm {arm} is left out: {why.line()}")
        try:
            return _Campaign(request, executions, reporter, tuple(left_out)).run()
        finally:
            store.drop_states()


class _Campaign:
    def __init__(
        self, request: Request, executions: tuple[Execution, ...], reporter: Reporter, left_out: tuple[LeftOut, ...]
    ) -> None:
        self.request = request
        self.store = request.store
        self.loaded = request.loaded
        self.executions = executions
        self.reference = executions[0]
        self.reporter = reporter
        self.left_out = left_out
        self.clock = Clock()
        self.log = Logbook(request, executions)

    def run(self) -> Result:
        log = self.log
        log.write_plan()
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
            self._log_reference()
            if self.reference.stored and generates(self.loaded.protocol):
                uri = self.request.reference_uri or self.request.tracking_uri
                take_writing(self.store, self.loaded, uri, self.reference, self.request.bounds)
            generation = Generation(self.request, self.executions, log, self.reporter)
            if generation.arrived is not None and generates(self.loaded.protocol):
                self._note_writing(generation.arrived)
            reports = generation.run()
            agreement = log.log_across()
        except (DriftError, KeyboardInterrupt) as error:
            if not log.complete_before:
                # The first error is the cause: on a full disk this fails too. An unmarked run is found as dead later.
                with contextlib.suppress(DriftError):
                    log.tracker.fail(log.run_id, str(error) or "interrupted")
            raise
        outcomes = tuple(log.outcomes[found.name] for found in self.executions if found.name in log.outcomes)
        whole = (
            not self.request.only and not self.left_out and all(found.error is None for found in (*outcomes, *reports))
        )
        if whole and not log.complete_before:
            log.tracker.complete(log.run_id)
        elif not log.complete_before:
            failed = [found.execution.name for found in (*outcomes, *reports) if found.error is not None]
            reason = f"only {', '.join(self.request.only)} were asked for"
            if self.left_out:
                reason = f"left out: {', '.join(found.arm for found in self.left_out)}"
            if failed:
                reason = f"failed arms: {', '.join(failed)}"
            log.tracker.fail(log.run_id, reason)
            if not failed:
                self.reporter.note(f"the campaign stays incomplete: {reason}")
        return Result(
            run_id=log.run_id,
            left_out=self.left_out,
            outcomes=outcomes,
            timing=self.clock.read(),
            already_complete=log.complete_before and left == 0,
            agreement=agreement,
            generation=reports,
            generation_timing=generation.clock.read(),
            task_order=generation.task_order,
        )

    def _log_reference(self) -> None:
        """Its rows, for another machine; or what is left out without its engine."""
        if self.reference.name in self.log.probes and not self.log.complete_before:
            self.log.log_probe(self.reference.name, self.log.run_id)
        if not self.reference.stored and not self.reference.full_rows and not self.log.complete_before:
            self.log.tracker.log_files(self.log.run_id, reference_files(self.store, self.reference))

    def _note_writing(self, there: Arrived) -> None:
        """A stored reference has no engine here: what is written stands beside what it wrote on its machine."""
        run = self.reference.from_run[:8]
        if there.empty:
            self.reporter.note(
                f"the reference came with run {run}, and nothing that it wrote freely within these bounds: nothing is "
                "generated, because that needs its engine"
            )
            return
        self.reporter.note(
            f"what is written stands beside what the reference wrote in run {run}: {there.said(self.loaded)}; other "
            "roots, prompts and tasks are left out"
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
                self.log.withdraw(execution, group)
        forget(self.store, self.executions, group)

    def _withdraw_stale(self, launch: Launch) -> None:
        """Rows that are gone may come back otherwise: what was made of them from the store goes first."""
        if launch.execution.full_rows:
            return  # full rows are compared as they are taken
        for step in launch.steps:
            if self.store.rows_file(step.execution.capture_id, step.window).is_file():
                continue
            for other in self.executions[1:]:
                concerned = step.window in other.windows and step.execution.name in (other.name, other.against)
                if concerned and self.store.comparison_file(self.log.comparison_id(other), step.window).is_file():
                    self.log.withdraw(other, [step.window])

    def _take_once(self, group: Sequence[str], *, last: bool) -> bool:
        for execution in self.executions:
            self.store.write_identity(
                self.store.capture_folder(execution.capture_id), "capture.json", dict(execution.identity)
            )
        protocol = self.loaded.protocol
        states = protocol.branches is not None or bool(protocol.tasks)
        for launch in pending(self.store, self.executions, group, states=states):
            if launch.execution.name in self.log.outcomes:
                continue  # it failed in an earlier group
            self.reporter.opening(launch.execution)
            self._withdraw_stale(launch)
            try:
                # Closed at once when left: until then its process goes on writing.
                room = self.request.state_bytes - self.store.states_bytes() if states else 0
                launched = run_launch(self.store, self.loaded, self.reference, launch.steps, state_room=room)
                with contextlib.closing(launched) as events:
                    if not self._follow(events):
                        return False
            except (EngineError, ConfigError) as error:  # an engine refuses a setting with a ConfigError
                if launch.execution is self.reference:
                    raise
                self._finish(launch.execution, error)
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
                case Probed():
                    if remark := self.log.probed(event.execution, event.report):
                        self.reporter.note(f"warning: {remark}")
                case WindowDone():
                    self.clock.add(
                        engine_s=event.engine_s, own_s=event.own_s, tokens=event.tokens, positions=event.positions
                    )
                    self.reporter.window(event)
                    self.log.tracker.beat(self.log.run_id)
                case ReferenceChanged():
                    return False
                case Finished():
                    self.clock.peak(event.peak_bytes)
        return True

    def _measure_rest(self, up_to: Execution | None = None) -> None:
        """Measure what is whole and not measured yet, in order."""
        for execution in self.executions:
            if execution.name not in self.log.outcomes and execution.kind != "reference":
                try:
                    self._finish(execution)
                except (SameRows, NotComparable) as error:  # stored rows of two engines may hold unlike lists
                    self._finish(execution, error)
            if execution is up_to:
                return

    def _finish(self, execution: Execution, error: DriftError | None = None) -> None:
        self.reporter.outcome(self.log.finish(execution, error))
