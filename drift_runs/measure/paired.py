"""Two candidates against each other on the same positions: table ``PAIRS``. METRICS, Intervals.

Differences are left minus right at positions where both arms have the figure. The interval resamples the clusters of
those positions, both arms together, so what is hard for both cancels.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from drift_runs.errors import NotComparable
from drift_runs.measure.intervals import (
    Clusters,
    Resampler,
    cluster_intervals,
    cluster_sums,
    clusters_of_windows,
    small_cluster_note,
)
from drift_runs.measure.outliers import WITH, WITHOUT
from drift_runs.measure.permutation import mcnemar, sign_flip
from drift_runs.measure.positions import positions_of
from drift_runs.measure.specs import BY_BASE, headline_spec
from drift_runs.protocol.model import Protocol
from drift_runs.schema import PAIRS

Floats = NDArray[np.float64]
Chosen = NDArray[np.bool_]

FLIP = 1
STATISTICS = ("mean", "rate", "mean", "mean")
"""Of the headline divergence, ``flip``, ``dnll`` and the candidate's entropy: the order of every array's figures
here."""

NOTHING_SWITCHED = "identical at every position: the switch between them did nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Arm:
    """What is compared of one arm, ordered by ``keys``."""

    specs: tuple[str, ...]
    """Spec ids of the figures, with K where they depend on it."""
    keys: NDArray[np.int64]
    """int64[n]: window and position, ascending and distinct."""
    values: Floats
    """float64[figures, n], NaN where missing."""
    same_rows: bool
    """Whether every row has the reference's bytes."""
    against: str
    """Another reference than the protocol's; empty for that one."""


def pairs_table(comparisons: Mapping[str, pa.Table], protocol: Protocol) -> pa.Table:
    """Table ``PAIRS``: every two arms in the given order, over all positions and each panel, with and without outliers.

    ``comparisons``: arm -> table ``COMPARISON``. Where the two headlines are not the same definition (another K), or
    the two arms were compared with different references, a reason stands in place of the numbers. ``excluded`` counts
    the positions of the scope that either arm has and that do not have both figures.
    """
    windows = tuple(window.name for window in protocol.windows)
    arms = {name: _arm(name, table, protocol, windows) for name, table in comparisons.items()}
    resampler = Resampler.of(protocol)
    rows = [
        row
        for left, right in combinations(arms, 2)
        for row in _Pair(left, arms[left], right, arms[right], protocol, windows, resampler).rows()
    ]
    columns = {field.name: pa.array([row[field.name] for row in rows], type=field.type) for field in PAIRS}
    return pa.table(columns, schema=PAIRS)


def _arm(name: str, table: pa.Table, protocol: Protocol, windows: tuple[str, ...]) -> _Arm:
    positions = positions_of(table, windows=windows)
    keys = positions.keys()
    if len(keys) and (np.diff(keys) == 0).any():
        raise NotComparable("a position stands twice in a comparison", where=f"arm {name}", expected="one row each")
    top_k = positions.top_k or protocol.capture.top_k
    entropy, entropy_nats = "entropy.full.candidate", positions.candidate_entropy_nats
    if not np.isfinite(entropy_nats).any() and np.isfinite(positions.candidate_entropy_topk_nats).any():
        entropy, entropy_nats = f"entropy.topk@{top_k}.candidate", positions.candidate_entropy_topk_nats
    headline = getattr(positions, BY_BASE[protocol.capture.divergence].column)
    return _Arm(
        specs=(headline_spec(protocol, top_k), "flip", "dnll", entropy),
        keys=keys,
        values=np.stack([headline, positions.flip, positions.dnll_nats, entropy_nats]),
        same_rows=bool(pc.all(pc.fill_null(table["row_identical"], False), min_count=1).as_py()),
        against=next((arm.against for arm in protocol.arms if arm.name == name), ""),
    )


