"""The protocol of imported rows: what a campaign of our own would have frozen, as far as the files say it.

It is a draft by nature, because nothing was frozen before the results, and every page shows it as imported.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import pyarrow as pa

from drift_runs.errors import ConfigError, one_line
from drift_runs.importers.base import ImportedFile, ImportedWindow
from drift_runs.measure.specs import is_divergence
from drift_runs.protocol.model import SCHEMA

FACETS = ("derivative", "weights", "kv", "hardware", "title")
NOT_SAID = "not-said"
"""A facet that neither the file nor the user names."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedArm:
    """One arm of an import."""

    name: str
    role: Literal["reference", "candidate", "floor"]
    floor_kind: str = ""
    """``pass``, ``launch`` or ``geometry`` of a floor."""
    against: str = ""
    """Its reference, where it is not the first."""
    facets: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PanelFacts:
    """What the user says of the whole import."""

    name: str
    title: str
    question: str
    source: str
    """Where the files come from, in the user's words."""
    seed: int
    outliers: tuple[tuple[str, str], ...] = ()
    """(window, reason)."""


def safe_name(name: str) -> str:
    """The name itself where it may be a window's; else what is left of it with a digest of the whole."""
    if _NAME.fullmatch(name):
        return name
    stem = _UNSAFE.sub("-", name).strip("-._")[:48] or "window"
    return f"{stem}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def renamed(table: pa.Table) -> pa.Table:
    """A table of rows or positions with names of windows that files and addresses can have."""
    at = table.schema.get_field_index("window")
    kind = table.schema.field(at)
    names = [safe_name(str(name)) for name in table["window"].cast(pa.string()).to_pylist()]
    return table.set_column(at, kind, pa.array(names, pa.string()).dictionary_encode().cast(kind.type))


def protocol_content(
    facts: PanelFacts, arms: Sequence[ImportedArm], files: Sequence[ImportedFile], notes: Sequence[str] = ()
) -> dict[str, Any]:
    """The content of the protocol (schema ``drift.protocol/1``); the first file is the one whose windows count.

    ``ConfigError`` for an outlier that names no window.
    """
    first = files[0]
    windows = [_window(window) for window in first.windows]
    known = {window["name"] for window in windows}
    for name, _ in facts.outliers:
        if safe_name(name) not in known:
            raise ConfigError(
                f"no window {one_line(name)!r} in the files", where="--outlier", expected="a window's name"
            )
    roles = dict.fromkeys(window["panel"] for window in windows)
    content: dict[str, Any] = {
        "schema": SCHEMA,
        "name": facts.name,
        "version": 1,
        "title": facts.title,
        "question": facts.question,
        "notes": [
            f"Imported from {facts.source}; format {first.format}.",
            first.convention,
            *notes,
            *_notes(files),
        ],
        "seeds": {"bootstrap": facts.seed},
        "intervals": {"cluster": first.cluster},
        "capture": {
            "top_k": first.top_k or 64,
            "full_vocabulary": "no",
            **({"divergence": first.divergence} if is_divergence(first.divergence) else {}),
        },
        "panels": [{"name": role, "title": _TITLES[role], "role": role} for role in roles],
        "windows": windows,
        "ranges": [],
        "outliers": [{"window": safe_name(name), "reason": reason} for name, reason in facts.outliers],
        "arms": [_arm(arm) for arm in arms if arm.role != "floor"],
        "floors": [
            {"name": arm.name, "arm": arm.against or _first_reference(arms), "kind": arm.floor_kind}
            for arm in arms
            if arm.role == "floor"
        ],
    }
    return content


def _notes(files: Sequence[ImportedFile]) -> list[str]:
    """What the files say of themselves, once; what only some of them say carries their names."""
    said: dict[str, list[str]] = {}
    for file in files:
        for note in file.notes:
            said.setdefault(note, []).append(file.path.name)
    return [
        note if len(names) == len(files) else f"{', '.join(dict.fromkeys(names))}: {note}"
        for note, names in said.items()
    ]


_TITLES = {"prompt": "Given texts", "generated": "Texts that the reference wrote"}


def _first_reference(arms: Sequence[ImportedArm]) -> str:
    return next(arm.name for arm in arms if arm.role == "reference")


def _window(window: ImportedWindow) -> dict[str, Any]:
    return {
        "name": safe_name(window.name),
        "panel": window.role,
        "document": safe_name(window.document),
        "title": window.name,
        "group": window.group,
        "scored": [list(span) for span in window.scored],
    }


def _arm(arm: ImportedArm) -> dict[str, Any]:
    said = {facet: arm.facets[facet] for facet in FACETS if facet in arm.facets}
    return {
        "name": arm.name,
        "role": arm.role,
        "engine": "imported",
        "derivative": NOT_SAID,
        "weights": NOT_SAID,
        "kv": NOT_SAID,
        **said,
        **({"against": arm.against} if arm.against else {}),
    }
