"""A comparison table as plain arrays, one entry a scored position: what every summary reads."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from drift_runs.errors import NotComparable
from drift_runs.measure.specs import BY_BASE, base_of
from drift_runs.schema import RowFlag

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Positions:
    """n positions of one arm against its reference. In a float array NaN means null: not measured or not finite."""

    windows: tuple[str, ...]
    """Names of the windows, in order of first appearance."""
    top_k: int | None
    """K of every top-K column; None where there is none."""
    unsaid_tails: int
    """Positions whose ``kl.topk-tail`` the candidate did not say although its other entries are known. They are those
    where it drifts most, so a mean over the others would be too low: with one of them nobody has the figure."""
    window: NDArray[np.int32]
    """Index into ``windows``."""
    position: NDArray[np.int32]
    generated: NDArray[np.bool_]
    """The role: True in text that the reference wrote, False in a prompt."""
    kl_full_nats: Floats
    js_full_nats: Floats
    kl_topk_tail_nats: Floats
    kl_topk_shared_nats: Floats
    kl_topk_lower_nats: Floats
    kl_topk_floor_nats: Floats
    shared_support: Floats
    """Tokens in both top-K lists."""
    reference_mass_outside: Floats
    """Mass of the reference on every token that is not shared, those outside its K best included."""
    reference_mass_dropped: Floats
    """Mass of the reference on those of its K best that are not shared, which published receipts call dropped."""
    missed: Floats
    """Of the reference's K best, how many the candidate did not return."""
    flip: Floats
    """1 or 0, NaN where a row was unusable; so are the other flips, ``swap``, ``copy`` and ``literal``."""
    flip_strict: Floats
    flip_text: Floats
    swap: Floats
    reference_p1: Floats
    reference_margin: Floats
    candidate_p1: Floats
    reference_nll_nats: Floats
    candidate_nll_nats: Floats
    dnll_nats: Floats
    dp: Floats
    reference_rank: Floats
    candidate_rank: Floats
    reference_entropy_nats: Floats
    candidate_entropy_nats: Floats
    reference_entropy_topk_nats: Floats
    candidate_entropy_topk_nats: Floats
    reference_padding_mass: Floats
    candidate_padding_mass: Floats
    copy: Floats
    literal: Floats
    flags: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.position)

    def take(self, chosen: NDArray[np.bool_] | NDArray[np.intp]) -> Positions:
        """The chosen positions; ``windows`` keeps its order and its names."""
        arrays = {name: getattr(self, name)[chosen] for name in _ARRAYS}
        return replace(self, **arrays)

    def keys(self) -> NDArray[np.int64]:
        """One number a position, equal in two arms when ``windows`` is: for joining."""
        return (self.window.astype(np.int64) << 32) | self.position.astype(np.int64)

    def divergence_nats(self, spec: str) -> Floats:
        """The divergence of that spec id, K included or left out: float64[n]. ``NotComparable`` for another K."""
        base, _, k = spec.partition("@")
        if base not in BY_BASE:
            raise NotComparable(f"{spec!r} is no divergence", expected="one of " + ", ".join(BY_BASE))
        if k and k != str(self.top_k):
            raise NotComparable(f"{spec} of rows with K = {self.top_k}", expected=f"{base_of(spec)}@{self.top_k}")
        return getattr(self, BY_BASE[base].column)


def infinite_mask(positions: Positions, column: str) -> NDArray[np.bool_]:
    """Where that divergence is infinite: bool[n]. Q is 0 where P is not, and the definition does not hide it."""
    infinite = ((positions.flags & RowFlag.INFINITE_KL) > 0) & np.isnan(getattr(positions, column))
    if column == "kl_topk_shared_nats":  # too few shared tokens is another reason for no value
        infinite &= (positions.flags & RowFlag.SUPPORT_COLLAPSE) == 0
    return infinite


_WHOLE = ("windows", "top_k", "unsaid_tails")
_ARRAYS = tuple(field.name for field in fields(Positions) if field.name not in _WHOLE)
_DERIVED = ("window", "position", "generated", "dnll_nats", "flags")
_READ = tuple(name for name in _ARRAYS if name not in _DERIVED)


def positions_of(table: pa.Table, *, windows: tuple[str, ...] | None = None) -> Positions:
    """Arrays of a table of schema ``COMPARISON``, ordered by window (first appearance) and position.

    ``windows`` gives the order of windows instead, so that two tables can be joined by :meth:`Positions.keys`; rows of
    other windows are left out. ``NotComparable`` for rows of several K.
    """
    names = table["window"].cast(pa.string()).to_numpy(zero_copy_only=False)
    known = tuple(dict.fromkeys(str(name) for name in names)) if windows is None else windows
    code = {name: index for index, name in enumerate(known)}
    window = np.array([code.get(name, -1) for name in names], dtype=np.int32)
    position = table["position"].to_numpy().astype(np.int32)
    order = np.lexsort((position, window))
    order = order[window[order] >= 0]
    ks = {value for value in pc.unique(table["top_k"]).to_pylist() if value is not None}
    if len(ks) > 1:
        raise NotComparable(f"rows of K = {', '.join(map(str, sorted(ks)))} in one comparison", expected="one K")
    floats = {name: _floats(table[name])[order] for name in _READ}
    roles = table["role"].cast(pa.string())
    flags = table["flags"].to_numpy().astype(np.int32)[order]
    # From full rows a tail that is not finite was said: the candidate gives one of the reference's best nothing.
    silent = np.isfinite(floats["kl_topk_lower_nats"]) & ~np.isfinite(floats["kl_topk_tail_nats"])
    unsaid = int((silent & ((flags & RowFlag.INFINITE_KL) == 0)).sum())
    if unsaid:
        floats["kl_topk_tail_nats"][:] = np.nan
    return Positions(
        windows=known,
        top_k=ks.pop() if ks else None,
        unsaid_tails=unsaid,
        window=window[order],
        position=position[order],
        generated=pc.equal(roles, "generated").to_numpy(zero_copy_only=False).astype(bool)[order],
        flags=flags,
        dnll_nats=floats["candidate_nll_nats"] - floats["reference_nll_nats"],
        **floats,
    )


def _floats(column: pa.ChunkedArray) -> Floats:
    """float64[n], NaN for null and for infinities: a figure never averages one silently."""
    if pa.types.is_boolean(column.type):
        column = pc.cast(column, pa.int8())
    values = column.cast(pa.float64()).to_numpy(zero_copy_only=False).astype(np.float64)
    return np.where(np.isfinite(values), values, np.nan)
