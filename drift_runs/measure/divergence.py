"""Every figure of one position, from full rows: specs ``kl.full``, ``js.full``, ``kl.topk-*``, ``flip``, ``swap``,
``nll``, ``dp``, ranks and entropies of METRICS.

Float64 log-softmax over the dictionary's columns on both sides, no epsilon, no clamp. P = 0 contributes 0; P > 0 with Q
= 0 is infinite, and such a position holds NaN and a flag; ``js.full`` stays finite there. The top-K figures take both
sides' K best entries by (-logprob, id), and every tail is summed from what lies outside them (``topkmath`` defines
them); with K of the dictionary's size or more all four are ``kl.full``.

Rows are read where they lie, block by block, so a window of 2,048 rows needs no more memory than eight of them and the
K best of some hundreds.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from drift_runs.measure.bestentries import BestEntries
from drift_runs.measure.columns import PositionColumns, RowColumns, join_positions, join_rows
from drift_runs.measure.determinism import row_full_hashes, row_top_hashes
from drift_runs.measure.jensenshannon import JensenShannon
from drift_runs.measure.rowmath import BLOCK_ROWS, Scratch, SideBlock, check_rows
from drift_runs.measure.topkmath import topk_entropy
from drift_runs.schema import RowFlag

_BEST_BLOCKS = 64
"""Blocks whose K best entries are worked on together: dozens of operations on a few entries each, which would cost more
than the rows themselves if they were done block by block."""


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
        side = SideBlock(logits[at], dictionary_size, scratch, top_k=top_k)
        parts.append(_row_part(side, side.rank_of(tokens[at]), tokens[at], positions[at], top_k))
    return join_rows(parts, min(top_k, dictionary_size))


def compare_rows(
    reference_logits: NDArray[np.float32],
    candidate_logits: NDArray[np.float32],
    tokens: NDArray[np.int32],
    *,
    dictionary_size: int,
    top_k: int = 64,
    block_rows: int = BLOCK_ROWS,
) -> PositionColumns:
    """Reference against candidate: float32[n, V_all] each (paddings may differ) and the actual tokens int32[n].

    ``top_k``: K of the top-K figures. Raises ``NotComparable`` for rows narrower than the dictionary, ``ProtocolError``
    for a token outside it.
    """
    return _compared(reference_logits, candidate_logits, tokens, top_k, dictionary_size, block_rows, None).comparison


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
    return _compared(reference_logits, candidate_logits, tokens, top_k, dictionary_size, block_rows, positions)


def _compared(
    reference_logits: NDArray[np.float32],
    candidate_logits: NDArray[np.float32],
    tokens: NDArray[np.int32],
    top_k: int,
    dictionary_size: int,
    block_rows: int,
    positions: NDArray[np.int32] | None,
) -> WindowColumns:
    """Both tables of a window; without ``positions`` the candidate's own rows stay empty, for they need hashes."""
    reference_logits = check_rows(reference_logits, tokens, dictionary_size, side="reference's")
    candidate_logits = check_rows(candidate_logits, tokens, dictionary_size, side="candidate's")
    scratches = [Scratch(min(block_rows, len(tokens)), dictionary_size) for _ in range(2)]
    jensen_shannon = JensenShannon(dictionary_size)
    rows = []
    comparison = []
    together = _BEST_BLOCKS * block_rows
    for first in range(0, len(tokens), together):
        parts = []
        best = []
        for start in range(first, min(first + together, len(tokens)), block_rows):
            at = slice(start, start + block_rows)
            reference = SideBlock(reference_logits[at], dictionary_size, scratches[0], top_k=top_k)
            candidate = SideBlock(candidate_logits[at], dictionary_size, scratches[1], top_k=top_k)
            rank = candidate.rank_of(tokens[at])
            if positions is not None:
                rows.append(_row_part(candidate, rank, tokens[at], positions[at], top_k))
            best.append(BestEntries.of(reference, candidate))
            parts.append(_position_part(reference, candidate, rank, tokens[at], top_k, jensen_shannon))
        comparison.append(join_positions(parts))
        _fill_best(comparison[-1], BestEntries.joined(best))
    return WindowColumns(join_rows(rows, min(top_k, dictionary_size)), join_positions(comparison))


def _row_part(
    side: SideBlock,
    rank: NDArray[np.int32],
    tokens: NDArray[np.int32],
    positions: NDArray[np.int32],
    top_k: int,
) -> RowColumns:
    top = side.best_entries
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
        rank=rank,
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


