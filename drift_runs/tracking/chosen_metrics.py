"""Which figures a run carries as metrics; everything else is in the Parquet file beside it.

A figure is called by a token here: base of its spec and statistic. ``headline`` and ``other`` stand for the protocol's
divergence and for every further one, so that one list serves every protocol.
"""

from __future__ import annotations

import pyarrow as pa

from drift_runs.generate.outcomes import OUTCOMES
from drift_runs.measure.quantiles import QUANTILES
from drift_runs.measure.specs import base_of, is_divergence

_CHOSEN: dict[tuple[str, str], frozenset[str]] = {
    ("all", "with"): frozenset(
        [
            *(f"headline/{quantile}" for quantile in QUANTILES),
            "headline/mean",
            "headline/window_mean",
            "headline/max",
            "headline/tail_share",
            "headline/worst_range.p95",
            "headline/worst_range.mean",
            "headline/excluded",
            "headline/infinite",
            "headline/exactly_zero",
            "headline/windows_above",
            "headline/mean.launches_difference",
            "other/mean",
            "flip/rate",
            "flip/count",
            "flip/worst_range.rate",
            "flip.strict/rate",
            "strong_overturn/rate",
            "strong_overturn/count",
            "answer.exact/rate",
            "answer.exact/count",
            "volatile/rate",
            "swap/rate",
            "dnll/mean",
            "nll/windows_above",
            "dentropy.full/mean",
            "dentropy.topk/mean",
            "entropy.full/windows_above",
            "entropy.topk/windows_above",
            "shared_support/mean",
            "reference_mass_outside/mean",
            "missed/share",
            "support_collapse/count",
            "coverage/share",
            "branches/explored",
            "branches/existing",
            "branches/invalid",
            "branches/invalid_any",
            "branches/resolved",
            *(f"branches/{outcome}" for outcome in OUTCOMES),
            "task.passed/rate",
            "task.passed/count",
            "task.passed/lost",
            "task.passed/gained",
            "sampled.exact/share",
            "sampled.prefix/share",
            "sampled.agree/share",
            "rollout.early_stop/candidate.count",
            "rollout.loop/candidate.count",
            "rollout.exact/share",
            "rollout.exact/count",
            "rollout.prefix/share",
            "rollout.prefix/tokens",
            "rollout.agree/share",
        ]
    ),
    ("all", "without"): frozenset(
        [
            "headline/mean",
            "headline/window_mean",
            "headline/p50",
            "headline/p95",
            "headline/p99",
            "headline/max",
            "headline/tail_share",
            "headline/worst_range.p95",
            "flip/rate",
            "flip.strict/rate",
            "strong_overturn/rate",
            "answer.exact/rate",
            "volatile/rate",
            "swap/rate",
            "dnll/mean",
            "dentropy.full/mean",
            "dentropy.topk/mean",
        ]
    ),
    ("all", "only"): frozenset(["headline/mean", "headline/p95", "flip/rate"]),
    **{
        ("panel", view): frozenset(["headline/mean", "headline/p95", "flip/rate", "flip.strict/rate"])
        for view in ("with", "without")
    },
}
_WITH_INTERVAL = frozenset(["headline/mean", "flip/rate"])
_SERIES = frozenset(["headline/mean", "flip/rate"])
_SERIES_KINDS = frozenset(["history", "depth"])
_HEADLINE_STATISTICS = frozenset(["window_mean", "tail_share", "worst_range.p95"])
"""Statistics that no other divergence has."""


def headline_of(figures: pa.Table) -> str:
    """Spec id of the divergence that a table of figures leads with; empty when it has none."""
    divergences = [
        (spec, statistic)
        for spec, statistic in zip(figures["spec"].to_pylist(), figures["statistic"].to_pylist(), strict=True)
        if is_divergence(spec)
    ]
    leading = [spec for spec, statistic in divergences if statistic in _HEADLINE_STATISTICS]
    return next(iter(leading or [spec for spec, _ in divergences]), "")


def token(spec: str, statistic: str, headline: str) -> str:
    """What a figure is called in the lists of this module; ``headline`` is a spec id."""
    if is_divergence(spec):
        return f"{'headline' if spec == headline else 'other'}/{statistic}"
    return f"{base_of(spec)}/{statistic}"


def is_metric(scope_kind: str, outliers: str, name: str) -> bool:
    """Whether the figure of that token is a summary metric in that scope and view."""
    return name in _CHOSEN.get((scope_kind, outliers), frozenset())


def is_series(scope_kind: str, name: str) -> bool:
    """Whether it is a point of a series by position."""
    return scope_kind in _SERIES_KINDS and name in _SERIES


def has_interval(scope_kind: str, outliers: str, name: str) -> bool:
    """Whether the ends of its interval and its counts are metrics of their own."""
    return name in _WITH_INTERVAL and scope_kind == "all" and outliers != "only"
