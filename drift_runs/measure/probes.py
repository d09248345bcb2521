"""Probes of one position in so many, and what each of them would have seen."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from drift_runs.measure.flips import BANDS, band_index
from drift_runs.measure.history import bucket_index
from drift_runs.measure.intervals import Clusters, Resampler, clusters_of, ratio_intervals
from drift_runs.measure.positions import Positions
from drift_runs.measure.quantiles import QUANTILES, WITHHELD, guard_state
from drift_runs.measure.ranges import range_index
from drift_runs.measure.specs import BY_BASE
from drift_runs.protocol.model import Protocol

Floats = NDArray[np.float64]
Chosen = NDArray[np.intp]


class Worst(NamedTuple):
    """The worst range by one statistic: index into the protocol's ranges, -1 when none is named."""

    at: int
    value: float
    known: NDArray[np.bool_]
    """bool[ranges]: firm or indicative."""


class Seen(NamedTuple):
    """What one probe saw."""

    size: int
    worst: dict[str, Worst]
    overturns: int
    largest: bool
    mean: float
    """NaN without a finite position."""


class ProbePanel:
    """The positions that probes are taken of, and what all of them say."""

    def __init__(self, positions: Positions, protocol: Protocol, resampler: Resampler) -> None:
        self.protocol = protocol
        self.resampler = resampler
        self.positions = positions
        divergence = BY_BASE[protocol.capture.divergence]
        self.spec = divergence.spec(positions.top_k or protocol.capture.top_k)
        self.values: Floats = getattr(positions, divergence.column)
        self.finite = np.isfinite(self.values)
        self.range_at = range_index(positions, protocol)
        self.clusters: Clusters = clusters_of(positions, protocol)
        self.bucket = bucket_index(positions.position, protocol.history.buckets)
        strong = band_index(positions.reference_p1, protocol.bands) == BANDS.index("strong")
        self.overturn = strong & (positions.flip == 1)
        self.largest = int(np.where(self.finite, self.values, -np.inf).argmax()) if self.finite.any() else -1
        panels = [protocol.window(name).panel for name in positions.windows]
        of_position = np.array([panels.index(panel) for panel in panels], dtype=np.intp)[positions.window]
        self.members = [np.flatnonzero(of_position == at) for at in np.unique(of_position)]
        everything = np.arange(len(positions))
        self.full = self.seen(everything)
        self.full_widths = self.widths(everything)

    def phases(self, stride: int) -> Iterator[Chosen]:
        """Every ``stride``-th position of each window, once for each place to begin."""
        for phase in range(stride):
            yield np.flatnonzero(self.positions.position % stride == phase)

    def draws(self, stride: int, count: int, generator: np.random.Generator) -> Iterator[Chosen]:
        """As many positions of each panel as a probe of that stride has, at least one, drawn without replacement."""
        for _ in range(count):
            parts = [
                generator.choice(members, max(1, round(len(members) / stride)), replace=False)
                for members in self.members
            ]
            yield np.sort(np.concatenate(parts)) if parts else np.zeros(0, dtype=np.intp)

    def seen(self, chosen: Chosen) -> Seen:
        """What the probe of these positions says."""
        values, finite, range_at = self.values[chosen], self.finite[chosen], self.range_at[chosen]
        flip = self.positions.flip[chosen]
        return Seen(
            size=len(chosen),
            worst={
                "p95": self._worst(values, finite, range_at, "p95"),
                "mean": self._worst(values, finite, range_at, "mean"),
                "rate": self._worst(flip, np.isfinite(flip), range_at, "rate"),
            },
            overturns=int(self.overturn[chosen].sum()),
            largest=bool((chosen == self.largest).any()),
            mean=float(values[finite].mean()) if finite.any() else float("nan"),
        )

    def _worst(self, values: Floats, finite: NDArray[np.bool_], range_at: NDArray[np.int32], statistic: str) -> Worst:
        """The range with the largest value, the first of equals; none where no value is above 0."""
        count = len(self.protocol.ranges)
        inside = finite & (range_at >= 0)
        values, range_at = values[inside], range_at[inside]
        sizes = np.bincount(range_at, minlength=count)
        found = np.full(count, -np.inf)
        if statistic == "p95":
            order = np.argsort(range_at, kind="stable")
            parts = np.split(values[order], np.cumsum(sizes)[:-1]) if count else []
            for at, part in enumerate(parts):
                if guard_state(len(part), QUANTILES["p95"])[0] != WITHHELD:
                    found[at] = np.quantile(part, QUANTILES["p95"])
        else:
            sums = np.bincount(range_at, weights=values, minlength=count)
            np.divide(sums, sizes, out=found, where=sizes > 0)
        known = np.isfinite(found)
        at = int(found.argmax()) if known.any() else -1
        return Worst(at if at >= 0 and found[at] > 0 else -1, float(found[at]) if at >= 0 else float("nan"), known)

    def widths(self, chosen: Chosen) -> Floats:
        """Width of the cluster interval of each history bucket's mean: float64[buckets], NaN where there is none."""
        kept = chosen[self.finite[chosen]]
        widths = np.full(len(self.protocol.history.buckets) + 1, np.nan)
        for at in np.unique(self.bucket[kept]):
            here = kept[self.bucket[kept] == at]
            inside = self.clusters.take(here)
            values = self.values[here][:, None]
            bounds = ratio_intervals(values, np.ones_like(values), inside.index, len(inside.labels), self.resampler)
            widths[at] = bounds.high[0] - bounds.low[0]
        # An interval of no width has nothing to be compared with.
        return np.where(widths > 0, widths, np.nan)
