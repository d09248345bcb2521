"""Turns what a server wrote greedily into tokens with the best of their rows, or refuses it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from drift_runs.engines.base import Written
from drift_runs.engines.openai_server.listing import Listing, Row
from drift_runs.errors import ServerError

ROUNDING_NATS = 1e-4
"""A server may compute the written token's log-probability apart from the list's, and round otherwise."""


def greedy(rows: Sequence[Row], listing: Listing, *, most: int) -> list[Written]:
    """``rows[i].token`` is what was written at ``rows[i].position``. At least one, at most ``most``.

    ``ServerError`` where a token was written that is not the best of its row: then a temperature, a penalty or a
    server's own choice was at work, and no difference between two engines could be told from it.
    """
    if not 1 <= len(rows) <= most:
        raise ServerError(f"{len(rows)} tokens were written", where=listing.where, expected=f"1 to {most}")
    block = listing.block(rows)
    return [
        _checked(row, block.ids[at].tolist(), block.logprobs[at].tolist(), float(block.token_logprob[at]), listing)
        for at, row in enumerate(rows)
    ]


def _checked(row: Row, ids: list[int], logprobs: list[float], own: float, listing: Listing) -> Written:
    where = f"{listing.where}, position {row.position}"
    if math.isnan(own):
        raise ServerError("the log-probability of the written token is not told", where=where)
    count = sum(found >= 0 for found in ids)
    if count and logprobs[0] > own + ROUNDING_NATS:
        raise ServerError(
            f"token {row.token} was written though {ids[0]} is more probable",
            where=where,
            expected="the best token of each row",
            todo="start the server without sampling settings of its own",
        )
    if count and row.token not in ids[:count] and own > logprobs[count - 1] + ROUNDING_NATS:
        raise ServerError(
            f"token {row.token} was written and is not listed, though it is more probable than what is",
            where=where,
            expected="lists of the row that was written from",
        )
    return Written(token=row.token, logprob=own, top_ids=tuple(ids[:count]), top_logprobs=tuple(logprobs[:count]))
