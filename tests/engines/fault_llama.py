"""The face of llama.cpp's server over the made-up model of ``fault_server``: one slot with its cache, and every fault.

Pages, fields and refusals are those that the server in the wheel xllamacpp 2026.10.11549 sent.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.engines.fault_server import SIZE, Fault, FaultServer, Handler, Listed, Refused, running, spoiled

BEFORE_EVALUATION = ("status", "refusal")
"""Faults that come instead of an evaluation: the slot's cache stays as it was."""


@dataclass
class LlamaFaultServer(FaultServer):
    """With a slot. Of the base's ``border`` it knows ``lost`` alone: a token of the history is lost there."""

    held: list[int] = field(default_factory=list)
    """What the slot's cache holds."""
    answers: list[dict[str, Any]] = field(default_factory=list)
    """Added to the next answers, one each: ``truncated``, ``id_slot`` and the like."""


@contextmanager
def serving_llama(**changed: Any) -> Iterator[LlamaFaultServer]:
    """A running server; ``url`` says where."""
    with running(LlamaFaultServer(**changed), LlamaHandler) as state:
        yield state


class LlamaHandler(Handler):
    server_state: LlamaFaultServer

    def page(self, path: str) -> Any:
        state = self.server_state
        pages: dict[str, Any] = {
            "/health": {"status": "ok"},
            "/v1/models": {"object": "list", "data": [{"id": state.served, "meta": {"n_vocab": SIZE}}]},
            "/props": {
                "default_generation_settings": {"n_ctx": state.context, "params": {"speculative.types": "none"}},
                "total_slots": 1,
                "model_path": f"{state.root}.gguf",
                "model_ftype": "F16",
                "build_info": state.version,
                "chat_template": "",
            },
            "/lora-adapters": [],
        }
        return pages.get(path)

    def aside(self, path: str, body: dict[str, Any]) -> Any | None:
        if path == "/tokenize":
            return {"tokens": [ord(letter) % SIZE for letter in body["content"]]}
        if path == "/detokenize":
            return {"content": "".join(map(letter_of, body["tokens"]))}
        return None

    def scored(self, path: str, body: dict[str, Any], fault: Fault | None) -> dict[str, Any]:
        if path == "/v1/completions":  # it takes echo, and ignores it
            content = [{"id": token, "logprob": -1.0, "top_logprobs": []} for token in body["prompt"][-1:]]
            return {"model": self.server_state.served, "choices": [{"text": "", "logprobs": {"content": content}}]}
        return self.completed(body, fault)

    def completed(self, body: dict[str, Any], fault: Fault | None) -> dict[str, Any]:
        """``/completion``: a row for each token that is written."""
        state, prompt, kind = self.server_state, list(body["prompt"]), "" if fault is None else fault.kind
        if kind == "other_request":
            prompt = [(token + 1) % SIZE for token in prompt]
        if len(prompt) >= state.context:
            raise Refused(
                f"request ({len(prompt)} tokens) exceeds the available context size ({state.context} tokens), "
                "try increasing it"
            )
        if any(not 0 <= token < SIZE for token in prompt):
            raise Refused("Prompt contains invalid tokens")
        reused = self.reused(prompt) if body.get("cache_prompt", True) else 0
        history = prompt
        if state.border == "lost" and state.chunk_tokens and len(prompt) - reused > state.chunk_tokens:
            history = [*prompt[: state.chunk_tokens], *prompt[state.chunk_tokens + 1 :]]
        written = state.model.greedy(history, min(body["n_predict"], state.context - len(prompt)))
        ended = state.end_token in written
        if ended:
            written = written[: written.index(state.end_token) + 1]
        if kind not in BEFORE_EVALUATION:
            state.held = [*prompt, *written[:-1]]
        rows = spoiled(self.rows([*history, *written], body["n_probs"], first=len(history)), fault)
        if kind == "wrong_ids":
            rows = [Listed((row.own + 1) % SIZE, row.entries) for row in rows]
        answer: dict[str, Any] = {
            "id_slot": body["id_slot"],
            "model": state.served,
            "tokens": written,
            "tokens_predicted": len(written),
            "tokens_evaluated": len(prompt),
            "tokens_cached": len(state.held),
            "truncated": False,
            "stop_type": "eos" if ended else "limit",
            "timings": {"cache_n": reused, "prompt_n": len(prompt) - reused},
            "completion_probabilities": [None if row is None else entry_of(row) for row in rows],
        }
        if kind == "ignored":
            del answer["completion_probabilities"]
        if state.answers:
            answer |= state.answers.pop(0)
        if "error" in answer:
            return answer
        return {name: answer[name] for name in body.get("response_fields", answer) if name in answer}

    def reused(self, prompt: list[int]) -> int:
        """Tokens that the cache holds of it; the last is evaluated anyhow."""
        held = self.server_state.held
        same = next((at for at, pair in enumerate(zip(held, prompt, strict=False)) if pair[0] != pair[1]), len(held))
        return min(same, len(prompt) - 1)


def entry_of(row: Listed) -> dict[str, Any]:
    """The text's own token stands before the list, which has it too."""
    told = next((logprob for token, logprob, _ in row.entries if token == row.own), row.entries[0][1])
    return {
        "id": row.own,
        "token": letter_of(row.own),
        "bytes": list(letter_of(row.own).encode()),
        "logprob": told,
        "top_logprobs": [
            {"id": token, "token": letter_of(token), "bytes": list(letter_of(token).encode()), "logprob": logprob}
            for token, logprob, _ in row.entries
        ],
    }


def letter_of(token: int) -> str:
    return chr(64 + token)
