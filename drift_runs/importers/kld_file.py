"""The bytes of a KL base file of llama.cpp, read a few rows at a time.

Little-endian throughout, sizes in 64 bits:

    8 bytes    ``_logits_``
    3 x i32    context length, dictionary size V, number of chunks
    i32        tokens, context length x chunks of them
    rows       for each chunk one row for each of the context's indices from half of it to the last but one

A row is two float32 (``scale`` and the row's least log-probability), V whole numbers of 16 bits, and one more of
padding where V is odd. Entry q stands for the log-probability ``scale x q + least``. The writer lifts everything that
is more than 16 nats below the row's best entry to that floor, q = 0. With a large dictionary what was lifted adds parts
in a thousand to the row's mass, which would count as divergence, so it is taken out again: see :func:`dequantise`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from drift_runs.errors import ImportFileError

MAGIC = b"_logits_"
HEADER_BYTES = 20
BLOCK_BYTES = 32 * 2**20
"""Of float32 rows in one block."""

FLOOR_NATS = 16.0
DEEPEST_NATS = 8.0
"""No entry is put deeper than this below the floor, however little of the mass is left for the floor's entries."""

LARGEST_CONTEXT = 2**24
LARGEST_DICTIONARY = 2**24
WINDOWS_LIMIT = 2**15 - 1
MASS_LIMIT = (0.5, 2.0)
"""Rounding to 16 bits and the floor move a row's mass by parts in a thousand: outside of this it is another format."""
ABOVE_ZERO = 1e-2


