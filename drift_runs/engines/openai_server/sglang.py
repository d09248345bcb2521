"""SGLang: log-probabilities of the prompt by token id through ``/generate``, ids of our choice in both path shapes.

Written after the documented shapes; not run against a server. Each list of ``meta_info`` begins at
``logprob_start_len`` and its entries are ``[log-probability, id, text]``; the entry at the start is null, since nothing
before it was asked for, so a request starts one position early.

``token_ids_logprob`` is one list for a whole request. Where each position has ids of its own, a window is asked for in
pieces, so that what comes back stays small: each is the history up to its last position, told from its first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from drift_runs.engines.base import Capabilities, ListedBlock, Written
from drift_runs.engines.openai_server.listing import Listing, Row, check_count, check_echo
from drift_runs.engines.openai_server.server import NOT_SAID, Asked, ListedServer, name_of, text_of
from drift_runs.engines.openai_server.transport import SAFE
from drift_runs.engines.openai_server.written import greedy
from drift_runs.errors import ContextOverflow, ServerError

GENERATE = "/generate"
MOST_TOLD = 400_000
"""Entries of wanted ids in one answer: some 20 MB."""
NEUTRAL: Mapping[str, Any] = {
    "temperature": 0,
    "top_p": 1.0,
    "top_k": -1,
    "min_p": 0.0,
    "frequency_penalty": 0.0,
    "presence_penalty": 0.0,
    "repetition_penalty": 1.0,
    "ignore_eos": False,
    "skip_special_tokens": False,
}
"""Said in each request: a server takes other defaults from the model's ``generation_config.json``."""
PAGES = (
    (("/model_info", "/get_model_info"), ("model_path", "weight_version")),
    (
        ("/server_info", "/get_server_info"),
        (
            "dtype",
            "quantization",
            "kv_cache_dtype",
            "context_length",
            "attention_backend",
            "disable_radix_cache",
            "enable_deterministic_inference",
            "speculative_algorithm",
            "chunked_prefill_size",
            "tp_size",
            "device",
        ),
    ),
)
"""What is read of the server's own pages, by their new and their old names."""


class Piece(NamedTuple):
    """Positions of a window that one request is sent for."""

    indices: range
    """Into the asked positions."""
    ids: list[int]
    """Told at each of them."""


