"""Buckets of history length and of stream depth, and quarters of windows.

A position's history is as many tokens as its index.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from drift_runs.measure.positions import Positions
from drift_runs.protocol.model import Protocol


def bucket_labels(upper_ends: Sequence[int]) -> tuple[str, ...]:
    """Labels of the buckets with these inclusive upper ends and of the open one after them: "1-256", ..., "65,536+"."""
    starts = [1, *(end + 1 for end in upper_ends)]
    closed = [f"{start:,}-{end:,}" for start, end in zip(starts, upper_ends, strict=False)]
    return (*closed, f"{starts[-1]:,}+")


def bucket_index(positions: NDArray[np.int32], upper_ends: Sequence[int]) -> NDArray[np.int32]:
    """Index into :func:`bucket_labels` of int32[n] positions."""
    return np.searchsorted(np.asarray(upper_ends, dtype=np.int64), positions, side="left").astype(np.int32)


def depth_index(positions: NDArray[np.int32], width_tokens: int) -> NDArray[np.int32]:
    """Index of the depth bucket of int32[n] positions: bucket 0 holds histories 1 to ``width_tokens``."""
    return ((np.asarray(positions, dtype=np.int64) - 1) // width_tokens).astype(np.int32)


def depth_label(index: int, width_tokens: int) -> str:
    """Label of a depth bucket: "1-8,192", "8,193-16,384", ..."""
    return f"{index * width_tokens + 1:,}-{(index + 1) * width_tokens:,}"


def quarter_index(positions: Positions, protocol: Protocol) -> NDArray[np.int32]:
    """Quarter of its window, 0 to 3, of each position: int32[n].

    A window's positions run from 0 to the last one that the protocol scores, whether or not those before are scored,
    and are cut into four equal parts: the quarter says how much of the text the model had read.
    """
    ends = np.array([protocol.window(name).scored[-1][1] for name in positions.windows], dtype=np.int64)
    if not len(positions):
        return np.zeros(0, dtype=np.int32)
    return np.clip(positions.position.astype(np.int64) * 4 // ends[positions.window], 0, 3).astype(np.int32)