class KldBlock(NamedTuple):
    """Some rows of one chunk."""

    chunk: int
    positions: NDArray[np.int32]
    """int32[n]: history in tokens, the one in front of the chunk included."""
    tokens: NDArray[np.int32]
    """int32[n]: what the text has there."""
    logprobs: NDArray[np.float32]
    """float32[n, V], renormalised in float64; NaN throughout where the stored row is not finite."""
    stored: NDArray[np.uint16]
    """uint16[n, words of a row]: the bytes as they lie in the file."""
    mass: NDArray[np.float64]
    """float64[n]: sum of the probabilities as stored; NaN where the row is not finite."""
    at_floor: int
    """Entries of all rows that stand at the floor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KldFile:
    """A base file whose size agrees with its header. Its rows stay on the disk."""

    path: Path
    context_tokens: int
    dictionary_size: int
    chunks: int
    tokens: NDArray[np.int32]
    """int32[chunks, context_tokens], as the text has them: the writer's BOS is not in it."""

    @property
    def rows_per_chunk(self) -> int:
        return rows_per_chunk(self.context_tokens)

    @property
    def positions(self) -> NDArray[np.int32]:
        """Scored positions of every chunk. The row of index i predicts token i + 1: position t = i + 1."""
        return np.arange(self.context_tokens // 2 + 1, self.context_tokens, dtype=np.int32)

    def window(self, chunk: int) -> str:
        return f"chunk-{chunk:04d}"

    def blocks(self, *, block_bytes: int = BLOCK_BYTES) -> Iterator[KldBlock]:
        """All rows in order, in blocks that hold at most ``block_bytes`` of float32 and never cross a chunk."""
        at_once = max(1, block_bytes // (4 * self.dictionary_size))
        for chunk in range(self.chunks):
            for start in range(0, self.rows_per_chunk, at_once):
                yield self.block(chunk, slice(start, start + at_once))

    def block(self, chunk: int, rows: slice) -> KldBlock:
        """Some rows of one chunk, counted from its first stored row."""
        stored = np.memmap(
            self.path,
            dtype="<u2",
            mode="r",
            offset=HEADER_BYTES + 4 * self.tokens.size,
            shape=(self.chunks, self.rows_per_chunk, row_words(self.dictionary_size)),
        )
        taken = np.array(stored[chunk, rows])
        positions = self.positions[rows]
        where = f"{self.path}: {self.window(chunk)} position {int(positions[0])}"
        logprobs, mass, at_floor = dequantise(taken, self.dictionary_size, where)
        return KldBlock(chunk, positions, self.tokens[chunk, positions], logprobs, taken, mass, at_floor)


def open_kld(path: Path) -> KldFile:
    """Check header and exact size, read the tokens; ``ImportFileError`` before anything large is taken."""
    where = str(path)
    try:
        if not path.is_file():
            raise ImportFileError("not a regular file" if path.exists() else "no such file", where=where)
        size = path.stat().st_size
        with path.open("rb") as file:
            header = file.read(HEADER_BYTES)
            context, dictionary, chunks = check_header(header, size, where)
            tokens = np.frombuffer(file.read(4 * context * chunks), dtype="<i4")
    except OSError as error:
        raise ImportFileError(f"cannot be read: {error.strerror or error}", where=where) from error
    tokens = tokens.astype(np.int32).reshape(chunks, context)
    if tokens.min() < 0 or tokens.max() >= dictionary:
        chunk, index = np.argwhere((tokens < 0) | (tokens >= dictionary))[0]
        raise ImportFileError(
            f"token id {tokens[chunk, index]}",
            where=f"{where}: chunk {chunk}, token {index}",
            expected=f"ids from 0 to {dictionary - 1}",
            todo="write the base file again",
        )
    return KldFile(path=path, context_tokens=context, dictionary_size=dictionary, chunks=chunks, tokens=tokens)


def check_header(header: bytes, size: int, where: str) -> tuple[int, int, int]:
    """Context length, dictionary size and chunks, when they are possible and fit a file of ``size`` bytes."""
    again = "write the base file again with llama-perplexity --kl-divergence-base"
    if header[: len(MAGIC)] != MAGIC[: len(header)] or not header:
        raise ImportFileError("no KL base file", where=where, expected=f"a file that starts with {MAGIC.decode()}")
    if len(header) < HEADER_BYTES:
        raise ImportFileError(
            f"cut off in its header: {size} bytes", where=where, expected=f"{HEADER_BYTES} bytes and more", todo=again
        )
    little = tuple(int(number) for number in np.frombuffer(header[len(MAGIC) :], dtype="<i4"))
    big = tuple(int(number) for number in np.frombuffer(header[len(MAGIC) :], dtype=">i4"))
    if not possible(*little):
        if possible(*big) and expected_size(*big) == size:
            raise ImportFileError(
                "written on a big-endian machine", where=where, expected="little-endian numbers", todo=again
            )
        raise ImportFileError(
            "impossible header: context {}, dictionary {}, chunks {}".format(*little),
            where=where,
            expected=f"a context of 3 to {LARGEST_CONTEXT}, a dictionary of 2 to {LARGEST_DICTIONARY}, "
            f"1 to {WINDOWS_LIMIT} chunks",
            todo=again,
        )
    wanted = expected_size(*little)
    if size != wanted:
        raise ImportFileError(
            size_fault(*little, size),
            where=where,
            expected=f"{wanted:,} bytes for context {little[0]}, dictionary {little[1]}, chunks {little[2]}",
            todo=again,
        )
    return little


def possible(context: int, dictionary: int, chunks: int) -> bool:
    return 3 <= context <= LARGEST_CONTEXT and 2 <= dictionary <= LARGEST_DICTIONARY and 1 <= chunks <= WINDOWS_LIMIT


def rows_per_chunk(context: int) -> int:
    return context - 1 - context // 2


def row_words(dictionary: int) -> int:
    """16-bit words of a row: four for its two numbers, and an even number of entries."""
    return 4 + dictionary + dictionary % 2


def expected_size(context: int, dictionary: int, chunks: int) -> int:
    """Bytes of a whole file; Python's integers do not overflow."""
    return HEADER_BYTES + 4 * context * chunks + 2 * chunks * rows_per_chunk(context) * row_words(dictionary)


def size_fault(context: int, dictionary: int, chunks: int, size: int) -> str:
    """Where a file of the wrong size ends."""
    tokens_end = HEADER_BYTES + 4 * context * chunks
    row = 2 * row_words(dictionary)
    if size < tokens_end:
        return f"cut off in its tokens: {size:,} bytes"
    if size > expected_size(context, dictionary, chunks):
        return f"{size - expected_size(context, dictionary, chunks):,} bytes too long"
    whole, rest = divmod(size - tokens_end, row)
    chunk, index = divmod(whole, rows_per_chunk(context))
    inside = " inside of it" if rest else ""
    return f"cut off at chunk {chunk}, row {index}{inside}: {size:,} bytes"


def dequantise(
    stored: NDArray[np.uint16], dictionary: int, where: str
) -> tuple[NDArray[np.float32], NDArray[np.float64], int]:
    """Log-probabilities float32[n, V] that sum to 1, the mass float64[n] as stored, entries at the floor.

    The other entries are true to half a step, so what they leave of 1 is the mass of the entries at the floor; these
    share it alike, never above the floor and never more than ``DEEPEST_NATS`` below it. Then the row is renormalised.

    ``ImportFileError`` for numbers that no base file holds: a negative scale, a row that is no distribution.
    """
    numbers = np.ascontiguousarray(stored[:, :4]).view("<f4").astype(np.float64)
    scale, least = numbers[:, :1], numbers[:, 1:]
    entries = stored[:, 4 : 4 + dictionary]
    finite = np.isfinite(numbers).all(axis=1)
    scale = np.where(finite[:, None], scale, 0.0)
    least = np.where(finite[:, None], least, 0.0)
    best = (scale * entries.max(axis=1, keepdims=True).astype(np.float64) + least)[:, 0]
    wrong = finite & ((scale[:, 0] < 0) | (best > ABOVE_ZERO))
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise ImportFileError(
            f"row {row} of the block has scale {scale[row, 0]:.4g} and a best log-probability of {best[row]:.4g}",
            where=where,
            expected="a scale of 0 or more and log-probabilities of 0 or less",
            todo="the file is damaged: write it again",
        )
    values = scale * entries.astype(np.float64)
    values += least
    weights = np.exp(values - best[:, None])
    with np.errstate(over="ignore"):
        mass = np.exp(best) * weights.sum(axis=1)
    wrong = finite & ~((mass >= MASS_LIMIT[0]) & (mass <= MASS_LIMIT[1]))
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise ImportFileError(
            f"the probabilities of row {row} of the block sum to {mass[row]:.4g}",
            where=where,
            expected="about 1",
            todo="the file is damaged or of another layout: write it again",
        )
    # A row whose range is shorter has its own least entry at q = 0, and nothing was cut off.
    floored = finite & (scale[:, 0] * 65535 > FLOOR_NATS * (1 - 1e-4))
    at_floor = 0
    for row in np.flatnonzero(floored):
        lifted = entries[row] == 0
        count = int(np.count_nonzero(lifted))
        at_floor += count
        if count:
            weights[row, lifted] = 0
            floor = math.exp(least[row, 0])
            rest = (1 - math.exp(best[row]) * float(weights[row].sum())) / count
            share = min(max(rest, floor * math.exp(-DEEPEST_NATS)), floor)
            values[row, lifted] = math.log(share)
            weights[row, lifted] = share / math.exp(best[row])
    values -= (best + np.log(weights.sum(axis=1)))[:, None]
    logprobs = values.astype(np.float32)
    logprobs[~finite] = np.nan
    return logprobs, np.where(finite, mass, math.nan), at_floor
