"""The columns that a block of rows gives, for one arm and for a comparison, and how they become Arrow arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from drift_runs.schema import COMPARISON, ROWS


@dataclass(frozen=True, slots=True, kw_only=True)
class RowColumns:
    """What table ``ROWS`` holds of n positions of one arm, apart from window, position, role and token.

    NaN stands for null, and ``rank`` 0, ``top`` ids of -1 for *none*: only a row with NaN or plus infinity has them.
    """

    logprob: NDArray[np.float64]
    rank: NDArray[np.int32]
    """1 is the best token; equal logits do not raise it."""
    top_ids: NDArray[np.int32]
    """int32[n, K] by (-logprob, id); K is the dictionary's size when that is smaller."""
    top_logprobs: NDArray[np.float32]
    tail_logprob: NDArray[np.float64]
    padding_mass: NDArray[np.float64]
    tie_count: NDArray[np.int32]
    p1: NDArray[np.float64]
    entropy_nats: NDArray[np.float64]
    row_top: list[bytes | None]
    row_full: list[bytes | None]
    flags: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.logprob)

    def arrays(self) -> dict[str, pa.Array]:
        """The columns as Arrow arrays of the schema's types, nulls in place of NaN."""
        present = self.top_ids >= 0
        offsets = np.concatenate([[0], np.cumsum(present.sum(axis=1))]).astype(np.int32)
        lists = {
            "top_ids": pa.array(self.top_ids[present], type=pa.int32()),
            "top_logprobs": pa.array(self.top_logprobs[present], type=pa.float32()),
        }
        arrays: dict[str, pa.Array] = {
            name: pa.ListArray.from_arrays(pa.array(offsets), values) for name, values in lists.items()
        }
        for name in ("logprob", "tail_logprob", "padding_mass", "p1", "entropy_nats"):
            arrays[name] = _nullable(getattr(self, name), ROWS.field(name).type)
        arrays["rank"] = pa.array(self.rank, type=pa.int32(), mask=self.rank == 0)
        arrays["tie_count"] = pa.array(self.tie_count, type=pa.int32())
        arrays["flags"] = pa.array(self.flags, type=pa.int32())
        arrays["row_top"] = pa.array(self.row_top, type=pa.binary(32))
        arrays["row_full"] = pa.array(self.row_full, type=pa.binary(32))
        return arrays


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionColumns:
    """What table ``COMPARISON`` holds of n positions, apart from what the stream says and the row hashes.

    NaN stands for null, and so does a rank of 0 or a best token of -1. ``valid``: bool[n], both rows usable; where it
    is False flips, swaps and counts mean nothing and are null.
    """

    valid: NDArray[np.bool_]
    kl_full_nats: NDArray[np.float64]
    js_full_nats: NDArray[np.float64]
    top_k: NDArray[np.int32]
    """K of the ``kl_topk`` columns and of the top-K entropies, the same in every row."""
    kl_topk_tail_nats: NDArray[np.float64]
    kl_topk_shared_nats: NDArray[np.float64]
    kl_topk_lower_nats: NDArray[np.float64]
    kl_topk_floor_nats: NDArray[np.float64]
    shared_support: NDArray[np.int32]
    """Tokens among the K best of both sides."""
    reference_mass_outside: NDArray[np.float64]
    """P of everything else."""
    reference_mass_dropped: NDArray[np.float64]
    """P of the reference's K best that are not shared."""
    missed: NDArray[np.int32]
    """Of the reference's K best, those that are not among the candidate's K best."""
    flip: NDArray[np.bool_]
    flip_strict: NDArray[np.bool_]
    """The sets of tied best tokens are disjoint."""
    flip_text: NDArray[np.bool_]
    """The candidate's best token is not the text's own."""
    swap: NDArray[np.bool_]
    """Each side's second-best token is the other's best; the lowest id wins a tie of either place."""
    reference_top: NDArray[np.int32]
    """The lowest id of the best tokens; -1 when the row is unusable."""
    candidate_top: NDArray[np.int32]
    reference_p1: NDArray[np.float64]
    reference_margin: NDArray[np.float64]
    candidate_p1: NDArray[np.float64]
    p_of_candidate_top: NDArray[np.float64]
    q_of_reference_top: NDArray[np.float64]
    reference_nll_nats: NDArray[np.float64]
    candidate_nll_nats: NDArray[np.float64]
    dp: NDArray[np.float64]
    reference_rank: NDArray[np.int32]
    """Of the actual token: 1 plus the strictly better ones; 0 when it is not known."""
    candidate_rank: NDArray[np.int32]
    reference_entropy_nats: NDArray[np.float64]
    candidate_entropy_nats: NDArray[np.float64]
    reference_entropy_topk_nats: NDArray[np.float64]
    candidate_entropy_topk_nats: NDArray[np.float64]
    reference_padding_mass: NDArray[np.float64]
    candidate_padding_mass: NDArray[np.float64]
    max_abs_dlogit: NDArray[np.float32]
    max_abs_dlogprob: NDArray[np.float32]
    """Over the shared tokens, where raw logits are not known; NaN where they are."""
    flags: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.flags)

    def arrays(self) -> dict[str, pa.Array]:
        """The columns as Arrow arrays of the schema's types, nulls in place of NaN."""
        arrays: dict[str, pa.Array] = {}
        for name in self.__slots__:
            values = getattr(self, name)
            if name == "valid":
                continue
            kind = COMPARISON.field(name).type
            if values.dtype.kind == "f":
                arrays[name] = _nullable(values, kind)
            elif name in ("reference_rank", "candidate_rank"):
                arrays[name] = pa.array(values, type=kind, mask=values == 0)
            elif name in ("reference_top", "candidate_top"):
                arrays[name] = pa.array(values, type=kind, mask=values < 0)
            elif name in ("top_k", "flags"):
                arrays[name] = pa.array(values, type=kind)
            else:
                arrays[name] = pa.array(values, type=kind, mask=~self.valid)
        return arrays


