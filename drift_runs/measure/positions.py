"""A comparison table as plain arrays, one entry a scored position: what every summary reads."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Positions:
    """n positions of one arm against the reference. In a float array NaN means null: not measured or not finite."""

    windows: tuple[str, ...]
    """Names of the windows, in order of first appearance."""
    window: NDArray[np.int32]
    """Index into ``windows``."""
    position: NDArray[np.int32]
    kl_full_nats: Floats
    flip: Floats
    """1 or 0, NaN where a row was unusable; so is ``flip_strict``."""
    flip_strict: Floats
    reference_p1: Floats
    reference_nll_nats: Floats
    candidate_nll_nats: Floats
    dnll_nats: Floats
    dp: Floats
    reference_entropy_nats: Floats
    candidate_entropy_nats: Floats
    flags: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.position)

    def take(self, chosen: NDArray[np.bool_] | NDArray[np.intp]) -> Positions:
        """The chosen positions; ``windows`` keeps its order and its names."""
        arrays = {field.name: getattr(self, field.name)[chosen] for field in fields(self) if field.name != "windows"}
        return replace(self, **arrays)

    def keys(self) -> NDArray[np.int64]:
        """One number a position, equal in two arms when ``windows`` is: for joining."""
        return (self.window.astype(np.int64) << 32) | self.position.astype(np.int64)


def positions_of(table: pa.Table, *, windows: tuple[str, ...] | None = None) -> Positions:
    """Arrays of a table of schema ``COMPARISON``, ordered by window (first appearance) and position.

    ``windows`` gives the order of windows instead, so that two tables can be joined by :meth:`Positions.keys`; rows of
    other windows are left out.
    """
    names = table["window"].cast(pa.string()).to_numpy(zero_copy_only=False)
    known = tuple(dict.fromkeys(str(name) for name in names)) if windows is None else windows
    code = {name: index for index, name in enumerate(known)}
    window = np.array([code.get(name, -1) for name in names], dtype=np.int32)
    position = table["position"].to_numpy().astype(np.int32)
    order = np.lexsort((position, window))
    order = order[window[order] >= 0]
    floats = {
        name: _floats(table[name])[order]
        for name in (
            "kl_full_nats",
            "flip",
            "flip_strict",
            "reference_p1",
            "reference_nll_nats",
            "candidate_nll_nats",
            "dp",
            "reference_entropy_nats",
            "candidate_entropy_nats",
        )
    }
    return Positions(
        windows=known,
        window=window[order],
        position=position[order],
        flags=table["flags"].to_numpy().astype(np.int32)[order],
        dnll_nats=floats["candidate_nll_nats"] - floats["reference_nll_nats"],
        **floats,
    )


def _floats(column: pa.ChunkedArray) -> Floats:
    """float64[n], NaN for null and for infinities: a figure never averages one silently."""
    if pa.types.is_boolean(column.type):
        column = pc.cast(column, pa.int8())
    values = column.cast(pa.float64()).to_numpy(zero_copy_only=False).astype(np.float64)
    return np.where(np.isfinite(values), values, np.nan)
