"""Which figures each kind of scope has: all of them where texts are pooled, fewer in the many small scopes."""

from __future__ import annotations

from drift_runs.measure.scopes import WHOLE
from drift_runs.measure.specs import base_of, is_divergence

_VOLATILE = ("volatile/rate", "volatile/count", "volatile.confident/count")
_BY_LENGTH = frozenset(
    ["headline/mean", "headline/p50", "headline/p95", "other/mean", "flip/rate", "flip/count", "dnll/mean", *_VOLATILE]
)
_MARKED = _BY_LENGTH | {"strong_overturn/count"}
_SHOWN: dict[str, frozenset[str]] = {
    "window": frozenset(
        [
            "headline/mean",
            "headline/p95",
            "headline/max",
            "other/mean",
            "flip/rate",
            "flip/count",
            "strong_overturn/count",
            "dnll/mean",
            "support_collapse/count",
            *_VOLATILE,
        ]
    ),
    "history": _BY_LENGTH,
    "depth": _BY_LENGTH,
    "quarter": _MARKED,
    "band": frozenset(["headline/mean", "other/mean", "flip/rate", "flip/count", "flip.strict/rate", *_VOLATILE]),
    "copied": _MARKED,
    "literal": _MARKED,
}

_WITH_INTERVAL = frozenset(["volatile/rate"])
"""Beside the core, in scopes that do not pool several texts."""

_PLAIN_QUANTILES = frozenset(["quarter", "copied", "literal"])

LOWER_RULE_SCOPES = frozenset(["all", "panel", "group"])
"""Where quantiles by the lower rule are given beside the linear ones."""


def is_shown(scope_kind: str, spec: str, statistic: str, headline: str) -> bool:
    """Whether a kind of scope has a figure; ``headline`` is the headline's spec id."""
    if scope_kind in WHOLE:
        return True
    token = "headline" if spec == headline else "other" if is_divergence(spec) else base_of(spec)
    shown = _SHOWN.get(scope_kind)
    return shown is None or f"{token}/{statistic}" in shown


def has_interval(scope_kind: str, spec: str, statistic: str) -> bool:
    """Whether a ratio beyond the core is resampled in that kind of scope."""
    return scope_kind in WHOLE or f"{spec}/{statistic}" in _WITH_INTERVAL


def has_quantile_intervals(scope_kind: str) -> bool:
    """Whether the headline's quantiles are resampled in that kind of scope: the dearest part of a summary."""
    return scope_kind not in _PLAIN_QUANTILES
