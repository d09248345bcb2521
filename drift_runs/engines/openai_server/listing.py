"""Turns what a server lists for a window into rows, or refuses it: the one place where an answer becomes numbers.

A server's log-probability may be a placeholder, a logit, the number of another request, or the last of a distribution
that a sampler has cut down already. Each of these looks like a number. What can be told from the numbers alone is told
here, for every dialect; a message names the position in the window.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from drift_runs.engines.base import ListedBlock
from drift_runs.errors import NonFiniteLogits, ServerError
from drift_runs.measure.sentinels import BELOW, EXACT

ABOVE_ZERO_NATS = 1e-3
"""How far above 0 rounding may carry a log-probability: a constant of 1.6e-4 was seen in a server in 32 bits."""
LARGEST_MASS = 1.01
LOGITS_NATS = 1.0
"""Values this far above 0 were never passed through a softmax."""
ONE_HOT_NATS = 1e-6
ONE_HOT_ROWS = 4
"""Rows of one window that may look like a cut distribution by chance, and one more."""
ZERO_ROWS = 8
"""Rows in turn whose every listed log-probability is exactly 0. One alone is a token that is certain in 32 bits."""


class Row(NamedTuple):
    """What a server lists for one position, in its own order."""

    position: int
    """The row predicts ``tokens[position]``."""
    token: int
    """The text's own token there; in a row behind the last token, the one that was written."""
    entries: Sequence[tuple[int, float]]
    """(id, log-probability) of the best entries. The text's own token may be among them, beyond the K asked for."""
    rank: int = 0
    """The text's own token's, as the server says; 0: it does not."""
    own_logprob: float | None = None
    """The text's own token's, where it is given apart from the entries."""
    wanted: Sequence[tuple[int, float]] = ()
    """(id, log-probability) of what was asked for by id."""


