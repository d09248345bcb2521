"""When two figures may be set against each other."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, fields

from drift_runs.measure.quantiles import QUANTILE_RULE
from drift_runs.protocol.model import Protocol

TIE_RULE = "lowest-id"


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparabilityKey:
    """Everything that must be equal. Two figures with different keys are never ranked together.

    The arm itself is not in it: a candidate may be compared with a candidate.
    """

    protocol_sha256: str
    scored_set_sha256: str
    """Windows and their scored positions."""
    outlier_set: tuple[str, ...]
    """Names of the windows that were left out or reported apart, sorted."""
    outliers: str
    """``with``, ``without`` or ``only``."""
    reference_capture_id: str
    """Identity and launch of the reference."""
    spec: str
    """Spec id, with K where it has one."""
    quantile_rule: str
    tie_rule: str
    cluster_unit: str
    path_shape: str
    vocabulary_policy: str
    """Which columns were compared: full rows over the dictionary, or the best K."""
    dictionary_sha256: str

    def as_tags(self) -> dict[str, str]:
        """The fields as texts, for a store that keeps them beside a comparison."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: ",".join(value) if isinstance(value, tuple) else value for name, value in values.items()}


def key_of(
    protocol: Protocol,
    *,
    protocol_sha256: str,
    reference_capture_id: str,
    spec: str = "kl.full",
    outliers: str = "with",
) -> ComparabilityKey:
    """The key of one figure of a comparison under ``protocol``."""
    scored = {window.name: [list(span) for span in window.scored] for window in protocol.windows}
    return ComparabilityKey(
        protocol_sha256=protocol_sha256,
        scored_set_sha256=hashlib.sha256(json.dumps(scored, sort_keys=True).encode()).hexdigest(),
        outlier_set=tuple(sorted(protocol.outlier_windows)),
        outliers=outliers,
        reference_capture_id=reference_capture_id,
        spec=spec,
        quantile_rule=QUANTILE_RULE,
        tie_rule=TIE_RULE,
        cluster_unit=protocol.intervals.cluster,
        path_shape=protocol.capture.path_shape,
        vocabulary_policy=f"full:{protocol.capture.full_vocabulary}",
        dictionary_sha256=protocol.dictionary.sha256,
    )


_WORDS = {
    "protocol_sha256": "another protocol or version",
    "scored_set_sha256": "another set of scored positions",
    "outlier_set": "another set of outlier windows",
    "outliers": "outlier windows are treated differently",
    "reference_capture_id": "another reference, or another launch of it",
    "spec": "another definition of the figure",
    "quantile_rule": "another quantile rule",
    "tie_rule": "another rule for ties",
    "cluster_unit": "intervals resample another unit",
    "path_shape": "another path shape",
    "vocabulary_policy": "another part of the vocabulary",
    "dictionary_sha256": "another token dictionary",
}


def reasons_against(left: ComparabilityKey, right: ComparabilityKey) -> tuple[str, ...]:
    """Why the two must not be compared, one sentence part a reason; empty when they may be."""
    reasons = []
    for field in fields(ComparabilityKey):
        one, other = getattr(left, field.name), getattr(right, field.name)
        if one != other:
            reasons.append(f"{_WORDS[field.name]} ({_short(one)} and {_short(other)})")
    return tuple(reasons)


def _short(value: str | tuple[str, ...]) -> str:
    """A value as a reader can take it in: digests by their first 12 digits."""
    if isinstance(value, tuple):
        return ", ".join(value) or "none"
    if len(value) == 64 and all(digit in "0123456789abcdef" for digit in value):
        return value[:12]
    return value or "none"