def join_rows(parts: list[RowColumns], width: int) -> RowColumns:
    """Blocks in order as one; no block gives columns of no rows."""
    empty: dict[str, np.ndarray] = {
        name: np.empty((0, width) if name.startswith("top_") else 0, dtype=dtype) for name, dtype in _ROW_TYPES.items()
    }
    joined = {name: np.concatenate([empty[name], *(getattr(part, name) for part in parts)]) for name in _ROW_TYPES}
    return RowColumns(
        **joined,
        row_top=[value for part in parts for value in part.row_top],
        row_full=[value for part in parts for value in part.row_full],
    )


def join_positions(parts: list[PositionColumns]) -> PositionColumns:
    return PositionColumns(
        **{
            name: np.concatenate([np.empty(0, dtype=dtype), *(getattr(part, name) for part in parts)])
            for name, dtype in _POSITION_TYPES.items()
        }
    )


_ROW_TYPES: dict[str, type] = {
    "logprob": np.float64,
    "rank": np.int32,
    "top_ids": np.int32,
    "top_logprobs": np.float32,
    "tail_logprob": np.float64,
    "padding_mass": np.float64,
    "tie_count": np.int32,
    "p1": np.float64,
    "entropy_nats": np.float64,
    "flags": np.int32,
}
_POSITION_TYPES: dict[str, type] = {name: np.float64 for name in PositionColumns.__slots__} | {
    **dict.fromkeys(("valid", "flip", "flip_strict", "flip_text", "swap"), np.bool_),
    **dict.fromkeys(("top_k", "shared_support", "missed", "reference_top", "candidate_top"), np.int32),
    **dict.fromkeys(("reference_rank", "candidate_rank", "flags"), np.int32),
    **dict.fromkeys(("max_abs_dlogit", "max_abs_dlogprob"), np.float32),
}


def _nullable(values: NDArray[np.floating], kind: pa.DataType) -> pa.Array:
    return pa.array(values, mask=~np.isfinite(values)).cast(kind)
