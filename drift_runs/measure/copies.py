"""Tokens that complete a run of tokens which was there long before (METRICS, `copy`)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def copy_marks(
    tokens: NDArray[np.integer], *, copy_tokens: int = 12, copy_distance_tokens: int = 2048
) -> NDArray[np.bool_]:
    """True at ``t`` where the ``copy_tokens`` tokens that end with ``tokens[t]`` already ended long before.

    Parameters
    ----------
    tokens
        int[n], the whole stream.
    copy_tokens
        length of the run, at least 1.
    copy_distance_tokens
        the earlier run ended *more than* this many positions before ``t``.

    Returns
    -------
    bool[n]; False where fewer than ``copy_tokens`` tokens precede, ``t`` included.

    Exact: runs are compared by rank and never by a hash. The rank of a run of length 2m follows from the ranks of its
    two halves (prefix doubling), so a run of length m costs about log2(m) sorts of n numbers.
    """
    if copy_tokens < 1:
        raise ValueError(f"a run of {copy_tokens} tokens")
    count = len(tokens)
    marks = np.zeros(count, dtype=np.bool_)
    if count < copy_tokens:
        return marks
    rank = np.unique(np.asarray(tokens), return_inverse=True)[1].astype(np.int64)
    length = 1
    while length < copy_tokens:
        step = min(length, copy_tokens - length)  # the last step may overlap: 12 is 8 and 8, four apart
        # Ranks are below n: two of them fit one number for every stream under 3e9 tokens.
        pairs = rank[:-step] * count + rank[step:]
        rank = np.unique(pairs, return_inverse=True)[1].astype(np.int64)
        length += step
    starts = np.arange(len(rank))
    first = np.full(len(rank), len(rank))
    np.minimum.at(first, rank, starts)
    marks[copy_tokens - 1 :] = starts - first[rank] > copy_distance_tokens
    return marks
