"""The unit of work where a row is its K best entries: what a server lists, or what is kept of an engine's logits."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from drift_runs.capture.score import ScoredWindow, WindowTask, rows_table, wanted_columns
from drift_runs.engines.base import ListedBlock, ListedEngine
from drift_runs.errors import ServerError
from drift_runs.measure.columns import RowColumns
from drift_runs.measure.determinism import row_top_hash
from drift_runs.schema import RowFlag


def score_listed_window(
    engine: ListedEngine, task: WindowTask, *, wanted: Sequence[Sequence[int]] | None = None
) -> ScoredWindow:
    """Score one window through an engine that lists entries; nothing is compared here.

    ``wanted``: ids a position to be told beside the best.

    Raises
    ------
    ServerError
        other rows than asked were returned, or one without entries.
    """
    started = time.perf_counter()
    engine_s = 0.0
    parts: list[RowColumns] = []
    told: list[ListedBlock] = []
    done = 0
    blocks = engine.score_listed(task.tokens.tolist(), task.positions.tolist(), top_k=task.top_k, wanted=wanted)
    while True:
        before = time.perf_counter()
        block = next(blocks, None)
        engine_s += time.perf_counter() - before
        if block is None:
            break
        here = task.positions[done : done + len(block.positions)]
        if not np.array_equal(block.positions, here):
            raise ServerError(
                f"rows for positions {block.positions[:3].tolist()}… were returned",
                where=f"window {task.window}",
                expected=f"{here[:3].tolist()}…",
                todo="nothing of this window was kept",
            )
        parts.append(_columns(block, task))
        told.append(block)
        done += len(block.positions)
    if done != len(task.positions):
        raise ServerError(
            f"{done} rows were returned",
            where=f"window {task.window}",
            expected=f"{len(task.positions)} rows",
            todo="nothing of this window was kept",
        )
    extra = {} if wanted is None else wanted_columns(*_told(told))
    rows = rows_table(task, [part.arrays() for part in parts], extra)
    own_s = time.perf_counter() - started - engine_s
    return ScoredWindow(rows=rows, comparison=None, engine_s=engine_s, own_s=own_s)


def _columns(block: ListedBlock, task: WindowTask) -> RowColumns:
    count = len(block.positions)
    present = block.ids >= 0
    empty = np.flatnonzero(~present.any(axis=1))
    if empty.size:
        raise ServerError(
            "no entry was returned",
            where=f"window {task.window}, position {int(block.positions[empty[0]])}",
            expected=f"the best {task.top_k} entries",
            todo="nothing of this window was kept",
        )
    # As they are stored, so that a tie is one wherever rows are read: rounding can make one, and then the id decides.
    logprobs = block.logprobs.astype(np.float32)
    order = np.lexsort((block.ids, np.where(present, -logprobs, np.inf), ~present), axis=1)
    ids, logprobs, present = (np.take_along_axis(found, order, axis=1) for found in (block.ids, logprobs, present))
    best = logprobs[:, :1]
    flags = np.zeros(count, dtype=np.int32)
    flags[present.sum(axis=1) < min(task.top_k, task.dictionary_size)] |= RowFlag.SHORT
    flags[block.sentinels > 0] |= RowFlag.SENTINEL
    nothing = np.full(count, np.nan)
    kept = [np.flatnonzero(row) for row in present]
    return RowColumns(
        logprob=block.token_logprob,
        rank=block.token_rank,
        top_ids=ids,
        top_logprobs=logprobs,
        tail_logprob=nothing,
        padding_mass=nothing,
        tie_count=((logprobs == best) & present).sum(axis=1).astype(np.int32),
        p1=np.exp(block.logprobs[:, 0]),
        entropy_nats=nothing,
        row_top=[
            row_top_hash(ids[row][at], logprobs[row][at], int(position), task.top_k)
            for row, (at, position) in enumerate(zip(kept, block.positions, strict=True))
        ],
        row_full=[None] * count,
        flags=flags,
    )


def _told(blocks: Sequence[ListedBlock]) -> tuple[list[NDArray[np.int32]], list[NDArray[np.float32]]]:
    """Ids that were asked for and answered, ascending, and their log-probabilities, row by row."""
    ids: list[NDArray[np.int32]] = []
    logprobs: list[NDArray[np.float32]] = []
    for block in blocks:
        for row_ids, row_logprobs in zip(block.wanted_ids, block.wanted_logprobs, strict=True):
            there = np.flatnonzero(row_ids >= 0)
            order = there[np.argsort(row_ids[there], kind="stable")]
            ids.append(row_ids[order])
            logprobs.append(row_logprobs[order].astype(np.float32))
    return ids, logprobs
