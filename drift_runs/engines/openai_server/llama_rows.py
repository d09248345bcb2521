"""How a llama.cpp server's rows are read, and by how much its log-probabilities are off.

The server divides by a sum of 32-bit numbers in falling order, in which the small ones at the end are lost. So every
log-probability of a row lies too high by one constant, which differs from row to row: 0.3e-4 to 2.3e-4 nats with a
dictionary of 49,152 (up to 0.85e-4 less in a list of few entries, whose rest is summed in another order), nothing with
32 tokens. A whole row shows it; a list of K entries does not.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from drift_runs.errors import ServerError
from drift_runs.measure.sentinels import is_sentinel

LARGEST_SPREAD_NATS = 5e-4
"""Offsets of different rows further apart than this are no constant that could be subtracted."""


LARGEST_MASS_NATS = 1e-2
"""A whole row whose sum is further from 1 is not rounded: it holds logits, or zeros, and nothing can be subtracted."""
_KEPT = ("mean_nats", "least_nats", "largest_nats", "rows")


class LogMass(NamedTuple):
    """ln of the sum of a row's probabilities, over several whole rows: 0 where they sum to 1."""

    mean_nats: float
    least_nats: float
    largest_nats: float
    rows: int

    @classmethod
    def of_kept(cls, kept: Mapping[str, Any], *, where: str) -> LogMass:
        """One that was kept. ``ServerError`` for what is none."""
        try:
            found = cls(*(float(kept[f"log_mass_{name}"]) for name in _KEPT[:3]), int(kept[f"log_mass_{_KEPT[3]}"]))
        except (KeyError, TypeError, ValueError, OverflowError):
            found = None
        if found is None or not all(map(math.isfinite, found)):
            raise ServerError(
                "the log-mass that was kept with its rows cannot be read",
                where=where,
                expected=", ".join(f"log_mass_{name}" for name in _KEPT),
                todo="remove measured.json of the capture and its rows: they are taken again",
            )
        return found

    def kept(self) -> dict[str, float]:
        """As :meth:`of_kept` reads it."""
        return {f"log_mass_{name}": value for name, value in zip(_KEPT, self, strict=True)}

    @property
    def normalised(self) -> bool:
        """Whether the mean can be subtracted: what is left of it is at most the spread."""
        return self.largest_nats - self.least_nats <= LARGEST_SPREAD_NATS

    def __str__(self) -> str:
        return f"{self.mean_nats:.2e} ({self.least_nats:.2e} to {self.largest_nats:.2e} in {self.rows} rows)"


class WholeRow(NamedTuple):
    """What a row that lists the whole dictionary shows."""

    log_mass_nats: float
    token_bytes: list[bytes]
    """By id; empty for control tokens, which the server shows as nothing."""


def whole_row(entry: Mapping[str, Any], *, dictionary_size: int, where: str) -> WholeRow:
    """``ServerError`` where it is not of each id of the dictionary once."""
    known: dict[int, bytes] = {}
    values = []
    try:
        for item in entry["top_logprobs"]:
            known[item["id"]] = bytes(item["bytes"])
            if not is_sentinel(item["logprob"]):
                values.append(float(item["logprob"]))
    except (KeyError, TypeError, ValueError):
        raise _unreadable(where) from None
    if set(known) != set(range(dictionary_size)) or len(entry["top_logprobs"]) != dictionary_size:
        raise ServerError(
            f"{len(known):,} ids in a whole row",
            where=where,
            expected=f"those of the protocol's dictionary, 0 to {dictionary_size - 1:,}",
            todo="serve the model that the protocol's tokens are of",
        )
    total = float(np.logaddexp.reduce(np.sort(np.asarray(values, np.float64))))
    return WholeRow(total, [known[token] for token in range(dictionary_size)])


def mass_of(totals_nats: Sequence[float], *, where: str = "") -> LogMass:
    """Over the ``log_mass_nats`` of several rows. ``ServerError`` where one of them is no log-probability's."""
    for total in totals_nats:
        if not abs(total) <= LARGEST_MASS_NATS:
            raise ServerError(
                f"the probabilities of a whole row sum to e^{total:.4g}",
                where=where,
                expected="1, but for rounding: log-probabilities of the model itself",
                todo="start the server without speculative decoding, and with a model whose outputs are finite",
            )
    return LogMass(float(np.mean(totals_nats)), min(totals_nats), max(totals_nats), len(totals_nats))


def pairs(entry: Mapping[str, Any], *, where: str, less_nats: float = 0.0) -> list[tuple[int, float]]:
    """(id, log-probability) of ``top_logprobs``, ``less_nats`` subtracted from all but placeholders."""
    try:
        return [(item["id"], _less(item["logprob"], less_nats)) for item in entry["top_logprobs"]]
    except (KeyError, TypeError):
        raise _unreadable(where) from None


def own(entry: Mapping[str, Any], *, where: str, less_nats: float = 0.0) -> tuple[int, float]:
    """(id, log-probability) of the token that was written."""
    try:
        return entry["id"], _less(entry["logprob"], less_nats)
    except (KeyError, TypeError):
        raise _unreadable(where) from None


def _less(value: Any, less_nats: float) -> Any:
    # What is no number is left to the listing, which refuses it by position.
    return value - less_nats if isinstance(value, float | int) and not is_sentinel(value) else value


def _unreadable(where: str) -> ServerError:
    return ServerError(
        "entries without an id and a log-probability",
        where=where,
        expected="top_logprobs: [{id, bytes, logprob}, …]",
        todo="use a llama.cpp of 2025 or later",
    )
