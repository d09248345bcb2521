"""What a tracking store holds of a campaign, as plain data: no MLflow here, so pages and reports can share it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from drift_runs.protocol.model import WRITERS


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmRecord:
    """One child run: a candidate, a floor or a follow-up against the reference."""

    run_id: str
    arm: str
    title: str
    role: str
    """``candidate``, ``floor`` or ``follow-up``."""
    complete: bool
    """The tag that says *complete* was written, last of all."""
    derivative: str
    weights: str
    """Declared label; ``weights_observed`` is what the file's tensor types say."""
    weights_observed: str
    kv: str
    hardware: str
    engine: str
    settings: str
    """Canonical JSON of the settings that differ from the reference's."""
    capture_id: str
    weight_bytes: int | None
    """Size of the weight file."""
    floor_kind: str = ""
    rows_expected: str = ""
    """For a floor: ``identical``, ``differ`` or ``report``."""
    reference: str = ""
    """The reference of this arm, where it is another one than the campaign's."""
    launch: int = 1
    """Which launch of its arm this is."""
    key: Mapping[str, str] = field(default_factory=dict)
    """Fields of the comparability key."""

    @property
    def scored(self) -> bool:
        """Whether it has rows: an engine that takes texts writes, and gives none. An import names any engine."""
        imported = self.key.get("source") == "imported"
        return imported or not self.engine.startswith(tuple(f"{name} (" for name in WRITERS))


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignRecord:
    """One parent run: an execution of a protocol."""

    run_id: str
    experiment: str
    """The protocol's name."""
    protocol_name: str
    protocol_version: int
    protocol_sha256: str
    draft: bool
    """True when the protocol was not frozen."""
    complete: bool
    status: str
    started_ms: int
    reference: str
    reference_capture_id: str
    title: str
    question: str
    notes: tuple[str, ...]
    outliers: tuple[tuple[str, str], ...]
    """(window, reason), declared in the protocol."""
    imported: bool = False
    """True when the rows came from another tool."""
    reference_run: str = ""
    """The run of another machine whose reference this campaign compares with; empty: it took its own."""
    arms: tuple[ArmRecord, ...] = field(default=())
