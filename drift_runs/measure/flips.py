"""Top-1 flips (specs ``flip`` and ``flip.strict``), bands of the reference's confidence, and strong overturns."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from drift_runs.measure.positions import Positions
from drift_runs.protocol.model import Bands

BANDS = ("uncertain", "leaning", "strong")


def band_index(reference_p1: NDArray[np.float64], bands: Bands) -> NDArray[np.int8]:
    """Index into ``BANDS`` of float64[n]; -1 where p1 is missing. A limit belongs to the band above it."""
    index = (reference_p1 >= bands.uncertain_below).astype(np.int8) + (reference_p1 >= bands.strong_from)
    return np.where(np.isnan(reference_p1), np.int8(-1), index).astype(np.int8)


def strong_overturn_mask(positions: Positions, bands: Bands) -> NDArray[np.bool_]:
    """Flips in the strong band: bool[n]."""
    return (band_index(positions.reference_p1, bands) == BANDS.index("strong")) & (positions.flip == 1)
