"""Every figure of one position that needs full rows: specs ``kl.full``, ``flip``, ``nll``, ``dp`` and ``entropy.full``
of METRICS.

Float64 log-softmax over the dictionary's columns on both sides, no epsilon, no clamp. P = 0 contributes 0; P > 0 with Q
= 0 is infinite, and such a position holds NaN and a flag. Rows are read where they lie, block by block, so a window of
2,048 rows needs no more memory than eight of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from drift_runs.measure.determinism import row_full_hashes, row_top_hashes
from drift_runs.measure.rowmath import BLOCK_ROWS, Scratch, SideBlock, check_rows
from drift_runs.schema import COMPARISON, ROWS, RowFlag


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
    """What table ``COMPARISON`` holds of n positions, apart from window, position, role, token and ``row_identical``.

    NaN stands for null. ``valid``: bool[n], both rows usable; where it is False the flips mean nothing and are null.
    """

    valid: NDArray[np.bool_]
    kl_full_nats: NDArray[np.float64]
    flip: NDArray[np.bool_]
    flip_strict: NDArray[np.bool_]
    """The sets of tied best tokens are disjoint."""
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
    reference_entropy_nats: NDArray[np.float64]
    candidate_entropy_nats: NDArray[np.float64]
    max_abs_dlogit: NDArray[np.float32]
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
            if name in ("flip", "flip_strict"):
                arrays[name] = pa.array(values, type=pa.bool_(), mask=~self.valid)
            elif values.dtype.kind == "f":
                arrays[name] = _nullable(values, COMPARISON.field(name).type)
            else:
                arrays[name] = pa.array(values, type=COMPARISON.field(name).type)
        return arrays


class WindowColumns(NamedTuple):
    """A candidate's own rows and its comparison, made in one pass."""

    rows: RowColumns
    comparison: PositionColumns


def summarise_rows(
    logits: NDArray[np.float32],
    tokens: NDArray[np.int32],
    *,
    top_k: int,
    dictionary_size: int,
    positions: NDArray[np.int32],
    block_rows: int = BLOCK_ROWS,
) -> RowColumns:
    """One arm's rows: float32[n, V_all] logits, the actual tokens int32[n] and their positions int32[n].

    Raises ``NotComparable`` for rows narrower than the dictionary, ``ProtocolError`` for a token outside it.
    """
    logits = check_rows(logits, tokens, dictionary_size, side="arm's")
    scratch = Scratch(min(block_rows, len(logits)), dictionary_size)
    parts = []
    for start in range(0, len(logits), block_rows):
        at = slice(start, start + block_rows)
        side = SideBlock(logits[at], dictionary_size, scratch, second=False)
        parts.append(_row_part(side, tokens[at], positions[at], top_k))
    return _join_rows(parts, min(top_k, dictionary_size))


def compare_rows(
    reference_logits: NDArray[np.float32],
    candidate_logits: NDArray[np.float32],
    tokens: NDArray[np.int32],
    *,
    dictionary_size: int,
    block_rows: int = BLOCK_ROWS,
) -> PositionColumns:
    """Reference against candidate: float32[n, V_all] each (paddings may differ) and the actual tokens int32[n].

    Raises ``NotComparable`` for rows narrower than the dictionary, ``ProtocolError`` for a token outside it.
    """
    reference_logits = check_rows(reference_logits, tokens, dictionary_size, side="reference's")
    candidate_logits = check_rows(candidate_logits, tokens, dictionary_size, side="candidate's")
    scratches = [Scratch(min(block_rows, len(tokens)), dictionary_size) for _ in range(2)]
    parts = []
    for start in range(0, len(tokens), block_rows):
        at = slice(start, start + block_rows)
        reference = SideBlock(reference_logits[at], dictionary_size, scratches[0], second=True)
        candidate = SideBlock(candidate_logits[at], dictionary_size, scratches[1], second=False)
        parts.append(_position_part(reference, candidate, tokens[at]))
    return _join_positions(parts)


def compare_and_summarise(
    reference_logits: NDArray[np.float32],
    candidate_logits: NDArray[np.float32],
    tokens: NDArray[np.int32],
    *,
    top_k: int,
    dictionary_size: int,
    positions: NDArray[np.int32],
    block_rows: int = BLOCK_ROWS,
) -> WindowColumns:
    """:func:`summarise_rows` of the candidate and :func:`compare_rows`, with the candidate's softmax done once."""
    reference_logits = check_rows(reference_logits, tokens, dictionary_size, side="reference's")
    candidate_logits = check_rows(candidate_logits, tokens, dictionary_size, side="candidate's")
    scratches = [Scratch(min(block_rows, len(tokens)), dictionary_size) for _ in range(2)]
    rows = []
    comparison = []
    for start in range(0, len(tokens), block_rows):
        at = slice(start, start + block_rows)
        reference = SideBlock(reference_logits[at], dictionary_size, scratches[0], second=True)
        candidate = SideBlock(candidate_logits[at], dictionary_size, scratches[1], second=False)
        rows.append(_row_part(candidate, tokens[at], positions[at], top_k))
        comparison.append(_position_part(reference, candidate, tokens[at]))
    return WindowColumns(_join_rows(rows, min(top_k, dictionary_size)), _join_positions(comparison))


