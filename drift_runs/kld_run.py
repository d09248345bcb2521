"""A KL base file of llama.cpp against a model that is run here, over the file's own tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from drift_runs.engines.base import Engine, EngineSettings
from drift_runs.errors import EngineError, NonFiniteLogits, NotComparable
from drift_runs.importers.base import ImportedFile
from drift_runs.importers.kld_file import KldFile, open_kld
from drift_runs.importers.llama_kld import (
    CONVENTION,
    FORMAT,
    TOP_K,
    BlockTables,
    compare_block,
    facts_of,
    joined,
    windows_of,
)
from drift_runs.protocol.canonical import file_sha256
from drift_runs.schema import COMPARISON, ROWS

if TYPE_CHECKING:
    from drift_runs.engines.llama_cpp import LlamaCpp

MICRO_BATCH = 512
"""What llama-perplexity uses unless it is told otherwise."""


class KldRun(NamedTuple):
    """What came of it."""

    candidate: ImportedFile
    """The model, as if its rows had been read from a file."""
    comparison: pa.Table
    """Schema ``COMPARISON``: the base file is the reference, the model the candidate."""


def is_model(path: Path) -> bool:
    """Whether a file starts as a GGUF model does."""
    try:
        with path.open("rb") as file:
            return file.read(4) == b"GGUF"
    except OSError:
        return False


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
    digest = file_sha256(model) if model.is_file() else ""
    parts: list[BlockTables] = []
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
            candidate = take(rows, len(block.positions), file.window(chunk))
            refuse_non_finite(candidate, block.positions, f"{model.name}, {file.window(chunk)}")
            parts.append(compare_block(file, block, candidate, top_k))
        if on_chunk is not None:
            on_chunk(file.chunks, file.chunks)
        facts = facts_of(file) | run_facts(engine, model)
    first = "the model's vocabulary adds none" if bos is None else f"token {bos} in place of each chunk's first token"
    candidate = ImportedFile(
        format=FORMAT,
        kind="rows",
        path=model,
        sha256=digest,
        table=joined([part.rows for part in parts], ROWS),
        top_k=min(top_k, file.dictionary_size),
        convention=CONVENTION,
        cluster="window",
        windows=windows_of(file),
        facts=facts,
        notes=(
            f"run here over the tokens of {base.name}; BOS: {first}",
            "the base file's rows are rounded to 16 bits and the model's are not: that rounding is in every figure",
        ),
        divergence="kl.full",
    )
    return KldRun(candidate, joined([part.comparison for part in parts], COMPARISON))


def run_facts(engine: LlamaCpp, model: Path) -> dict[str, str]:
    """What was executed, as the engine says it."""
    identity, settings = engine.identity, engine.settings
    return {
        "model": model.name,
        "engine": f"{identity.engine} {identity.build}",
        "hardware": identity.hardware,
        "kv": settings.kv,
        "threads": str(settings.threads),
        "micro-batch": str(settings.micro_batch),
        "flash attention": settings.flash_attention,
    }


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
