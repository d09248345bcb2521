"""``llama-kld``: the KL base file that llama.cpp's ``llama-perplexity --kl-divergence-base`` writes.

It holds a whole row of the reference for the second half of each context, in 16 bits an entry. Two such files are
compared over the dictionary, block by block, so that a file larger than memory can be read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from drift_runs.errors import NotComparable
from drift_runs.importers.base import ImportedFile, ImportedWindow
from drift_runs.importers.kld_file import FLOOR_NATS, KldBlock, KldFile, open_kld
from drift_runs.measure.divergence import compare_and_summarise, summarise_rows
from drift_runs.protocol.canonical import file_sha256
from drift_runs.schema import COMPARISON, ROWS

FORMAT = "llama-kld"
KIND = "rows"
HELP = "KL base file of llama.cpp: llama-perplexity --kl-divergence-base, full rows in 16 bits"
EQUAL_FACTS = ("context tokens", "dictionary size", "chunks", "tokens sha256")
COMPARES_FULL_ROWS = True
"""``read`` keeps K entries of a row, and :func:`compare_files` reads all of them again."""

CONVENTION = (
    "a chunk is one context; its row of index i predicts token i + 1: read as position t = i + 1 with t tokens of "
    "history, the first of which is BOS where the model's vocabulary adds one"
)
TOP_K = 64
ROW_HASH = "row.kld16"
"""Two stored rows are equal in every bit of the file."""

Columns = Mapping[str, pa.Array]


class BlockTables(NamedTuple):
    """A block of a candidate."""

    comparison: pa.Table
    """Schema ``COMPARISON``."""
    rows: pa.Table
    """The candidate's own, schema ``ROWS``."""


@dataclass(slots=True)
class Quality:
    """What 16 bits did to the rows of a file, counted while they are read."""

    rows: int = 0
    entries: int = 0
    at_floor: int = 0
    not_finite: int = 0
    mass_error_sum: float = 0.0
    mass_error_max: float = 0.0

    def add(self, block: KldBlock) -> None:
        error = np.abs(block.mass - 1)
        known = error[np.isfinite(error)]
        self.rows += len(known)
        self.entries += len(known) * block.logprobs.shape[1]
        self.not_finite += len(error) - len(known)
        self.at_floor += block.at_floor
        self.mass_error_sum += float(known.sum())
        self.mass_error_max = max(self.mass_error_max, float(known.max(initial=0.0)))

    def notes(self) -> tuple[str, ...]:
        notes = []
        if self.rows:
            mean = self.mass_error_sum / self.rows
            notes.append(
                f"stored in 16 bits: |sum of probabilities - 1| is {mean:.3g} in the mean of {self.rows:,} rows, "
                f"{self.mass_error_max:.3g} at most, and was renormalised"
            )
            notes.append(
                f"{self.at_floor / self.entries:.3%} of the entries stand at the floor, {FLOOR_NATS:g} nats below the "
                "row's best: how deep they lay is not known, and they share what the others leave of 1"
            )
        if self.not_finite:
            notes.append(f"{self.not_finite:,} rows are not finite: left out and counted")
        return tuple(notes)


def iter_rows(
    path: Path,
) -> Iterator[tuple[str, NDArray[np.int32], NDArray[np.int32], NDArray[np.float32]]]:
    """Window, positions int32[n], tokens int32[n] and log-probabilities float32[n, V], a block of a chunk at a time.

    A chunk may come in several blocks: one of them holds at most 32 MiB of rows.
    """
    file = open_kld(path)
    for block in file.blocks():
        yield file.window(block.chunk), block.positions, block.tokens, block.logprobs


def read(path: Path, top_k: int = TOP_K) -> ImportedFile:
    """The ``top_k`` best entries of every row with the exact mass of the rest, schema ``ROWS``."""
    path = Path(path)
    file = open_kld(path)
    quality = Quality()
    parts = []
    for block in file.blocks():
        quality.add(block)
        columns = summarise_rows(
            block.logprobs,
            block.tokens,
            top_k=top_k,
            dictionary_size=file.dictionary_size,
            positions=block.positions,
        ).arrays()
        # row.full is a hash of an engine's raw logits, which a base file does not hold.
        del columns["row_full"]
        parts.append(window_table(file.window(block.chunk), block.positions, block.tokens, columns, ROWS))
    return ImportedFile(
        format=FORMAT,
        kind="rows",
        path=path,
        sha256=file_sha256(path),
        table=joined(parts, ROWS),
        top_k=min(top_k, file.dictionary_size),
        convention=CONVENTION,
        cluster="window",
        windows=windows_of(file),
        facts=facts_of(file),
        notes=(*quality.notes(), *notes_of(file)),
        divergence="kl.full",
    )


def compare_files(reference: Path | ImportedFile, candidate: Path | ImportedFile, top_k: int = TOP_K) -> pa.Table:
    """Two base files over the dictionary, row by row: schema ``COMPARISON``.

    Both are read block by block and neither is held. ``NotComparable`` for files of other tokens, context length or
    dictionary.
    """
    left, right = (open_kld(getattr(file, "path", None) or Path(file)) for file in (reference, candidate))
    check_comparable(left, right)
    parts = []
    for ours, theirs in zip(left.blocks(), right.blocks(), strict=True):
        parts.append(compare_block(left, ours, theirs.logprobs, top_k, stored=theirs.stored).comparison)
    return joined(parts, COMPARISON)


