"""Circular block bootstrap inside one text. METRICS, Intervals.

Neighbouring positions of one text resemble one another, so runs of them are drawn, and the text is taken as a ring:
every position is then drawn equally often. Such an interval says how sure a figure is *within this text*.
"""

from __future__ import annotations

import numpy as np

from drift_runs.measure.resampler import Floats, Resampler


def block_ratio_replicates(values: Floats, weights: Floats, resampler: Resampler) -> Floats:
    """Circular block resamples of sum(values) / sum(weights) in one text: float64[resamples, m] from float64[n, m]."""
    n = len(values)
    if n == 0:
        return np.full((resampler.resamples, values.shape[1]), np.nan)
    length = min(resampler.block_tokens, n)
    blocks = -(-n // resampler.block_tokens)
    rest = n - resampler.block_tokens * (blocks - 1)
    plain = [bool((weights[:, column] == 1).all()) for column in range(values.shape[1])]
    full, last = _block_sums(np.concatenate([values, weights], axis=1), length, rest)
    replicates = np.empty((resampler.resamples, values.shape[1]))
    for rows, starts in resampler.block_starts(n):
        for column in range(values.shape[1]):
            top = _totals(full[column], last[column], starts)
            at = values.shape[1] + column
            bottom = np.full(len(top), float(n)) if plain[column] else _totals(full[at], last[at], starts)
            replicates[rows, column] = np.divide(top, bottom, out=np.full_like(top, np.nan), where=bottom > 0.5)
    return replicates


def _block_sums(columns: Floats, length: int, rest: int) -> tuple[Floats, Floats]:
    """Sums of the blocks that start at each position: float64[m, n] of ``length`` and of ``rest`` positions."""
    n = len(columns)
    ring = np.concatenate([columns, columns]).T
    running = np.concatenate([np.zeros((len(ring), 1)), np.cumsum(ring, axis=1)], axis=1)
    full = running[:, length : length + n] - running[:, :n]
    last = running[:, rest : rest + n] - running[:, :n]
    return full, last


def _totals(full: Floats, last: Floats, starts: np.ndarray) -> Floats:
    return full[starts[:, :-1]].sum(axis=1) + last[starts[:, -1]]


def block_quantile_replicates(values: Floats, levels: Floats, resampler: Resampler) -> Floats:
    """Linear quantiles of circular block resamples of one text: float64[resamples, levels]; ``values`` are finite."""
    n = len(values)
    levels = np.asarray(levels, dtype=np.float64)
    if n == 0:
        return np.full((resampler.resamples, len(levels)), np.nan)
    order = np.argsort(values, kind="stable")
    rank = np.empty(n, dtype=np.uint16 if n < 65_536 else np.int64)
    rank[order] = np.arange(n)
    ordered = values[order]
    inside = np.arange(resampler.block_tokens)
    replicates = np.empty((resampler.resamples, len(levels)))
    place = levels * (n - 1)
    below = np.floor(place).astype(np.int64)
    above = np.minimum(below + 1, n - 1)
    for rows, starts in resampler.block_starts(n):
        drawn = ((starts[:, :, None] + inside) % n).reshape(len(starts), -1)[:, :n]
        ranks = np.sort(rank[drawn], axis=1)
        low, high = ordered[ranks[:, below]], ordered[ranks[:, above]]
        replicates[rows] = low + (high - low) * (place - below)
    return replicates
