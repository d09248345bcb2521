"""Marks of single positions that follow from a comparison: known, volatile, confident (METRICS, `volatile`)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from drift_runs.measure.positions import Positions
from drift_runs.protocol.model import Marks


def known_mask(positions: Positions) -> NDArray[np.bool_]:
    """Where dnll is finite: bool[n]. Elsewhere nobody can say whether a position is volatile."""
    return np.isfinite(positions.dnll_nats)


def volatile_mask(positions: Positions, marks: Marks) -> NDArray[np.bool_]:
    """Where |dnll| is above ``marks.volatile_above_nats``: bool[n], False where dnll is missing."""
    return np.abs(positions.dnll_nats) > marks.volatile_above_nats


def confident_mask(positions: Positions, marks: Marks) -> NDArray[np.bool_]:
    """Where either side gave the actual token more than ``marks.confident_above``: bool[n].

    One known side is enough. False where neither is known.
    """
    best = np.fmin(positions.reference_nll_nats, positions.candidate_nll_nats)
    return np.exp(-best) > marks.confident_above
