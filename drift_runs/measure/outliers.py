"""With, without or only the windows that a protocol declares as outliers."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from drift_runs.measure.positions import Positions
from drift_runs.protocol.model import Protocol

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


def split_table(table: pa.Table, protocol: Protocol, choice: str) -> pa.Table:
    """The rows of a table with a ``window`` column that this choice keeps."""
    declared = pa.array(sorted(protocol.outlier_windows), type=pa.string())
    inside = pc.is_in(table["window"].cast(pa.string()), value_set=declared).to_numpy(zero_copy_only=False).astype(bool)
    return table.filter(pa.array(_keep(inside, choice)))


def _keep(inside: NDArray[np.bool_], choice: str) -> NDArray[np.bool_]:
    match choice:
        case "with":
            return np.ones(len(inside), dtype=bool)
        case "without":
            return ~inside
        case "only":
            return inside
    raise ValueError(f"outliers {choice!r}: expected with, without or only")
