"""What is to be imported, and what becomes of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from drift_runs.importers.base import ImportedFile
from drift_runs.importers.panel import ImportedArm, PanelFacts
from drift_runs.measure.determinism import DeterminismSummary
from drift_runs.protocol.model import Protocol
from drift_runs.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmFile:
    """An arm and its file; a reference of figures that somebody else computed has none."""

    arm: ImportedArm
    path: Path | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportRequest:
    """What is to be imported."""

    format: str
    facts: PanelFacts
    files: tuple[ArmFile, ...]
    store: Store
    tracking_uri: str
    equal_is_right: bool = False
    """Do not refuse a candidate that equals its reference everywhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedOutcome:
    """One arm as it was logged."""

    name: str
    kind: str
    figures: pa.Table
    determinism: DeterminismSummary | None
    run_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportResult:
    """A whole import."""

    run_id: str
    protocol: Protocol
    outcomes: tuple[ImportedOutcome, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """An arm, read and compared, before anything is written."""

    arm: ImportedArm
    file: ImportedFile
    capture: str
    comparison: str
    table: pa.Table
    """Schema ``COMPARISON``, ``CONTEXTS`` or ``ROLLOUTS``."""
