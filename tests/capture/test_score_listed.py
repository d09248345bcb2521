"""What a server lists becomes a row: ordered as it is stored, and refused where it is no row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from drift_runs.capture.score import WindowTask
from drift_runs.capture.score_listed import score_listed_window
from drift_runs.engines.base import ListedBlock
from drift_runs.errors import ServerError
from drift_runs.schema import RowFlag

NEAR = -0.5, -0.5 - 1e-9
"""Two log-probabilities that are one as float32, as rows are stored."""


class Lists:
    """A test double: lists the same entries at every position."""

    def __init__(self, ids: Sequence[int], logprobs: Sequence[float], *, skipped: int = 0) -> None:
        self.ids, self.logprobs, self.skipped = list(ids), list(logprobs), skipped

    def score_listed(
        self, tokens: Sequence[int], positions: Sequence[int], *, top_k: int, wanted: object = None
    ) -> Iterator[ListedBlock]:
        count = len(positions) - self.skipped
        yield ListedBlock(
            positions=np.asarray(positions[:count], dtype=np.int32),
            ids=np.tile(np.asarray(self.ids, dtype=np.int32), (count, 1)),
            logprobs=np.tile(np.asarray(self.logprobs), (count, 1)),
            token_logprob=np.full(count, np.nan),
            token_rank=np.zeros(count, dtype=np.int32),
            wanted_ids=np.zeros((count, 0), dtype=np.int32),
            wanted_logprobs=np.zeros((count, 0)),
            sentinels=np.zeros(count, dtype=np.int32),
        )


def task() -> WindowTask:
    return WindowTask(
        window="w",
        role="prompt",
        tokens=np.asarray([0, 1, 2], dtype=np.int32),
        positions=np.asarray([1, 2], dtype=np.int32),
        top_k=3,
        dictionary_size=16,
    )


def test_a_tie_that_rounding_makes_is_one_and_the_id_decides() -> None:
    rounded = score_listed_window(Lists([9, 4, 7], [*NEAR, -3.0]), task()).rows.to_pylist()
    as_said = score_listed_window(Lists([4, 9, 7], [NEAR[0], NEAR[0], -3.0]), task()).rows.to_pylist()
    for one, other in zip(rounded, as_said, strict=True):
        assert one["top_ids"] == [4, 9, 7] and one["tie_count"] == 2
        assert one["row_top"] == other["row_top"], "the same bytes are stored, so the hash is the same"


def test_a_short_row_is_flagged_and_its_gaps_are_no_entries() -> None:
    (row, _) = score_listed_window(Lists([5, 3, -1], [-0.1, -2.0, np.nan]), task()).rows.to_pylist()
    assert row["top_ids"] == [5, 3] and row["flags"] & RowFlag.SHORT
    assert row["p1"] == pytest.approx(np.exp(-0.1)) and row["row_full"] is None


def test_too_few_rows_and_empty_rows_are_refused() -> None:
    with pytest.raises(ServerError, match="1 rows were returned"):
        score_listed_window(Lists([5], [-0.1], skipped=1), task())
    with pytest.raises(ServerError, match="window w, position 1: no entry was returned"):
        score_listed_window(Lists([-1], [np.nan]), task())