class Listing:
    """Reads the rows of one window. It remembers what only shows over several rows, so it lives as long as a window."""

    def __init__(
        self, *, top_k: int, dictionary_size: int, where: str, own_promised: bool = True, short_allowed: bool = False
    ) -> None:
        self.top_k = min(top_k, dictionary_size)
        self.dictionary_size = dictionary_size
        self.where = where
        self.own_promised = own_promised
        """Whether each row must tell the text's own token, wherever it ranks."""
        self.short_allowed = short_allowed
        """Whether fewer entries than were asked for are an answer; otherwise they are missing."""
        self._one_hot = 0
        self._zeros = 0

    def block(self, rows: Iterable[Row]) -> ListedBlock:
        """Rows in ascending order of position. ``ServerError`` or ``NonFiniteLogits`` naming the first bad position."""
        rows = list(rows)
        positions = np.asarray([row.position for row in rows], np.int32)
        if np.any(np.diff(positions) <= 0):
            raise self._refused("rows out of order", None)
        ids, logprobs = self._table(rows, [row.entries for row in rows], "entries", self.top_k + 1)
        self._refuse_numbers(rows, logprobs)
        self._refuse_kinds(rows, logprobs)
        sentinel = _sentinels(logprobs)
        count = sentinel.sum(axis=1).astype(np.int32)
        ids[sentinel], logprobs[sentinel] = -1, np.nan
        own, rank = self._own(rows, ids, logprobs, count)
        ids, logprobs = _sorted(ids, logprobs)
        wanted_ids, wanted = self._wanted(rows)
        return ListedBlock(
            positions=positions,
            ids=ids[:, : self.top_k],
            logprobs=logprobs[:, : self.top_k],
            token_logprob=own,
            token_rank=rank,
            wanted_ids=wanted_ids,
            wanted_logprobs=wanted,
            sentinels=count,
        )

    def _table(
        self, rows: list[Row], lists: list[Sequence[tuple[int, float]]], what: str, width: int | None
    ) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        """int32[n, w] and float64[n, w]; -1 and NaN behind the end of a shorter row."""
        columns = max((len(entries) for entries in lists), default=0) if width is None else width
        ids = np.full((len(rows), columns), -1, np.int64)
        logprobs = np.full((len(rows), columns), np.nan)
        for index, (row, entries) in enumerate(zip(rows, lists, strict=True)):
            if not entries:
                continue
            if len(entries) > columns:
                raise self._refused(f"{len(entries)} {what}, more than were asked for", row.position)
            row_ids, row_values = zip(*entries, strict=True)
            # Before they are in an array, which takes null for NaN, and a text of digits for its number.
            if not set(map(type, row_values)) <= {float, int}:
                raise self._refused("null or a text where a log-probability was expected", row.position)
            if set(map(type, row_ids)) != {int}:
                raise self._refused(f"{what} that are no pairs of an id and a number", row.position)
            try:
                ids[index, : len(entries)] = row_ids
                logprobs[index, : len(entries)] = row_values
            except OverflowError:
                raise self._refused("a number that is too large", row.position) from None
        filled = np.arange(columns) < np.asarray([len(entries) for entries in lists])[:, None]
        outside = filled & ((ids < 0) | (ids >= self.dictionary_size))
        if (at := _first(outside)) is not None:
            raise self._refused(
                f"id {ids[at][outside[at]][0]} is not of the dictionary of {self.dictionary_size:,}", rows[at].position
            )
        in_order = np.sort(ids, axis=1)
        if (at := _first((np.diff(in_order, axis=1) == 0) & (in_order[:, 1:] >= 0))) is not None:
            raise self._refused("an id is listed twice", rows[at].position)
        wrong = filled & (np.isnan(logprobs) | (logprobs == np.inf))
        if (at := _first(wrong)) is not None:
            raise NonFiniteLogits(
                "NaN or infinity where a log-probability was expected", where=self._place(rows[at].position)
            )
        return ids.astype(np.int32), logprobs

    def _refuse_numbers(self, rows: list[Row], logprobs: NDArray[np.float64]) -> None:
        """What a log-probability cannot be. ``rows[i].own_logprob`` is held to the same."""
        own = np.asarray([np.nan if row.own_logprob is None else row.own_logprob for row in rows], np.float64)
        table = np.column_stack([logprobs, own]) if len(rows) else logprobs
        with np.errstate(invalid="ignore"):
            high = table > ABOVE_ZERO_NATS
            if (at := _first(high)) is not None:
                largest = float(np.nanmax(table))
                kind = "logits in the place of log-probabilities" if largest > LOGITS_NATS else "a probability above 1"
                raise self._refused(f"{kind}: {largest:g}", rows[at].position, expected="log-probabilities, at most 0")
            mass = np.exp(np.where(_sentinels(logprobs), -np.inf, logprobs))
        total = np.nansum(mass, axis=1)
        if (at := _first((total > LARGEST_MASS)[:, None])) is not None:
            listed = logprobs[at][~np.isnan(logprobs[at])]
            if np.all(listed == 0.0):
                what = "every log-probability is 0: not measured (speculative decoding does this in some servers)"
            else:
                what = f"probabilities that add up to {total[at]:.4f}"
            raise self._refused(what, rows[at].position, expected="at most 1 over all entries of a row")

    def _refuse_kinds(self, rows: list[Row], logprobs: NDArray[np.float64]) -> None:
        """What single rows may be by chance and a window cannot: certain tokens, and nothing else."""
        listed = ~np.isnan(logprobs)
        zero = np.all(~listed | (logprobs == 0.0), axis=1) & listed.any(axis=1)
        placeholder = _sentinels(logprobs)
        certain = np.any(listed & (logprobs > -ONE_HOT_NATS), axis=1)
        one_hot = certain & placeholder.any(axis=1) & np.all(~listed | placeholder | (logprobs > -ONE_HOT_NATS), axis=1)
        for row, is_zero, is_one_hot in zip(rows, zero, one_hot, strict=True):
            self._zeros = self._zeros + 1 if is_zero else 0
            self._one_hot += bool(is_one_hot)
            if self._zeros == ZERO_ROWS:
                raise self._refused(
                    f"the log-probability is exactly 0 at {ZERO_ROWS} positions in turn: not measured",
                    row.position,
                    todo="start the server without speculative decoding",
                )
            if self._one_hot == ONE_HOT_ROWS:
                raise self._refused(
                    "rows of one certain token and placeholders: a sampler has cut the distribution",
                    row.position,
                    expected="log-probabilities from before any sampling",
                    todo="start the server so that it returns raw log-probabilities",
                )

    def _own(
        self, rows: list[Row], ids: NDArray[np.int32], logprobs: NDArray[np.float64], sentinels: NDArray[np.int32]
    ) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
        """float64[n] and int32[n] of the text's own token. Takes it out of ``ids`` where it lies beyond rank K."""
        own = np.full(len(rows), np.nan)
        ranks = np.zeros(len(rows), np.int32)
        for index, row in enumerate(rows):
            count = len(row.entries)
            if not 0 <= row.token < self.dictionary_size:
                raise self._refused(f"token {row.token} is not of the dictionary", row.position)
            at = np.flatnonzero(ids[index] == row.token)
            # A placeholder was taken out of the table, and still it is the own token that the server listed.
            told = any(entry[0] == row.token for entry in row.entries) if not len(at) else True
            if self.own_promised and not told and row.own_logprob is None:
                raise self._refused("the text's own token is missing", row.position)
            if count > self.top_k and not told:
                raise self._refused(f"{count} entries, more than the {self.top_k} asked for", row.position)
            if count < self.top_k and not self.short_allowed:
                raise self._refused(f"{count} entries where {self.top_k} were asked for", row.position)
            if len(at):
                value = float(logprobs[index, at[0]])
                own[index] = value
                if count > self.top_k:
                    if np.any(logprobs[index] < value):
                        raise self._refused("an entry more than asked for, and the own token is not it", row.position)
                    # The server's rank, because ours knows the listed entries only.
                    ranks[index] = row.rank
                    ids[index, at[0]], logprobs[index, at[0]] = -1, np.nan
                else:
                    ranks[index] = 1 + int(np.sum(logprobs[index] > value))
            elif not told and row.own_logprob is not None:
                own[index], ranks[index] = self._apart(row, sentinels, index), row.rank
        return own, ranks

    def _apart(self, row: Row, sentinels: NDArray[np.int32], index: int) -> float:
        value = row.own_logprob
        if value is None or math.isnan(value) or value == math.inf:
            raise NonFiniteLogits("NaN where the token's log-probability was expected", where=self._place(row.position))
        if value == EXACT or value <= BELOW:
            sentinels[index] += 1
            return math.nan
        return float(value)

    def _wanted(self, rows: list[Row]) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        ids, logprobs = self._table(rows, [row.wanted for row in rows], "wanted entries", None)
        with np.errstate(invalid="ignore"):
            if (at := _first(logprobs > ABOVE_ZERO_NATS)) is not None:
                raise self._refused("a wanted token's probability is above 1", rows[at].position)
        logprobs[_sentinels(logprobs)] = np.nan
        return ids, logprobs

    def _place(self, position: int | None) -> str:
        return self.where if position is None else f"{self.where}, position {position}"

    def _refused(self, what: str, position: int | None, *, expected: str = "", todo: str = "") -> ServerError:
        return ServerError(what, where=self._place(position), expected=expected, todo=todo)


