"""From what was captured to what is logged: comparisons, figures, and what the arms say of each other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from drift_runs import schema
from drift_runs.campaign.checks import (
    Twins,
    check_switch,
    compare_captures,
    probe_remark,
    refuted,
    sent_again,
    several_processes,
    text_marks,
)
from drift_runs.campaign.facts import campaign_facts, campaign_key, comparison_facts, undeclared_settings
from drift_runs.campaign.request import Outcome, Request
from drift_runs.capture.execution import Execution
from drift_runs.errors import DriftError, NotMeasured
from drift_runs.measure.comparability import key_of
from drift_runs.measure.determinism import determinism_table, summarise_determinism, window_hashes
from drift_runs.measure.results import Results
from drift_runs.measure.text import Texts, TokenText
from drift_runs.protocol.canonical import canonical_json
from drift_runs.protocol.load import LoadedProtocol
from drift_runs.protocol.lock import lock_path
from drift_runs.store import PlannedCapture, PlannedGeneration, Store, write_plan, write_table
from drift_runs.tracking import artifacts

if TYPE_CHECKING:
    from drift_runs.tracking.mlflow_store import Started


def stored_texts(store: Store, loaded: LoadedProtocol) -> Texts | None:
    """What the ids of a protocol's streams say; None where no engine has left its dictionary yet."""
    dictionary = loaded.protocol.dictionary
    if dictionary is None or not store.dictionary_file(dictionary.sha256).is_file():
        return None
    streams = {window.name: loaded.tokens(window.name) for window in loaded.protocol.windows}
    return Texts(tokens=TokenText(store.read_dictionary(dictionary.sha256)), streams=streams)


