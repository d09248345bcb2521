"""Any server with OpenAI's completions or chat completions and log-probabilities: rollouts and branches of texts.

Written after the documented shapes of both; hosted endpoints were not run. Which of the two a server has is found out
when it is opened. Both take text; neither tells ids, unless a server adds them. So a token that was written is known by
its bytes, where exactly one id of the dictionary has them. The list of the best ends where it cannot be told which
token is meant: what would stand below is left out, and nothing is put into its place.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from drift_runs.engines.base import Capabilities, EngineSettings
from drift_runs.engines.openai_server.listing import Row, check_count
from drift_runs.engines.openai_server.server import text_of
from drift_runs.engines.openai_server.text_server import Texts, TextServer
from drift_runs.errors import CannotAsk, CannotGive, ServerError
from drift_runs.machine import Place

COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"
SEED = 0
NEUTRAL: Mapping[str, Any] = {
    "temperature": 0,
    "top_p": 1,
    "presence_penalty": 0,
    "frequency_penalty": 0,
    "n": 1,
    "seed": SEED,
}
LARGEST_K: Mapping[str, int] = {COMPLETIONS: 5, CHAT: 20}
"""What the documented interface takes. A server may take less, or more."""
TURN = re.compile(r"<\|im_start\|>(\w+)\n((?:(?!<\|im_(?:start|end)\|>).)*)<\|im_end\|>\n?", re.DOTALL)
OPEN_TURN = "<|im_start|>assistant\n"
BYTES = re.compile(r"(?:\\x[0-9a-fA-F]{2})+")


class Named(NamedTuple):
    """A token as an answer names it."""

    id: int | None
    data: bytes
    logprob: Any

    def id_in(self, texts: Texts) -> int | None:
        return texts.id_of(self.data) if self.id is None else self.id


class Step(NamedTuple):
    """A token that was written, and the best of its row as the answer lists them."""

    own: Named
    best: list[Named]


class Generic(TextServer):
    """One server with OpenAI's interface. See the module."""

    dialect = "generic"
    largest_top_k = LARGEST_K[CHAT]
    way_round = "score with a dialect that takes token ids (vllm, sglang, llama_server) or an engine of this process"

    def __init__(self, place: Place, settings: EngineSettings, *, dictionary_size: int) -> None:
        super().__init__(place, settings, dictionary_size=dictionary_size)
        self._count_name = "max_tokens"
        try:
            self.path = self._found_path()
        except BaseException:
            self.close()
            raise

    @property
    def capabilities(self) -> Capabilities:
        return replace(super().capabilities, largest_top_k=LARGEST_K[self.path])

    def said(self) -> Mapping[str, str]:
        """With the interface that is asked, which makes other requests, and the fingerprint that answers bear: both are
        the server's own, and none is a measured number."""
        found = {**self.facts(), "interface": self.path}
        return found if self._fingerprint is None else found | {"fingerprint": text_of(self._fingerprint)}

    def _found_path(self) -> str:
        """The interface whose answer has log-probabilities."""
        reasons = []
        for path in (COMPLETIONS, CHAT):
            self.path = path
            try:
                answer = self._sent("a", 1, 1)
            except ServerError as error:
                if error.status not in (400, 403, 404, 405, 415, 422, 501):
                    raise
                reasons.append(f"{path}: status {error.status}")
                continue
            if isinstance(self.choice_of(answer).get("logprobs"), dict):
                return path
            reasons.append(f"{path}: an answer without log-probabilities")
        raise CannotGive(
            f"log-probabilities of what it writes ({', '.join(reasons)})", where=self.where, todo=self.way_round
        )

    def _sent(self, text: str, count: int, top_k: int) -> dict[str, Any]:
        body = {**NEUTRAL, "model": self.served}
        if self.path == COMPLETIONS:
            body |= {"prompt": text, "logprobs": top_k}
        else:
            body |= {"messages": self._messages(text), "logprobs": True, "top_logprobs": top_k}
        try:
            answer = self.transport.post(self.path, {**body, self._count_name: count}).body
        except ServerError as error:
            if error.status != 400 or self._count_name != "max_tokens" or "max_completion_tokens" not in error.what:
                raise
            self._count_name = "max_completion_tokens"
            answer = self.transport.post(self.path, {**body, self._count_name: count}).body
        return self.check_answer(answer)

    def _messages(self, text: str) -> list[dict[str, str]]:
        if text == "a":  # how the interface is found out
            return [{"role": "user", "content": text}]
        if (messages := chatml(text)) is None:
            raise CannotAsk(
                "a history that is no whole turns of ChatML before an answer",
                where=self.where,
                expected="prompts that end where the assistant's answer begins, because it has chat completions only",
                todo="use a server with /v1/completions",
            )
        return messages

    def _written(self, text: str, tokens: Sequence[int], count: int, top_k: int) -> list[Row]:
        answer = self._sent(text, count, top_k)
        usage = answer.get("usage")
        self.check_read(usage.get("prompt_tokens") if isinstance(usage, dict) else None, tokens)
        choice = self.choice_of(answer)
        listed = choice.get("logprobs")
        if not isinstance(listed, dict):
            raise self.missing("logprobs")
        try:
            steps = of_content(listed["content"]) if listed.get("content") is not None else of_legacy(listed)
        except (KeyError, TypeError, ValueError, AttributeError):
            raise self.missing("log-probabilities in one of the documented shapes") from None
        self.check_end(choice.get("finish_reason"), len(steps), count)
        rows = [self._row(step, len(tokens) + at, top_k) for at, step in enumerate(steps)]
        self.check_count_written(len(steps), usage.get("completion_tokens"))
        self.check_text_written([self._bytes_of(row) for row in rows], _text(choice))
        return rows

    def _bytes_of(self, row: Row) -> bytes:
        table = self.texts.table
        return table[row.token] if 0 <= row.token < len(table) else b""

    def _row(self, step: Step, position: int, top_k: int) -> Row:
        own = self.texts.one_id_of(step.own.data) if step.own.id is None else step.own.id
        entries: list[tuple[int, Any]] = []
        for named in sorted(step.best, key=lambda named: -_number(named.logprob)):
            token = named.id_in(self.texts)
            if token is None:
                break
            entries.append((token, named.logprob))
        told = dict(entries)
        if len(told) != len(entries):
            raise ServerError("a token is listed twice", where=f"{self.where}, {position=}")
        # The token that was written may be listed beyond the K best.
        kept = [entry for at, entry in enumerate(entries) if at < top_k or entry[0] == own]
        return Row(position, own, kept, own_logprob=told.get(own, step.own.logprob))


