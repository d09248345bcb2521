"""Time of 10,000 resamples over 842 clusters with every interval, beside the plain sums over the same draws."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from drift_runs.measure.intervals import intervals_of_sums
from drift_runs.measure.resampler import Resampler

RESAMPLES = 10_000
CLUSTERS = 842
REPEATS = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class ResamplingTime:
    """Medians of ``REPEATS`` rounds, in which each is done once."""

    first_s: float
    """Draws, percentile, BCa and standard error of the first figure."""
    next_s: float
    """The same of another figure, whose draws are there."""
    plain_s: float
    """The draws as one matrix, and numpy's sums of the values at them."""
    kept_bytes: int
    """What stays in memory for the next figure."""

    @property
    def ratio(self) -> float:
        return self.first_s / self.plain_s


def seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def measure(repeats: int = REPEATS) -> ResamplingTime:
    generator = np.random.default_rng(1)
    bottom = generator.integers(1_000, 12_000, (CLUSTERS, 1)).astype(np.float64)
    top = generator.lognormal(-5, 1, (CLUSTERS, 1)) * bottom

    def plain() -> np.ndarray:
        drawn = np.random.default_rng(1).integers(0, CLUSTERS, (RESAMPLES, CLUSTERS))
        return top[drawn, 0].sum(axis=1) / bottom[drawn, 0].sum(axis=1)

    rounds = []
    for _ in range(repeats):
        resampler = Resampler(seed=1, resamples=RESAMPLES)
        first = seconds(lambda kept=resampler: intervals_of_sums(top, bottom, kept))
        following = seconds(lambda kept=resampler: intervals_of_sums(top, bottom, kept))
        rounds.append((first, following, seconds(plain)))
    first_s, next_s, plain_s = (statistics.median(column) for column in zip(*rounds, strict=True))
    kept_bytes = resampler.multiplicities(CLUSTERS).nbytes
    return ResamplingTime(first_s=first_s, next_s=next_s, plain_s=plain_s, kept_bytes=kept_bytes)


def main() -> None:
    found = measure()
    print(f"{RESAMPLES:,} resamples of {CLUSTERS} clusters, medians of {REPEATS} rounds")
    print(f"all intervals of a first figure   {found.first_s:.3f} s")
    print(f"of every further figure           {found.next_s:.3f} s")
    print(f"plain sums over the same draws    {found.plain_s:.3f} s")
    print(f"ratio                             {found.ratio:.2f}")
    print(f"kept between figures              {found.kept_bytes / 1e6:.0f} MB (the draws in 64 bits: 67 MB)")
