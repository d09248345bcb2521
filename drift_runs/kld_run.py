"""A KL base file of llama.cpp against a model that is run here, over the file's own tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from drift_runs.engines.base import Engine, EngineIdentity, EngineSettings
from drift_runs.errors import EngineError, NonFiniteLogits, NotComparable
from drift_runs.importers.kld_file import KldFile, open_kld
from drift_runs.importers.llama_kld import TOP_K, Quality, compare_block, joined, notes_of
from drift_runs.schema import COMPARISON

MICRO_BATCH = 512
"""What llama-perplexity uses unless it is told otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KldRun:
    """What came of it."""

    comparison: pa.Table
    """Schema ``COMPARISON``: the base file is the reference, the model the candidate."""
    identity: EngineIdentity
    settings: EngineSettings
    notes: tuple[str, ...]


def settings_for(context_tokens: int, *, threads: int = 1, kv: str = "f16") -> EngineSettings:
    """As llama-perplexity opens a context of that length: each chunk in one pass over the whole of it."""
    return EngineSettings(
        path_shape="prefill",
        context_tokens=context_tokens,
        batch=context_tokens,
        micro_batch=min(MICRO_BATCH, context_tokens),
        threads=threads,
        kv=kv,
        flash_attention="on",
    )


def compare_with_model(
    base: Path,
    model: Path,
    *,
    top_k: int = TOP_K,
    threads: int = 1,
    kv: str = "f16",
    on_chunk: Callable[[int, int], None] | None = None,
) -> KldRun:
    """Teacher-force every chunk through the model as llama-perplexity does, and compare row by row.

    A BOS stands in place of the chunk's first token where the model's vocabulary adds one. One chunk's rows are held
    at most. ``on_chunk`` is told chunks done and chunks in all.

    Raises ``NotComparable`` for a model of another dictionary, ``NonFiniteLogits`` for NaN or infinity from the model,
    ``EngineMissing`` without the engine's library.
    """
    from drift_runs.engines.llama_cpp import LlamaCpp

    file = open_kld(base)
    settings = settings_for(file.context_tokens, threads=threads, kv=kv)
    quality = Quality()
    parts = []
    with LlamaCpp(model, settings) as engine:
        if engine.dictionary_size != file.dictionary_size:
            raise NotComparable(
                f"the model has {engine.dictionary_size:,} tokens, the base file {file.dictionary_size:,}",
                where=f"{base.name} and {model.name}",
                expected="a model with the tokenizer that the base file was written with",
            )
        bos = engine.automatic_bos
        chunk = -1
        rows: Iterator[NDArray[np.float32]] = iter(())
        for block in file.blocks():
            if block.chunk != chunk:
                chunk = block.chunk
                rows = scored_rows(engine, file, chunk, bos)
                if on_chunk is not None:
                    on_chunk(chunk, file.chunks)
            quality.add(block)
            candidate = take(rows, len(block.positions), file.window(chunk))
            refuse_non_finite(candidate, block.positions, f"{model.name}, {file.window(chunk)}")
            parts.append(compare_block(file, block, candidate, top_k))
        if on_chunk is not None:
            on_chunk(file.chunks, file.chunks)
        identity = engine.identity
    first = "the model's vocabulary adds none" if bos is None else f"token {bos} in place of each chunk's first token"
    return KldRun(
        comparison=joined(parts, COMPARISON),
        identity=identity,
        settings=settings,
        notes=(
            *quality.notes(),
            f"BOS: {first}",
            "the base file's rows are rounded to 16 bits and the model's are not: that rounding is in every figure",
            *notes_of(file)[:1],
        ),
    )


def scored_rows(engine: Engine, file: KldFile, chunk: int, bos: int | None) -> Iterator[NDArray[np.float32]]:
    """Logits float32[V] of every scored position of a chunk, in order; each is valid until the next is asked for."""
    tokens = file.tokens[chunk].tolist()
    if bos is not None:
        tokens[0] = bos
    for block in engine.score(tokens, file.positions.tolist()):
        yield from block.logits


def take(rows: Iterator[NDArray[np.float32]], count: int, where: str) -> NDArray[np.float32]:
    """The next ``count`` rows, copied: float32[count, V]."""
    taken = [row.copy() for row in islice(rows, count)]
    if len(taken) < count:
        raise EngineError(f"{len(taken)} rows were returned", where=where, expected=f"{count} rows")
    return np.stack(taken)


def refuse_non_finite(rows: NDArray[np.float32], positions: NDArray[np.int32], where: str) -> None:
    bad = np.flatnonzero(np.isnan(rows).any(axis=1) | np.isposinf(rows).any(axis=1))
    if bad.size:
        raise NonFiniteLogits(
            f"NaN or infinity in {bad.size} of {len(rows)} rows",
            where=f"{where}, position {int(positions[bad[0]])}",
            expected="finite logits",
            todo="nothing was averaged around it: check the weight file and the KV type",
        )