def of_content(content: Any) -> list[Step]:
    """Chat completions: ``content: [{token, bytes, logprob, top_logprobs: [ … ]}]``; ``id`` where a server adds it."""
    return [
        Step(_of_entry(entry), [_of_entry(other) for other in entry.get("top_logprobs") or []]) for entry in content
    ]


def of_legacy(listed: Mapping[str, Any]) -> list[Step]:
    """Completions: ``tokens``, ``token_logprobs`` and ``top_logprobs``, an object a token from text to number.

    Two tokens of one text are one entry there, the last of them.
    """
    tokens, numbers = listed["tokens"], listed["token_logprobs"]
    best = listed.get("top_logprobs") or [{}] * len(tokens)
    for found in (numbers, best):
        check_count("entries", len(found), len(tokens), where="logprobs")
    return [
        Step(Named(None, _bytes(token), number), [Named(None, _bytes(text), value) for text, value in row.items()])
        for token, number, row in zip(tokens, numbers, best, strict=True)
    ]


def chatml(text: str) -> list[dict[str, str]] | None:
    """The messages of a text that is whole turns of ChatML and the begin of the assistant's; None if it is not."""
    if not text.endswith(OPEN_TURN):
        return None
    turns = text[: -len(OPEN_TURN)]
    found = list(TURN.finditer(turns))
    if not found or "".join(turn[0] for turn in found) != turns:
        return None
    return [{"role": turn[1], "content": turn[2]} for turn in found]


def _of_entry(entry: Mapping[str, Any]) -> Named:
    found, data = entry.get("id"), entry.get("bytes")
    token = entry.get("token")
    if data is None and token is None and type(found) is not int:
        raise KeyError("token")
    return Named(
        found if type(found) is int else None,
        bytes(data) if data is not None else _bytes(token or ""),
        entry["logprob"],
    )


def _bytes(text: str) -> bytes:
    """Of a token as the legacy shape writes it: what is no text stands as ``bytes:\\xe6\\x9d``."""
    if text.startswith("bytes:") and BYTES.fullmatch(inner := text.removeprefix("bytes:")):
        return bytes.fromhex(inner.replace("\\x", ""))
    return text.encode("utf-8", "surrogatepass")


def _number(value: Any) -> float:
    # What is no number goes first, and is refused where the row is read.
    return float(value) if type(value) in (float, int) else float("inf")


def _text(choice: Mapping[str, Any]) -> object:
    """What was written as a text; None where the server made something else of it, a call for instance."""
    if "text" in choice:
        return choice["text"]
    message = choice.get("message")
    if not isinstance(message, Mapping) or message.get("tool_calls") or message.get("reasoning_content"):
        return None
    return message.get("content")