class Logbook:
    """One campaign in the tracking store, and its plan in the store of rows."""

    def __init__(self, request: Request, executions: Sequence[Execution]) -> None:
        from drift_runs.tracking.mlflow_store import Tracker

        self.loaded = request.loaded
        self.store = request.store
        self.executions = executions
        self.reference = executions[0]
        self.tracker = Tracker(request.tracking_uri)
        self.results = Results(request.loaded.protocol)
        self.outcomes: dict[str, Outcome] = {}
        self.probes: dict[str, Mapping[str, Any]] = {}
        """What engines were found to give, by execution, where this run asked."""
        self._remarked: dict[str, set[str]] = defaultdict(set)
        """Questions that were answered no, by arm, and were told."""
        self._twins = Twins()
        self._joined = False
        self._texts: list[bytes] | None = None
        facts = campaign_facts(self.loaded, executions)
        found = self.tracker.find_campaign(facts.protocol_name, facts.protocol_sha256, facts.campaign_key)
        self.complete_before = found is not None and found.complete
        """The campaign was whole when this run began; follow-ups may still join it."""
        if found is not None and found.complete:
            self.run_id = found.run_id
            return
        lock = lock_path(self.loaded.path)
        self.run_id = self.tracker.start_campaign(
            facts,
            protocol_text=self.loaded.path.read_text(encoding="utf-8"),
            protocol_json=canonical_json(self.loaded.protocol.model_dump(mode="json", by_alias=True)).decode(),
            lock_text=lock.read_text(encoding="utf-8") if lock.is_file() else None,
        ).run_id

    def write_plan(self, generation: PlannedGeneration | None = None) -> None:
        """Which capture is which arm, and what is generated: what ``drift measure`` starts from, with no model."""
        entries = tuple(
            PlannedCapture(
                name=execution.name,
                kind=execution.kind,
                capture=execution.capture_id,
                comparison="" if execution is self.reference else self.comparison_id(execution),
                windows=execution.windows,
                against="" if execution is self.reference else execution.against,
                of=execution.arm.name if execution.kind == "launch" else "",
                ranked=execution is self.reference or self._ranked(execution),
                from_run=execution.from_run,
                table="comparison" if execution.scored else "written",
            )
            for execution in self.executions
        )
        write_plan(
            self.store,
            self.loaded.protocol_sha256,
            campaign_key(self.executions),
            run_id=self.run_id,
            captures=entries,
            protocol=self.loaded.content,
            generation=generation,
        )

    def comparison_id(self, execution: Execution) -> str:
        """Id of the comparison that an execution's figures are made from."""
        return execution.compared_with(self._against(execution))

    def withdraw(self, execution: Execution, windows: Sequence[str]) -> None:
        """Take back what was logged of an execution: rows that it was made from go."""
        self.tracker.withdraw_comparison(self.run_id, self.comparison_id(execution))
        for window in windows:
            self.store.remove_comparison(self.comparison_id(execution), window)

    def finish(self, execution: Execution, error: DriftError | None = None) -> Outcome:
        """Measure and log one execution whose rows are whole, or say why it failed.

        ``SameRows`` when rows that must differ do not.
        """
        from drift_runs.tracking.decisions import carry_over
        from drift_runs.tracking.reader import load_figures, load_listed

        against = self.outcomes.get(execution.against)
        if error is None and against is not None and against.error is not None:
            error = NotMeasured(f"arm {execution.against} failed", where=f"arm {execution.name}")
        compared_with = self._against(execution)
        key = key_of(
            self.loaded.protocol,
            protocol_sha256=self.loaded.protocol_sha256,
            reference_capture_id=compared_with.capture_id,
            reference_launch=compared_with.launch,
            windows=execution.windows,
            floor_kinds=[floor.kind for floor in self.loaded.protocol.floors if floor.arm == execution.against],
            undeclared=undeclared_settings(execution, compared_with),
        )
        # Figures that were made while a floor had failed stand beside other floors: they are made again.
        floors = "" if execution.kind == "floor" else ",".join(sorted(self.results.floors_of(execution.against)))
        facts = comparison_facts(
            execution,
            reference=self.reference,
            comparison_id=self.comparison_id(execution),
            comparability={**key.as_tags(), "floors": floors},
        )
        started = self.tracker.start_comparison(self.run_id, facts)
        if execution.name in self.probes and not started.complete:
            self.log_probe(execution.name, started.run_id)
        if execution.listed and execution.scored and not started.complete:
            retries = canonical_json(self.store.retries(execution.capture_id))
            self.tracker.log_files(started.run_id, {artifacts.RETRIES_FILE: retries})
        figures = determinism = listed = None
        warnings: tuple[str, ...] = ()
        if error is not None:
            self.tracker.fail(started.run_id, str(error))
        elif not execution.scored:
            figures = self._without_rows(execution, started)
        else:
            comparison = self._comparison(execution)
            table = determinism_table(
                comparison,
                arm=execution.name,
                against=execution.against,
                window_hashes=self._window_hashes(execution),
            )
            determinism = summarise_determinism(table)
            check_switch(execution, determinism)
            self._twins.refuse(execution, self.store)
            warnings = refuted(execution, determinism) + several_processes(execution, self.store)
            warnings += sent_again(execution, self.store)
            place = {
                "arm": execution.name,
                "kind": execution.kind,
                "against": execution.against,
                "of": execution.arm.name if execution.kind == "launch" else "",
                "ranked": self._ranked(execution),
            }
            if started.complete:
                figures = load_figures(self.tracker.uri, started.run_id)
                listed = load_listed(self.tracker.uri, started.run_id)
                self.results.keep(comparison, figures, **place)
            else:
                self.results.texts = self.results.texts or stored_texts(self.store, self.loaded)
                result = self.results.measure(comparison, **place)
                figures, listed = result.figures, result.listed
                identity = self.comparison_id(execution)
                rows = {name: self.store.comparison_file(identity, name) for name in execution.windows}
                self.tracker.log_figures(
                    started.run_id, figures, rows, table, listed, result.answers, result.distribution
                )
                carry_over(self.tracker.uri, started.run_id)
                self.tracker.complete(started.run_id)
                self._joined = True
        outcome = Outcome(
            execution=execution,
            figures=figures,
            determinism=determinism,
            run_id=started.run_id,
            error=error,
            warnings=warnings,
            listed=listed,
        )
        self.outcomes[execution.name] = outcome
        return outcome

    def _without_rows(self, execution: Execution, started: Started) -> pa.Table:
        """Nothing is compared: its run is there for what it writes, and it joins the orders with those figures."""
        figures = schema.FIGURES.empty_table()
        self.results.keep_unscored(arm=execution.name, kind=execution.kind, against=execution.against)
        if not started.complete:
            self.tracker.log_figures(started.run_id, figures, {})
            self.tracker.complete(started.run_id)
            self._joined = True
        return figures

    def probed(self, name: str, report: Mapping[str, Any]) -> str:
        """Keep what an execution's engine was found to give.

        One line of what it was found not to give and is not needed; empty where its arm's other executions said so.
        """
        self.probes[name] = report
        arm = next((found.arm.name for found in self.executions if found.name == name), name)
        new = [question for question in report["remarks"] if question not in self._remarked[arm]]
        self._remarked[arm].update(new)
        return probe_remark(name, report, new) if new else ""

    def log_probe(self, name: str, run_id: str) -> None:
        """Keep what an engine was found to give beside what was measured with it."""
        self.tracker.log_files(run_id, {artifacts.PROBE_FILE: canonical_json(dict(self.probes[name]))})

    def run_of(self, execution: Execution) -> str:
        """The run that holds what an execution wrote: the campaign's for its reference."""
        return self.run_id if execution is self.reference else self.outcomes[execution.name].run_id

    def log_generation(
        self, execution: Execution, key: str, tables: Mapping[str, pa.Table], bounds: tuple[str, ...]
    ) -> None:
        """Store what an execution wrote freely beside its comparison, the reference's with the campaign.

        ``key``: a digest of all of it. A run that carries the very same is left alone.
        """
        from drift_runs.tracking.decisions import carry_over

        run_id = self.run_of(execution)
        if self.tracker.generation_key(run_id) != key:
            if execution is not self.reference:
                carry_over(self.tracker.uri, run_id, generation=key)
            self.tracker.log_generation(run_id, key, tables, arm=execution.name, bounds=bounds)
            self._joined = True

    def log_across(self) -> pa.Table:
        """What the arms say of each other: once, and again when an arm joined a campaign that was whole.

        The table ``AGREEMENT``, as it was logged before or now.
        """
        from drift_runs.tracking.reader import load_agreement

        if self.complete_before and not self._joined:
            return load_agreement(self.tracker.uri, self.run_id)
        across = self.results.across()
        self.tracker.log_across(self.run_id, pairs=across.pairs, agreement=across.agreement, proposals=across.proposals)
        self._log_text()
        return across.agreement

    def _log_text(self) -> None:
        """What the positions say: a reader of the tracking store has no other way to the text before a root."""
        streams = pa.table(
            {
                "window": [window.name for window in self.loaded.protocol.windows],
                "tokens": [self.loaded.tokens(window.name) for window in self.loaded.protocol.windows],
            },
            schema=schema.STREAMS,
        )
        files: dict[str, bytes | Path] = {
            artifacts.STREAMS_FILE: artifacts.parquet_bytes(streams, schema.STREAMS),
        }
        dictionary = self.store.dictionary_file(self.loaded.protocol.dictionary.sha256)
        if dictionary.is_file():
            files[artifacts.DICTIONARY_FILE] = dictionary
        self.tracker.log_files(self.run_id, files)

    def _dictionary(self) -> list[bytes] | None:
        digest = self.loaded.protocol.dictionary.sha256
        if self._texts is None and self.store.dictionary_file(digest).is_file():
            self._texts = self.store.read_dictionary(digest)
        return self._texts

    def _ranked(self, execution: Execution) -> bool:
        return not undeclared_settings(execution, self._against(execution))

    def _against(self, execution: Execution) -> Execution:
        """What an execution's figures are against: the reference, or the arm that a floor repeats."""
        return next(other for other in self.executions if other.name == execution.against)

    def _window_hashes(self, execution: Execution) -> dict[str, bytes | None]:
        """One hash a window, by which captures in different stores can be held against each other."""
        found: dict[str, bytes | None] = {}
        for name in execution.windows:
            found |= window_hashes(self.store.read_rows(execution.capture_id, [name]))
        return found

    def _comparison(self, execution: Execution) -> pa.Table:
        """The stored comparison. It is made now, from the rows of both sides, where no full rows were compared: of a
        floor of a candidate, and of everything when a row is its best entries."""
        against = self._against(execution)
        identity = self.comparison_id(execution)
        if against is not self.reference or not execution.full_rows:
            for window in execution.windows:
                if not self.store.comparison_file(identity, window).is_file():
                    marks = text_marks(self.loaded, window, self._dictionary())
                    table = compare_captures(self.store, against, execution, window, marks)
                    write_table(self.store.comparison_file(identity, window), table, schema.COMPARISON)
        self.store.write_identity(
            self.store.comparison_folder(identity),
            "comparison.json",
            {"reference": against.capture_id, "candidate": execution.capture_id},
        )
        return self.store.read_comparison(identity, execution.windows)
