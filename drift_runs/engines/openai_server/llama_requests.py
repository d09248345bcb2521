"""Requests to llama.cpp's own server, and what makes an answer one to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from drift_runs.engines.openai_server.listing import check_count
from drift_runs.engines.openai_server.server import ListedServer, text_of
from drift_runs.engines.openai_server.transport import SAFE
from drift_runs.errors import ContextOverflow, ServerError

SLOT = 0
"""All requests go to one slot: each has a cache of its own."""
SEED = 7
NEUTRAL: Mapping[str, Any] = {
    "temperature": 0,
    "seed": SEED,
    "top_k": 0,
    "top_p": 1.0,
    "min_p": 0.0,
    "typical_p": 1.0,
    "xtc_probability": 0.0,
    "repeat_penalty": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "dry_multiplier": 0.0,
    "mirostat": 0,
    "post_sampling_probs": False,
    "ignore_eos": False,  # it would move the end token's logit
}
"""Sampling that does nothing; said in each request, because a server may have been started with other defaults."""
FIELDS = (
    "model",
    "completion_probabilities",
    "id_slot",
    "stop_type",
    "timings",
    "tokens",
    "tokens_evaluated",
    "tokens_predicted",
    "truncated",
)
"""What is read of an answer; the rest repeats the history as text."""
SLOT_SETTINGS = ("default_generation_settings",)
"""Where ``/props`` says what a slot starts with."""
LONG_ROW = 4096
"""Entries of a row for which choosing fields takes the server longer than the history's text: it copies them."""


class LlamaRequests(ListedServer):
    """What the dialect asks. No answer leaves it that is of another history, or of another slot."""

    @property
    def context_tokens(self) -> int:
        """Of one slot, history and written tokens together."""
        return self._context(self._props())

    def tokenize(self, text: str) -> list[int]:
        body = {"content": text, "add_special": False, "parse_special": True}
        answer = self.check_answer(self.transport.post("/tokenize", body).body)
        tokens = answer.get("tokens")
        if not isinstance(tokens, list) or not all(isinstance(token, int) for token in tokens):
            raise ServerError("no list of ids", where=f"{self.where}/tokenize")
        return tokens

    def _ask(self, tokens: Sequence[int], top_k: int, *, cached: bool | None, count: int = 1) -> dict[str, Any]:
        """One request behind ``tokens``; an answer that is of it. ``cached``: None leaves it to the server."""
        body = {
            **NEUTRAL,
            "model": self.served,
            "prompt": list(tokens),
            "n_predict": count,
            "n_probs": min(top_k, self.dictionary_size),
            "id_slot": SLOT,
            "return_tokens": True,
        }
        if top_k < LONG_ROW:
            body["response_fields"] = list(FIELDS)
        if cached is not None:
            body["cache_prompt"] = cached
        try:
            answer = self.check_answer(self.transport.post("/completion", body).body)
        except ServerError as error:
            if error.status == 400 and "context size" in error.what:
                raise self._overflow(error.what) from None
            raise
        where = f"{self.where}, behind {len(tokens):,} tokens"
        if answer.get("tokens_evaluated") != len(tokens):
            if answer.get("truncated"):
                raise self._overflow("the server cut the history")
            raise ServerError(
                f"the server read {text_of(answer.get('tokens_evaluated'))} tokens",
                where=where,
                expected=f"{len(tokens)}, as sent",
            )
        if answer.get("id_slot", SLOT) != SLOT:
            raise ServerError(f"slot {text_of(answer['id_slot'])} answered", where=where, expected=f"slot {SLOT}")
        return answer

    def _entries(self, answer: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        entries = answer.get("completion_probabilities")
        if not isinstance(entries, list) or not entries or not all(isinstance(entry, dict) for entry in entries):
            raise self.missing("completion_probabilities", todo="use a server that honours n_probs")
        check_count("rows for what was written", len(entries), answer.get("tokens_predicted", 0), where=self.where)
        return entries

    def _text(self, tokens: Sequence[int]) -> str:
        answer = self.check_answer(self.transport.post("/detokenize", {"tokens": list(tokens)}).body)
        text = answer.get("content")
        if not isinstance(text, str):
            raise ServerError("no text", where=f"{self.where}/detokenize")
        return text

    def _props(self) -> dict[str, Any]:
        return self.check_answer(self.transport.get("/props").body)

    def _context(self, props: Mapping[str, Any]) -> int:
        found = part(props, *SLOT_SETTINGS).get("n_ctx")
        if not isinstance(found, int):
            raise ServerError("no n_ctx", where=f"{self.where}/props", expected="the length of a slot's context")
        return found

    def _fits_slot(self, count: int) -> None:
        # One more than the history: a server keeps room for the token that it writes.
        if count > (found := self.context_tokens):
            raise self._overflow(f"{count:,} tokens with what is written, and a slot of the server has {found:,}")

    def _overflow(self, what: str) -> ContextOverflow:
        return ContextOverflow(
            what,
            where=self.where,
            expected="a context one token longer than the longest window",
            todo=f"start the server with a larger -c (it is shared by its slots); {SAFE}",
        )


def part(body: Mapping[str, Any], *names: str) -> Mapping[str, Any]:
    """A part of an answer; empty where there is none."""
    for name in names:
        inner = body.get(name)
        body = inner if isinstance(inner, dict) else {}
    return body
