"""Tags of campaigns and comparisons: their names, and the way from facts to tags and back to records.

Texts may come from a protocol that somebody else wrote, so each is measured against the store's limits before anything
is sent. What is longer belongs in an artifact.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from drift_runs.errors import StoreError
from drift_runs.tracking.records import ArmRecord, CampaignRecord

SCHEMA = "drift.tracking/1"
SCHEMA_TAG = "drift.schema"
KIND_TAG = "drift.kind"
CAMPAIGN = "campaign"
COMPARISON = "comparison"
PARENT_TAG = "mlflow.parentRunId"
COMPLETE_TAG = "drift.complete"
FAILED_TAG = "drift.failed"
SUPERSEDED_TAG = "drift.superseded"
PROTOCOL_SHA256_TAG = "drift.protocol.sha256"
REFERENCE_RUN_TAG = "drift.reference.run"
CAMPAIGN_KEY_TAG = "drift.campaign_key"
COMPARISON_TAG = "drift.comparison"
METRIC_NAMES_TAG = "drift.metric_names"
GENERATION_TAG = "drift.generation"
TOUCHED_TAG = "drift.touched_day"
"""The day on which something was added to a run that may have been complete: a search finds runs by it."""
DAY_FORM = "%Y-%m-%d"
KEY_PREFIX = "drift.key."

MAX_TAG_CHARACTERS = 8000
MAX_PARAM_CHARACTERS = 6000
MAX_KEY_CHARACTERS = 250
MAX_TAGS = 100

_FACETS = ("derivative", "weights", "weights_observed", "kv", "hardware", "engine", "settings")
_KEY = re.compile(r"[A-Za-z0-9_.-]+")
_IDENTIFIER = re.compile(r"[A-Za-z0-9_.:@-]{1,200}")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]|[\ud800-\udfff]")


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignFacts:
    """What is known of a campaign when it starts."""

    protocol_name: str
    protocol_version: int
    protocol_sha256: str
    draft: bool
    title: str
    question: str
    notes: tuple[str, ...]
    outliers: tuple[tuple[str, str], ...]
    """(window, reason)."""
    reference: str
    """Name of the reference arm."""
    reference_capture_id: str
    campaign_key: str
    """Identity of this execution; with the protocol's digest it finds the campaign to resume."""
    tool_version: str
    imported: bool = False
    """True when the rows came from another tool."""
    reference_run: str = ""
    """The run whose reference this campaign compares with; empty: it took its own."""
    host: Mapping[str, str] = field(default_factory=dict)
    """Facts of the machine, such as ``cpu`` and ``gpu``: tags ``drift.host.<name>``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonFacts:
    """What is known of a comparison when it starts; the fields of ``ArmRecord`` and what identifies it."""

    comparison_id: str
    """Digest of what is compared: the same id is the same comparison."""
    arm: str
    title: str
    role: str
    derivative: str
    weights: str
    weights_observed: str
    kv: str
    hardware: str
    engine: str
    settings: str
    """Canonical JSON of the settings that differ from the reference's."""
    capture_id: str
    weight_bytes: int | None
    weights_sha256: str
    comparability: Mapping[str, str]
    """Fields of the comparability key: tags ``drift.key.<field>``."""
    floor_kind: str = ""
    rows_expected: str = ""
    reference: str = ""
    """The reference, where it is another one than the campaign's."""
    launch: int = 1
    adapter_sha256: str = ""
    """Of the adapter that was applied to the weights; empty for none."""


