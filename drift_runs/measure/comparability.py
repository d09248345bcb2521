"""When two figures may be set against each other: a verdict for any two comparisons, with every reason against it.

A key holds what must be equal. The arm itself is not in it, so a candidate may be compared with a candidate. What a
store does not say is *not known*, and what is not known is never taken for equal.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Literal

from drift_runs.measure.quantiles import QUANTILE_RULE
from drift_runs.measure.specs import headline_spec
from drift_runs.protocol.canonical import canonical_json
from drift_runs.protocol.model import Protocol

TIE_RULE = "lowest-id"
TAG_PREFIX = "drift.key."
"""Names of stored keys begin so; :func:`key_from_tags` reads them with it and without."""
NO_SETTINGS = "{}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparabilityKey:
    """Everything that must be equal. None means *not known*; an empty text means that there is none.

    ``template`` and ``dictionary_sha256`` are empty where the source says nothing: that equals only itself.
    """

    protocol_sha256: str | None
    panel: str | None
    """``all``, or the name of the panel whose positions were scored."""
    scored_set_sha256: str | None
    """Windows and their scored positions."""
    outlier_set: tuple[str, ...] | None
    """Names of the windows that were left out or reported apart, sorted."""
    outliers: str | None
    """``with``, ``without`` or ``only``."""
    reference_capture_id: str | None
    """Identity of the reference's rows."""
    reference_launch: str | None
    """Which launch of the reference, from 1."""
    spec: str | None
    """Spec id, with K where it has one."""
    quantile_rule: str | None
    tie_rule: str | None
    cluster_unit: str | None
    floor_kind: str | None
    """Kinds of the floors that the reference has, sorted; empty for none."""
    path_shape: str | None
    vocabulary_policy: str | None
    """Which columns were compared: full rows over the dictionary, or the best K."""
    dictionary_sha256: str | None
    template: str | None
    """Chat template and first token of the rendered text."""
    source: str | None
    """``own``: rows of an engine that was run here; ``imported``: rows of somebody else's."""
    undeclared: str | None
    """Engine settings in which the arm differs from its reference and which the protocol does not declare as the
    variable: canonical JSON of name to value."""

    def as_tags(self) -> dict[str, str]:
        """The known fields as texts, for a store that keeps them beside a comparison."""
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        return {
            name: ",".join(value) if isinstance(value, tuple) else value
            for name, value in values.items()
            if value is not None
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparability:
    """The verdict on two keys."""

    equal: bool
    reasons: tuple[str, ...]
    """Why not, one sentence part a reason; empty when equal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Arms that may be ranked together."""

    arms: tuple[str, ...]
    reasons: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """For each arm why it may not stand among those of the first group; empty for the first group itself."""


def key_of(
    protocol: Protocol,
    *,
    protocol_sha256: str,
    reference_capture_id: str,
    spec: str = "",
    outliers: str = "with",
    panel: str = "all",
    windows: Sequence[str] = (),
    top_k: int | None = None,
    reference_launch: int = 1,
    floor_kinds: Sequence[str] | None = None,
    quantile_rule: str = QUANTILE_RULE,
    template: str = "",
    source: Literal["own", "imported"] | None = None,
    undeclared: Mapping[str, object] | None = None,
) -> ComparabilityKey:
    """The key of one figure of a comparison under ``protocol``.

    ``spec`` is the protocol's headline where none is given, ``top_k`` its K, else the capture's. ``windows``: those
    that were scored where that is not all of the panel. ``floor_kinds``: the protocol's for its reference where none
    are given.
    """
    capture = protocol.capture
    top_k = capture.top_k if top_k is None else top_k
    scored = {
        window.name: [list(span) for span in window.scored]
        for window in protocol.windows
        if panel in ("all", window.panel) and (not windows or window.name in windows)
    }
    if floor_kinds is None:
        floor_kinds = [floor.kind for floor in protocol.floors if floor.arm == protocol.reference.name]
    if source is None:
        source = "imported" if protocol.imported else "own"
    return ComparabilityKey(
        protocol_sha256=protocol_sha256,
        panel=panel,
        scored_set_sha256=hashlib.sha256(json.dumps(scored, sort_keys=True).encode()).hexdigest(),
        outlier_set=tuple(sorted(protocol.outlier_windows)),
        outliers=outliers,
        reference_capture_id=reference_capture_id,
        reference_launch=str(reference_launch),
        spec=spec or headline_spec(protocol, top_k),
        quantile_rule=quantile_rule,
        tie_rule=TIE_RULE,
        cluster_unit=protocol.intervals.cluster,
        floor_kind=",".join(sorted(set(floor_kinds))),
        path_shape=capture.path_shape,
        vocabulary_policy=f"full:{capture.full_vocabulary}" if capture.full_vocabulary == "yes" else f"best:{top_k}",
        dictionary_sha256="" if protocol.dictionary is None else protocol.dictionary.sha256,
        template=template,
        source=source,
        undeclared=canonical_json(dict(undeclared or {})).decode(),
    )


def key_from_tags(tags: Mapping[str, str]) -> ComparabilityKey:
    """A stored key; a field that the tags lack is not known. Names with and without ``drift.key.`` are read."""
    found = {name.removeprefix(TAG_PREFIX): value for name, value in tags.items()}
    names = [item.name for item in fields(ComparabilityKey)]
    values: dict[str, str | tuple[str, ...] | None] = {name: found.get(name) for name in names}
    listed = values["outlier_set"]
    if isinstance(listed, str):
        values["outlier_set"] = tuple(part for part in listed.split(",") if part)
    return ComparabilityKey(**values)


_WORDS = {
    "protocol_sha256": "another protocol or version",
    "panel": "another panel",
    "scored_set_sha256": "another set of scored positions",
    "outlier_set": "another set of outlier windows",
    "outliers": "outlier windows are treated differently",
    "reference_capture_id": "another reference, or another execution of it",
    "reference_launch": "another launch of the reference",
    "spec": "another definition of the figure",
    "quantile_rule": "another quantile rule",
    "tie_rule": "another rule for ties",
    "cluster_unit": "intervals resample another unit",
    "floor_kind": "other kinds of floor",
    "path_shape": "another path shape",
    "vocabulary_policy": "another part of the vocabulary",
    "dictionary_sha256": "another token dictionary",
    "template": "another template or first token",
    "source": "rows from another source",
    "undeclared": "other engine settings that were not declared the variable",
}

_NOUNS = {
    "protocol_sha256": "protocol",
    "panel": "panel",
    "scored_set_sha256": "scored positions",
    "outlier_set": "outlier windows",
    "outliers": "treatment of outlier windows",
    "reference_capture_id": "reference",
    "reference_launch": "launch of the reference",
    "spec": "definition of the figure",
    "quantile_rule": "quantile rule",
    "tie_rule": "rule for ties",
    "cluster_unit": "unit of the intervals",
    "floor_kind": "kinds of floor",
    "path_shape": "path shape",
    "vocabulary_policy": "part of the vocabulary",
    "dictionary_sha256": "token dictionary",
    "template": "template and first token",
    "source": "source of the rows",
    "undeclared": "undeclared engine settings",
}


def compare_keys(left: ComparabilityKey, right: ComparabilityKey) -> Comparability:
    """May two figures with these keys be set against each other? What is not known is never equal."""
    reasons = []
    unknown = []
    for item in fields(ComparabilityKey):
        one, other = getattr(left, item.name), getattr(right, item.name)
        if one is None or other is None:
            unknown.append(_NOUNS[item.name])
        elif one != other:
            reasons.append(f"{_WORDS[item.name]} ({_shown(item.name, one)} and {_shown(item.name, other)})")
    if unknown:
        reasons.append(f"not known: {', '.join(unknown)}")
    return Comparability(equal=not reasons, reasons=tuple(reasons))


def described(key: ComparabilityKey) -> dict[str, str]:
    """What a key holds, by noun, as a reader can take it in; ``not known`` where nothing is."""
    values = {item.name: getattr(key, item.name) for item in fields(ComparabilityKey)}
    return {_NOUNS[name]: "not known" if value is None else _shown(name, value) for name, value in values.items()}


def ranked_groups(keys: Mapping[str, ComparabilityKey]) -> tuple[Group, ...]:
    """Arms by what they may be ranked with, the largest group first (of equal ones the first to appear).

    Every other group says for each of its arms what stands between it and the first. An arm of which something is not
    known is alone.
    """
    groups: list[list[str]] = []
    for name, key in keys.items():
        for members in groups:
            if compare_keys(keys[members[0]], key).equal:
                members.append(name)
                break
        else:
            groups.append([name])
    groups.sort(key=len, reverse=True)
    found = []
    for at, members in enumerate(groups):
        reasons = {name: compare_keys(keys[name], keys[groups[0][0]]).reasons for name in members} if at else {}
        found.append(Group(arms=tuple(members), reasons=reasons))
    return tuple(found)


def _shown(name: str, value: str | tuple[str, ...]) -> str:
    """A value as a reader can take it in: digests by their first 12 digits, settings in words."""
    if isinstance(value, tuple):
        return ", ".join(value) or "none"
    if name == "undeclared":
        return _settings(value)
    if len(value) == 64 and all(digit in "0123456789abcdef" for digit in value):
        return value[:12]
    return value or ("not stated" if name in ("template", "dictionary_sha256") else "none")


def _settings(canonical: str) -> str:
    try:
        found = json.loads(canonical)
    except ValueError:
        return canonical
    if not isinstance(found, dict):
        return canonical
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in found.items()) or "none"
