"""Two tables of K best entries against each other: ``kl.topk-*``, flips and the rest, as far as K entries say it.

What a figure is stands in ``topkmath``, and where its masses come from in ``topkmasses``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from drift_runs.errors import NotComparable
from drift_runs.measure.columns import PositionColumns, join_positions
from drift_runs.measure.topkmasses import outside_masses
from drift_runs.measure.topkmath import Floats, places, topk_entropy, topk_figures
from drift_runs.measure.toplists import TopLists, top_lists
from drift_runs.schema import COMPARISON, RowFlag

_SLICE_ROWS = 8192
_CARRIED = RowFlag.SHORT | RowFlag.PADDING | RowFlag.NONFINITE | RowFlag.TEXT_AMBIGUOUS | RowFlag.SENTINEL


def compare_topk(reference: pa.Table, candidate: pa.Table, *, top_k: int | None = None) -> pa.Table:
    """Table ``COMPARISON`` of two tables ``ROWS`` that hold the same positions, in the reference's order.

    What a row does not say is null. ``kl_topk_tail_nats`` needs the candidate's log-probability of every token of the
    reference's list, from its own list, its wanted ids or the actual token; P and Q of the other side's best token and
    the negative log-likelihoods are looked up in the same way. A flip of one entry has no ``swap``. ``kl_full_nats``,
    ``js_full_nats`` and ``max_abs_dlogit`` need full rows; entropies over the dictionary are those that the rows hold.
    A row with NaN or infinity among its entries, or without entries, is null and flagged. Ties for the best place are
    those of the lists. ``row_identical``: what two hashes ``row.top@K`` would say.

    Parameters
    ----------
    top_k
        K, when it is to be smaller than the rows' own: longer lists are cut. Rows with fewer entries are flagged
        ``SHORT``. None takes the length of the longest list.

    Raises
    ------
    NotComparable
        the positions or their tokens differ, the two K differ and ``top_k`` does not say which, ``top_k`` is more than
        rows hold that are not flagged ``SHORT``, or a table contradicts itself.
    """
    left = top_lists(reference, side="reference's")
    right = top_lists(candidate, side="candidate's")
    right = right.take(_partners(left, right))
    k = _agreed_k(left, right, top_k)
    left, right = left.cut(k), right.cut(k)
    parts = []
    for start in range(0, len(left), _SLICE_ROWS):
        at = slice(start, start + _SLICE_ROWS)
        parts.append(_compared(left.take(at), right.take(at), k))
    joined = join_positions([part.columns for part in parts])
    unknown = np.concatenate([np.zeros(0, dtype=bool), *(part.swap_unknown for part in parts)])
    arrays = joined.arrays() | {
        "swap": pa.array(joined.swap, type=pa.bool_(), mask=~joined.valid | unknown),
        "window": pa.array(left.window, type=pa.string()).dictionary_encode(),
        "position": pa.array(left.position, type=pa.int32()),
        "role": pa.array(left.role, type=pa.string()).dictionary_encode(),
        "token": pa.array(left.token, type=pa.int32()),
        "row_identical": pa.array([same for part in parts for same in part.identical], type=pa.bool_()),
        "row_hash": pa.array([f"row.top@{k}"] * len(left), type=pa.string()).dictionary_encode(),
    }
    columns = [
        arrays[field.name].cast(field.type) if field.name in arrays else pa.nulls(len(left), field.type)
        for field in COMPARISON
    ]
    return pa.Table.from_arrays(columns, schema=COMPARISON)


def _agreed_k(left: TopLists, right: TopLists, top_k: int | None) -> int:
    longest = left.longest, right.longest
    if top_k is None:
        # Lists that are all empty say nothing about K.
        if min(longest) and longest[0] != longest[1]:
            raise NotComparable(
                f"K = {longest[0]} of the reference and {longest[1]} of the candidate",
                expected="one K",
                todo=f"compare with K = {min(longest)}",
            )
        return max(*longest, 1)
    if top_k < 1:
        raise NotComparable(f"K = {top_k}", expected="1 or more")
    for side, rows, most in (("reference's", left, longest[0]), ("candidate's", right, longest[1])):
        if most < top_k and not (rows.flags & RowFlag.SHORT).all():
            raise NotComparable(
                f"K = {top_k} of rows with {most} entries",
                where=f"{side} rows",
                expected=f"K of at most {min(longest)}",
                todo="compare with a smaller K, or take the rows again",
            )
    return top_k


def _partners(left: TopLists, right: TopLists) -> NDArray[np.intp]:
    """Row of ``right`` for each row of ``left``; refuses anything but the same positions with the same tokens."""
    code = {name: index for index, name in enumerate(dict.fromkeys([*left.window, *right.window]))}
    sides = ("reference's", left), ("candidate's", right)
    keys = [(np.array([code[name] for name in rows.window], dtype=np.int64) << 32) | rows.position for _, rows in sides]
    orders = [np.argsort(key, kind="stable") for key in keys]
    for (side, rows), key, order in zip(sides, keys, orders, strict=True):
        twice = np.flatnonzero(key[order][1:] == key[order][:-1])
        if len(twice):
            raise NotComparable("the position stands twice", where=f"{side} rows, {_place(rows, order[twice[0]])}")
    for (side, rows), key, other in zip(sides, keys, reversed(keys), strict=True):
        alone = np.flatnonzero(~np.isin(key, other))
        if len(alone):
            raise NotComparable(
                f"{len(alone)} of {len(rows)} positions stand there alone",
                where=f"{side} rows, {_place(rows, alone[0])}",
                expected="the same positions on both sides",
            )
    partner = np.empty(len(left), dtype=np.intp)
    partner[orders[0]] = orders[1]
    different = np.flatnonzero(left.token != right.token[partner])
    if len(different):
        row = different[0]
        raise NotComparable(
            f"the text's token is {right.token[partner[row]]} and in the reference's rows {left.token[row]}; "
            f"{len(different)} of {len(left)} positions differ",
            where=f"candidate's rows, {_place(left, row)}",
            expected="the same text on both sides",
        )
    return partner


def _place(rows: TopLists, row: int) -> str:
    return f"window {rows.window[row]}, position {rows.position[row]}"


class _Slice(NamedTuple):
    columns: PositionColumns
    swap_unknown: NDArray[np.bool_]
    """A flip, and one side has no second entry."""
    identical: list[bool | None]


def _compared(reference: TopLists, candidate: TopLists, top_k: int) -> _Slice:
    count = len(reference)
    valid = reference.usable & candidate.usable
    present, own_present = reference.present, candidate.present
    place = places(reference.ids, candidate.ids)
    shared = place >= 0
    q = candidate.logprobs_of(reference.ids)
    masses = outside_masses(reference, candidate, shared, place, q)
    figures = topk_figures(
        reference=reference.logprobs,
        candidate=q,
        present=present,
        shared=shared,
        reference_tail=masses.reference_tail,
        candidate_tail=masses.candidate_tail,
        reference_outside=masses.reference_outside,
        candidate_outside=masses.candidate_outside,
        least=np.where(own_present, candidate.logprobs, np.inf).min(axis=1),
    )
    best = present & (reference.logprobs == reference.logprobs[:, :1])
    own_best = own_present & (candidate.logprobs == candidate.logprobs[:, :1])
    both_best = best & shared & np.take_along_axis(own_best, np.maximum(place, 0), axis=1)
    flip = valid & (reference.ids[:, 0] != candidate.ids[:, 0])
    second, own_second = _second(reference), _second(candidate)
    swap = flip & (second == candidate.ids[:, 0]) & (own_second == reference.ids[:, 0])

    flags = (reference.flags | candidate.flags) & _CARRIED
    flags[(present.sum(axis=1) < top_k) | (own_present.sum(axis=1) < top_k)] |= RowFlag.SHORT
    flags[~(reference.finite & candidate.finite)] |= RowFlag.NONFINITE
    flags[~valid] |= RowFlag.UNHASHABLE
    flags[valid & figures.collapsed] |= RowFlag.SUPPORT_COLLAPSE
    flags[valid & masses.floored] |= RowFlag.TAIL_FLOORED
    flags[best.sum(axis=1) > 1] |= RowFlag.REFERENCE_TIED
    flags[own_best.sum(axis=1) > 1] |= RowFlag.CANDIDATE_TIED

    def where_valid(values: Floats) -> Floats:
        return np.where(valid & np.isfinite(values), values, np.nan)

    nothing = np.full(count, np.nan)
    difference = np.where(shared, np.abs(reference.logprobs - q), -np.inf).max(axis=1)
    columns = PositionColumns(
        valid=valid,
        kl_full_nats=nothing,
        js_full_nats=nothing,
        top_k=np.full(count, top_k, dtype=np.int32),
        kl_topk_tail_nats=where_valid(figures.tail_nats),
        kl_topk_shared_nats=where_valid(figures.shared_nats),
        kl_topk_lower_nats=where_valid(figures.lower_nats),
        kl_topk_floor_nats=where_valid(figures.floor_nats),
        shared_support=figures.shared_support,
        reference_mass_outside=where_valid(figures.reference_mass_outside),
        reference_mass_dropped=where_valid(figures.reference_mass_dropped),
        missed=figures.missed,
        flip=flip,
        flip_strict=flip & ~both_best.any(axis=1),
        flip_text=valid & (candidate.ids[:, 0] != candidate.token),
        swap=swap,
        reference_top=np.where(reference.usable, reference.ids[:, 0], -1).astype(np.int32),
        candidate_top=np.where(candidate.usable, candidate.ids[:, 0], -1).astype(np.int32),
        reference_p1=_p1(reference),
        reference_margin=_margin(reference),
        candidate_p1=_p1(candidate),
        p_of_candidate_top=where_valid(np.exp(reference.logprobs_of(candidate.ids[:, :1])[:, 0])),
        q_of_reference_top=where_valid(np.exp(candidate.logprobs_of(reference.ids[:, :1])[:, 0])),
        reference_nll_nats=0.0 - _of_usable(reference, reference.logprob),
        candidate_nll_nats=0.0 - _of_usable(candidate, candidate.logprob),
        dp=where_valid(np.exp(candidate.logprob) - np.exp(reference.logprob)),
        reference_rank=np.where(reference.usable, reference.rank, 0).astype(np.int32),
        candidate_rank=np.where(candidate.usable, candidate.rank, 0).astype(np.int32),
        reference_entropy_nats=_of_usable(reference, reference.entropy_nats),
        candidate_entropy_nats=_of_usable(candidate, candidate.entropy_nats),
        reference_entropy_topk_nats=_of_usable(
            reference, topk_entropy(reference.logprobs, present, masses.reference_tail)
        ),
        candidate_entropy_topk_nats=_of_usable(
            candidate, topk_entropy(candidate.logprobs, own_present, masses.own_tail)
        ),
        reference_padding_mass=reference.padding_mass,
        candidate_padding_mass=candidate.padding_mass,
        max_abs_dlogit=nothing.astype(np.float32),
        max_abs_dlogprob=where_valid(difference).astype(np.float32),
        flags=flags,
    )
    same = _same_entries(reference, candidate, top_k)
    return _Slice(
        columns,
        flip & ((second < 0) | (own_second < 0)),
        [bool(equal) if known else None for equal, known in zip(same, valid, strict=True)],
    )


def _p1(rows: TopLists) -> Floats:
    return _of_usable(rows, np.where(np.isnan(rows.p1), np.exp(rows.logprobs[:, 0]), rows.p1))


def _second(rows: TopLists) -> NDArray[np.int32]:
    """The second-best token: int32[n]; -1 where the list ends before it."""
    return rows.ids[:, 1] if rows.ids.shape[1] > 1 else np.full(len(rows), -1, dtype=np.int32)


def _margin(rows: TopLists) -> Floats:
    if rows.ids.shape[1] < 2:
        return np.full(len(rows), np.nan)
    return _of_usable(rows, np.exp(rows.logprobs[:, 0]) - np.exp(rows.logprobs[:, 1]))


def _of_usable(rows: TopLists, values: Floats) -> Floats:
    return np.where(rows.usable & np.isfinite(values), values, np.nan)


def _same_entries(reference: TopLists, candidate: TopLists, top_k: int) -> NDArray[np.bool_]:
    """Whether the hashes ``row.top@K`` would be equal: bool[n]. They leave out what ties with the K-th entry."""
    kept = [_hashed_entries(rows, top_k) for rows in (reference, candidate)]
    width = max(rows.ids.shape[1] for rows in (reference, candidate))
    sides = []
    for rows, inside in zip((reference, candidate), kept, strict=True):
        ids = np.full((len(rows), width), -1, dtype=np.int32)
        values = np.zeros((len(rows), width), dtype=np.float32)
        columns = rows.ids.shape[1]
        ids[:, :columns] = np.where(inside, rows.ids, -1)
        values[:, :columns] = np.where(inside, rows.logprobs, 0.0)
        sides.append((ids, values))
    (left_ids, left_values), (right_ids, right_values) = sides
    return ((left_ids == right_ids) & (left_values == right_values)).all(axis=1)


def _hashed_entries(rows: TopLists, top_k: int) -> NDArray[np.bool_]:
    if rows.ids.shape[1] < top_k:
        return rows.present
    full = rows.present[:, top_k - 1]
    return rows.present & (~full[:, None] | (rows.logprobs > rows.logprobs[:, top_k - 1 : top_k]))
