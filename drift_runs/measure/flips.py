"""Top-1 flips (specs ``flip`` and ``flip.strict``), bands of the reference's confidence, and strong overturns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from drift_runs.measure.positions import Positions
from drift_runs.protocol.model import Bands

BANDS = ("uncertain", "leaning", "strong")


class Overturn(NamedTuple):
    """A flip where the reference was strongly sure."""

    window: str
    position: int
    reference_p1: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FlipCounts:
    """Flips of a set of positions. Rates are None where there is nothing to divide by."""

    scored: int
    """Positions where both rows were usable."""
    excluded: int
    flips: int
    strict: int
    """Flips whose sets of tied best tokens are disjoint."""
    strong_positions: int
    strong_overturns: int
    by_band: tuple[tuple[str, int, int], ...]
    """(band, positions, flips)."""

    @property
    def rate(self) -> float | None:
        return self.flips / self.scored if self.scored else None

    @property
    def strict_rate(self) -> float | None:
        return self.strict / self.scored if self.scored else None

    @property
    def strong_rate(self) -> float | None:
        """Overturns over strong positions."""
        return self.strong_overturns / self.strong_positions if self.strong_positions else None


def band_index(reference_p1: NDArray[np.float64], bands: Bands) -> NDArray[np.int8]:
    """Index into ``BANDS`` of float64[n]; -1 where p1 is missing. A limit belongs to the band above it."""
    index = (reference_p1 >= bands.uncertain_below).astype(np.int8) + (reference_p1 >= bands.strong_from)
    return np.where(np.isnan(reference_p1), np.int8(-1), index).astype(np.int8)


def count_flips(positions: Positions, bands: Bands) -> FlipCounts:
    """Counts over all of ``positions``."""
    valid = np.isfinite(positions.flip)
    flipped = valid & (positions.flip == 1)
    band = band_index(positions.reference_p1, bands)
    by_band = tuple(
        (name, int((valid & (band == at)).sum()), int((flipped & (band == at)).sum())) for at, name in enumerate(BANDS)
    )
    return FlipCounts(
        scored=int(valid.sum()),
        excluded=int((~valid).sum()),
        flips=int(flipped.sum()),
        strict=int((positions.flip_strict == 1).sum()),
        strong_positions=by_band[2][1],
        strong_overturns=by_band[2][2],
        by_band=by_band,
    )


def strong_overturns(positions: Positions, bands: Bands) -> tuple[Overturn, ...]:
    """Every flip in the strong band, the surest first."""
    strong = band_index(positions.reference_p1, bands) == BANDS.index("strong")
    at = np.flatnonzero(strong & (positions.flip == 1))
    at = at[np.argsort(-positions.reference_p1[at], kind="stable")]
    return tuple(
        Overturn(
            positions.windows[positions.window[row]], int(positions.position[row]), float(positions.reference_p1[row])
        )
        for row in at
    )
