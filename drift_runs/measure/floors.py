"""Floors laid over an arm's positions, and which one of them stands beside a selection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from drift_runs.measure.arm_figures import Beside
from drift_runs.measure.headline import headline_of
from drift_runs.measure.positions import Positions, positions_of
from drift_runs.measure.ratios import HEADLINE, RatioColumn, Ratios
from drift_runs.measure.selected import SelectedSide, Selection, Side
from drift_runs.measure.specs import DIVERGENCES
from drift_runs.protocol.model import Protocol
from drift_runs.schema import RowFlag

_TOP_K_FIELDS = (
    *(item.column for item in DIVERGENCES if item.needs_k),
    "shared_support",
    "reference_mass_outside",
    "reference_mass_dropped",
    "missed",
    "reference_entropy_topk_nats",
    "candidate_entropy_topk_nats",
)
_TOP_K_FLAGS = RowFlag.SUPPORT_COLLAPSE | RowFlag.TAIL_FLOORED


class _Floor(NamedTuple):
    """A floor at the arm's positions; where it is not ``covered`` its arrays mean nothing."""

    side: Side
    covered: NDArray[np.bool_]


class Floors:
    """The floors of one arm: its own reference's, and those that are borrowed from another one."""

    def __init__(
        self,
        positions: Positions,
        protocol: Protocol,
        columns: Sequence[RatioColumn],
        *,
        own: Mapping[str, pa.Table],
        borrowed: Mapping[str, pa.Table],
    ) -> None:
        self.positions = positions
        self.protocol = protocol
        self.columns = tuple(columns)
        self.own = self._laid(own)
        self.borrowed = self._laid(borrowed)

    def beside(self, chosen: Selection) -> Beside:
        """The floor that stands beside a selection; a borrowed one only where no own one covers it."""
        return (
            _harshest(self.own, chosen, borrowed=False) or _harshest(self.borrowed, chosen, borrowed=True) or Beside()
        )

    def _laid(self, tables: Mapping[str, pa.Table]) -> dict[str, _Floor]:
        laid = {name: self._laid_over(tables[name]) for name in sorted(tables)}
        return {name: floor for name, floor in laid.items() if floor is not None}

    def _laid_over(self, table: pa.Table) -> _Floor | None:
        """A floor at this arm's positions, in this arm's order; None where it has the headline of another K."""
        floor = positions_of(table, windows=self.positions.windows)
        if self.positions.top_k is not None and floor.top_k not in (None, self.positions.top_k):
            if headline_of(self.positions, self.protocol).column in _TOP_K_FIELDS:
                return None
            nothing = np.full(len(floor), np.nan)
            floor = replace(floor, flags=floor.flags & ~_TOP_K_FLAGS, **dict.fromkeys(_TOP_K_FIELDS, nothing))
        keys, wanted = floor.keys(), self.positions.keys()
        covered = np.isin(wanted, keys)
        at = np.minimum(np.searchsorted(keys, wanted), max(len(keys) - 1, 0))
        laid = floor.take(at) if len(keys) else floor
        return _Floor(Side(laid, Ratios.of(laid, self.protocol, self.columns)), covered)


def _harshest(floors: Mapping[str, _Floor], chosen: Selection, *, borrowed: bool) -> Beside | None:
    """The floor with the largest headline mean among those that cover a selection; the first of equals."""
    best: tuple[float, str] | None = None
    for name, floor in floors.items():
        if len(chosen) == 0 or not floor.covered[chosen].all():
            continue
        used = floor.side.ratios.weights[HEADLINE, chosen].sum()
        mean = floor.side.ratios.values[HEADLINE, chosen].sum() / used if used else -np.inf
        if best is None or mean > best[0]:
            best = (float(mean), name)
    if best is None:
        return None
    return Beside(best[1], SelectedSide(floors[best[1]].side, chosen), borrowed)
