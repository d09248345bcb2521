"""The unit of work: teacher-force one window through an open engine. It knows no process, protocol file or store."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from drift_runs import schema
from drift_runs.engines.base import Engine, ScoredBlock
from drift_runs.errors import EngineError, NonFiniteLogits
from drift_runs.measure.determinism import rows_identical
from drift_runs.measure.divergence import PositionColumns, RowColumns, compare_and_summarise, summarise_rows

_LEAST_BLOCK_ROWS = 64
"""Rows that a decode path collects before they are analysed: one row at a time would cost more than the engine."""

MARKS = ("copy", "literal")
"""Columns of a comparison that follow from the text alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowTask:
    """One window as an engine sees it."""

    window: str
    role: str
    tokens: NDArray[np.int32]
    positions: NDArray[np.int32]
    """Scored positions, ascending."""
    top_k: int
    dictionary_size: int
    copy: NDArray[np.bool_] | None = None
    """Marks of the scored positions' tokens for the comparison; None where the text is not known."""
    literal: NDArray[np.bool_] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredWindow:
    """What came of it."""

    rows: pa.Table
    """Schema ``ROWS``."""
    comparison: pa.Table | None
    """Schema ``COMPARISON``; None without a reference."""
    engine_s: float
    """Time inside the engine."""
    own_s: float
    """Time of everything else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceRows:
    """Full rows of the reference for one window."""

    logits: NDArray[np.float32]
    """float32[n, columns], in the order of the positions; may be a memory map."""
    row_full: Sequence[bytes | None]


def scored_positions(spans: Sequence[tuple[int, int]]) -> NDArray[np.int32]:
    """Positions of half-open spans, ascending: int32[n]."""
    return np.concatenate([np.arange(start, end, dtype=np.int32) for start, end in spans])


def score_window(
    engine: Engine,
    task: WindowTask,
    *,
    reference: ReferenceRows | None = None,
    spill: Path | None = None,
    wanted: Sequence[Sequence[int]] | None = None,
    analysis_threads: int = 1,
) -> ScoredWindow:
    """Score one window; full rows are compared, hashed and dropped, or spilled for others to compare with.

    Parameters
    ----------
    reference
        rows to compare with; None takes the rows alone.
    spill
        file that receives the full rows (``.npy``, float32[n, columns], columns without padding).
    wanted
        ids a position, ascending, whose log-probabilities are kept beside the best.
    analysis_threads
        rows are analysed by that many threads while the engine waits; every row is computed alone, so the number
        changes no byte.

    Raises
    ------
    NonFiniteLogits
        NaN or plus infinity at a scored position: the first such position is named.
    EngineError
        the engine returned other positions than asked.
    """
    started = time.perf_counter()
    count = len(task.positions)
    tokens = task.tokens[task.positions]
    target = None
    if spill is not None:
        target = np.lib.format.open_memmap(spill, mode="w+", dtype=np.float32, shape=(count, task.dictionary_size))
    row_parts: list[RowColumns] = []
    comparison_parts: list[PositionColumns] = []
    told: list[NDArray[np.float32]] = []
    engine_s = 0.0
    done = 0
    blocks = _gathered(engine.score(task.tokens.tolist(), task.positions.tolist()))
    while True:
        before = time.perf_counter()
        block = next(blocks, None)
        engine_s += time.perf_counter() - before
        if block is None:
            break
        here = slice(done, done + len(block.positions))
        if not np.array_equal(block.positions, task.positions[here]):
            raise EngineError(
                f"rows for positions {block.positions[:3].tolist()}… were returned",
                where=f"window {task.window}",
                expected=f"{task.positions[here][:3].tolist()}…",
            )
        kept = None if reference is None else reference.logits[here]
        first = done
        for part, compared in _analysed(task, block, tokens[here], kept, analysis_threads):
            _refuse_non_finite(part, task.positions[first : first + len(part)], task.window)
            first += len(part)
            row_parts.append(part)
            if compared is not None:
                comparison_parts.append(compared)
        if wanted is not None:
            told += _told(block, wanted[here], task.dictionary_size)
        if target is not None:
            target[here] = block.logits[:, : task.dictionary_size]
        done += len(block.positions)
    if done != count:
        raise EngineError(f"{done} rows were returned", where=f"window {task.window}", expected=f"{count} rows")
    hashes = [value for part in row_parts for value in part.row_full]
    rows = rows_table(task, [part.arrays() for part in row_parts], wanted_columns(wanted, told))
    comparison = None
    if reference is not None:
        same = rows_identical(reference.row_full, hashes)
        extra = {"row_identical": same, "row_hash": pa.array(["row.full"] * count).dictionary_encode()}
        extra |= {name: pa.array(marks) for name in MARKS if (marks := getattr(task, name)) is not None}
        comparison = _table(task, [part.arrays() for part in comparison_parts], extra, schema.COMPARISON)
    own_s = time.perf_counter() - started - engine_s
    return ScoredWindow(rows=rows, comparison=comparison, engine_s=engine_s, own_s=own_s)


def _gathered(blocks: Iterator[ScoredBlock]) -> Iterator[ScoredBlock]:
    """Small blocks joined until they are worth an analysis; a large one passes through without a copy."""
    held: list[ScoredBlock] = []
    for block in blocks:
        if not held and len(block.positions) >= _LEAST_BLOCK_ROWS:
            yield block
            continue
        held.append(ScoredBlock(block.positions, block.logits.copy()))
        if sum(len(part.positions) for part in held) >= _LEAST_BLOCK_ROWS:
            yield _joined(held)
            held = []
    if held:
        yield _joined(held)


def _joined(parts: list[ScoredBlock]) -> ScoredBlock:
    return ScoredBlock(
        np.concatenate([part.positions for part in parts]), np.concatenate([part.logits for part in parts])
    )


def _analysed(
    task: WindowTask,
    block: ScoredBlock,
    tokens: NDArray[np.int32],
    reference: NDArray[np.float32] | None,
    threads: int,
) -> list[tuple[RowColumns, PositionColumns | None]]:
    """A block's columns, in order, in as many parts as threads have enough rows to share."""

    def analyse(rows: slice) -> tuple[RowColumns, PositionColumns | None]:
        settings = {"top_k": task.top_k, "dictionary_size": task.dictionary_size, "positions": block.positions[rows]}
        if reference is None:
            return summarise_rows(block.logits[rows], tokens[rows], **settings), None
        return compare_and_summarise(reference[rows], block.logits[rows], tokens[rows], **settings)

    count = len(block.positions)
    parts = max(1, min(threads, count // _LEAST_BLOCK_ROWS))
    edges = [count * part // parts for part in range(parts + 1)]
    slices = [slice(start, end) for start, end in pairwise(edges)]
    if parts == 1:
        return [analyse(slices[0])]
    # numpy and hashlib let go of the interpreter's lock for all that costs here.
    with ThreadPoolExecutor(parts) as pool:
        return list(pool.map(analyse, slices))


def _told(block: ScoredBlock, wanted: Sequence[Sequence[int]], dictionary_size: int) -> Iterator[NDArray[np.float32]]:
    """Natural log-probabilities of chosen ids, a row at a time."""
    for logits, ids in zip(block.logits, wanted, strict=True):
        row = logits[:dictionary_size].astype(np.float64)
        best = row.max()
        yield (row[list(ids)] - best - np.log(np.exp(row - best).sum())).astype(np.float32)


def wanted_columns(ids: Sequence[Sequence[int]] | None, logprobs: Sequence[NDArray[np.float32]]) -> dict[str, pa.Array]:
    """The columns of ``ROWS`` for ids that were asked for; none where none were."""
    if ids is None:
        return {}
    types = {name: schema.ROWS.field(name).type for name in ("wanted_ids", "wanted_logprobs")}
    return {
        "wanted_ids": pa.array([list(row) for row in ids], type=types["wanted_ids"]),
        "wanted_logprobs": pa.array(list(logprobs), type=types["wanted_logprobs"]),
    }


def _refuse_non_finite(rows: RowColumns, positions: NDArray[np.int32], window: str) -> None:
    bad = np.flatnonzero(rows.flags & schema.RowFlag.NONFINITE)
    if bad.size:
        raise NonFiniteLogits(
            f"NaN or infinity in {bad.size} of {len(positions)} rows",
            where=f"window {window}, position {int(positions[bad[0]])}",
            expected="finite logits",
            todo="the window was dropped and nothing was averaged around it: check the weight file and the KV type",
        )


def rows_table(task: WindowTask, parts: list[dict[str, pa.Array]], extra: dict[str, pa.Array]) -> pa.Table:
    """Table ``ROWS`` of one window from columns of its parts and of all of it."""
    return _table(task, parts, extra, schema.ROWS)


def _table(
    task: WindowTask, parts: list[dict[str, pa.Array]], extra: dict[str, pa.Array], wanted: pa.Schema
) -> pa.Table:
    count = len(task.positions)
    columns: dict[str, pa.Array | pa.ChunkedArray] = {
        "window": pa.array([task.window] * count).dictionary_encode(),
        "position": pa.array(task.positions, type=pa.int32()),
        "role": pa.array([task.role] * count).dictionary_encode(),
        "token": pa.array(task.tokens[task.positions], type=pa.int32()),
        **extra,
    }
    for field in wanted:
        if field.name not in columns and all(field.name in part for part in parts):
            columns[field.name] = pa.chunked_array([part[field.name] for part in parts], type=field.type)
        columns.setdefault(field.name, pa.nulls(count, field.type))
    table = pa.table({name: columns[name] for name in wanted.names})
    return table.cast(wanted).combine_chunks()
