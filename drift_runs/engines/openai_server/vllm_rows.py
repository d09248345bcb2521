"""Reads the rows in vLLM's answers: of ``prompt_logprobs``, and of the three lists of a legacy completion."""

from __future__ import annotations

import re
from typing import Any

from drift_runs.engines.openai_server.listing import Row, check_count
from drift_runs.errors import CannotGive, ServerError

TOKEN = re.compile(r"token_id:(\d{1,10})")


def prompt_row(entry: Any, position: int, token: int, where: str) -> Row:
    """A position of ``prompt_logprobs``: an object by id, the text's own token among them."""
    where = f"{where}, position {position}"
    if not isinstance(entry, dict):
        raise ServerError("null inside the scored span", where=where)
    own = entry.get(str(token))
    if not isinstance(own, dict):
        raise ServerError("the text's own token is missing: an answer to another request?", where=where)
    rank = own.get("rank")
    try:
        listed = [(int(key), value["logprob"]) for key, value in entry.items()]
    except (TypeError, ValueError, KeyError):
        raise ServerError("entries that are no ids with a log-probability", where=where) from None
    return Row(position=position, token=token, entries=listed, rank=rank if type(rank) is int and rank > 0 else 0)


def legacy_lists(choice: dict[str, Any], where: str) -> dict[str, list[Any]]:
    """``logprobs`` of a choice: three lists of one length."""
    found = choice.get("logprobs")
    if not isinstance(found, dict):
        raise _missing("log-probabilities", where)
    lists = {}
    for name in ("tokens", "token_logprobs", "top_logprobs"):
        lists[name] = found.get(name)
        if not isinstance(lists[name], list):
            raise _missing(f"logprobs.{name}", where)
        check_count(f"entries of logprobs.{name}", len(lists[name]), len(lists["tokens"]), where=where)
    return lists


def check_spans(entries: object, count: int, where: str) -> None:
    """``ServerError`` where ``prompt_logprobs`` has not a row a token, the first one null."""
    if not isinstance(entries, list):
        raise ServerError("prompt log-probabilities that are no list", where=where)
    check_count("rows for the prompt", len(entries), count, where=where)
    if entries[0] is not None:
        raise ServerError(
            "log-probabilities for the first token: rows that are shifted, or of another request", where=where
        )


def id_of(token: object, where: str) -> int:
    """The id in ``token_id:N``. ``CannotGive`` for a text: two tokens may read alike."""
    found = TOKEN.fullmatch(token) if isinstance(token, str) else None
    if found is None:
        raise CannotGive(
            "tokens come as texts, not as ids",
            where=where,
            todo="use a server that knows return_tokens_as_token_ids",
        )
    return int(found[1])


def entries_of(listed: object, where: str) -> list[tuple[int, float]]:
    """(id, log-probability) of a row of ``top_logprobs``."""
    if not isinstance(listed, dict):
        raise ServerError("null inside the scored span", where=where)
    return [(id_of(token, where), logprob) for token, logprob in listed.items()]


def _missing(what: str, where: str) -> CannotGive:
    """HTTP 200 does not mean that a request was understood."""
    return CannotGive(
        f"the answer has no {what}", where=where, todo="use a server that knows logprobs with legacy completions"
    )
