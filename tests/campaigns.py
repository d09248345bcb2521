"""Whole campaigns of the tiny protocol, for real, in the process of the tests: only the engine has its own."""

from __future__ import annotations

import hashlib
import shutil
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from drift_runs.campaign import GenerationReport, Outcome, Request, Result, run_campaign
from drift_runs.capture.execution import Execution
from drift_runs.capture.group import DEFAULT_SPILL_BYTES, DEFAULT_STATE_BYTES
from drift_runs.capture.planning import plan_executions
from drift_runs.capture.process import WindowDone
from drift_runs.engines.base import EngineIdentity
from drift_runs.lanes.bounds import WHOLE, Bounds
from drift_runs.lanes.process import Generated
from drift_runs.machine import load_machine
from drift_runs.protocol.load import load_protocol
from drift_runs.protocol.model import Arm
from drift_runs.store import Store
from drift_runs.tracking.records import CampaignRecord
from drift_runs.tracking.uris import resolve_uri, sqlite_uri
from tests.conftest import copy_tiny

SOUND = {
    "intervals.resamples": 100,
    "floors[1]": {
        "name": "f16-decode",
        "arm": "f16",
        "kind": "geometry",
        "rows": "differ",
        "settings": {"path_shape": "decode"},
    },
}
"""The tiny protocol with a floor that really differs: its windows are too short for another micro-batch to matter."""

TWO_ARMS = {**SOUND, "arms": lambda arms: [arm for arm in arms if arm["name"] in ("f16", "q4_0")], "floors": []}
"""The reference and one candidate."""


class Reporter:
    """Keeps what a campaign says."""

    def __init__(self) -> None:
        self.tokens_left = -1
        self.notes: list[str] = []
        self.windows: list[WindowDone] = []
        self.opened: list[str] = []
        self.items_left = -1
        self.bounds: tuple[str, ...] = ()
        self.written_events: list[Generated] = []
        self.reports: list[GenerationReport] = []

    def planned(self, executions: Sequence[Execution], tokens_left: int) -> None:
        self.tokens_left = tokens_left

    def opening(self, execution: Execution) -> None:
        self.opened.append(execution.name)

    def window(self, done: WindowDone) -> None:
        self.windows.append(done)

    def outcome(self, outcome: Outcome) -> None:
        return None

    def generating(self, items: int, bounds: Sequence[str]) -> None:
        self.items_left, self.bounds = items, tuple(bounds)

    def written(self, event: Generated) -> None:
        self.written_events.append(event)

    def generated(self, report: GenerationReport) -> None:
        self.reports.append(report)

    def note(self, text: str) -> None:
        self.notes.append(text)


@dataclass
class Campaign:
    """A protocol, a machine file and a store in one folder."""

    folder: Path
    protocol: Path
    machine: Path
    reporter: Reporter = field(default_factory=Reporter)

    @property
    def root(self) -> Path:
        return self.folder / "store"

    @property
    def store(self) -> Store:
        return Store(self.root)

    @property
    def uri(self) -> str:
        return resolve_uri(None, self.root)

    def run(
        self,
        *,
        only: Sequence[str] = (),
        follow_ups: Sequence[Arm] = (),
        spill_bytes: int = DEFAULT_SPILL_BYTES,
        reporter: Reporter | None = None,
        bounds: Bounds = WHOLE,
        state_bytes: int = DEFAULT_STATE_BYTES,
        ask_again: bool = False,
    ) -> Result:
        self.reporter = reporter or Reporter()
        request = Request(
            loaded=load_protocol(self.protocol),
            machine=load_machine(self.machine),
            store=self.store,
            tracking_uri=self.uri,
            follow_ups=tuple(follow_ups),
            only=tuple(only),
            spill_bytes=spill_bytes,
            state_bytes=state_bytes,
            bounds=bounds,
            ask_again=ask_again,
        )
        return run_campaign(request, engine_identity(), self.reporter)

    def executions(self, **planned: Any) -> dict[str, Execution]:
        found = plan_executions(load_protocol(self.protocol), load_machine(self.machine), engine_identity(), **planned)
        return {execution.name: execution for execution in found}

    def arguments(self, command: str = "run") -> list[str]:
        """A command line of ``drift`` on this campaign."""
        options = [command, str(self.protocol), "--store", str(self.root)]
        return options if command == "measure" else [*options, "--machine", str(self.machine)]

    def records(self) -> list[CampaignRecord]:
        from drift_runs.tracking.reader import list_campaigns

        return list_campaigns(self.uri)


def engine_identity() -> EngineIdentity:
    from drift_runs.engines.llama_cpp import identity

    return identity()


def tree(root: Path) -> dict[str, str]:
    """SHA-256 of every captured, compared and generated file. Left out: how each window was taken."""
    return {
        str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()
        for part in ("captures", "comparisons", "generation")
        for path in sorted((root / part).rglob("*"))
        if path.is_file() and path.name not in ("processes.json", "retries.json")
    }


def figures_of(campaign: Campaign) -> dict[str, list[dict[str, object]]]:
    """Logged figures of every complete arm of the newest campaign."""
    from drift_runs.tracking.reader import load_figures

    arms = campaign.records()[0].arms
    return {arm.arm: load_figures(campaign.uri, arm.run_id).to_pylist() for arm in arms if arm.complete}


def new_campaign(folder: Path, arms: Path, database: Path | None, changes: dict[str, Any] | None = None) -> Campaign:
    """A campaign that has not run. ``database``: an initialised tracking store to copy, which saves its making."""
    folder.mkdir(parents=True, exist_ok=True)
    campaign = Campaign(
        folder=folder, protocol=copy_tiny(folder / "protocol", SOUND if changes is None else changes), machine=arms
    )
    if database is not None:
        campaign.root.mkdir()
        shutil.copy(database, campaign.root / "mlflow.db")
    return campaign


def copied(campaign: Campaign, folder: Path) -> Campaign:
    """A copy of a campaign with its store; artifact addresses in the tracking store point into the copy."""
    shutil.copytree(campaign.folder, folder)
    copy = Campaign(folder=folder, protocol=folder / "protocol" / campaign.protocol.name, machine=campaign.machine)
    old, new = str(campaign.root), str(copy.root)
    with sqlite3.connect(copy.root / "mlflow.db") as database:
        database.execute("UPDATE experiments SET artifact_location = replace(artifact_location, ?, ?)", (old, new))
        database.execute("UPDATE runs SET artifact_uri = replace(artifact_uri, ?, ?)", (old, new))
    database.close()
    return copy


def make_database(path: Path) -> Path:
    """An initialised tracking store."""
    from drift_runs.tracking.mlflow_store import initialise

    initialise(sqlite_uri(path))
    return path
