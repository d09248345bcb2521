"""From files that were compared to the store and the tracking store: rows, the plan, figures, runs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from drift_runs import __version__, schema
from drift_runs.errors import one_line
from drift_runs.generate.figures import rollout_figures
from drift_runs.generate.rollouts import compare_rollouts
from drift_runs.importers import formats
from drift_runs.importers.base import ImportedFile
from drift_runs.importers.panel import NOT_SAID, ImportedArm, renamed
from drift_runs.importing.compare import capture_id, reference_capture
from drift_runs.importing.request import Compared, ImportedOutcome, ImportRequest, ImportResult
from drift_runs.measure.comparability import key_of
from drift_runs.measure.contexts import summarise_contexts
from drift_runs.measure.determinism import window_hashes
from drift_runs.measure.resampler import Resampler
from drift_runs.measure.results import Results
from drift_runs.protocol.canonical import canonical_json, protocol_sha256
from drift_runs.protocol.model import Protocol
from drift_runs.store import PlannedCapture, content_id, write_plan, write_table
from drift_runs.tracking.tags import CampaignFacts, ComparisonFacts, campaign_tags, comparison_tags


class Recorder:
    """Writes what was compared: captures, comparisons, the plan, and the runs."""

    def __init__(
        self,
        request: ImportRequest,
        content: Mapping[str, Any],
        protocol: Protocol,
        files: Mapping[str, ImportedFile | None],
        compared: Sequence[Compared],
    ) -> None:
        self.request = request
        self.content = content
        self.protocol = protocol
        self.digest = protocol_sha256(content)
        self.files = files
        self.compared = compared
        self.kind = formats.load(request.format).KIND
        self.key = content_id(sorted(item.comparison for item in compared))
        self.results = Results(protocol)

    def log(self) -> ImportResult:
        from drift_runs.tracking.mlflow_store import Tracker

        # What the tracking store would refuse is refused before anything is there.
        campaign_tags(self._campaign_facts())
        for item in self.compared:
            comparison_tags(self._comparison_facts(item), parent="")
        store = self.request.store
        store.open(create=True)
        with store.locked():
            self.tracker = Tracker(self.request.tracking_uri)
            found = self.tracker.find_campaign(self.protocol.name, self.digest, self.key)
            again = found is not None and found.complete
            run_id = found.run_id if again and found else self._start()
            self._store()
            self._write_plan(run_id)
            # Floors first: what comes after them stands beside them.
            ordered = sorted(self.compared, key=lambda item: item.arm.role != "floor")
            outcomes = tuple(self._log_arm(run_id, item) for item in ordered)
            if not again:
                across = self.results.across()
                self.tracker.log_across(
                    run_id, pairs=across.pairs, agreement=across.agreement, proposals=across.proposals
                )
                self.tracker.complete(run_id)
        return ImportResult(run_id=run_id, protocol=self.protocol, outcomes=outcomes)

    def _campaign_facts(self) -> CampaignFacts:
        protocol = self.protocol
        return CampaignFacts(
            protocol_name=protocol.name,
            protocol_version=protocol.version,
            protocol_sha256=self.digest,
            draft=True,
            imported=True,
            title=protocol.title,
            question=protocol.question,
            notes=protocol.notes,
            outliers=tuple((outlier.window, outlier.reason) for outlier in protocol.outliers),
            reference=protocol.reference.name,
            reference_capture_id=self._capture_of(protocol.reference.name),
            campaign_key=self.key,
            tool_version=__version__,
        )

    def _start(self) -> str:
        text = canonical_json(self.content).decode()
        return self.tracker.start_campaign(self._campaign_facts(), protocol_text=text, protocol_json=text).run_id

    def _capture_of(self, name: str) -> str:
        return reference_capture(name, self.files[name])

    def _store(self) -> None:
        """Rows and comparisons, a file a window."""
        store = self.request.store
        for file in self.files.values():
            if file is None:
                continue
            folder = store.capture_folder(capture_id(file))
            facts = {"imported": file.format, "sha256": file.sha256, "facts": dict(file.facts)}
            store.write_identity(folder, "capture.json", facts)
            if self.kind == "rows":
                _write_windows(renamed(file.table), folder, schema.ROWS)
            elif self.kind == "rollouts":
                write_table(folder / "rollouts.parquet", file.table, schema.ROLLOUTS)
        for item in self.compared:
            folder = store.comparison_folder(item.comparison)
            reference = self._capture_of(self._against(item.arm))
            store.write_identity(folder, "comparison.json", {"reference": reference, "candidate": item.capture})
            if self.kind == "contexts":
                write_table(folder / "contexts.parquet", item.table, schema.CONTEXTS)
            elif self.kind != "rollouts":
                _write_windows(item.table, folder, schema.COMPARISON)

    def _against(self, arm: ImportedArm) -> str:
        return arm.against or self.protocol.reference.name

    def _write_plan(self, run_id: str) -> None:
        windows = tuple(window.name for window in self.protocol.windows)
        table = self.kind if self.kind in ("contexts", "rollouts") else "comparison"
        entries = [
            PlannedCapture(
                name=arm.name, kind="reference", capture=self._capture_of(arm.name), comparison="", windows=()
            )
            for arm in self.protocol.arms
            if arm.role == "reference"
        ]
        entries += [
            PlannedCapture(
                name=item.arm.name,
                kind=item.arm.role,
                capture=item.capture,
                comparison=item.comparison,
                windows=windows if table == "comparison" else (),
                against=self._against(item.arm),
                table=table,
            )
            for item in sorted(self.compared, key=lambda item: item.arm.role != "floor")
        ]
        write_plan(
            self.request.store, self.digest, self.key, run_id=run_id, captures=entries, protocol=dict(self.content)
        )

    def _log_arm(self, run_id: str, item: Compared) -> ImportedOutcome:
        from drift_runs.tracking.reader import load_figures

        arm = item.arm
        started = self.tracker.start_comparison(run_id, self._comparison_facts(item))
        place = {"arm": arm.name, "kind": arm.role, "against": self._against(arm)}
        determinism = None
        if self.kind in ("contexts", "rollouts"):
            figures = self._figures_without_positions(item)
            self.results.keep_without_positions(item.table, figures, **place)
            if not started.complete:
                self.tracker.log_figures(started.run_id, figures, {})
                self.tracker.complete(started.run_id)
        elif started.complete:
            figures = load_figures(self.tracker.uri, started.run_id)
            self.results.keep(item.table, figures, **place)
        else:
            hashes = window_hashes(renamed(item.file.table)) if self.kind == "rows" else None
            result = self.results.measure(item.table, **place, window_hashes=hashes)
            figures, determinism = result.figures, result.agreement
            store = self.request.store
            rows = {
                window.name: store.comparison_file(item.comparison, window.name)
                for window in self.protocol.windows
                if store.comparison_file(item.comparison, window.name).is_file()
            }
            self.tracker.log_figures(
                started.run_id,
                figures,
                rows,
                result.determinism,
                result.listed,
                result.answers,
                result.distribution,
            )
            self.tracker.complete(started.run_id)
        return ImportedOutcome(
            name=arm.name, kind=arm.role, figures=figures, determinism=determinism, run_id=started.run_id
        )

    def _figures_without_positions(self, item: Compared) -> pa.Table:
        reference = self.files.get(self._against(item.arm))
        return figures_without_positions(
            item.table, self.protocol, arm=item.arm.name, reference=reference.table if reference else None
        )

    def _comparison_facts(self, item: Compared) -> ComparisonFacts:
        arm = item.arm
        declared = next((found for found in self.protocol.arms if found.name == arm.name), self.protocol.reference)
        file = item.file
        against = self._against(arm)
        key = key_of(
            self.protocol,
            protocol_sha256=self.digest,
            reference_capture_id=self._capture_of(against),
            floor_kinds=[floor.kind for floor in self.protocol.floors if floor.arm == against],
        ).as_tags()
        beside = "" if arm.role == "floor" else ",".join(sorted(self.results.floors_of(against)))
        return ComparisonFacts(
            comparison_id=item.comparison,
            arm=arm.name,
            title=declared.title if arm.role != "floor" else one_line(file.path.name),
            role=arm.role,
            derivative=declared.derivative,
            weights=declared.weights,
            weights_observed=NOT_SAID,
            kv=declared.kv,
            hardware=declared.hardware or NOT_SAID,
            engine=file.facts.get("engine", NOT_SAID),
            settings=json.dumps(dict(sorted(file.facts.items())), ensure_ascii=False) if file.facts else "",
            capture_id=item.capture,
            weight_bytes=None,
            weights_sha256="",
            comparability={**key, "floors": beside},
            reference="" if against == self.protocol.reference.name else against,
            floor_kind=arm.floor_kind,
            rows_expected="report" if arm.role == "floor" else "",
        )


def figures_without_positions(table: pa.Table, protocol: Protocol, *, arm: str, reference: pa.Table | None) -> pa.Table:
    """Table ``FIGURES`` of means by context (schema ``CONTEXTS``) or of continuations (schema ``ROLLOUTS``)."""
    resampler = Resampler.of(protocol)
    if schema.version_of(table.schema) == schema.version_of(schema.CONTEXTS):
        return summarise_contexts(table, arm=arm, resampler=resampler)
    assert reference is not None
    return rollout_figures(compare_rollouts(reference, table, resampler=resampler), arm=arm, resampler=resampler)


def _write_windows(table: pa.Table, folder: Path, wanted: pa.Schema) -> None:
    """One file a window, as captures are stored."""
    names = table["window"].cast(pa.string()).to_numpy(zero_copy_only=False)
    order = np.lexsort((table["position"].to_numpy(), names))
    names = names[order]
    table = table.take(pa.array(order))
    edges = [0, *(np.flatnonzero(names[1:] != names[:-1]) + 1).tolist(), len(names)] if len(names) else []
    for start, end in pairwise(edges):
        part = table.slice(start, end - start).unify_dictionaries().combine_chunks()
        write_table(folder / f"{names[start]}.parquet", part, wanted)
