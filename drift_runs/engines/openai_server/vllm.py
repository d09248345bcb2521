"""vLLM: log-probabilities of the prompt by token id, one request a window, or one generated token a position.

Prefill: ``prompt_logprobs`` with the ids as the prompt; ``echo`` where a server does not know or refuses it. vLLM does
not read its prefix cache for such a request, so every window is computed afresh.

Decode: the log-probabilities of one generated token behind each history, over the prefix cache. Only here can a caller
name ids: ``logprob_token_ids`` *replaces* the list of the best, so it is a request of its own behind the same history.

Every request states neutral sampling settings: without them the server takes those of the model's own
``generation_config.json``, a repetition penalty among them.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from drift_runs.engines.base import Capabilities, ListedBlock, Written
from drift_runs.engines.openai_server.listing import Row, check_count, check_echo
from drift_runs.engines.openai_server.server import Asked, ListedServer, text_of
from drift_runs.engines.openai_server.transport import LARGEST_ANSWER_BYTES, SAFE
from drift_runs.engines.openai_server.vllm_rows import check_spans, entries_of, id_of, legacy_lists, prompt_row
from drift_runs.engines.openai_server.written import greedy
from drift_runs.errors import CannotGive, ContextOverflow, EngineError, ServerError

COMPLETIONS = "/v1/completions"
SEED = 0
MOST_NAMED_IDS = 128
"""Ids that one request may name: the server's own limit."""
ECHOED_TOKENS = 8_192
"""Histories up to here come back with each answer, to be compared; of longer ones the count is."""
TWO_ANSWERS_NATS = 0.5
"""Two requests behind one history may differ by rounding, never by this much."""
CACHE_FACTS = ("cache_dtype", "block_size", "enable_prefix_caching", "calculate_kv_scales")
ENTRY_BYTES = 70
"""Of one entry of ``prompt_logprobs`` in JSON; 73 were measured at K = 200."""


