"""How often intervals cover the truth, and tests find a difference that is none: simulated, beside what they claim.

**Clusters.** A text's level is exp of a normal number with standard deviation ``spread`` (in one model one text in ten
is eight times as high besides). Its 250 positions are the level times exp(1.8 e), where e is normal and follows the
position before it with correlation 0.5: most are small, the highest twentieth holds most of the sum, and neighbours are
alike. Flips: a text's rate is 10 % times such a level, and a position flips where e falls below the rate's quantile.
The truth is that of all texts that the model could have written.

**One text.** The same positions of one text with another correlation; the truth is that of the endless text.

**Tests.** Two arms whose flip rates go up and down from text to text independently, with equal rates on the whole.

Simulations of one row share the draws of the bootstrap, as all figures of one protocol do.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from drift_runs.measure.blocks import block_quantile_replicates, block_ratio_replicates
from drift_runs.measure.intervals import intervals_of_sums
from drift_runs.measure.permutation import mcnemar, sign_flip
from drift_runs.measure.resampler import Bounds, Floats, Resampler
from drift_runs.measure.students import log_t_intervals, student_t_quantile

CLUSTERS = (5, 7, 13, 20, 40)
POSITIONS = 250
SIMULATIONS = 4000
TEXTS = 1000
RESAMPLES = 2000
CONFIDENCE = 0.95
HEAVY = 1.8
"""Standard deviation of a position's logarithm inside its text."""
RATE = 0.1
SEED = 20261129


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """How the levels of texts are spread."""

    name: str
    spread: float
    rare: float = 0.0
    """Share of texts that are eight times as high."""
    flips: bool = False

    def levels(self, generator: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        levels = np.exp(self.spread * generator.standard_normal(shape))
        return levels * np.where(generator.random(shape) < self.rare, 8.0, 1.0)


MODELS = (
    Model(name="KL, texts alike", spread=0.3),
    Model(name="KL, texts differ", spread=0.6),
    Model(name="KL, texts differ much", spread=1.0),
    Model(name="KL, one text in ten is rare", spread=0.3, rare=0.1),
    Model(name="flip rate", spread=0.5, flips=True),
)


def followed(generator: np.random.Generator, shape: tuple[int, ...], positions: int, correlation: float) -> Iterator:
    """Standard normal numbers of one position after the other, each correlated with the one before."""
    now = generator.standard_normal(shape)
    for _ in range(positions):
        yield now
        now = correlation * now + math.sqrt(1 - correlation**2) * generator.standard_normal(shape)


def cluster_means(model: Model, generator: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """Means of the positions of as many texts."""
    levels = model.levels(generator, shape)
    total = np.zeros(shape)
    if model.flips:
        rates = np.minimum(RATE * levels, 0.9)
        limits = _normal_quantile(rates)
        for now in followed(generator, shape, POSITIONS, 0.5):
            total += now < limits
    else:
        for now in followed(generator, shape, POSITIONS, 0.5):
            total += np.exp(HEAVY * now)
        total *= levels
    return total / POSITIONS


def _normal_quantile(rates: Floats) -> Floats:
    """From a table of 4,000 points: exact to 1e-4, which is far below what a rate of 250 positions shows."""
    grid = np.linspace(1e-5, 0.95, 4000)
    normal = NormalDist()
    return np.interp(rates, grid, [normal.inv_cdf(float(point)) for point in grid])


def covered(bounds: Bounds, truth: float) -> float:
    """Share of the intervals that exist and hold the truth; NaN where none exists."""
    there = np.isfinite(bounds.low)
    inside = (bounds.low <= truth) & (truth <= bounds.high)
    return float(inside[there].mean()) if there.any() else math.nan


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """Measured coverage of nominal 95 % intervals of one model and number of clusters."""

    model: str
    clusters: int
    percentile: float
    bca: float
    t_standard_error: float
    """Estimate ± Student's t times the clustered standard error."""
    log_t: float
    """Of the mean, though its ends are about the geometric mean."""
    log_t_geometric: float
    log_t_mean: float
    log_t_absent: float
    """Share of simulations in which a cluster's mean was 0."""


def cluster_coverage(model: Model, simulations: int, generator: np.random.Generator) -> list[Coverage]:
    many = cluster_means(model, generator, (200_000,))
    known = model.levels(generator, (4_000_000,))
    exact = np.minimum(RATE * known, 0.9).mean() if model.flips else known.mean() * math.exp(HEAVY**2 / 2)
    geometric = math.exp(np.log(many[many > 0]).mean())
    resampler = Resampler(seed=SEED, resamples=RESAMPLES, confidence=CONFIDENCE)
    found = []
    for clusters in CLUSTERS:
        means = cluster_means(model, generator, (clusters, simulations))
        ones = np.ones(means.shape)
        intervals = intervals_of_sums(means, ones, resampler)
        reach = student_t_quantile((1 + CONFIDENCE) / 2, clusters - 1) * intervals.standard_error
        centre = means.mean(axis=0)
        log_t = log_t_intervals(means, ones, CONFIDENCE).bounds
        found.append(
            Coverage(
                model=model.name,
                clusters=clusters,
                percentile=covered(intervals.percentile, exact),
                bca=covered(intervals.bca, exact),
                t_standard_error=covered(Bounds(centre - reach, centre + reach), exact),
                log_t=covered(log_t, exact),
                log_t_geometric=covered(log_t, geometric),
                log_t_mean=covered(log_t_intervals(means, ones, CONFIDENCE, of_mean=True).bounds, exact),
                log_t_absent=float(np.isnan(log_t.low).mean()),
            )
        )
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockCoverage:
    """Measured coverage inside one text."""

    positions: int
    correlation: float
    mean: float
    p90: float
    rate: float


def block_coverage(positions: int, correlation: float, texts: int, generator: np.random.Generator) -> BlockCoverage:
    noise = np.stack(list(followed(generator, (texts,), positions, correlation)))
    values = np.exp(HEAVY * noise)
    limit = NormalDist().inv_cdf(RATE)
    resampler = Resampler(seed=SEED, resamples=RESAMPLES, confidence=CONFIDENCE)

    def ratio(columns: Floats) -> Bounds:
        return resampler.percentile(block_ratio_replicates(columns, np.ones(columns.shape), resampler))

    # A quantile sorts every resample: fewer texts are enough.
    level = np.array([0.9])
    ends = [
        resampler.percentile(block_quantile_replicates(values[:, at], level, resampler)) for at in range(texts // 2)
    ]
    p90 = Bounds(np.array([end.low[0] for end in ends]), np.array([end.high[0] for end in ends]))
    return BlockCoverage(
        positions=positions,
        correlation=correlation,
        mean=covered(ratio(values), math.exp(HEAVY**2 / 2)),
        p90=covered(p90, math.exp(HEAVY * NormalDist().inv_cdf(0.9))),
        rate=covered(ratio((noise < limit).astype(np.float64)), RATE),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorRate:
    """How often a test at 5 % finds a difference between arms that are alike on the whole."""

    spread: float
    clusters: int
    sign_flip: float
    mcnemar: float


def error_rate(spread: float, clusters: int, simulations: int, generator: np.random.Generator) -> ErrorRate:
    shape = (clusters, simulations)
    rates = [np.minimum(RATE * np.exp(spread * generator.standard_normal(shape)), 0.9) for _ in range(2)]
    # Whether one arm alone flips is all that either test reads; positions are independent here, for McNemar's sake.
    left, right = (generator.binomial(POSITIONS, rate * (1 - other)) for rate, other in (rates, rates[::-1]))
    pairs = zip(left.sum(axis=0).tolist(), right.sum(axis=0).tolist(), strict=True)
    return ErrorRate(
        spread=spread,
        clusters=clusters,
        sign_flip=float((sign_flip((left - right).astype(np.float64), seed=SEED).p <= 0.05).mean()),
        mcnemar=float(np.mean([mcnemar(one, other) <= 0.05 for one, other in pairs])),
    )


def monte_carlo(simulations: int, share: float = CONFIDENCE) -> float:
    """Standard error of a share that was seen in so many simulations."""
    return math.sqrt(share * (1 - share) / simulations)


def percent(share: float) -> str:
    return "    -" if math.isnan(share) else f"{100 * share:5.1f}"


def main(simulations: int = SIMULATIONS, texts: int = TEXTS) -> None:
    started = time.perf_counter()
    generator = np.random.default_rng(SEED)
    print(f"Coverage of nominal {CONFIDENCE:.0%} intervals in %: {simulations:,} simulations a row, Monte-Carlo error")
    print(f"{100 * monte_carlo(simulations):.1f} at 95 and {100 * monte_carlo(simulations, 0.8):.1f} at 80")
    print(f"{'model':28} clusters  perc.    BCa   t*SE  log t  its geometric mean  shifted  no log")
    for model in MODELS:
        for row in cluster_coverage(model, simulations, generator):
            shares = (row.percentile, row.bca, row.t_standard_error, row.log_t)
            print(
                f"{row.model:28} {row.clusters:8}  {'  '.join(map(percent, shares))}"
                f"{percent(row.log_t_geometric):>21}    {percent(row.log_t_mean)}   {percent(row.log_t_absent)}"
            )
    print(f"\nInside one text, blocks of 16: {texts:,} texts a row (p90: {texts // 2:,}); Monte-Carlo error", end=" ")
    print(f"{100 * monte_carlo(texts, 0.9):.1f} at 90 (p90: {100 * monte_carlo(texts // 2, 0.9):.1f})")
    print("positions  correlation   mean    p90   rate")
    for positions in (POSITIONS, 4 * POSITIONS):
        for correlation in (0.0, 0.5, 0.8):
            row = block_coverage(positions, correlation, texts, generator)
            shares = (row.mean, row.p90, row.rate)
            print(f"{row.positions:9}  {row.correlation:11.1f}  {'  '.join(map(percent, shares))}")
    print(
        f"\nDifferences found at 5 % where there are none, in %: {simulations:,} simulations a row, Monte-Carlo error",
        end=" ",
    )
    print(f"{100 * monte_carlo(simulations, 0.05):.1f} at 5, {100 * monte_carlo(simulations, 0.4):.1f} at 40")
    print("spread  clusters  sign flip  McNemar")
    for spread in (0.0, 0.3, 0.6):
        for clusters in CLUSTERS:
            found = error_rate(spread, clusters, simulations, generator)
            print(f"{spread:6.1f}  {clusters:8}  {percent(found.sign_flip):>9}  {percent(found.mcnemar):>7}")
    print(f"\n{time.perf_counter() - started:.0f} s")