def campaign_tags(facts: CampaignFacts) -> dict[str, str]:
    """Tags of a parent run; ``StoreError`` when one does not fit."""
    checked_identifier(facts.campaign_key, "campaign key")
    checked_identifier(facts.protocol_sha256, "protocol digest")
    tags = {
        SCHEMA_TAG: SCHEMA,
        KIND_TAG: CAMPAIGN,
        "drift.protocol.name": facts.protocol_name,
        "drift.protocol.version": str(facts.protocol_version),
        PROTOCOL_SHA256_TAG: facts.protocol_sha256,
        "drift.draft": _flag(facts.draft),
        "drift.title": facts.title,
        "drift.question": facts.question,
        "drift.notes": _json(list(facts.notes)),
        "drift.outliers": _json([list(pair) for pair in facts.outliers]),
        "drift.reference": facts.reference,
        "drift.reference.capture": facts.reference_capture_id,
        CAMPAIGN_KEY_TAG: facts.campaign_key,
        "drift.tool.version": facts.tool_version,
        "drift.imported": _flag(facts.imported),
        **({REFERENCE_RUN_TAG: facts.reference_run} if facts.reference_run else {}),
        **{f"drift.host.{name}": value for name, value in facts.host.items()},
    }
    return checked_tags(tags)


def comparison_tags(facts: ComparisonFacts, parent: str) -> dict[str, str]:
    """Tags of a child run; ``StoreError`` when one does not fit."""
    checked_identifier(facts.comparison_id, "comparison id")
    tags = {
        SCHEMA_TAG: SCHEMA,
        KIND_TAG: COMPARISON,
        PARENT_TAG: parent,
        COMPARISON_TAG: facts.comparison_id,
        "drift.arm": facts.arm,
        "drift.title": facts.title,
        "drift.role": facts.role,
        "drift.capture": facts.capture_id,
        "drift.weights_sha256": facts.weights_sha256,
        "drift.weight_bytes": "" if facts.weight_bytes is None else str(facts.weight_bytes),
        "drift.floor.kind": facts.floor_kind,
        "drift.floor.rows": facts.rows_expected,
        "drift.arm.reference": facts.reference,
        "drift.launch": str(facts.launch),
        **({"drift.adapter_sha256": facts.adapter_sha256} if facts.adapter_sha256 else {}),
        **{f"drift.facet.{name}": getattr(facts, name) for name in _FACETS},
        **{f"{KEY_PREFIX}{name}": value for name, value in facts.comparability.items()},
    }
    return checked_tags(tags)


def campaign_params(facts: CampaignFacts) -> dict[str, str]:
    """Short facets of a parent run, for the columns of MLflow's own pages."""
    return checked_params(
        {
            "protocol": facts.protocol_name,
            "protocol_version": str(facts.protocol_version),
            "protocol_sha256": facts.protocol_sha256,
            "reference": facts.reference,
        }
    )


def comparison_params(facts: ComparisonFacts) -> dict[str, str]:
    """Short facets of a child run."""
    facets = {name: getattr(facts, name) for name in _FACETS}
    return checked_params({"arm": facts.arm, "role": facts.role, **facets})


def campaign_record(
    tags: Mapping[str, str], *, run_id: str, experiment: str, status: str, started_ms: int, arms: tuple[ArmRecord, ...]
) -> CampaignRecord:
    """A parent run's tags as a record; ``StoreError`` when one is missing or damaged."""
    try:
        _known_schema(tags)
        return CampaignRecord(
            run_id=run_id,
            experiment=experiment,
            protocol_name=tags["drift.protocol.name"],
            protocol_version=int(tags["drift.protocol.version"]),
            protocol_sha256=tags[PROTOCOL_SHA256_TAG],
            draft=tags["drift.draft"] != "false",
            complete=is_complete(tags),
            status=status,
            started_ms=started_ms,
            reference=tags["drift.reference"],
            reference_capture_id=tags["drift.reference.capture"],
            title=tags["drift.title"],
            question=tags["drift.question"],
            notes=tuple(str(note) for note in json.loads(tags["drift.notes"])),
            outliers=tuple((str(window), str(reason)) for window, reason in json.loads(tags["drift.outliers"])),
            imported=tags.get("drift.imported") == "true",
            reference_run=tags.get(REFERENCE_RUN_TAG, ""),
            arms=arms,
        )
    except (KeyError, ValueError, TypeError) as error:
        raise _damaged(run_id, error) from error


