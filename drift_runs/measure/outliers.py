"""With, without or only the windows that a protocol declares as outliers, and which windows its rule would propose.

A proposal needs rows, so it is made after results. It never changes a figure: only the protocol declares.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from drift_runs.measure.headline import headline_of
from drift_runs.measure.marks import volatile_mask
from drift_runs.measure.positions import Positions, positions_of
from drift_runs.measure.resampler import plural
from drift_runs.protocol.model import Protocol
from drift_runs.schema import PROPOSALS

FLOOR_MULTIPLE = "floor_multiple"
VOLATILE_ROWS = "volatile_rows"
LEAST_WINDOWS = 3
"""Of two windows nobody can say which one is unlike the other."""

WITH = "with"
WITHOUT = "without"
ONLY = "only"


def choices(protocol: Protocol) -> tuple[str, ...]:
    """Ways of reporting under this protocol; *only* exists when windows are declared."""
    return (WITH, WITHOUT, ONLY) if protocol.outliers else (WITH, WITHOUT)


def outlier_mask(positions: Positions, protocol: Protocol, choice: str) -> NDArray[np.bool_]:
    """bool[n]: the positions that this choice keeps."""
    declared = np.array([name in protocol.outlier_windows for name in positions.windows], dtype=bool)
    inside = declared[positions.window] if len(declared) else np.zeros(len(positions), dtype=bool)
    return _keep(inside, choice)


def _keep(inside: NDArray[np.bool_], choice: str) -> NDArray[np.bool_]:
    match choice:
        case "with":
            return np.ones(len(inside), dtype=bool)
        case "without":
            return ~inside
        case "only":
            return inside
    raise ValueError(f"outliers {choice!r}: expected with, without or only")


def proposals_table(floors: Mapping[str, pa.Table], protocol: Protocol) -> pa.Table:
    """Table ``PROPOSALS``: windows that ``protocol.outlier_rule`` would report separately, in the protocol's order.

    ``floors``: name -> table ``COMPARISON`` of a floor. ``floor_multiple``: the floor's mean headline divergence in the
    window is above that multiple of the median of its other windows' means. ``volatile_rows``: it has at least so many
    volatile positions there. A floor of another arm than the reference is left out, and so is one of fewer than
    :data:`LEAST_WINDOWS` windows.
    """
    foreign = {floor.name for floor in protocol.floors if floor.arm != protocol.reference.name}
    rows = [row for name in sorted(floors) if name not in foreign for row in _proposals(name, floors[name], protocol)]
    order = {window.name: at for at, window in enumerate(protocol.windows)}
    rows.sort(key=lambda row: (order[row["window"]], row["rule"], row["floor"]))
    return pa.Table.from_pylist(rows, schema=PROPOSALS)


def _proposals(floor: str, table: pa.Table, protocol: Protocol) -> Iterator[dict]:
    positions = positions_of(table)
    if len(positions.windows) < LEAST_WINDOWS:
        return
    for row in (*_by_multiple(floor, positions, protocol), *_by_volatile_rows(floor, positions, protocol)):
        yield {**row, "floor": floor, "declared": row["window"] in protocol.outlier_windows, "post_hoc": True}


def _by_multiple(floor: str, positions: Positions, protocol: Protocol) -> Iterator[dict]:
    headline = headline_of(positions, protocol)
    multiple = protocol.outlier_rule.floor_multiple
    means = _means(positions, headline.column)
    if len(means) < LEAST_WINDOWS:
        return
    for at, mean in means.items():
        median = float(np.median([other for window, other in means.items() if window != at]))
        # 16-bit storage leaves means a little below zero, and a multiple of those would be no limit.
        threshold = max(multiple * median, 0.0)
        if mean > threshold:
            reason = f"mean of {floor} above {multiple:g} times the other windows' median"
            yield {
                "window": positions.windows[at],
                "rule": FLOOR_MULTIPLE,
                "spec": headline.spec,
                "value": mean,
                "others_median": median,
                "threshold": threshold,
                "reason": reason if median > 0 else f"mean of {floor} above 0, the other windows' median is not",
            }


def _by_volatile_rows(floor: str, positions: Positions, protocol: Protocol) -> Iterator[dict]:
    least = protocol.outlier_rule.volatile_rows
    volatile = volatile_mask(positions, protocol.marks)
    counts = np.bincount(positions.window[volatile], minlength=len(positions.windows))
    for at in np.flatnonzero(counts >= least):
        yield {
            "window": positions.windows[at],
            "rule": VOLATILE_ROWS,
            "spec": "volatile",
            "value": float(counts[at]),
            "others_median": float(np.median(np.delete(counts, at))),
            "threshold": float(least),
            "reason": f"{plural(int(counts[at]), 'volatile position')} in {floor}, {least} are enough",
        }


def _means(positions: Positions, column: str) -> dict[int, float]:
    """Mean of each window that has finite values."""
    values = getattr(positions, column)
    finite = np.isfinite(values)
    window = positions.window
    return {int(at): float(values[finite & (window == at)].mean()) for at in np.unique(window[finite])}