def _row_part(side: SideBlock, tokens: NDArray[np.int32], positions: NDArray[np.int32], top_k: int) -> RowColumns:
    top = side.top_entries(top_k)
    hashes_top = row_top_hashes(top.ids, top.logprobs, positions, top_k)
    hashes_full = row_full_hashes(side.logits, positions, side.logits.shape[1], finite=side.finite)
    flags = np.zeros(len(tokens), dtype=np.int32)
    flags[[value is None for value in hashes_full]] |= RowFlag.UNHASHABLE
    flags[~side.usable] |= RowFlag.NONFINITE
    flags[side.padding_mass > 0] |= RowFlag.PADDING
    if top.ids.shape[1] < top_k:
        flags |= RowFlag.SHORT
    return RowColumns(
        logprob=_finite(side.logprob_of(tokens)),
        rank=side.rank_of(tokens),
        top_ids=top.ids,
        top_logprobs=top.logprobs,
        tail_logprob=_finite(top.tail_logprob),
        padding_mass=side.padding_mass,
        tie_count=side.tie_count,
        p1=side.p1,
        entropy_nats=side.entropy_nats,
        row_top=hashes_top,
        row_full=hashes_full,
        flags=flags,
    )


def _position_part(reference: SideBlock, candidate: SideBlock, tokens: NDArray[np.int32]) -> PositionColumns:
    valid = reference.usable & candidate.usable
    cross = np.einsum("ij,ij->i", reference.weights, candidate.shifted)
    kl = (reference.own_product - cross) / reference.total - reference.log_total + candidate.log_total
    kl[~valid] = np.nan
    flags = np.zeros(len(tokens), dtype=np.int32)
    for row in np.flatnonzero(valid & ~candidate.finite):
        if np.any(np.isneginf(candidate.logits[row]) & (reference.weights[row] > 0)):
            flags[row] |= RowFlag.INFINITE_KL
            kl[row] = np.nan

    flip = valid & (reference.top != candidate.top)
    strict = flip.copy()
    tied = (reference.tie_count > 1) | (candidate.tie_count > 1)
    for row in np.flatnonzero(flip & tied):
        both = (reference.logits[row] == reference.logits[row].max()) & (
            candidate.logits[row] == candidate.logits[row].max()
        )
        strict[row] = not both.any()

    flags[~valid] |= RowFlag.NONFINITE
    flags[~(reference.finite & candidate.finite)] |= RowFlag.UNHASHABLE
    flags[(reference.padding_mass > 0) | (candidate.padding_mass > 0)] |= RowFlag.PADDING
    flags[reference.tie_count > 1] |= RowFlag.REFERENCE_TIED
    flags[candidate.tie_count > 1] |= RowFlag.CANDIDATE_TIED

    reference_logprob = reference.logprob_of(tokens)
    candidate_logprob = candidate.logprob_of(tokens)
    second = np.exp(reference.second_shifted) / reference.total
    return PositionColumns(
        valid=valid,
        kl_full_nats=kl,
        flip=flip,
        flip_strict=strict,
        reference_top=reference.top,
        candidate_top=candidate.top,
        reference_p1=reference.p1,
        reference_margin=reference.p1 - second,
        candidate_p1=candidate.p1,
        p_of_candidate_top=np.where(valid, np.exp(reference.logprob_of(np.maximum(candidate.top, 0))), np.nan),
        q_of_reference_top=np.where(valid, np.exp(candidate.logprob_of(np.maximum(reference.top, 0))), np.nan),
        reference_nll_nats=_finite(-reference_logprob) + 0.0,
        candidate_nll_nats=_finite(-candidate_logprob) + 0.0,
        dp=np.exp(candidate_logprob) - np.exp(reference_logprob),
        reference_entropy_nats=reference.entropy_nats,
        candidate_entropy_nats=candidate.entropy_nats,
        max_abs_dlogit=_largest_difference(reference, candidate),
        flags=flags,
    )


def _largest_difference(reference: SideBlock, candidate: SideBlock) -> NDArray[np.float32]:
    """Largest |difference| of raw logits: float32[b]; NaN where it is not finite. Equal infinities do not differ."""
    with np.errstate(invalid="ignore", over="ignore"):
        difference = reference.logits - candidate.logits
        largest = np.maximum(difference.max(axis=1), -difference.min(axis=1))
        for row in np.flatnonzero(reference.usable & candidate.usable & ~(reference.finite & candidate.finite)):
            unequal = reference.logits[row] != candidate.logits[row]
            largest[row] = np.abs(difference[row][unequal]).max(initial=0)
    return np.where(np.isfinite(largest), largest, np.float32(np.nan)).astype(np.float32)


def _join_rows(parts: list[RowColumns], width: int) -> RowColumns:
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


def _join_positions(parts: list[PositionColumns]) -> PositionColumns:
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
    "valid": np.bool_,
    "flip": np.bool_,
    "flip_strict": np.bool_,
    "reference_top": np.int32,
    "candidate_top": np.int32,
    "max_abs_dlogit": np.float32,
    "flags": np.int32,
}


def _finite(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Infinite values become NaN, which stands for null."""
    return np.where(np.isfinite(values), values, np.nan)


def _nullable(values: NDArray[np.floating], kind: pa.DataType) -> pa.Array:
    return pa.array(values, mask=~np.isfinite(values)).cast(kind)
