"""Means over the positions of a file, by group and with intervals by cluster, as far as the file names them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from drift_runs.measure.intervals import cluster_sums, intervals_of_sums, small_cluster_note
from drift_runs.measure.positions import Positions
from drift_runs.measure.resampler import Floats, Resampler


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """What the files say of their windows."""

    unit: str
    """What a cluster is: ``document``, ``window`` or ``prompt``."""
    cluster: Mapping[str, str]
    """Window to cluster."""
    group: Mapping[str, str]
    """Window to bucket or stratum; a window without one is in no group."""


class Ends(NamedTuple):
    """Everything that stands beside a mean; None where it does not exist."""

    low: float | None = None
    high: float | None = None
    bca_low: float | None = None
    bca_high: float | None = None
    standard_error: float | None = None
    t_low: float | None = None
    t_high: float | None = None
    clusters: int = 0
    interval: str = ""
    """Method, confidence and unit of ``low`` and ``high``; empty when there is none."""
    note: str = ""
    """What to mind with few clusters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Average:
    """A mean over positions (ratio of sums) in one scope."""

    value: float | None
    total: float
    n: int
    excluded: int
    """Positions without a finite value, left out."""
    ends: Ends


class Scopes:
    """Clusters and groups of the positions of one comparison."""

    def __init__(self, positions: Positions, layout: Layout, resampler: Resampler) -> None:
        self.unit = layout.unit
        self.resampler = resampler
        self.window = positions.window
        names = [layout.cluster.get(window, window) for window in positions.windows]
        labels = {name: at for at, name in enumerate(dict.fromkeys(names))}
        self.count = len(labels)
        codes = np.array([labels[name] for name in names], dtype=np.int32)
        self.cluster = codes[positions.window] if len(codes) else np.zeros(0, dtype=np.int32)
        groups = np.array([layout.group.get(window, "") for window in positions.windows], dtype=object)
        self.groups = [
            (str(name), np.isin(positions.window, np.flatnonzero(groups == name)))
            for name in dict.fromkeys(groups)
            if name
        ]

    def sums(self, values: Floats) -> tuple[Floats, Floats]:
        """Sums and numbers of the finite values of each cluster that has one: float64[clusters, 1] each."""
        known = np.isfinite(values)
        top = cluster_sums(np.where(known, values, 0.0)[:, None], self.cluster, self.count)
        bottom = cluster_sums(known.astype(np.float64)[:, None], self.cluster, self.count)
        kept = bottom[:, 0] > 0
        return top[kept], bottom[kept]

    def average(self, values: Floats, chosen: NDArray[np.bool_] | None = None) -> Average:
        """Of float64[n], in the chosen positions."""
        scope = np.ones(len(values), dtype=bool) if chosen is None else chosen
        finite = values[scope & np.isfinite(values)]
        n = len(finite)
        return Average(
            value=float(finite.sum() / n) if n else None,
            total=float(finite.sum()),
            n=n,
            excluded=int(scope.sum()) - n,
            ends=self._ends(np.where(scope, values, np.nan)),
        )

    def by_group(self, values: Floats) -> tuple[tuple[str, Average], ...]:
        return tuple((name, self.average(values, chosen)) for name, chosen in self.groups)

    def window_mean(self, values: Floats) -> float | None:
        known = np.isfinite(values)
        counts = np.bincount(self.window[known])
        totals = np.bincount(self.window[known], weights=values[known])
        used = counts > 0
        return float((totals[used] / counts[used]).mean()) if used.any() else None

    def _ends(self, values: Floats) -> Ends:
        top, bottom = self.sums(values)
        clusters = len(top)
        note = small_cluster_note(clusters, self.unit)
        if clusters < 2:
            return Ends(clusters=clusters, note=note)
        found = intervals_of_sums(top, bottom, self.resampler)
        ends = [*found.percentile, *found.bca, found.standard_error, *found.log_t_mean]
        return Ends(
            *(float(end[0]) if np.isfinite(end[0]) else None for end in ends),
            clusters=clusters,
            interval=self.resampler.cluster_label(clusters, self.unit),
            note=note,
        )