def arm_record(tags: Mapping[str, str], *, run_id: str) -> ArmRecord:
    """A child run's tags as a record; ``StoreError`` when one is missing or damaged."""
    try:
        _known_schema(tags)
        size = tags["drift.weight_bytes"]
        return ArmRecord(
            run_id=run_id,
            arm=tags["drift.arm"],
            title=tags["drift.title"],
            role=tags["drift.role"],
            complete=is_complete(tags),
            capture_id=tags["drift.capture"],
            weight_bytes=int(size) if size else None,
            floor_kind=tags["drift.floor.kind"],
            rows_expected=tags["drift.floor.rows"],
            reference=tags.get("drift.arm.reference", ""),
            launch=int(tags.get("drift.launch", "1")),
            key={name.removeprefix(KEY_PREFIX): value for name, value in key_tags(tags).items()},
            **{name: tags[f"drift.facet.{name}"] for name in _FACETS},
        )
    except (KeyError, ValueError, TypeError) as error:
        raise _damaged(run_id, error) from error


def day_of(when_ms: int) -> str:
    """Day in UTC of a time in milliseconds since the epoch, as ``TOUCHED_TAG`` has it."""
    return datetime.fromtimestamp(when_ms / 1000, UTC).strftime(DAY_FORM)


def key_tags(tags: Mapping[str, str]) -> dict[str, str]:
    """The comparability key among a comparison's tags."""
    return {name: value for name, value in tags.items() if name.startswith(KEY_PREFIX)}


def is_complete(tags: Mapping[str, str]) -> bool:
    """True when the tag that is written last is there."""
    return tags.get(COMPLETE_TAG) == "true"


def checked_identifier(text: str, what: str) -> str:
    """The text itself, or ``StoreError``: it goes into a search filter, where a quote would change the search."""
    if _IDENTIFIER.fullmatch(text) is None:
        raise StoreError(
            f"{text[:60]!r} cannot be a {what}", expected="1 to 200 of letters, digits, '_', '.', ':', '@', '-'"
        )
    return text


def checked_tags(tags: Mapping[str, str]) -> dict[str, str]:
    """The tags themselves, or ``StoreError`` when the store would refuse or cut one."""
    if len(tags) > MAX_TAGS - 10:  # room for the owner's tags and MLflow's own
        raise StoreError(f"a run with {len(tags)} tags", expected=f"at most {MAX_TAGS - 10}")
    return _checked(tags, "tag", MAX_TAG_CHARACTERS)


def checked_params(params: Mapping[str, str]) -> dict[str, str]:
    """The parameters without the empty ones, or ``StoreError`` when the store would refuse or cut one."""
    return _checked({name: value for name, value in params.items() if value}, "parameter", MAX_PARAM_CHARACTERS)


def _checked(values: Mapping[str, str], what: str, limit: int) -> dict[str, str]:
    for name, value in values.items():
        if _KEY.fullmatch(name) is None or len(name) > MAX_KEY_CHARACTERS:
            raise StoreError(
                f"{name[:60]!r} cannot be the name of a {what}", expected="letters, digits, '_', '.' and '-'"
            )
        if len(value) > limit:
            raise StoreError(
                f"{what} {name} has {len(value)} characters",
                expected=f"at most {limit}",
                todo="shorten the text; long texts belong in the protocol file, which is stored whole",
            )
        if _CONTROL.search(value):
            raise StoreError(f"{what} {name} holds a control character", todo="take it out of the protocol's text")
    return dict(values)


def _known_schema(tags: Mapping[str, str]) -> None:
    if tags[SCHEMA_TAG] != SCHEMA:
        raise ValueError(f"schema {tags[SCHEMA_TAG]!r}, known is {SCHEMA!r}")


def _damaged(run_id: str, error: Exception) -> StoreError:
    what = f"tag {error} is missing" if isinstance(error, KeyError) else str(error)
    return StoreError(
        f"a tag cannot be read: {what}",
        where=f"run {run_id}",
        todo="delete that run in MLflow, or read it with the version that wrote it",
    )


def _flag(value: bool) -> str:
    return "true" if value else "false"


def _json(value: list) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
