"""Text Generation Inference: writes with ids and the best entries; of a prompt it tells the tokens' own numbers only.

Written after the documented shapes of ``/generate``; not run against a server.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from drift_runs.engines.base import Capabilities
from drift_runs.engines.openai_server.listing import Row, check_count, check_echo
from drift_runs.engines.openai_server.server import name_of, text_of
from drift_runs.engines.openai_server.text_server import TextServer
from drift_runs.errors import ServedOtherwise, ServerError

INFO = ("model_id", "model_sha", "model_dtype", "model_device_type", "max_total_tokens", "docker_label", "sha")
SERVED_TOP_N = 5
"""What a server gives unless it is started with another ``--max-top-n-tokens``."""


class TGI(TextServer):
    """One TGI server."""

    dialect = "tgi"
    largest_top_k = SERVED_TOP_N
    names_end = True
    way_round = "score with an engine that lists the best entries of each prompt token (vllm, sglang, transformers)"

    @property
    def capabilities(self) -> Capabilities:
        options = {name.lstrip("-").replace("_", "-"): value for name, value in self.settings.server}
        limit = options.get("max-top-n-tokens", "")
        return replace(super().capabilities, largest_top_k=int(limit) if limit.isdecimal() else SERVED_TOP_N)

    def find_served(self) -> str:
        info = self.if_known("/info")
        name = text_of(info.get("model_id", "")) if isinstance(info, dict) else ""
        if self.place.served and self.place.served != name:
            raise ServedOtherwise(
                f"the server runs {name or 'a model that it does not name'}",
                where=self.where,
                expected=self.place.served,
                todo="correct served in the arm's table of the machine file",
            )
        return name

    def facts(self) -> dict[str, str]:
        info = self.if_known("/info")
        info = info if isinstance(info, dict) else {}
        found = {f"info.{name}": name_of(info[name]) for name in INFO if info.get(name) is not None}
        return found | ({"version": text_of(info["version"])} if info.get("version") else {})

    def tokenize(self, text: str) -> list[int] | None:
        """What the server puts in front of each text is taken off again."""
        try:
            body = self.transport.post("/tokenize", {"inputs": text}).body
        except ServerError as error:
            if error.status in (404, 405):
                return None
            raise
        ids = _ids(body, f"{self.where}/tokenize")
        wanted = text.encode("utf-8")
        for start in (0, 1):
            if b"".join(self._bytes(token) for token in ids[start:]) == wanted:
                return ids[start:]
        raise ServerError("ids whose bytes are not the text", where=f"{self.where}/tokenize")

    def _bytes(self, token: int) -> bytes:
        return self.texts.table[token] if 0 <= token < self.dictionary_size else b"\0"

    def _written(self, text: str, tokens: Sequence[int], count: int, top_k: int) -> list[Row]:
        # No temperature: nought is not allowed, and without do_sample it is greedy.
        parameters = {
            "max_new_tokens": count,
            "do_sample": False,
            "details": True,
            "decoder_input_details": True,
            "return_full_text": False,
            "top_n_tokens": top_k,
        }
        body = self.transport.post("/generate", {"inputs": text, "parameters": parameters}).body
        body = body[0] if isinstance(body, list) and len(body) == 1 else body
        details = self.check_answer(body).get("details")
        if not isinstance(details, dict):
            raise self.missing("details")
        if not details.get("prefill"):
            raise self.missing("prefill tokens, so that it is not known what it read")
        check_echo(tokens, _ids(details["prefill"], f"{self.where}, prefill"), where=self.where)
        written = _entries(details.get("tokens"), f"{self.where}, tokens")
        lists = details.get("top_tokens")
        if not isinstance(lists, list):
            raise self.missing("top_tokens")
        check_count("lists of the best entries", len(lists), len(written), where=self.where)
        self.check_end(details.get("finish_reason"), len(written), count, ends=("eos_token",))
        return [
            Row(len(tokens) + at, token, _entries(lists[at], f"{self.where}, top_tokens")[:top_k], own_logprob=logprob)
            for at, (token, logprob) in enumerate(written)
        ]


def _entries(items: Any, where: str) -> list[tuple[int, Any]]:
    """(id, log-probability) of a list of tokens."""
    if not isinstance(items, list) or not all(isinstance(item, Mapping) and "logprob" in item for item in items):
        raise ServerError("no list of tokens", where=where, expected="[{id, text, logprob}, …]")
    return list(zip(_ids(items, where), [item["logprob"] for item in items], strict=True))


def _ids(items: Any, where: str) -> list[int]:
    if not isinstance(items, list) or not all(
        isinstance(item, Mapping) and type(item.get("id")) is int for item in items
    ):
        raise ServerError("no list of tokens with ids", where=where, expected="[{id, text, …}, …]")
    return [item["id"] for item in items]