class _Pair:
    """Two arms laid over the positions that either has."""

    def __init__(
        self,
        left: str,
        left_arm: _Arm,
        right: str,
        right_arm: _Arm,
        protocol: Protocol,
        windows: tuple[str, ...],
        resampler: Resampler,
    ) -> None:
        self.names = {"left": left, "right": right}
        self.specs = left_arm.specs
        self.protocol = protocol
        self.resampler = resampler
        self.obstacles = _obstacles(left_arm, right_arm)
        same = np.array_equal(left_arm.keys, right_arm.keys)
        keys = left_arm.keys if same else np.union1d(left_arm.keys, right_arm.keys)
        self.left, self.right = _laid_over(left_arm, keys), _laid_over(right_arm, keys)
        self.both = np.isfinite(self.left) & np.isfinite(self.right)
        self.difference = np.where(self.both, self.left, 0.0) - np.where(self.both, self.right, 0.0)
        self.window = (keys >> 32).astype(np.int32)
        self.clusters: Clusters = clusters_of_windows(windows, self.window, protocol)
        self.panel = np.array([protocol.window(name).panel for name in windows], dtype=object)
        self.outlier = np.array([name in protocol.outlier_windows for name in windows], dtype=bool)
        if self.both[0].any():
            equal = not self.obstacles[0] and not self.difference[0].any()
        else:
            equal = left_arm.same_rows and right_arm.same_rows
        self.mark = NOTHING_SWITCHED if equal else ""

    def rows(self) -> Iterator[dict[str, object]]:
        known: dict[bytes, list[dict[str, object]]] = {}
        for outliers in (WITH, WITHOUT):
            kept = ~self.outlier[self.window] if outliers == WITHOUT else np.ones(len(self.window), dtype=bool)
            for kind, scope, inside in self._scopes():
                chosen = inside & kept
                if kind != "all" and not chosen.any():
                    continue
                key = np.packbits(chosen).tobytes()
                if key not in known:
                    known[key] = self._figures(chosen)
                place = {**self.names, "scope_kind": kind, "scope": scope, "outliers": outliers}
                yield from ({**place, **figure} for figure in known[key])

    def _scopes(self) -> Iterator[tuple[str, str, Chosen]]:
        yield "all", "all", np.ones(len(self.window), dtype=bool)
        for panel in self.protocol.panels:
            yield "panel", panel.name, (self.panel == panel.name)[self.window]

    def _figures(self, chosen: Chosen) -> list[dict[str, object]]:
        """The columns of each figure; figures that exist at the same positions share one set of resamples."""
        found: list[dict[str, object]] = [{} for _ in STATISTICS]
        groups: dict[tuple[str, bytes], list[int]] = {}
        for at in range(len(STATISTICS)):
            groups.setdefault((self.obstacles[at], np.packbits(chosen & self.both[at]).tobytes()), []).append(at)
        for (obstacle, _), members in groups.items():
            used = np.flatnonzero(chosen & self.both[members[0]])
            absent = obstacle or ("" if len(used) else "no position has both figures")
            for at, numbers in zip(members, self._numbers(members, used, absent), strict=True):
                found[at] = {
                    "spec": self.specs[at],
                    "statistic": STATISTICS[at],
                    "n": 0 if absent else len(used),
                    "excluded": int(chosen.sum()) - (0 if absent else len(used)),
                    **numbers,
                }
        return found

    def _numbers(self, members: list[int], used: NDArray[np.intp], absent: str) -> Iterator[dict[str, object]]:
        """What was computed of the figures ``members`` at the positions ``used``."""
        if absent:
            for _ in members:
                yield {**_BLANK, "reason": absent}
            return
        inside = self.clusters.take(used)
        count = len(inside.labels)
        values = np.ascontiguousarray(self.difference[np.ix_(members, used)].T)
        intervals = cluster_intervals(values, np.ones(values.shape), inside.index, count, self.resampler)
        test = sign_flip(
            cluster_sums(values, inside.index, count), seed=self.protocol.seeds.bootstrap, unit=inside.unit
        )
        note = small_cluster_note(count, inside.unit)
        label = self.resampler.cluster_label(count, inside.unit)
        _, window = np.unique(self.window[used], return_inverse=True)
        windows = int(window.max()) + 1
        for column, at in enumerate(members):
            left, right = self.left[at, used], self.right[at, used]
            above = np.bincount(window, weights=left, minlength=windows) > np.bincount(
                window, weights=right, minlength=windows
            )
            low = _number(intervals.percentile.low[column])
            yield {
                **_BLANK,
                "left_value": float(left.mean()),
                "right_value": float(right.mean()),
                "difference": float(np.ascontiguousarray(values[:, column]).mean()),
                "low": low,
                "high": _number(intervals.percentile.high[column]),
                "interval": "" if low is None else label,
                "bca_low": _number(intervals.bca.low[column]),
                "bca_high": _number(intervals.bca.high[column]),
                "standard_error": _number(intervals.standard_error[column]),
                "clusters": count,
                "p_sign_flip": _number(test.p[column]),
                "sign_flip": test.method,
                **(_discordant(left, right) if at == FLIP else {}),
                "windows": windows,
                "windows_left_above": int(above.sum()),
                "reason": "; ".join(part for part in (self.mark, note) if part),
            }


_BLANK: dict[str, object] = {
    **{field.name: None for field in PAIRS if field.nullable},
    "interval": "",
    "sign_flip": "",
}


def _obstacles(left: _Arm, right: _Arm) -> tuple[str, ...]:
    """Why each figure of the two must not be set against the other's; empty where it may."""
    if left.against != right.against:
        names = [arm.against or "the protocol's" for arm in (left, right)]
        return (f"another reference on each side: {names[0]} and {names[1]}",) * len(STATISTICS)
    return tuple(
        "" if one == other else f"another definition on each side: {one} and {other}"
        for one, other in zip(left.specs, right.specs, strict=True)
    )


def _laid_over(arm: _Arm, keys: NDArray[np.int64]) -> Floats:
    """The arm's figures at those keys: float64[figures, keys], NaN where it has none."""
    laid = np.full((len(arm.values), len(keys)), np.nan)
    laid[:, np.searchsorted(keys, arm.keys)] = arm.values
    return laid


def _discordant(left: Floats, right: Floats) -> dict[str, object]:
    """Positions where one arm alone flips, and what a test makes of them that takes positions as independent."""
    left_only, right_only = int((left > right).sum()), int((right > left).sum())
    return {"left_only": left_only, "right_only": right_only, "p_mcnemar": mcnemar(left_only, right_only)}


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
