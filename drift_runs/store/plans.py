"""Which capture of a store is which arm of which campaign."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from drift_runs.errors import StoreError
from drift_runs.store.files import write_json
from drift_runs.store.folder import Store

StoredTable = Literal["comparison", "contexts", "rollouts", "written"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedCapture:
    """One entry of a campaign's plan."""

    name: str
    kind: str
    capture: str
    comparison: str
    """Empty for the reference."""
    windows: tuple[str, ...]
    against: str = ""
    """Arm that the comparison is against; empty means the protocol's reference."""
    of: str = ""
    """For a further launch, the arm that it repeats."""
    ranked: bool = True
    """False where more differs from the reference than the protocol varies: in no pair and no order."""
    from_run: str = ""
    """Of a reference that another machine took: the run that it came with."""
    table: StoredTable = "comparison"
    """What is stored of it: positions, means by context, continuations of an import, or what it wrote and no rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedGeneration:
    """What the newest run of a campaign generated."""

    arms: tuple[str, ...]
    """Names of the captures that generated, the reference first: which roots are followed depends on all of them."""
    bounds: Mapping[str, Any]
    """Limits below those of the protocol, by their names in ``lanes.bounds``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One campaign of a store."""

    protocol_sha256: str
    run_id: str
    """Its run in the tracking store."""
    protocol: Mapping[str, Any] | None
    """The protocol's content, so that results can be computed again without its file; None in older plans."""
    captures: tuple[PlannedCapture, ...]
    written_ns: int
    generation: PlannedGeneration | None = None
    """None where nothing was generated, and in plans older than generation's own part."""

    @property
    def name(self) -> str:
        """The protocol's name; empty in older plans."""
        return str(self.protocol["name"]) if self.protocol else ""


def write_plan(
    store: Store,
    protocol_sha256: str,
    key: str,
    *,
    run_id: str,
    captures: Sequence[PlannedCapture],
    protocol: Mapping[str, Any],
    generation: PlannedGeneration | None = None,
) -> None:
    """Note which capture is which arm. Entries of an earlier run that are not among ``captures`` stay: follow-ups.

    So does what it generated, where ``generation`` is None.
    """
    path = store.root / "campaigns" / f"{protocol_sha256[:16]}-{key}.json"
    entries = {}
    if path.is_file():
        earlier = _read_plan(path)
        entries = {entry.name: entry for entry in earlier.captures}
        generation = generation or earlier.generation
    entries |= {entry.name: entry for entry in captures}
    plan: dict[str, Any] = {
        "protocol_sha256": protocol_sha256,
        "run_id": run_id,
        "protocol": protocol,
        "captures": [asdict(entry) for entry in entries.values()],
    }
    if generation is not None:
        plan["generation"] = {"arms": list(generation.arms), "bounds": dict(generation.bounds)}
    write_json(path, plan)


def plans(store: Store) -> tuple[Plan, ...]:
    """Every campaign of a store, the newest first."""
    found = [_read_plan(path) for path in sorted((store.root / "campaigns").glob("*.json"))]
    return tuple(sorted(found, key=lambda plan: plan.written_ns, reverse=True))


def _read_plan(path: Path) -> Plan:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        captures = tuple(map(_planned, content["captures"]))
        names = {entry.name for entry in captures}
        if any(entry.table == "rollouts" and entry.against not in names for entry in captures):
            raise ValueError
        protocol = content.get("protocol")
        if protocol is not None and not isinstance(protocol["name"], str):
            raise ValueError
        return Plan(
            protocol_sha256=str(content["protocol_sha256"]),
            run_id=str(content["run_id"]),
            protocol=protocol,
            captures=captures,
            written_ns=path.stat().st_mtime_ns,
            generation=_generation(content.get("generation"), names),
        )
    except (ValueError, KeyError, TypeError):
        raise StoreError("not a campaign's plan", where=str(path), todo="remove the file and run again") from None


def _generation(content: Mapping[str, Any] | None, names: set[str]) -> PlannedGeneration | None:
    if content is None:
        return None
    arms, bounds = tuple(content["arms"]), content["bounds"]
    if not arms or len(set(arms)) != len(arms) or not names.issuperset(arms) or not isinstance(bounds, dict):
        raise ValueError
    return PlannedGeneration(arms=arms, bounds=bounds)


_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._#-]{0,79}")
"""Names and ids of a plan become paths: nothing else may, whoever wrote the file."""


def _planned(entry: Mapping[str, Any]) -> PlannedCapture:
    planned = PlannedCapture(**{**entry, "windows": tuple(entry["windows"])})
    needed = (planned.name, planned.kind, planned.capture, *planned.windows)
    optional = (planned.comparison, planned.against, planned.of, planned.from_run)
    if not all(_NAME.fullmatch(text) for text in needed) or not all(
        _NAME.fullmatch(text) or text == "" for text in optional
    ):
        raise ValueError
    if planned.table not in get_args(StoredTable):
        raise ValueError
    return planned