class SGLang(ListedServer):
    """One SGLang server. See the module."""

    dialect = "sglang"
    path_shapes = ("prefill", "decode")

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            full_vocabulary=False, largest_top_k=None, path_shapes=self.path_shapes, token_ids=True, continues=True
        )

    @property
    def gives_wanted(self) -> bool:
        return True

    def facts(self) -> dict[str, str]:
        found = super().facts()
        for pages, names in PAGES:
            info = next((page for page in map(self.if_known, pages) if isinstance(page, dict)), {})
            found |= {f"server.{name}": name_of(info[name]) for name in names if info.get(name) is not None}
            if info.get("version"):
                found["version"] = text_of(info["version"])
        return found | {"backend": found.get("server.device", NOT_SAID)}

    def write(self, tokens: Sequence[int], count: int, *, top_k: int) -> list[Written]:
        self.fits(len(tokens) + count)
        self.check_model()
        top_k = min(top_k, self.dictionary_size)
        told = self._meta(self._sent(self._body(tokens, top_k, count=count)), len(tokens))
        written = self._pairs(told, "output_token_logprobs")
        lists = self._lists(told, "output_top_logprobs")
        check_count("lists of the best entries", len(lists), len(written), where=self.where)
        reason = told.get("finish_reason")
        kind = reason.get("type") if isinstance(reason, dict) else reason
        if kind != "stop" and not (kind == "length" and len(written) == count):
            raise ServerError(
                f"it stopped after {len(written)} tokens by {text_of(kind)!r}", where=self.where, todo=SAFE
            )
        rows = [
            Row(len(tokens) + at, token, self._entries(lists[at], len(tokens) + at), own_logprob=logprob)
            for at, (logprob, token) in enumerate(written)
        ]
        listing = Listing(top_k=top_k, dictionary_size=self.dictionary_size, where=self.where)
        return greedy(rows, listing, most=count)

    def _score(self, asked: Asked) -> Iterator[ListedBlock]:
        listing = self.listing(asked)
        top_k = min(asked.top_k, self.dictionary_size)
        if self.settings.path_shape == "decode":
            yield from self.stepwise(
                GENERATE,
                asked,
                listing=listing,
                # The text's own token may lie beyond rank K, so it is asked for by its id.
                body=lambda history, index: self._body(
                    history, top_k, ids=[asked.tokens[asked.positions[index]], *asked.wanted_at(index)]
                ),
                row=lambda answer, index: self._decoded_row(answer, asked, index),
            )
            return
        for piece in pieces(asked):
            yield listing.block(self._prefilled(asked, piece, top_k))

    def _prefilled(self, asked: Asked, piece: Piece, top_k: int) -> list[Row]:
        first, last = asked.positions[piece.indices[0]], asked.positions[piece.indices[-1]]
        tokens, start = list(asked.tokens[: last + 1]), first - 1
        body = self._body(tokens, top_k, ids=piece.ids, start=start)
        told = self._meta(self._sent(body), len(tokens))
        own = self._pairs(told, "input_token_logprobs")
        check_echo(tokens[start:], [token for _, token in own], where=f"{self.where}, from position {start}")
        best = self._lists(told, "input_top_logprobs")
        check_count("lists of the best entries", len(best), len(own), where=self.where)
        named = self._lists(told, "input_token_ids_logprobs") if piece.ids else [None] * len(own)
        check_count("lists of the ids asked for", len(named), len(own), where=self.where)
        rows = []
        for index in piece.indices:
            position = asked.positions[index]
            wanted = self._named(named[position - start], asked.wanted_at(index), position)
            entries = self._entries(best[position - start], position)
            rows.append(Row(position, tokens[position], entries, own_logprob=own[position - start][0], wanted=wanted))
        return rows

    def _decoded_row(self, answer: Any, asked: Asked, index: int) -> Row:
        position, token = asked.positions[index], asked.tokens[asked.positions[index]]
        told = self._meta(answer, position)
        best, named = self._lists(told, "output_top_logprobs"), self._lists(told, "output_token_ids_logprobs")
        for found in (best, named):
            check_count("rows", len(found), 1, where=f"{self.where}, position {position}")
        ((_, own),) = self._named(named[0], [token], position)
        wanted = self._named(named[0], asked.wanted_at(index), position)
        return Row(position, token, self._entries(best[0], position), own_logprob=own, wanted=wanted)

    def _body(
        self, tokens: Sequence[int], top_k: int, *, ids: Sequence[int] = (), start: int | None = None, count: int = 1
    ) -> dict[str, Any]:
        """``start``: log-probabilities of the prompt from there on; None: of what is written only."""
        body = {
            "input_ids": list(tokens),
            "sampling_params": {**NEUTRAL, "max_new_tokens": count},
            "return_logprob": True,
            "logprob_start_len": -1 if start is None else start,
            "top_logprobs_num": top_k,
        }
        return body | ({"token_ids_logprob": sorted(set(ids))} if ids else {})

    def _sent(self, body: dict[str, Any]) -> Any:
        try:
            return self.transport.post(GENERATE, body).body
        except ServerError as error:
            if error.status == 400 and ("context length" in error.what or "longer than" in error.what):
                raise ContextOverflow(error.what, where=self.where, todo="start it with --context-length") from None
            raise

    def _meta(self, answer: Any, read: int) -> dict[str, Any]:
        """``meta_info`` of an answer to a prompt of ``read`` tokens."""
        told = self.check_answer(answer).get("meta_info")
        if not isinstance(told, dict):
            raise self.missing("meta_info")
        if told.get("prompt_tokens") != read:
            raise ServerError(
                f"the server read {text_of(told.get('prompt_tokens'))} tokens",
                where=self.where,
                expected=f"{read:,}, as sent",
            )
        cached = told.get("cached_tokens")
        if self.settings.cache_prompt is False and cached:
            raise ServerError(
                f"{text_of(cached)} tokens of the history came from the server's cache",
                where=self.where,
                expected="none, as cache_prompt = false says",
                todo="start it with --disable-radix-cache",
            )
        return told

    def _lists(self, told: Mapping[str, Any], name: str) -> list[Any]:
        found = told.get(name)
        if not isinstance(found, list):
            raise self.missing(name)
        return found

    def _pairs(self, told: Mapping[str, Any], name: str) -> list[tuple[Any, int]]:
        """(log-probability or None, id) of each entry."""
        try:
            return [(entry[0], entry[1]) for entry in self._lists(told, name)]
        except (TypeError, IndexError, KeyError):
            raise self._unreadable(name) from None

    def _entries(self, entries: Any, position: int) -> list[tuple[int, Any]]:
        """(id, log-probability); ``ServerError`` for null, which stands where nothing was computed."""
        try:
            return [(entry[1], entry[0]) for entry in entries]
        except (TypeError, IndexError, KeyError):
            raise self._unreadable(f"position {position}") from None

    def _named(self, entries: Any, ids: Sequence[int], position: int) -> list[tuple[int, Any]]:
        if not ids:
            return []
        known = dict(self._entries(entries, position))
        if missing := [token for token in ids if token not in known]:
            raise ServerError(f"id {missing[0]} was asked for and is missing", where=f"{self.where}, {position=}")
        return [(token, known[token]) for token in ids]

    def _unreadable(self, at: str) -> ServerError:
        return ServerError(
            "null, or an entry that is none, where a row was asked for",
            where=f"{self.where}, {at}",
            expected="[log-probability, id, text]",
        )


def pieces(asked: Asked) -> Iterator[Piece]:
    """The whole window where no ids are wanted; otherwise runs of positions whose answer stays small."""
    count = len(asked.positions)
    begin, ids = 0, set[int]()
    for index in range(count):
        more = ids | set(asked.wanted_at(index))
        span = asked.positions[index] - asked.positions[begin] + 2
        if index > begin and len(more) * span > MOST_TOLD:
            yield Piece(range(begin, index), sorted(ids))
            begin, more = index, set(asked.wanted_at(index))
        ids = more
    yield Piece(range(begin, count), sorted(ids))