def compare_block(
    file: KldFile,
    block: KldBlock,
    candidate: NDArray[np.float32],
    top_k: int,
    *,
    stored: NDArray[np.uint16] | None = None,
) -> BlockTables:
    """One block of a base file against as many rows of a candidate, float32[n, V] logits or log-probabilities.

    ``stored``: the candidate's rows as they lie in its file; None for a candidate that is no base file.
    """
    done = compare_and_summarise(
        block.logprobs,
        candidate,
        block.tokens,
        top_k=top_k,
        dictionary_size=file.dictionary_size,
        positions=block.positions,
    )
    columns = done.comparison.arrays()
    # The reference's logits are not known: only differences of log-probabilities mean something.
    del columns["max_abs_dlogit"]
    if stored is not None:
        columns["max_abs_dlogprob"] = largest_difference(block, candidate, stored)
        columns["row_identical"] = pa.array((block.stored == stored).all(axis=1))
        columns["row_hash"] = pa.array([ROW_HASH] * len(stored))
    named = (file.window(block.chunk), block.positions, block.tokens)
    return BlockTables(window_table(*named, columns, COMPARISON), window_table(*named, done.rows.arrays(), ROWS))


def largest_difference(block: KldBlock, candidate: NDArray[np.float32], stored: NDArray[np.uint16]) -> pa.Array:
    """Largest |difference| of log-probabilities that both files know: an entry at a floor is not known."""
    entries = slice(4, 4 + candidate.shape[1])
    known = (block.stored[:, entries] > 0) & (stored[:, entries] > 0)
    largest = np.max(np.abs(block.logprobs - candidate), axis=1, where=known, initial=0)
    return pa.array(largest, type=pa.float32(), mask=~np.isfinite(block.mass) | ~np.isfinite(candidate).all(axis=1))


def check_comparable(reference: KldFile, candidate: KldFile) -> None:
    """``NotComparable`` with the first thing that differs."""
    where = f"{reference.path.name} and {candidate.path.name}"
    for noun, name in (("dictionary", "dictionary_size"), ("context", "context_tokens"), ("chunks", "chunks")):
        left, right = getattr(reference, name), getattr(candidate, name)
        if left != right:
            raise NotComparable(
                f"{noun} of {left:,} and of {right:,}",
                where=where,
                expected="two base files of one tokenizer, text, context length and number of chunks",
                todo="write both with the same -f, -c and --chunks",
            )
    different = np.argwhere(reference.tokens != candidate.tokens)
    if len(different):
        chunk, index = different[0]
        raise NotComparable(
            f"{len(different):,} tokens differ, the first is token {index} of {reference.window(int(chunk))}",
            where=where,
            expected="the same text in both",
            todo="write both with the same -f and the same tokenizer",
        )


def windows_of(file: KldFile) -> tuple[ImportedWindow, ...]:
    positions = file.positions
    span = (int(positions[0]), int(positions[-1]) + 1)
    return tuple(
        ImportedWindow(
            name=file.window(chunk),
            document=file.window(chunk),
            scored=(span,),
            tokens_sha256=hashlib.sha256(file.tokens[chunk].astype("<i4").tobytes()).hexdigest(),
        )
        for chunk in range(file.chunks)
    )


def facts_of(file: KldFile) -> dict[str, str]:
    return {
        "context tokens": str(file.context_tokens),
        "dictionary size": str(file.dictionary_size),
        "chunks": str(file.chunks),
        "tokens sha256": hashlib.sha256(file.tokens.astype("<i4").tobytes()).hexdigest(),
    }


def notes_of(file: KldFile) -> tuple[str, ...]:
    return (
        f"all {file.chunks} chunks come from one text: an interval over chunks says nothing about other texts",
        "the file does not say which model, KV type or batch wrote it, nor whether BOS stood in front of a chunk",
    )


def window_table(
    window: str, positions: NDArray[np.int32], tokens: NDArray[np.int32], columns: Columns, wanted: pa.Schema
) -> pa.Table:
    """Rows of one window in ``wanted``; a column that is not given is null."""
    count = len(positions)
    given: dict[str, pa.Array] = {
        "window": pa.array([window] * count),
        "role": pa.array(["prompt"] * count),
        "position": pa.array(positions),
        "token": pa.array(tokens),
        **columns,
    }
    arrays = [
        given[field.name].cast(field.type) if field.name in given else pa.nulls(count, field.type) for field in wanted
    ]
    return pa.Table.from_arrays(arrays, schema=wanted)


def joined(parts: list[pa.Table], wanted: pa.Schema) -> pa.Table:
    """The parts in order, with one dictionary of window names."""
    return pa.concat_tables(parts).unify_dictionaries().combine_chunks() if parts else wanted.empty_table()
