"""Full-vocabulary divergence of 2,000 positions against the time to read the same bytes once, on one thread.

Reading is a sum over the float32 logits of both sides, which no analysis can be faster than. Beside it stand kl.full
alone (float64 log-softmax of both sides and the sum, written out here), every column of a comparison, and the complete
analysis of a run, which adds the candidate's own rows and their hashes. Rows are made, read and analysed in blocks, so
that memory does not grow with the positions. Times are those of the processor: what else the machine does moves them
less than a clock, but it shares caches and memory, so quote the ratios from a machine that does nothing else.
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from drift_runs.measure.divergence import compare_and_summarise, compare_rows

POSITIONS = 2_000
COLUMNS = (49_152, 151_936)
TOP_K = 64
_BLOCK_POSITIONS = 125
_ROWS_AT_ONCE = 8

Rows = NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class FullKlTime:
    """Processor seconds on one thread for ``positions`` rows of ``columns`` entries on either side."""

    positions: int
    columns: int
    read_s: float
    kl_s: float
    compare_s: float
    complete_s: float
    peak_bytes: int
    """The most memory that the process has held so far."""

    def line(self, name: str, seconds: float) -> str:
        entries = self.positions * self.columns
        return f"{name:22} {seconds:7.3f} s  {seconds / self.read_s:6.1f}  {seconds / entries * 1e9:7.2f} ns"


def logits(generator: np.random.Generator, count: int, columns: int) -> tuple[Rows, Rows, NDArray[np.int32]]:
    """A block of both sides and the text's tokens: a few likely tokens above a wide floor, a mild change of it."""
    reference = generator.standard_normal((count, columns), dtype=np.float32) * np.float32(2.5)
    tokens = generator.integers(0, columns, count).astype(np.int32)
    likely = generator.integers(0, columns, (count, 8))
    likely[:, 0] = tokens
    reference[np.arange(count)[:, None], likely] += generator.uniform(4, 16, (count, 8)).astype(np.float32)
    candidate = reference + generator.standard_normal((count, columns), dtype=np.float32) * np.float32(0.1)
    return reference, candidate, tokens


def read(reference: Rows, candidate: Rows) -> float:
    return float(reference.sum(dtype=np.float32) + candidate.sum(dtype=np.float32))


def kl_alone(reference: Rows, candidate: Rows) -> NDArray[np.float64]:
    """``kl.full`` and nothing else: float64[n]."""
    parts = []
    for start in range(0, len(reference), _ROWS_AT_ONCE):
        p, q = (side[start : start + _ROWS_AT_ONCE].astype(np.float64) for side in (reference, candidate))
        p -= p.max(axis=1, keepdims=True)
        q -= q.max(axis=1, keepdims=True)
        weights = np.exp(p)
        total = weights.sum(axis=1)
        p -= q
        mean = np.einsum("ij,ij->i", weights, p) / total
        parts.append(mean - np.log(total) + np.log(np.exp(q, out=q).sum(axis=1)))
    return np.concatenate(parts)


def measure(columns: int, positions: int = POSITIONS) -> FullKlTime:
    generator = np.random.default_rng(1)
    seconds = dict.fromkeys(("read", "kl", "compare", "complete"), 0.0)

    def timed(name: str, work: Callable[[], object]) -> object:
        started = time.process_time()
        result = work()
        seconds[name] += time.process_time() - started
        return result

    for start in range(0, positions, _BLOCK_POSITIONS):
        count = min(_BLOCK_POSITIONS, positions - start)
        p, q, tokens = logits(generator, count, columns)
        at = np.arange(start, start + count, dtype=np.int32)
        settings = {"top_k": TOP_K, "dictionary_size": columns}
        timed("read", lambda p=p, q=q: read(p, q))
        alone = timed("kl", lambda p=p, q=q: kl_alone(p, q))
        compared = timed("compare", lambda p=p, q=q, t=tokens, s=settings: compare_rows(p, q, t, **s))
        timed("complete", lambda p=p, q=q, t=tokens, a=at, s=settings: compare_and_summarise(p, q, t, positions=a, **s))
        np.testing.assert_allclose(compared.kl_full_nats, alone, rtol=1e-9, atol=1e-13)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return FullKlTime(
        positions=positions,
        columns=columns,
        read_s=seconds["read"],
        kl_s=seconds["kl"],
        compare_s=seconds["compare"],
        complete_s=seconds["complete"],
        peak_bytes=peak if sys.platform == "darwin" else peak * 1024,
    )


def main() -> None:
    for columns in COLUMNS:
        found = measure(columns)
        print(f"{found.positions:,} positions x {columns:,} entries    x reading  per entry of one side")
        for name, seconds in (
            ("read both sides once", found.read_s),
            ("kl.full alone", found.kl_s),
            ("every column", found.compare_s),
            ("complete analysis", found.complete_s),
        ):
            print(found.line(name, seconds))
        print(f"peak memory {found.peak_bytes / 1e9:.2f} GB\n")
