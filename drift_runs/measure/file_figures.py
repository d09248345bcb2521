"""Figures of one comparison of two files, where no protocol says more than which cluster and group a window has.

A protocol withholds a quantile with too few values beyond it. Here the value is given with its state beside it: who
compares a file with what was published from it needs the number that was published.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from drift_runs.measure.file_averages import Average, Layout, Scopes
from drift_runs.measure.headline import unsaid_reason
from drift_runs.measure.positions import Positions, positions_of
from drift_runs.measure.quantiles import QUANTILES, TailShare, guard_state, tail_share, values_beyond
from drift_runs.measure.resampler import Floats, Resampler
from drift_runs.measure.specs import DIVERGENCES, Divergence
from drift_runs.schema import RowFlag

RATES = (("flip", "flip"), ("flip.strict", "flip_strict"), ("flip.text", "flip_text"), ("swap", "swap"))
"""(spec, field of ``Positions``) of what either happened at a position or did not."""
MEANS = (
    ("dnll", "dnll_nats"),
    ("nll.reference", "reference_nll_nats"),
    ("nll.candidate", "candidate_nll_nats"),
    ("dp", "dp"),
    ("entropy.full.reference", "reference_entropy_nats"),
    ("entropy.full.candidate", "candidate_entropy_nats"),
)
_TOP_K_MEANS = (
    ("entropy.topk@{k}.reference", "reference_entropy_topk_nats"),
    ("entropy.topk@{k}.candidate", "candidate_entropy_topk_nats"),
)
_OF_THE_TEXT = ("dnll", "nll.reference", "nll.candidate", "dp")
UNLISTED = "no position has it: it needs the log-probability of the text's own token, which a list may lack"
_ABSENT = {
    "kl.full": "no position has it: it needs the whole distribution of both sides",
    "js.full": "no position has it: it needs the whole distribution of both sides",
    "kl.topk-tail": "no position has it: it needs the candidate's log-probabilities of the reference's best tokens",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoRuleQuantile:
    """A quantile by both rules that published receipts use."""

    name: str
    linear: float
    lower: float
    """The order statistic at or below the place; no interpolation."""
    beyond: int
    state: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DivergenceFigures:
    """One divergence over all positions and by group."""

    spec: str
    bounds: str
    """What it says about ``kl.full``."""
    mean: Average
    window_mean: float | None
    """Mean over windows of their means."""
    groups: tuple[tuple[str, Average], ...]
    quantiles: tuple[TwoRuleQuantile, ...]
    smallest: float | None
    largest: float | None
    exactly_zero: int
    tail: TailShare
    infinite: int
    """Positions where Q is 0 and P is not: counted, and in no mean."""
    floored: int
    """Positions whose candidate tail came out as nothing and was floored; 0 for a spec without a tail."""
    reason: str
    """Why there is no figure; empty when there is one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RateFigures:
    """How often something happened."""

    spec: str
    rate: Average
    """Its ``total`` is the count."""
    groups: tuple[tuple[str, Average], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Support:
    """How far the K best of both sides are the same tokens."""

    top_k: int
    shared_mean: float
    shared_least: int
    outside_mean: float | None
    """Reference mass outside the shared tokens, its tail included."""
    outside_largest: float | None
    dropped_mean: float | None
    """Reference mass of those of its K best that are not shared: what published receipts call dropped."""
    dropped_largest: float | None
    missed_share: float | None
    """Of the reference's K best, what the candidate did not return."""
    collapsed: int
    """Positions with fewer than two shared tokens: ``kl.topk-shared`` is null there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFigures:
    """Every figure of one comparison."""

    positions: int
    windows: int
    divergences: tuple[DivergenceFigures, ...]
    rates: tuple[RateFigures, ...]
    means: tuple[tuple[str, Average], ...]
    unsaid: tuple[tuple[str, str], ...]
    """Means that rows may be expected to have and have not, each with the reason."""
    support: Support | None


def file_figures(comparison: pa.Table, layout: Layout, resampler: Resampler, *, headline: str) -> FileFigures:
    """Every figure of a table of schema ``COMPARISON``.

    A divergence that no position has is given with its reason when it is ``headline`` (a spec id without K), or when
    the rows hold K entries or full distributions, of which a reader may expect it; else it is left out.
    """
    positions = positions_of(comparison)
    scopes = Scopes(positions, layout, resampler)
    rows = positions.top_k is not None or bool(np.isfinite(positions.reference_p1).any())
    divergences = [
        _divergence(item, positions, scopes)
        for item in sorted(DIVERGENCES, key=lambda item: item.base != headline)  # the headline first
        if (positions.top_k is not None or not item.needs_k)
        and (rows or item.base == headline or np.isfinite(getattr(positions, item.column)).any())
    ]
    rates = [
        RateFigures(spec=spec, rate=scopes.average(values), groups=scopes.by_group(values))
        for spec, field in RATES
        if np.isfinite(values := getattr(positions, field)).any()
    ]
    named = [(spec.format(k=positions.top_k), field) for spec, field in (*MEANS, *_TOP_K_MEANS)]
    means = [
        (spec, scopes.average(values))
        for spec, field in named
        if np.isfinite(values := getattr(positions, field)).any()
    ]
    had = {spec for spec, _ in means}
    return FileFigures(
        unsaid=tuple((spec, UNLISTED) for spec in _OF_THE_TEXT if rows and spec not in had),
        positions=len(positions),
        windows=len(positions.windows),
        divergences=tuple(divergences),
        rates=tuple(rates),
        means=tuple(means),
        support=_support(positions, _finite(comparison, "reference_mass_dropped")),
    )


def _divergence(item: Divergence, positions: Positions, scopes: Scopes) -> DivergenceFigures:
    values = getattr(positions, item.column)
    reason = _ABSENT.get(item.base, "no position has it")
    if item.base == "kl.topk-tail":
        # A server that returns K entries says it only where none of the reference's best is missing: where drift is
        # mild. A mean over those positions would be no mean of this comparison.
        reason = unsaid_reason(positions.unsaid_tails, len(positions)) or reason
    finite = values[np.isfinite(values)]
    n = len(finite)
    has_tail = item.base in ("kl.topk-tail", "kl.topk-lower")
    return DivergenceFigures(
        spec=item.spec(positions.top_k),
        bounds=item.bounds,
        mean=scopes.average(values),
        window_mean=scopes.window_mean(values),
        groups=scopes.by_group(values) if n else (),
        quantiles=_quantiles(finite),
        smallest=float(finite.min()) if n else None,
        largest=float(finite.max()) if n else None,
        exactly_zero=int((finite == 0).sum()),
        tail=tail_share(values),
        infinite=int(((positions.flags & RowFlag.INFINITE_KL) > 0).sum()) if item.base == "kl.full" else 0,
        floored=int(((positions.flags & RowFlag.TAIL_FLOORED) > 0).sum()) if has_tail else 0,
        reason="" if n else reason,
    )


def _quantiles(finite: Floats) -> tuple[TwoRuleQuantile, ...]:
    n = len(finite)
    if not n:
        return ()
    levels = list(QUANTILES.values())
    points = zip(
        QUANTILES, levels, np.quantile(finite, levels), np.quantile(finite, levels, method="lower"), strict=True
    )
    return tuple(
        TwoRuleQuantile(
            name=name,
            linear=float(linear),
            lower=float(lower),
            beyond=values_beyond(n, level),
            state=guard_state(n, level)[0],
            reason=guard_state(n, level)[1],
        )
        for name, level, linear, lower in points
    )


def _finite(comparison: pa.Table, name: str) -> Floats:
    """The finite values of a column, in whatever order."""
    values = comparison[name].to_numpy(zero_copy_only=False).astype(np.float64)
    return values[np.isfinite(values)]


def _support(positions: Positions, dropped: Floats) -> Support | None:
    shared = positions.shared_support[np.isfinite(positions.shared_support)]
    if positions.top_k is None or not len(shared):
        return None
    outside = positions.reference_mass_outside[np.isfinite(positions.reference_mass_outside)]
    missed = positions.missed[np.isfinite(positions.missed)]
    return Support(
        top_k=positions.top_k,
        shared_mean=float(shared.mean()),
        shared_least=int(shared.min()),
        outside_mean=float(outside.mean()) if len(outside) else None,
        outside_largest=float(outside.max()) if len(outside) else None,
        dropped_mean=float(dropped.mean()) if len(dropped) else None,
        dropped_largest=float(dropped.max()) if len(dropped) else None,
        missed_share=float(missed.mean() / positions.top_k) if len(missed) else None,
        collapsed=int(((positions.flags & RowFlag.SUPPORT_COLLAPSE) > 0).sum()),
    )