class VLLM(ListedServer):
    """One vLLM server. See the module."""

    dialect = "vllm"
    path_shapes = ("prefill", "decode")
    way_round = 'use path_shape = "decode", a spec that needs no ids of our choice, or an engine of this process'

    _refused: str | None = None
    """Why ``prompt_logprobs`` is not asked for any more; None: it is."""

    @property
    def capabilities(self) -> Capabilities:
        options = {name.replace("_", "-").lstrip("-"): value for name, value in self.settings.server}
        limit = options.get("max-logprobs", "")
        return Capabilities(
            full_vocabulary=False,
            largest_top_k=int(limit) if limit.isdecimal() else None,
            path_shapes=self.path_shapes,
            token_ids=True,
            continues=True,
        )

    @property
    def gives_wanted(self) -> bool:
        return self.settings.path_shape == "decode"

    def facts(self) -> dict[str, str]:
        found = super().facts()
        if (version := self._version()) is not None:
            found["version"] = version
        return found | self._cache()

    def said(self) -> Mapping[str, str]:
        found = self.facts()
        if self._fingerprint is not None:
            found["fingerprint"] = text_of(self._fingerprint)
        return found

    def tokenize(self, text: str) -> list[int] | None:
        try:
            body = self.transport.post(
                "/tokenize", {"model": self.served, "prompt": text, "add_special_tokens": False}
            ).body
        except ServerError as error:
            if error.status in (404, 405):
                return None
            raise
        tokens = body.get("tokens") if isinstance(body, dict) else None
        if not isinstance(tokens, list) or not all(type(token) is int for token in tokens):
            raise ServerError("no list of ids", where=f"{self.where}/tokenize")
        return tokens

    def write(self, tokens: Sequence[int], count: int, *, top_k: int) -> list[Written]:
        self.fits(len(tokens) + count)
        self.check_model()
        top_k = min(top_k, self.dictionary_size)
        choice = self._choice(self._asked(self._generated(tokens, count, top_k), top_k), tokens)
        listed = legacy_lists(choice, self.where)
        ids = choice.get("token_ids")
        if ids is None:
            ids = [id_of(token, self.where) for token in listed["tokens"]]
        if choice.get("finish_reason") not in ("stop", "length"):
            raise ServerError(f"it stopped for {text_of(choice.get('finish_reason'))}", where=self.where, todo=SAFE)
        check_count("rows of what was written", len(listed["top_logprobs"]), len(ids), where=self.where)
        if choice["finish_reason"] == "length":
            check_count("tokens written", len(ids), count, where=self.where)
        rows = [
            Row(position=len(tokens) + at, token=token, entries=entries_of(listed["top_logprobs"][at], self.where))
            for at, token in enumerate(ids)
        ]
        asked = Asked(tokens=tokens, positions=(), top_k=top_k, wanted=None)
        return greedy(rows, self.listing(asked), most=count)

    def fits(self, count: int) -> None:
        super().fits(count)
        limit = self._opened_with.get("model.max_model_len", "")
        # A request for a prompt's log-probabilities must generate one token, and the server keeps room for it.
        needed = count + (self.settings.path_shape == "prefill")
        if limit.isdecimal() and needed > int(limit):
            raise ContextOverflow(
                f"{count:,} tokens, and the server takes {limit} with the one it generates",
                where=self.where,
                todo="start it with a larger --max-model-len",
            )

    def _score(self, asked: Asked) -> Iterator[ListedBlock]:
        if self.settings.path_shape == "decode":
            yield from self._decoded(asked)
            return
        top_k = min(asked.top_k, self.dictionary_size)
        rows = None
        if self._refused is None:
            try:
                rows = self._from_prompt(asked, top_k)
            except CannotGive as error:
                self._refused = error.what
        if rows is None:
            rows = self._from_echo(asked, top_k)
        yield self.listing(asked).block(rows)

    def _from_prompt(self, asked: Asked, top_k: int) -> list[Row]:
        """``CannotGive`` where the server knows no such thing; then ``echo`` may."""
        size = len(asked.tokens) * top_k * ENTRY_BYTES
        if size > LARGEST_ANSWER_BYTES:
            # Not sent: a server makes such an answer in one piece, and stands still or dies of it.
            raise ServerError(
                f"{len(asked.tokens):,} rows of {top_k:,} entries would be {size / 1e9:.1f} GB of JSON",
                where=self.where,
                expected=f"at most {LARGEST_ANSWER_BYTES / 1e9:.1f} GB",
                todo='take a smaller K, shorter windows, or path_shape = "decode"',
            )
        body = self._neutral(asked.tokens, max_tokens=1) | {"prompt_logprobs": top_k}
        choice = self._choice(self._asked(body, top_k), asked.tokens)
        entries = choice.get("prompt_logprobs")
        if entries is None:
            raise self.missing("prompt log-probabilities")
        check_spans(entries, len(asked.tokens), self.where)
        return [
            prompt_row(entries[position], position, asked.tokens[position], self.where) for position in asked.positions
        ]

    def _from_echo(self, asked: Asked, top_k: int) -> list[Row]:
        body = self._generated(asked.tokens, 1, top_k) | {"echo": True}
        choice = self._choice(self._asked(body, top_k), asked.tokens)
        listed = legacy_lists(choice, self.where)
        count = len(asked.tokens)
        if len(listed["tokens"]) <= 1 < count:
            raise CannotGive(
                f"no log-probabilities of the prompt: {self._refused or 'prompt_logprobs is not known'}, and echo is "
                "ignored",
                where=self.where,
                todo=self.way_round,
            )
        # One more may follow: the token that was generated.
        check_echo(
            list(asked.tokens), [id_of(token, self.where) for token in listed["tokens"][:count]], where=self.where
        )
        rows = []
        for position in asked.positions:
            where = f"{self.where}, position {position}"
            own = listed["token_logprobs"][position]
            if own is None:
                raise ServerError("null inside the scored span", where=where)
            entries = entries_of(listed["top_logprobs"][position], where)
            rows.append(Row(position=position, token=asked.tokens[position], entries=entries, own_logprob=own))
        return rows

    def _decoded(self, asked: Asked) -> Iterator[ListedBlock]:
        top_k = min(asked.top_k, self.dictionary_size)

        def body(history: list[int], index: int) -> dict[str, Any]:
            return self._generated(history, 1, top_k)

        def row(answer: Any, index: int) -> Row:
            position = asked.positions[index]
            history, token = asked.tokens[:position], asked.tokens[position]
            written, entries = self._one(answer, history)
            if len(entries) == top_k + 1:  # the generated token, which ties may carry beyond rank K
                entries = [entry for entry in entries if entry[0] != written[0]]
            named = list(asked.wanted_at(index))
            ask = [*named, token] if all(listed != token for listed, _ in entries) else named
            told = dict(self._named(history, ask, written)) if ask else {}
            return Row(
                position=position,
                token=token,
                entries=entries,
                own_logprob=told.get(token),
                wanted=[(wanted, told[wanted]) for wanted in named],
            )

        yield from self.stepwise(COMPLETIONS, asked, listing=self.listing(asked), body=body, row=row)

    def _named(
        self, history: Sequence[int], ids: Sequence[int], written: tuple[int, float]
    ) -> Iterator[tuple[int, float]]:
        """Log-probabilities of ``ids`` behind ``history``, whose first answer had generated ``written``."""
        wanted = sorted(set(ids))
        where = f"{self.where}, position {len(history)}"
        for start in range(0, len(wanted), MOST_NAMED_IDS - 1):
            part = wanted[start : start + MOST_NAMED_IDS - 1]
            # With the token that the first answer generated, whose probability must be the same in both.
            body = self._generated(history, 1, 1) | {"logprob_token_ids": sorted({*part, written[0]})}
            told = dict(self._one(self._asked(body, 1), history)[1])
            missing = [token for token in (written[0], *part) if token not in told]
            if missing:
                raise CannotGive(
                    f"id {missing[0]} was asked for by name and is not in the answer", where=where, todo=self.way_round
                )
            if abs(told[written[0]] - written[1]) > TWO_ANSWERS_NATS:
                raise ServerError(
                    f"two answers behind one history differ: {written[1]:g} and {told[written[0]]:g} for id "
                    f"{written[0]}",
                    where=where,
                    expected="the same model and history in both",
                    todo=SAFE,
                )
            yield from ((token, told[token]) for token in part)

    def _one(self, answer: Any, history: Sequence[int]) -> tuple[tuple[int, float], list[tuple[int, float]]]:
        """The one generated token with its log-probability, and the entries of its row."""
        listed = legacy_lists(self._choice(answer, history), self.where)
        where = f"{self.where}, position {len(history)}"
        check_count("generated tokens", len(listed["tokens"]), 1, where=where)
        if listed["token_logprobs"][0] is None:
            raise ServerError("null for the generated token's log-probability", where=where)
        token = id_of(listed["tokens"][0], where)
        return (token, listed["token_logprobs"][0]), entries_of(listed["top_logprobs"][0], where)

    def _neutral(self, tokens: Sequence[int], *, max_tokens: int) -> dict[str, Any]:
        """A greedy request for ids, with every setting that alters a distribution stated as neutral."""
        body = {
            "model": self.served,
            "prompt": list(tokens),
            "max_tokens": max_tokens,
            "temperature": 0,
            "top_p": 1,
            "top_k": 0,
            "min_p": 0,
            "presence_penalty": 0,
            "frequency_penalty": 0,
            "repetition_penalty": 1,
            "seed": SEED,
            "add_special_tokens": False,
            "return_token_ids": len(tokens) <= ECHOED_TOKENS or self.settings.path_shape == "prefill",
        }
        if self.settings.cache_prompt is False:
            body["cache_salt"] = uuid.uuid4().hex  # no other request has it, so nothing is found in the cache
        return body

    def _generated(self, tokens: Sequence[int], count: int, top_k: int) -> dict[str, Any]:
        return self._neutral(tokens, max_tokens=count) | {"logprobs": top_k, "return_tokens_as_token_ids": True}

    def _asked(self, body: dict[str, Any], top_k: int) -> dict[str, Any]:
        try:
            return self.check_answer(self.transport.post(COMPLETIONS, body).body)
        except ServerError as error:
            if error.status == 400:
                raise self._understood(error, top_k) from None
            raise

    def _understood(self, error: ServerError, top_k: int) -> EngineError:
        """What a refusal means for the protocol."""
        said = error.what.casefold()
        if "logprobs" in said and ("greater than max" in said or "max_logprobs" in said or "max allowed" in said):
            return ServerError(
                f"K = {top_k} is more than the server gives: {error.what}",
                where=self.where,
                todo=f"start it with --max-logprobs {top_k} or more, or take a smaller K",
            )
        if "prompt_logprobs" in said or "logprob_token_ids" in said or "extra inputs" in said:
            return CannotGive(error.what, where=self.where, todo=self.way_round)
        return error

    def _choice(self, answer: Any, sent: Sequence[int]) -> dict[str, Any]:
        """The answer's one choice, made for the ids that were sent."""
        body = self.check_answer(answer)
        choices = body.get("choices")
        if not isinstance(choices, list) or len(choices) != 1 or not isinstance(choices[0], dict):
            raise ServerError("not exactly one choice", where=self.where)
        choice = choices[0]
        echoed = choice.get("prompt_token_ids")
        if isinstance(echoed, list):
            check_echo(sent, echoed, where=self.where)
        usage = body.get("usage")
        if isinstance(usage, dict) and type(usage.get("prompt_tokens")) is int:
            check_count("tokens read by the server", usage["prompt_tokens"], len(sent), where=self.where)
        return choice

    def _version(self) -> str | None:
        body = self.if_known("/version")
        return text_of(body["version"]) if isinstance(body, dict) and "version" in body else None

    def _cache(self) -> dict[str, str]:
        """What the metrics page tells of the KV cache: the only place where a server names its type."""
        try:
            page = self.transport.get_text("/metrics")
        except ServerError as error:
            if error.status is not None:  # not every server has the page, or lets us see it
                return {}
            raise
        line = next((line for line in page.splitlines() if line.startswith("vllm:cache_config_info{")), "")
        labels = dict(re.findall(r'(\w+)="([^"]*)"', line))
        return {f"cache.{name}": text_of(labels[name]) for name in CACHE_FACTS if name in labels}