def block_of(rows: Iterable[Row], *, top_k: int, dictionary_size: int, where: str) -> ListedBlock:
    """The rows of a window that came in one answer. See ``Listing``."""
    return Listing(top_k=top_k, dictionary_size=dictionary_size, where=where).block(rows)


def check_count(what: str, got: int, expected: int, *, where: str) -> None:
    """``ServerError`` where a list is longer or shorter than what was sent."""
    if got != expected:
        raise ServerError(f"{got:,} {what}", where=where, expected=f"{expected:,}")


def check_echo(sent: Sequence[int], echoed: Sequence[object], *, where: str) -> None:
    """``ServerError`` where the ids that the server says it read are not those that were sent."""
    if list(sent) == list(echoed):
        return
    check_count("tokens read by the server", len(echoed), len(sent), where=where)
    at = next(index for index, pair in enumerate(zip(sent, echoed, strict=True)) if pair[0] != pair[1])
    raise ServerError(f"the server read id {echoed[at]}", where=f"{where}, position {at}", expected=f"{sent[at]}")


def _sentinels(logprobs: NDArray[np.float64]) -> NDArray[np.bool_]:
    with np.errstate(invalid="ignore"):
        return (logprobs == EXACT) | (logprobs <= BELOW)


def _first(marks: NDArray[np.bool_]) -> int | None:
    """Index of the first row with a mark."""
    rows = np.flatnonzero(marks.any(axis=1)) if marks.size else ()
    return int(rows[0]) if len(rows) else None


def _sorted(ids: NDArray[np.int32], logprobs: NDArray[np.float64]) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """Each row by (-log-probability, id); what is not there goes last."""
    order = np.lexsort((ids, np.where(np.isnan(logprobs), np.inf, -logprobs)), axis=-1)
    return np.take_along_axis(ids, order, axis=1), np.take_along_axis(logprobs, order, axis=1)
