"""The scopes that figures are given over, and the statistics of one selection of positions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from drift_runs.measure.flips import BANDS, band_index
from drift_runs.measure.history import bucket_index, bucket_labels
from drift_runs.measure.intervals import (
    Bounds,
    Clusters,
    Resampler,
    block_quantile_replicates,
    block_ratio_replicates,
    quantile_intervals,
    ratio_intervals,
    small_cluster_note,
)
from drift_runs.measure.positions import Positions
from drift_runs.measure.quantiles import QUANTILES, Quantile, TailShare, quantiles, tail_share
from drift_runs.measure.ranges import kinds_of
from drift_runs.protocol.model import Protocol

Floats = NDArray[np.float64]
Selection = NDArray[np.intp]

RATIOS: tuple[tuple[str, str], ...] = (
    ("kl.full", "mean"),
    ("flip", "rate"),
    ("flip.strict", "rate"),
    ("strong_overturn", "rate"),
    ("dnll", "mean"),
    ("nll.reference", "mean"),
    ("nll.candidate", "mean"),
    ("dp", "mean"),
    ("entropy.full.reference", "mean"),
    ("entropy.full.candidate", "mean"),
)
"""(spec, statistic) of every figure that is a ratio of sums, in the order of :class:`Ratios`' columns."""

KL_MEAN = 0
FLIP_RATE = 1
STRICT_RATE = 2
STRONG_RATE = 3


class Scope(NamedTuple):
    """A named selection of positions."""

    kind: str
    name: str
    chosen: NDArray[np.bool_]


def scopes_of(positions: Positions, protocol: Protocol, range_at: NDArray[np.int32]) -> tuple[Scope, ...]:
    """Every scope of a protocol, as masks over ``positions``; ``range_at`` is :func:`ranges.range_index` of them."""
    panels = [protocol.window(name).panel for name in positions.windows]
    scopes = [Scope("all", "all", np.ones(len(positions), dtype=bool))]
    for panel in protocol.panels:
        members = [at for at, name in enumerate(panels) if name == panel.name]
        scopes.append(Scope("panel", panel.name, np.isin(positions.window, members)))
    for kind, spans in kinds_of(protocol).items():
        scopes.append(Scope("kind", kind, np.isin(range_at, spans)))
    scopes.extend(Scope("range", span.name, range_at == at) for at, span in enumerate(protocol.ranges))
    scopes.extend(Scope("window", name, positions.window == at) for at, name in enumerate(positions.windows))
    bucket = bucket_index(positions.position, protocol.history.buckets)
    labels = bucket_labels(protocol.history.buckets)
    scopes.extend(Scope("history", label, bucket == at) for at, label in enumerate(labels))
    band = band_index(positions.reference_p1, protocol.bands)
    scopes.extend(Scope("band", name, band == at) for at, name in enumerate(BANDS))
    return tuple(scopes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratios:
    """Numerators and weights of every ratio of sums: float64[n, figures]; weight 0 where a position is left out."""

    values: Floats
    weights: Floats
    missing: NDArray[np.bool_]
    """bool[n, figures]: null or not finite, so counted as excluded."""

    @classmethod
    def of(cls, positions: Positions, protocol: Protocol) -> Ratios:
        strong = band_index(positions.reference_p1, protocol.bands) == BANDS.index("strong")
        columns = [
            positions.kl_full_nats,
            positions.flip,
            positions.flip_strict,
            positions.flip,
            positions.dnll_nats,
            positions.reference_nll_nats,
            positions.candidate_nll_nats,
            positions.dp,
            positions.reference_entropy_nats,
            positions.candidate_entropy_nats,
        ]
        raw = np.stack(columns, axis=1)
        missing = ~np.isfinite(raw)
        weights = (~missing).astype(np.float64)
        weights[:, STRONG_RATE] *= strong
        return cls(values=np.where(missing, 0.0, raw) * (weights > 0), weights=weights, missing=missing)


class Points(NamedTuple):
    """Figures of one selection, without intervals."""

    ratios: Floats
    """float64[figures], NaN for nothing over nothing."""
    used: NDArray[np.int64]
    excluded: NDArray[np.int64]
    sums: Floats
    quantiles: tuple[Quantile, ...]
    largest: float | None
    tail: TailShare


class Spread(NamedTuple):
    """Intervals of one selection."""

    ratios: Bounds
    quantiles: Bounds
    label: str
    """Method, confidence and unit; empty when there is no interval."""
    clusters: int
    note: str


def points_of(positions: Positions, ratios: Ratios, chosen: Selection) -> Points:
    """Point figures over the chosen positions."""
    # One contiguous row a figure: numpy then sums pairwise, which the order of windows hardly moves.
    sums = np.ascontiguousarray(ratios.values[chosen].T).sum(axis=1)
    used = ratios.weights[chosen].sum(axis=0)
    kl = positions.kl_full_nats[chosen]
    finite = kl[np.isfinite(kl)]
    return Points(
        ratios=np.divide(sums, used, out=np.full(len(sums), np.nan), where=used > 0),
        used=used.astype(np.int64),
        excluded=ratios.missing[chosen].sum(axis=0).astype(np.int64),
        sums=sums,
        quantiles=quantiles(kl),
        largest=float(finite.max()) if len(finite) else None,
        tail=tail_share(kl),
    )


def spread_of(
    positions: Positions, ratios: Ratios, clusters: Clusters, chosen: Selection, resampler: Resampler
) -> Spread:
    """Intervals over the chosen positions: between clusters where there are several, else within the one text."""
    levels = np.array(list(QUANTILES.values()))
    inside = clusters.take(chosen)
    count = len(inside.labels)
    values, weights = ratios.values[chosen], ratios.weights[chosen]
    kl = positions.kl_full_nats[chosen]
    finite = np.isfinite(kl)
    note = small_cluster_note(count, inside.unit)
    if count >= 2:
        return Spread(
            ratios=ratio_intervals(values, weights, inside.index, count, resampler),
            quantiles=_cluster_quantiles(kl, finite, inside, levels, resampler),
            label=resampler.cluster_label(count, inside.unit),
            clusters=count,
            note=note,
        )
    one_text = len(chosen) > 0 and len(np.unique(positions.window[chosen])) == 1
    least = 2 * resampler.block_tokens
    # Fewer than two blocks resample to the text itself: an interval of no width that says nothing.
    if one_text and int(finite.sum()) >= least:
        return Spread(
            ratios=resampler.percentile(block_ratio_replicates(values, weights, resampler)),
            quantiles=resampler.percentile(block_quantile_replicates(kl[finite], levels, resampler)),
            label=resampler.block_label(),
            clusters=count,
            note=note,
        )
    if one_text:
        note = f"{int(finite.sum())} positions: no interval under {least}"
    return Spread(
        ratios=_no_bounds(values.shape[1]), quantiles=_no_bounds(len(levels)), label="", clusters=count, note=note
    )


def _cluster_quantiles(
    kl: Floats, finite: NDArray[np.bool_], clusters: Clusters, levels: Floats, resampler: Resampler
) -> Bounds:
    """Quantile intervals over the clusters that have finite values."""
    kept = clusters.take(finite)
    return quantile_intervals(kl[finite], kept.index, len(kept.labels), levels, resampler)


def _no_bounds(count: int) -> Bounds:
    return Bounds(np.full(count, np.nan), np.full(count, np.nan))
