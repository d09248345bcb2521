"""One arm's table ``ROWS`` as arrays: the K best entries of n positions, and what else is known of each row."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from drift_runs.errors import NotComparable
from drift_runs.measure.topkmath import Floats, add_logs, log_sum, places
from drift_runs.schema import RowFlag


@dataclass(frozen=True, slots=True, kw_only=True)
class TopLists:
    """n rows. An id of -1 is no entry, NaN is null, and log-probabilities are natural logarithms in float64."""

    window: NDArray[np.object_]
    position: NDArray[np.int32]
    role: NDArray[np.object_]
    token: NDArray[np.int32]
    ids: NDArray[np.int32]
    """int32[n, K] by (-logprob, id), entries first; at least one column."""
    logprobs: Floats
    """float64[n, K]."""
    wanted_ids: NDArray[np.int32]
    """int32[n, W]: other tokens whose log-probability is known."""
    wanted_logprobs: Floats
    tail_logprob: Floats
    """float64[n]: log mass outside the entries as the source measured it, -inf for none; NaN where it did not."""
    logprob: Floats
    """Of the actual token."""
    rank: NDArray[np.int32]
    """Of the actual token; 0 when it is not known."""
    padding_mass: Floats
    p1: Floats
    entropy_nats: Floats
    flags: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.position)

    @property
    def present(self) -> NDArray[np.bool_]:
        """bool[n, K]: where there is an entry."""
        return self.ids >= 0

    @property
    def longest(self) -> int:
        """The most entries that a row has."""
        return int(self.present.sum(axis=1).max(initial=0))

    @property
    def finite(self) -> NDArray[np.bool_]:
        """bool[n]: no entry is NaN or infinite, and the source does not call the row so."""
        good = (np.isfinite(self.logprobs) | ~self.present).all(axis=1)
        return good & ((self.flags & RowFlag.NONFINITE) == 0)

    @property
    def usable(self) -> NDArray[np.bool_]:
        """bool[n]: finite, and there is an entry."""
        return self.finite & self.present.any(axis=1)

    def take(self, rows: NDArray[np.intp] | slice) -> TopLists:
        """The chosen rows, in that order."""
        return TopLists(**{field.name: getattr(self, field.name)[rows] for field in fields(self)})

    def cut(self, top_k: int) -> TopLists:
        """Lists of at most K entries. What is cut joins the tail, and its log-probabilities stay known."""
        if self.ids.shape[1] <= top_k:
            return self
        ids, logprobs = self.ids[:, top_k:], self.logprobs[:, top_k:]
        return replace(
            self,
            ids=self.ids[:, :top_k],
            logprobs=self.logprobs[:, :top_k],
            wanted_ids=np.concatenate([ids, self.wanted_ids], axis=1),
            wanted_logprobs=np.concatenate([logprobs, self.wanted_logprobs], axis=1),
            tail_logprob=add_logs(self.tail_logprob, log_sum(logprobs, ids >= 0)),
        )

    def logprobs_of(self, ids: NDArray[np.int32]) -> Floats:
        """Log-probability of int32[n, M] tokens, from whatever the row says: float64[n, M]; NaN where it is silent."""
        found = _looked_up(ids, self.ids, self.logprobs)
        for among, values in (
            (self.wanted_ids, self.wanted_logprobs),
            (self.token[:, None], self.logprob[:, None]),
        ):
            if np.isnan(found).any():
                found = np.where(np.isnan(found), _looked_up(ids, among, values), found)
        return found


def top_lists(table: pa.Table, *, side: str) -> TopLists:
    """The rows of a table of schema ``ROWS``, in its order.

    A log-probability or a rank of the actual token that the table leaves out is taken from the entries. A tail that it
    leaves out of a row that was hashed in full is none: the entries are the whole dictionary. ``NotComparable`` for an
    id that stands twice in a row, and for lists of unequal lengths.
    """
    ids, logprobs = _lists(table, "top_ids", "top_logprobs", side)
    ids, logprobs = _ordered(ids, logprobs, side)
    wanted_ids, wanted_logprobs = _lists(table, "wanted_ids", "wanted_logprobs", side)
    tail = _floats(table["tail_logprob"])
    tail = np.where(np.isnan(tail) & ~_nulls(table["row_full"]), -np.inf, tail)
    token = table["token"].to_numpy().astype(np.int32)
    listed = _looked_up(token[:, None], ids, logprobs)
    with np.errstate(invalid="ignore"):
        listed_rank = 1 + ((logprobs > listed) & (ids >= 0)).sum(axis=1)
    rank = _floats(table["rank"])
    logprob = _floats(table["logprob"])
    return TopLists(
        window=table["window"].cast(pa.string()).to_numpy(zero_copy_only=False),
        position=table["position"].to_numpy().astype(np.int32),
        role=table["role"].cast(pa.string()).to_numpy(zero_copy_only=False),
        token=token,
        ids=ids,
        logprobs=logprobs,
        wanted_ids=wanted_ids,
        wanted_logprobs=wanted_logprobs,
        tail_logprob=tail,
        logprob=np.where(np.isnan(logprob), listed[:, 0], logprob),
        rank=np.where(np.isnan(rank), np.where(np.isnan(listed[:, 0]), 0, listed_rank), rank).astype(np.int32),
        padding_mass=_floats(table["padding_mass"]),
        p1=_floats(table["p1"]),
        entropy_nats=_floats(table["entropy_nats"]),
        flags=table["flags"].to_numpy().astype(np.int32),
    )


def _lists(table: pa.Table, ids: str, logprobs: str, side: str) -> tuple[NDArray[np.int32], Floats]:
    """Two list columns as arrays [n, longest list, at least 1], filled up with -1 and NaN."""
    lengths = [
        np.nan_to_num(_floats(pc.list_value_length(table[name])), nan=0).astype(np.int64) for name in (ids, logprobs)
    ]
    different = np.flatnonzero(lengths[0] != lengths[1])
    if len(different):
        row = different[0]
        raise NotComparable(
            f"{lengths[0][row]} {ids} and {lengths[1][row]} {logprobs} in row {row}", where=f"{side} rows"
        )
    width = max(1, int(lengths[0].max(initial=0)))
    inside = np.arange(width) < lengths[0][:, None]
    filled_ids = np.full(inside.shape, -1, dtype=np.int32)
    filled_logprobs = np.full(inside.shape, np.nan)
    filled_ids[inside] = pc.list_flatten(table[ids]).to_numpy(zero_copy_only=False)
    filled_logprobs[inside] = pc.list_flatten(table[logprobs]).to_numpy(zero_copy_only=False)
    return filled_ids, filled_logprobs


def _ordered(ids: NDArray[np.int32], logprobs: Floats, side: str) -> tuple[NDArray[np.int32], Floats]:
    """Entries by (-logprob, id), which a table promises and another program may not keep."""
    by_id = np.sort(ids, axis=1)
    twice = np.argwhere((by_id[:, 1:] == by_id[:, :-1]) & (by_id[:, 1:] >= 0))
    if len(twice):
        row, column = twice[0]
        raise NotComparable(
            f"token {by_id[row, column]} stands twice in row {row}", where=f"{side} rows", expected="distinct ids"
        )
    down = logprobs[:, 1:] < logprobs[:, :-1]
    tied = (logprobs[:, 1:] == logprobs[:, :-1]) & (ids[:, 1:] > ids[:, :-1])
    if (down | tied | (ids[:, 1:] < 0)).all():
        return ids, logprobs
    order = np.lexsort((ids, -logprobs, ids < 0), axis=1)
    return np.take_along_axis(ids, order, axis=1), np.take_along_axis(logprobs, order, axis=1)


def _looked_up(ids: NDArray[np.int32], among: NDArray[np.int32], values: Floats) -> Floats:
    """The value that stands beside each id in the same row; NaN where it does not."""
    place = places(ids, among)
    return np.where(place >= 0, np.take_along_axis(values, np.maximum(place, 0), axis=1), np.nan)


def _nulls(column: pa.ChunkedArray) -> NDArray[np.bool_]:
    return column.is_null().to_numpy(zero_copy_only=False).astype(bool)


def _floats(column: pa.ChunkedArray) -> Floats:
    """float64[n], NaN for null."""
    return column.cast(pa.float64()).to_numpy(zero_copy_only=False).astype(np.float64)
