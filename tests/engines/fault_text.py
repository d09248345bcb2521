"""Faces that take texts, over the made-up model of ``fault_server``: OpenAI's two, TGI's and mlx_lm.server's.

Pages and fields are those that the interfaces document; of mlx_lm.server those that a real one sent.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tests.engines.fault_server import SIZE, Fault, FaultServer, Handler, Listed, Refused, running, spoiled

NAMED = {60: "<|im_start|>", 61: "<|im_end|>", 62: "\n", 63: "!"}
PIECES = re.compile(r"<\|im_(?:start|end)\|>|.", re.DOTALL)
FACES = ("completions", "chat", "tgi", "mlx")
UNKNOWN = "\u00e9"
"""Of an id that the dictionary does not have."""


def text_of(token: int) -> str:
    return NAMED.get(token) or (chr(64 + token) if token < SIZE else UNKNOWN)


IDS = {text_of(token): token for token in range(SIZE)}


def read(text: str) -> list[int]:
    return [IDS[piece] for piece in PIECES.findall(text)]


@dataclass
class TextFaultServer(FaultServer):
    face: str = "completions"


@contextmanager
def serving_text(face: str, **changed: Any) -> Iterator[TextFaultServer]:
    """A running server; ``url`` says where."""
    with running(TextFaultServer(face=face, **changed), TextHandler) as state:
        yield state


class TextHandler(Handler):
    server_state: TextFaultServer

    def page(self, path: str) -> Any:
        state = self.server_state
        if state.face == "tgi":
            return {"model_id": state.served, "version": state.version} if path == "/info" else None
        return super().page(path) if path == "/v1/models" else None

    def aside(self, path: str, body: dict[str, Any]) -> Any | None:
        return None

    def scored(self, path: str, body: dict[str, Any], fault: Fault | None) -> dict[str, Any]:
        face = self.server_state.face
        paths = {"tgi": "/generate", "chat": "/v1/chat/completions"}
        if path != paths.get(face, "/v1/completions"):
            raise Refused("no such page")
        return getattr(self, f"as_{face}")(body, fault)

    def rows_of(self, text: str, count: int, top_k: int, fault: Fault | None) -> tuple[list[int], list[Listed | None]]:
        """What it read, and a row for each token that it writes."""
        prompt = read(text)
        if fault is not None and fault.kind == "other_request":
            prompt = [(token + 1) % SIZE for token in prompt]
        written = self.server_state.model.greedy(prompt, count)
        rows = spoiled(self.rows([*prompt, *written], top_k, first=len(prompt)), fault)
        if fault is not None and fault.kind == "wrong_ids":
            rows[count // 2] = Listed((rows[count // 2].own + 1) % SIZE, rows[count // 2].entries)
        return prompt, rows

    def usage(self, read_tokens: list[int], rows: list, fault: Fault | None) -> Any:
        if fault is not None and fault.kind == "usage":
            return fault.value
        return {"prompt_tokens": len(read_tokens), "completion_tokens": len(rows)}

    def openai(self, choice: dict[str, Any], usage: Any) -> dict[str, Any]:
        state = self.server_state
        choice |= {"index": 0, "finish_reason": "length"}
        return {"model": state.served, "system_fingerprint": state.version, "choices": [choice], "usage": usage}

    def as_completions(self, body: dict[str, Any], fault: Fault | None) -> dict[str, Any]:
        prompt, rows = self.rows_of(body["prompt"], body["max_tokens"], body["logprobs"], fault)
        names = ["" if row is None else text_of(row.own) for row in rows]
        listed = {
            "tokens": names,
            "token_logprobs": [None if row is None else row.entries[0][1] for row in rows],
            "top_logprobs": [
                None if row is None else {text_of(token): logprob for token, logprob, _ in row.entries} for row in rows
            ],
        }
        choice = {"text": "".join(names), "logprobs": None if ignored(fault) else listed}
        return self.openai(choice, self.usage(prompt, rows, fault))

    def as_chat(self, body: dict[str, Any], fault: Fault | None) -> dict[str, Any]:
        turns = [f"<|im_start|>{turn['role']}\n{turn['content']}<|im_end|>\n" for turn in body["messages"]]
        text = "".join([*turns, "<|im_start|>assistant\n"])
        prompt, rows = self.rows_of(text, body["max_tokens"], body["top_logprobs"], fault)
        content = [
            None
            if row is None
            else entry(row.own, row.entries[0][1]) | {"top_logprobs": [entry(*found[:2]) for found in row.entries]}
            for row in rows
        ]
        message = {"role": "assistant", "content": "".join("" if row is None else text_of(row.own) for row in rows)}
        choice = {"message": message, "logprobs": None if ignored(fault) else {"content": content}}
        return self.openai(choice, self.usage(prompt, rows, fault))

    def as_mlx(self, body: dict[str, Any], fault: Fault | None) -> dict[str, Any]:
        """With ``top_logprobs`` each entry bears the label of the first of its list, which is not sorted."""
        prompt, rows = self.rows_of(body["prompt"], body["max_tokens"], body.get("top_logprobs", 1), fault)
        content = []
        for row in rows:
            if row is None:
                content.append(None)
            elif "top_logprobs" in body:
                best = [{"id": token, "logprob": logprob} for token, logprob, _ in reversed(row.entries)]
                content.append({**best[0], "top_logprobs": best} if best else {"top_logprobs": best})
            else:
                content.append({"id": row.own, "logprob": row.entries[0][1] if row.entries else None})
        text = "".join("" if row is None else text_of(row.own) for row in rows)
        choice = {"text": text, "logprobs": None if ignored(fault) else {"content": content}}
        answer = self.openai(choice, self.usage(prompt, rows, fault))
        return answer | {"model": body["model"] if self.server_state.served == "made-up" else self.server_state.served}

    def as_tgi(self, body: dict[str, Any], fault: Fault | None) -> dict[str, Any]:
        asked = body["parameters"]
        prompt, rows = self.rows_of(body["inputs"], asked["max_new_tokens"], asked["top_n_tokens"], fault)
        if ignored(fault):
            return {"generated_text": ""}
        before = [] if self.usage(prompt, rows, fault) is None else prompt
        if fault is not None and fault.kind == "usage" and fault.value:
            before = [63, *prompt]
        details = {
            "finish_reason": "length",
            "prefill": [{"id": token, "text": text_of(token), "logprob": None} for token in before],
            "tokens": [None if row is None else tgi_entry(row.own, row.entries[0][1]) for row in rows],
            "top_tokens": [
                None if row is None else [tgi_entry(token, logprob) for token, logprob, _ in row.entries]
                for row in rows
            ],
        }
        return {"generated_text": "", "details": details}


def ignored(fault: Fault | None) -> bool:
    return fault is not None and fault.kind == "ignored"


def entry(token: int, logprob: Any) -> dict[str, Any]:
    return {"token": text_of(token), "bytes": list(text_of(token).encode()), "logprob": logprob}


def tgi_entry(token: int, logprob: Any) -> dict[str, Any]:
    return {"id": token, "text": text_of(token), "logprob": logprob, "special": False}
