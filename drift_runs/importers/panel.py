"""The protocol of imported rows: what a campaign of our own would have frozen, as far as the files say it.

It is a draft by nature, because nothing was frozen before the results, and every page shows it as imported.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import pyarrow as pa
from pydantic import ValidationError

from drift_runs.errors import ConfigError, one_line
from drift_runs.importers.base import ImportedFile, ImportedWindow
from drift_runs.measure.specs import is_divergence
from drift_runs.protocol.canonical import canonical_json
from drift_runs.protocol.model import SCHEMA, Protocol
from drift_runs.protocol.problems import Problems, add_validation_errors

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
    return name if _NAME.fullmatch(name) else _digested(name, 8)


def _digested(name: str, digits: int) -> str:
    stem = _UNSAFE.sub("-", name).strip("-._")[:48] or "window"
    return f"{stem}-{hashlib.sha256(name.encode()).hexdigest()[:digits]}"


def safe_names(names: Iterable[str]) -> dict[str, str]:
    """:func:`safe_name` of all names of a file, by name, no two of them one: some file systems fold case.

    Names that would meet carry a digest, whatever they are; the result depends on the set of names alone.
    """
    found = {name: safe_name(name) for name in names}
    for digits in (8, 15):
        shared: dict[str, list[str]] = {}
        for name, safe in found.items():
            shared.setdefault(safe.casefold(), []).append(name)
        meeting = [name for group in shared.values() if len(group) > 1 for name in group]
        if not meeting:
            return found
        found |= {name: _digested(name, digits) for name in meeting}
    return found


def renamed(table: pa.Table) -> pa.Table:
    """A table of rows or positions with names of windows that files and addresses can have."""
    at = table.schema.get_field_index("window")
    kind = table.schema.field(at)
    written = table["window"].cast(pa.string()).to_pylist()
    safe = safe_names(dict.fromkeys(written))
    names = pa.array([safe[name] for name in written], pa.string())
    return table.set_column(at, kind, names.dictionary_encode().cast(kind.type))


def protocol_content(
    facts: PanelFacts, arms: Sequence[ImportedArm], files: Sequence[ImportedFile], notes: Sequence[str] = ()
) -> dict[str, Any]:
    """The content of the protocol (schema ``drift.protocol/1``); the first file is the one whose windows count.

    ``ConfigError`` for an outlier that names no window.
    """
    first = files[0]
    names = safe_names(window.name for window in first.windows)
    documents = safe_names(dict.fromkeys(window.document for window in first.windows))
    windows = [_window(window, names[window.name], documents[window.document]) for window in first.windows]
    known = {safe: safe for safe in names.values()} | names  # a report shows the name that was stored
    outliers: dict[str, str] = {}
    for name, reason in facts.outliers:
        if name not in known:
            raise ConfigError(
                f"no window {one_line(name)!r} in the files", where="--outlier", expected="a window's name"
            )
        if outliers.setdefault(known[name], reason) != reason:
            raise ConfigError(f"window {one_line(name)!r} is given twice", where="--outlier", expected="one reason")
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
        "outliers": [{"window": name, "reason": reason} for name, reason in outliers.items()],
        "arms": [_arm(arm) for arm in arms if arm.role != "floor"],
        "floors": [
            {"name": arm.name, "arm": arm.against or _first_reference(arms), "kind": arm.floor_kind}
            for arm in arms
            if arm.role == "floor"
        ],
    }
    return content


def checked_protocol(content: Mapping[str, Any]) -> Protocol:
    """The content as a protocol; ``ConfigError`` with the option whose text does not fit."""
    try:
        return Protocol.model_validate_json(canonical_json(content), strict=True)
    except ValidationError as failure:
        first = failure.errors(include_url=False)[0]["loc"][0]
        problems = Problems(_OPTIONS.get(str(first), "the files"), content)
        add_validation_errors(problems, Protocol, failure)
        error = problems.errors[0]
        raise ConfigError(error.what, where=error.where, expected=error.expected, todo=error.todo) from failure


_OPTIONS = {"name": "--name", "seeds": "--seed", "arms": "--facet", "outliers": "--outlier", "floors": "--floor"}
"""Which option of the command line a key of the protocol comes from."""


def _notes(files: Sequence[ImportedFile]) -> list[str]:
    """What the files say of themselves, once; what only some of them say carries their names."""
    said: dict[str, list[str]] = {}
    for file in files:
        for note in file.notes:
            said.setdefault(note, []).append(one_line(file.path.name))
    return [
        note if len(names) == len(files) else f"{', '.join(dict.fromkeys(names))}: {note}"
        for note, names in said.items()
    ]


_TITLES = {"prompt": "Given texts", "generated": "Texts that the reference wrote"}


def _first_reference(arms: Sequence[ImportedArm]) -> str:
    return next(arm.name for arm in arms if arm.role == "reference")


def _window(window: ImportedWindow, name: str, document: str) -> dict[str, Any]:
    return {
        "name": name,
        "panel": window.role,
        "document": document,
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
