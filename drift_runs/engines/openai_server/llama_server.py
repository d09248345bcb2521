"""llama.cpp's own server: rows one token at a time over its cached prefix, the bytes of its whole dictionary.

It gives no log-probabilities of prompt tokens (builds of 2026 take ``echo`` and ignore it), so each scored position is
a request of one token, and the server's cache holds what lies before it. What was evaluated together is part of a
number: a window starts with an empty cache, and where the cache was lost in between, the window is refused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from drift_runs.engines.base import Capabilities, EngineSettings, ListedBlock, Written
from drift_runs.engines.openai_server import llama_rows
from drift_runs.engines.openai_server.listing import Listing, Row, check_echo
from drift_runs.engines.openai_server.llama_requests import NEUTRAL, SLOT, SLOT_SETTINGS, LlamaRequests, part
from drift_runs.engines.openai_server.llama_rows import LogMass, WholeRow, whole_row
from drift_runs.engines.openai_server.server import NOT_SAID, Asked, text_of
from drift_runs.engines.openai_server.transport import SAFE
from drift_runs.engines.openai_server.written import greedy
from drift_runs.errors import CannotGive, ServerError
from drift_runs.machine import Place

PROBE_TEXT = 'The capital of France is Paris.\n{"name": "a", "port": 8080} Then she said that it was'
PROBE_LENGTHS = (2, 6, 12, 20)
MEASURED = ("log_mass", "normalised", "cache")
"""Of what ``said`` tells, what the server does not say."""


class LlamaServer(LlamaRequests):
    """See the module. ``place.concurrency`` is not used: one slot answers one request at a time."""

    dialect = "llama_server"
    path_shapes = ("decode", "prefill")
    # A slot keeps one history: another text in between would cost the next window of a long stream its prefill.
    needs_control = False
    way_round = (
        'set path_shape = "decode" for this engine, or open the same GGUF with the engine llama_cpp, which has both'
    )

    def __init__(self, place: Place, settings: EngineSettings, *, dictionary_size: int) -> None:
        self._mass: LogMass | None = None
        self._shown: list[bytes] | None = None
        self._table: list[bytes] | None = None
        self._reused = self._history = 0
        super().__init__(place, settings, dictionary_size=dictionary_size)
        try:
            if settings.path_shape == "prefill" and not self._echoes():
                raise CannotGive(
                    "this server gives no log-probabilities of prompt tokens (it takes echo and ignores it)",
                    where=self.where,
                    expected="an entry for each prompt token",
                    todo=self.way_round,
                )
        except BaseException:
            self.close()
            raise

    @property
    def capabilities(self) -> Capabilities:
        shapes = ("prefill", "decode") if self.settings.path_shape == "prefill" else ("decode",)
        return Capabilities(
            full_vocabulary=False, largest_top_k=None, path_shapes=shapes, token_ids=True, continues=True
        )

    @property
    def log_mass(self) -> LogMass:
        """What is subtracted from each log-probability: as ``calibrate`` was told, else measured once, on a few whole
        rows of a text of our own."""
        if self._mass is None:
            history = self._probe_history()
            rows = [self._whole_row(history[:length]) for length in PROBE_LENGTHS if length <= len(history)]
            self._mass = llama_rows.mass_of([row.log_mass_nats for row in rows], where=self.where)
            self._shown = rows[0].token_bytes
        return self._mass

    def measured(self) -> tuple[str, ...]:
        return MEASURED

    def calibration(self) -> dict[str, float]:
        return self.log_mass.kept()

    def calibrate(self, kept: Mapping[str, Any]) -> None:
        """Subtract what was subtracted before. What it is now is measured too: a server that is off by another constant
        is not the one that the kept number is of."""
        now, before = self.log_mass, LogMass.of_kept(kept, where=self.where)
        if abs(now.mean_nats - before.mean_nats) > llama_rows.LARGEST_SPREAD_NATS:
            raise ServerError(
                f"its log-probabilities are off by {now}",
                where=self.where,
                expected=f"about {before}, as when the first rows of this capture were taken",
                todo="serve what was served then, or take the capture anew in another store",
            )
        self._mass = before

    @property
    def normalised(self) -> bool:
        """Whether rows sum to 1 once ``log_mass`` is subtracted: what a bound on a divergence needs."""
        return self.log_mass.normalised

    def facts(self) -> dict[str, str]:
        props = self._props()
        template = props.get("chat_template")
        return super().facts() | {
            "version": text_of(props.get("build_info", NOT_SAID)),
            "file": text_of(str(props.get("model_path", NOT_SAID)).replace("\\", "/").rpartition("/")[2]),
            "file_type": text_of(props.get("model_ftype", NOT_SAID)),
            "context_tokens": str(self._context(props)),
            "slots": text_of(props.get("total_slots", NOT_SAID)),
            "chat_template": hashlib.sha256(template.encode("utf-8", "surrogatepass")).hexdigest()[:16]
            if isinstance(template, str) and template
            else NOT_SAID,
            "speculation": text_of(part(props, *SLOT_SETTINGS, "params").get("speculative.types", NOT_SAID)),
            "adapters": self._adapters(),
        }

    def said(self) -> Mapping[str, str]:
        """With the ``log_mass`` that is subtracted, and how much of the histories came from the cache."""
        return {
            **self.facts(),
            "log_mass": str(self.log_mass),
            "normalised": "yes" if self.normalised else "no",
            "cache": f"{self._reused:,} of {self._history:,} history tokens" if self._history else "not used yet",
        }

    def token_bytes(self) -> list[bytes]:
        """From a whole row; control tokens, which it shows as nothing, one by one."""
        if self._table is None:
            shown = self._shown or self._whole_row(self._probe_history()[:1]).token_bytes
            self._table = [
                data or self._text([token]).encode("utf-8", "surrogatepass") for token, data in enumerate(shown)
            ]
        return self._table

    def write(self, tokens: Sequence[int], count: int, *, top_k: int) -> list[Written]:
        """One request. With ``cache_prompt`` on it goes on from what the server holds of ``tokens``."""
        if not tokens or count < 1:
            raise ValueError(f"{count} tokens behind a history of {len(tokens)}")
        self.fits(len(tokens) + count)
        self._fits_slot(len(tokens) + count)
        self.check_model()
        less = self.log_mass.mean_nats
        cached = self.settings.cache_prompt
        answer = self._ask(tokens, top_k, cached=cached, count=count)
        self._check_cache(answer, len(tokens), held=0 if cached is False else None)
        entries = self._entries(answer)
        where = f"{self.where}, written behind {len(tokens):,} tokens"
        own = [llama_rows.own(entry, where=where, less_nats=less) for entry in entries]
        if [token for token, _ in own] != answer.get("tokens"):
            raise ServerError("the rows are of other ids than what was written", where=where)
        stop = answer.get("stop_type")
        # A full context is a limit too. ``truncated`` says nothing: it is set when the last token fills it exactly.
        if stop != "eos" and not (stop == "limit" and len(entries) == count):
            raise ServerError(
                f"it stopped after {len(entries)} tokens by {text_of(stop)!r}",
                where=where,
                expected=f"{count} tokens, or an end token",
            )
        rows = [
            Row(len(tokens) + at, token, llama_rows.pairs(entry, where=where, less_nats=less), own_logprob=logprob)
            for at, (entry, (token, logprob)) in enumerate(zip(entries, own, strict=True))
        ]
        listing = Listing(top_k=top_k, dictionary_size=self.dictionary_size, where=where)
        return greedy(rows, listing, most=count)

    def _score(self, asked: Asked) -> Iterator[ListedBlock]:
        listing = self.listing(asked, own_promised=False)
        self._fits_slot(asked.positions[-1] + 1)
        if self.settings.path_shape == "prefill":
            yield listing.block(self._echoed(asked))
            return
        less = self.log_mass.mean_nats
        held = 0
        for position in asked.positions:
            # The first request of a window finds an empty cache: the windows before it must not change a number.
            cached = held > 0 and self.settings.cache_prompt is not False
            before = self.retries
            answer = self._ask(asked.tokens[:position], asked.top_k, cached=cached)
            unsure = cached and self.settings.cache_prompt is None
            again = self.retries > before
            self._check_cache(answer, position, held=None if unsure else held * cached, again=again)
            held = position
            entry = self._entries(answer)[0]
            entries = llama_rows.pairs(entry, where=f"{self.where}, position {position}", less_nats=less)
            yield listing.block([Row(position, asked.tokens[position], entries)])

    def _check_cache(self, answer: Mapping[str, Any], history: int, *, held: int | None, again: bool = False) -> None:
        """``ServerError`` where another part of the history than ``held`` came from the cache: another geometry.

        ``again``: the request was sent before, so the server may have evaluated it already.
        """
        reused = part(answer, "timings").get("cache_n")
        self._history += history
        if not isinstance(reused, int):
            return
        self._reused += reused
        if held is not None and reused != held:
            raise ServerError(
                f"{reused:,} tokens of the history came from the server's cache",
                where=f"{self.where}, behind {history:,} tokens",
                expected=f"{held:,}",
                todo=f"the request was sent again, and what its first sending had evaluated was still there; {SAFE}"
                if again
                else "let nothing else use this server; a model that cannot keep a prefix needs cache_prompt = false",
            )

    def _whole_row(self, history: Sequence[int]) -> WholeRow:
        entry = self._entries(self._ask(history, self.dictionary_size, cached=False))[0]
        return whole_row(entry, dictionary_size=self.dictionary_size, where=f"{self.where}, a whole row")

    def _echoes(self) -> bool:
        """Whether this build gives an entry for each prompt token."""
        tokens = self._probe_history()[:3]
        content = self._echo(tokens, 2)
        return content is not None and len(content) in (len(tokens), len(tokens) + 1)

    def _echo(self, tokens: Sequence[int], top_k: int) -> list[Any] | None:
        body = {**NEUTRAL, "model": self.served, "prompt": list(tokens), "max_tokens": 1, "id_slot": SLOT}
        body |= {"echo": True, "logprobs": top_k, "cache_prompt": False}
        answer = self.check_answer(self.transport.post("/v1/completions", body).body)
        choices = answer.get("choices")
        first = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
        content = part(first, "logprobs").get("content")
        return content if isinstance(content, list) else None

    def _echoed(self, asked: Asked) -> list[Row]:
        """Rows of prompt tokens, for builds that have them. Such a build was not at hand: not run."""
        tokens = list(asked.tokens[: asked.positions[-1] + 1])
        content = self._echo(tokens, asked.top_k) or []
        if len(content) < len(tokens) or not all(isinstance(entry, dict) for entry in content):
            raise self.missing("entry for each prompt token")
        check_echo(tokens, [entry.get("id") for entry in content[: len(tokens)]], where=self.where)
        where = f"{self.where}, prompt tokens"
        return [
            Row(at, tokens[at], llama_rows.pairs(content[at], where=where), own_logprob=content[at].get("logprob"))
            for at in asked.positions
        ]

    def _probe_history(self) -> list[int]:
        """A text that any dictionary can write; ids in order where the server cannot read one."""
        tokens = self.tokenize(PROBE_TEXT)
        return tokens if len(tokens) > 1 else list(range(min(max(PROBE_LENGTHS), self.dictionary_size)))

    def _adapters(self) -> str:
        found = self.if_known("/lora-adapters")
        if not isinstance(found, list):
            return NOT_SAID
        scales = [adapter.get("scale") for adapter in found if isinstance(adapter, dict)]
        return text_of(", ".join(f"scale {scale}" for scale in scales)) or "none"