def _position_part(
    reference: SideBlock,
    candidate: SideBlock,
    candidate_rank: NDArray[np.int32],
    tokens: NDArray[np.int32],
    top_k: int,
    jensen_shannon: JensenShannon,
) -> PositionColumns:
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
    swap = flip & (reference.second == candidate.top) & (candidate.second == reference.top)

    flags[~valid] |= RowFlag.NONFINITE
    flags[~(reference.finite & candidate.finite)] |= RowFlag.UNHASHABLE
    flags[(reference.padding_mass > 0) | (candidate.padding_mass > 0)] |= RowFlag.PADDING
    flags[reference.tie_count > 1] |= RowFlag.REFERENCE_TIED
    flags[candidate.tie_count > 1] |= RowFlag.CANDIDATE_TIED

    reference_logprob = reference.logprob_of(tokens)
    candidate_logprob = candidate.logprob_of(tokens)
    second = np.exp(reference.second_shifted) / reference.total
    later = np.full(len(tokens), np.nan)  # see _fill_best
    return PositionColumns(
        valid=valid,
        kl_full_nats=kl,
        js_full_nats=jensen_shannon.of(reference, candidate, kl, valid),
        top_k=np.full(len(tokens), top_k, dtype=np.int32),
        kl_topk_tail_nats=later,
        kl_topk_shared_nats=later,
        kl_topk_lower_nats=later,
        kl_topk_floor_nats=later,
        shared_support=np.zeros(len(tokens), dtype=np.int32),
        reference_mass_outside=later,
        reference_mass_dropped=later,
        missed=np.zeros(len(tokens), dtype=np.int32),
        flip=flip,
        flip_strict=strict,
        flip_text=valid & (candidate.top != tokens),
        swap=swap,
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
        reference_rank=reference.rank_of(tokens),
        candidate_rank=candidate_rank,
        reference_entropy_nats=reference.entropy_nats,
        candidate_entropy_nats=candidate.entropy_nats,
        reference_entropy_topk_nats=later,
        candidate_entropy_topk_nats=later,
        reference_padding_mass=reference.padding_mass,
        candidate_padding_mass=candidate.padding_mass,
        max_abs_dlogit=_largest_difference(reference, candidate),
        max_abs_dlogprob=np.full(len(tokens), np.nan, dtype=np.float32),
        flags=flags,
    )


def _fill_best(columns: PositionColumns, best: BestEntries) -> None:
    """Write the top-K figures of ``best`` into ``columns`` of the same positions."""
    figures = best.figures()
    valid = columns.valid
    written = {
        "kl_topk_tail_nats": figures.tail_nats,
        "kl_topk_shared_nats": figures.shared_nats,
        "kl_topk_lower_nats": figures.lower_nats,
        "kl_topk_floor_nats": figures.floor_nats,
        "reference_mass_outside": figures.reference_mass_outside,
        "reference_mass_dropped": figures.reference_mass_dropped,
    }
    for name, values in written.items():
        getattr(columns, name)[:] = np.where(valid, values, np.nan)
    columns.shared_support[:] = figures.shared_support
    columns.missed[:] = figures.missed
    columns.reference_entropy_topk_nats[:] = topk_entropy(best.reference, best.present, best.reference_tail)
    columns.candidate_entropy_topk_nats[:] = topk_entropy(best.own, best.own_present, best.own_tail)
    columns.flags[valid & figures.collapsed] |= RowFlag.SUPPORT_COLLAPSE


def _largest_difference(reference: SideBlock, candidate: SideBlock) -> NDArray[np.float32]:
    """Largest |difference| of raw logits: float32[b]; NaN where it is not finite. Equal infinities do not differ."""
    with np.errstate(invalid="ignore", over="ignore"):
        difference = reference.logits - candidate.logits
        # Adding 0 turns -0, the negated minimum of equal rows, into 0.
        largest = np.maximum(difference.max(axis=1), -difference.min(axis=1)) + np.float32(0)
        for row in np.flatnonzero(reference.usable & candidate.usable & ~(reference.finite & candidate.finite)):
            unequal = reference.logits[row] != candidate.logits[row]
            largest[row] = np.abs(difference[row][unequal]).max(initial=0)
    return np.where(np.isfinite(largest), largest, np.float32(np.nan)).astype(np.float32)


def _finite(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Infinite values become NaN, which stands for null."""
    return np.where(np.isfinite(values), values, np.nan)
