"""A test double: a server on loopback that answers like vLLM or SGLang over a made-up model, and breaks as it is told.

``fault_llama`` answers like llama.cpp's server over the same model, with the same faults.

The made-up model's distribution is known in closed form: behind a history, the entry of rank r has probability
2^-(r+1) / (1 - 2^-V). So a test knows every right number without asking the server.
"""

from __future__ import annotations

import json
import math
import socket
import struct
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeVar

SIZE = 64
LN_REST = math.log1p(-(2.0**-SIZE))
MODEL = "made-up"


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeUp:
    """A model of 64 tokens; ``salt`` makes it another one."""

    salt: int = 0

    def best(self, history: Sequence[int]) -> list[int]:
        """All ids, the most probable first. Depends on the length, the last token and the one before it."""
        shift = 3 * history[-1] + len(history) + self.salt + (5 * history[-2] if len(history) > 1 else 0)
        inverse = pow(7, -1, SIZE)
        return [(rank - shift) * inverse % SIZE for rank in range(SIZE)]

    def rank(self, history: Sequence[int], token: int) -> int:
        """1 is the best."""
        return self.best(history).index(token) + 1

    @staticmethod
    def logprob(rank: int) -> float:
        """Of the entry of that rank, 1 is the best."""
        return -rank * math.log(2.0) - LN_REST

    def greedy(self, history: Sequence[int], count: int) -> list[int]:
        tokens = list(history)
        for _ in range(count):
            tokens.append(self.best(tokens)[0])
        return tokens[len(history) :]


@dataclass(slots=True)
class Listed:
    """One row of an answer, before it is spoiled and written."""

    own: int
    entries: list[tuple[int, Any, int]]
    """(id, log-probability, rank); the own token first, as vLLM does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What goes wrong, and when. ``kind`` is a method of ``Spoiled`` or of ``Handler``."""

    kind: str
    value: Any = None
    after: int = 0
    """Right answers before it."""
    times: int | None = None
    """Answers that it spoils; None: all."""


def spoiled(rows: list[Listed | None], fault: Fault | None) -> list[Listed | None]:
    """``rows`` as the fault leaves them; one of another kind leaves them whole."""
    how = None if fault is None else getattr(Spoiled, fault.kind, None)
    if fault is None or how is None:
        return rows
    at = next(index for index in range(len(rows) // 2, len(rows)) if rows[index] is not None)
    return how(rows, at, fault.value)


class Spoiled:
    """Faults inside an answer that is well-formed otherwise."""

    @staticmethod
    def value(rows: list, at: int, value: Any) -> list:
        """One log-probability of one row: null, NaN, a text, a number that is too large."""
        token, _, rank = rows[at].entries[-1]
        rows[at].entries[-1] = (token, value, rank)
        return rows

    @staticmethod
    def own_value(rows: list, at: int, value: Any) -> list:
        token, _, rank = rows[at].entries[0]
        rows[at].entries[0] = (token, value, rank)
        return rows

    @staticmethod
    def null_row(rows: list, at: int, value: Any) -> list:
        rows[at] = None
        return rows

    @staticmethod
    def missing_entry(rows: list, at: int, value: Any) -> list:
        rows[at].entries = rows[at].entries[:1]
        return rows

    @staticmethod
    def own_entry_missing(rows: list, at: int, value: Any) -> list:
        rows[at].entries = rows[at].entries[1:]
        return rows

    @staticmethod
    def extra_entries(rows: list, at: int, value: Any) -> list:
        there = {token for token, _, _ in rows[at].entries}
        more = [(token, -40.0, 0) for token in range(SIZE) if token not in there][:2]
        rows[at].entries += more
        return rows

    @staticmethod
    def outside(rows: list, at: int, value: Any) -> list:
        _, logprob, rank = rows[at].entries[-1]
        rows[at].entries[-1] = (SIZE + 9, logprob, rank)
        return rows

    @staticmethod
    def missing_row(rows: list, at: int, value: Any) -> list:
        return rows[:at] + rows[at + 1 :]

    @staticmethod
    def extra_row(rows: list, at: int, value: Any) -> list:
        return [*rows[:at], rows[at], *rows[at:]]

    @staticmethod
    def _every(rows: list, change: Any) -> list:
        for row in rows:
            if row is not None:
                row.entries = [change(*entry) for entry in row.entries]
        return rows

    @staticmethod
    def logits(rows: list, at: int, value: Any) -> list:
        return Spoiled._every(rows, lambda token, logprob, rank: (token, logprob + 22.875, rank))

    @staticmethod
    def zeros(rows: list, at: int, value: Any) -> list:
        return Spoiled._every(rows, lambda token, logprob, rank: (token, 0.0, rank))

    @staticmethod
    def one_hot(rows: list, at: int, value: Any) -> list:
        return Spoiled._every(rows, lambda token, logprob, rank: (token, 0.0 if rank == 1 else -9999.0, rank))


CONNECTION = ("hang", "reset", "die", "status", "cut", "truncated", "not_json", "refusal")


@dataclass
class FaultServer:
    """What the server is, what it was asked, and what it does wrong. Changed by the test while it runs."""

    model: MadeUp = MadeUp()
    served: str = MODEL
    root: str = "models/made-up"
    version: str = "0.0.made-up"
    context: int = 4096
    faults: list[Fault] = field(default_factory=list)
    knows: set[str] = field(default_factory=lambda: {"prompt_logprobs", "echo", "return_token_ids", "named"})
    """What it does not know it ignores with status 200, as real servers do."""
    refuses: set[str] = field(default_factory=set)
    """What it refuses with status 400."""
    most_logprobs: int = SIZE
    chunk_tokens: int | None = None
    """Tokens of a prompt that are evaluated at once; None: all."""
    border: str = ""
    """What becomes of a prompt's rows at the border of a chunk: ``lost``, there ``twice``, ``stale`` (the row before
    once more), or ``moved`` by one from there on."""
    penalises: bool = False
    """The rows that it tells, prompts' too, are behind its penalties: tokens of the history fall to the end."""
    delay_s: float = 0.0
    recorded: dict[str, bytes] = field(default_factory=dict)
    """Whole answers by path, given instead of the made-up model's."""
    end_token: int | None = None
    cache_dtype: str = "auto"
    swap_after: int | None = None
    """Answers after which another model answers under the same name."""
    url: str = ""
    requests: list[tuple[str, Any]] = field(default_factory=list)
    """(path, body) of every scoring request, in the order of arrival."""
    headers: list[dict[str, str]] = field(default_factory=list)
    at_once: int = 0
    most_at_once: int = 0
    answered: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)
    released: threading.Event = field(default_factory=threading.Event)
    """Ends every ``hang``."""
    _http: ThreadingHTTPServer | None = None

    def fault(self) -> Fault | None:
        """The fault of the next answer."""
        with self.lock:
            if self.answered == self.swap_after:
                self.model = MadeUp(salt=17)
            self.answered += 1
            for index, fault in enumerate(self.faults):
                if fault.after >= self.answered or fault.times == 0:
                    continue
                if fault.times is not None:
                    self.faults[index] = replace(fault, times=fault.times - 1)
                return fault
        return None

    def enter(self, path: str, body: Any) -> None:
        with self.lock:
            self.requests.append((path, body))
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)

    def leave(self) -> None:
        with self.lock:
            self.at_once -= 1

    def die(self) -> None:
        """No connection is taken any more, and those that stand are dropped."""
        assert self._http is not None
        threading.Thread(target=self._http.shutdown).start()
        self._http.socket.close()


State = TypeVar("State", bound=FaultServer)


@contextmanager
def serving(**changed: Any) -> Iterator[FaultServer]:
    """A running server; ``url`` says where."""
    with running(FaultServer(**changed), Handler) as state:
        yield state


@contextmanager
def running(state: State, handler: type[Handler]) -> Iterator[State]:
    """The server of ``state``, its pages those of ``handler``."""

    class Bound(handler):
        server_state = state

    http = _Quiet(("127.0.0.1", 0), Bound)
    state._http = http
    state.url = f"http://127.0.0.1:{http.server_address[1]}"
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield state
    finally:
        state.released.set()
        http.shutdown()
        http.server_close()
        thread.join(timeout=10)


class _Quiet(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that gave up is part of the tests, and no traceback."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else each answer waits 40 ms for the client to confirm its head
    server_state: FaultServer
    penalised = False
    """Whether penalties change the rows of this answer."""

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        content = self.page(self.path)
        if content is None:
            self.answer({"error": {"message": "no such page"}}, status=404)
        elif isinstance(content, bytes):
            self.send(200, content)
        else:
            self.answer(content)

    def do_POST(self) -> None:
        state = self.server_state
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        state.headers.append(dict(self.headers))
        if self.path not in state.recorded and (said := self.aside(self.path, body)) is not None:
            self.answer(said)
            return
        self.penalised = state.penalises and penalised(body)
        state.enter(self.path, body)
        fault = state.fault()
        try:
            if state.delay_s:
                time.sleep(state.delay_s)
            content = state.recorded.get(self.path) or json.dumps(self.scored(self.path, body, fault)).encode()
        except Refused as refused:
            state.leave()
            self.answer({"error": {"message": str(refused), "code": 400}}, status=400)
            return
        if fault is not None and fault.kind in CONNECTION:
            try:
                getattr(self, fault.kind)(fault, content)
            finally:
                state.leave()
            return
        state.leave()
        self.send(200, content)

    def page(self, path: str) -> Any:
        """What a GET gives, bytes as they are; None: there is no such page."""
        state = self.server_state
        if path == "/v1/models":
            # The time is new each time, as in a real server: no sign of another model.
            card = {"id": state.served, "root": state.root, "created": time.time(), "max_model_len": state.context}
            return {"object": "list", "data": [card]}
        if path == "/version":
            return {"version": state.version}
        if path == "/metrics":
            return b'vllm:cache_config_info{block_size="16",cache_dtype="%b"} 1.0\n' % state.cache_dtype.encode()
        return None

    def aside(self, path: str, body: dict[str, Any]) -> Any | None:
        """The answer to a request that no fault spoils; None where it is one of scoring."""
        return {"tokens": [ord(letter) % SIZE for letter in body["prompt"]]} if path == "/tokenize" else None

    def scored(self, path: str, body: dict[str, Any], fault: Fault | None) -> dict[str, Any]:
        return (self.generate if path == "/generate" else self.completion)(body, fault)

    def completion(self, body: dict[str, Any], fault: Fault | None) -> dict[str, Any]:
        """vLLM's ``/v1/completions``."""
        state = self.server_state
        prompt: list[int] = body["prompt"]
        if fault is not None and fault.kind == "other_request":
            prompt = [(token + 1) % SIZE for token in prompt]
        for name in ("prompt_logprobs", "echo", "logprob_token_ids"):
            if name in body and name in state.refuses:
                raise Refused(f"{name} is not supported")
        most = max(body.get("prompt_logprobs") or 0, body.get("logprobs") or 0)
        if most > state.most_logprobs:
            raise Refused(f"Requested logprobs of {most}, which is greater than max allowed: {state.most_logprobs}")
        if body["max_tokens"] < 1 and not body.get("echo"):
            raise Refused("max_tokens must be at least 1, got 0.")
        if len(prompt) + body["max_tokens"] > state.context:
            raise Refused(f"This model's maximum context length is {state.context} tokens.")
        written = state.model.greedy(prompt, body["max_tokens"])
        ended = state.end_token in written
        if ended:
            written = written[: written.index(state.end_token) + 1]
        ignored = fault is not None and fault.kind == "ignored"
        echoed = [*prompt]
        if fault is not None and fault.kind == "wrong_ids":
            echoed[len(echoed) // 2] = (echoed[len(echoed) // 2] + 1) % SIZE
        choice: dict[str, Any] = {"index": 0, "text": "", "finish_reason": "stop" if ended else "length"}
        if body.get("return_token_ids") and "return_token_ids" in state.knows:
            choice |= {"token_ids": written, "prompt_token_ids": echoed}
        choice["prompt_logprobs"] = choice["logprobs"] = None
        if "prompt_logprobs" in body and "prompt_logprobs" in state.knows and not ignored:
            rows = spoiled(self.prompt_rows(prompt, body["prompt_logprobs"]), fault)
            choice["prompt_logprobs"] = [
                None
                if row is None
                else {str(token): {"logprob": logprob, "rank": rank} for token, logprob, rank in row.entries}
                for row in rows
            ]
        if body.get("logprobs") is not None and not ignored:
            echo = bool(body.get("echo")) and "echo" in state.knows
            named = body.get("logprob_token_ids") if "named" in state.knows else None
            first = 0 if echo else len(prompt)
            rows = spoiled(self.rows([*prompt, *written], body["logprobs"], first=first, named=named), fault)
            choice["logprobs"] = self.legacy(rows, echoed if echo else written)
        usage = {"prompt_tokens": len(prompt), "completion_tokens": len(written)}
        return {"model": state.served, "system_fingerprint": state.version, "choices": [choice], "usage": usage}

    def generate(self, body: dict[str, Any], fault: Fault | None) -> dict[str, Any]:
        """SGLang's ``/generate``: lists of [log-probability, id, text] from ``logprob_start_len`` on."""
        prompt: list[int] = body["input_ids"]
        kind = "" if fault is None else fault.kind
        if kind == "other_request":
            prompt = [(token + 1) % SIZE for token in prompt]
        written = self.server_state.model.greedy(prompt, body["sampling_params"]["max_new_tokens"])
        told: dict[str, Any] = {"prompt_tokens": len(prompt), "finish_reason": {"type": "length"}}
        if kind == "ignored":
            return {"text": "", "meta_info": told}
        start, top_k = body["logprob_start_len"], body["top_logprobs_num"]
        if start < 0:
            rows = self.rows([*prompt, *written], top_k, first=len(prompt))
        else:
            rows = self.prompt_rows(prompt, top_k)[start:]
        side = "output" if start < 0 else "input"
        rows = spoiled([None, *rows[1:]] if start >= 0 else rows[: len(written)], fault)
        owns = [prompt[start] if row is None else row.own for row in rows]
        if kind == "wrong_ids":
            owns[len(owns) // 2] = (owns[len(owns) // 2] + 1) % SIZE
        told[f"{side}_token_logprobs"] = [
            [None if row is None else row.entries[0][1], own, None] for row, own in zip(rows, owns, strict=True)
        ]
        told[f"{side}_top_logprobs"] = [
            None if row is None else [[logprob, token, None] for token, logprob, rank in row.entries if rank <= top_k]
            for row in rows
        ]
        if "token_ids_logprob" in body:
            first = len(prompt) if start < 0 else start
            count = len(written) if start < 0 else len(prompt) - start
            named = self.rows([*prompt, *written], 0, first=first, named=body["token_ids_logprob"])[:count]
            told[f"{side}_token_ids_logprobs"] = [
                None
                if row is None or (start >= 0 and at == 0)
                else [[logprob, token, None] for token, logprob, _ in row.entries if token in body["token_ids_logprob"]]
                for at, row in enumerate(named)
            ]
        return {"text": "", "meta_info": told}

    def prompt_rows(self, prompt: Sequence[int], top_k: int) -> list[Listed | None]:
        """A row a token, put together from those of the chunks as ``border`` says."""
        state = self.server_state
        rows = self.rows(prompt, top_k)
        if not state.border or state.chunk_tokens is None:
            return rows
        borders = range(state.chunk_tokens, len(rows), state.chunk_tokens)
        if state.border == "lost":
            return [row for at, row in enumerate(rows) if at not in borders[:1]]
        if state.border == "twice":
            return [one for at, row in enumerate(rows) for one in [row] * (1 + (at in borders[:1]))]
        wrong = borders if state.border == "stale" else range(state.chunk_tokens, len(rows))
        for at in wrong:
            # Of the history before, and the right token is looked up in it: no dialect can tell.
            rows[at] = self.row(prompt[: at - 1], prompt[at], top_k)
        return rows

    def row(self, history: Sequence[int], own: int, top_k: int, *, named: list[int] | None = None) -> Listed:
        model = self.server_state.model
        best = model.best(history)
        if self.penalised:
            best = sorted(best, key=lambda token: token in history)
        ids = [own, *(token for token in (best[:top_k] if named is None else named) if token != own)]
        ranks = {token: rank for rank, token in enumerate(best, start=1)}
        return Listed(own, [(token, model.logprob(ranks[token]), ranks[token]) for token in ids])

    def rows(
        self, tokens: Sequence[int], top_k: int, *, first: int = 0, named: list[int] | None = None
    ) -> list[Listed | None]:
        """A row a token from ``first`` on, null for the very first token."""
        rows: list[Listed | None] = [None] if first == 0 else []
        return rows + [
            self.row(tokens[:position], tokens[position], top_k, named=named)
            for position in range(max(1, first), len(tokens))
        ]

    @staticmethod
    def legacy(rows: list[Listed | None], tokens: Sequence[int]) -> dict[str, Any]:
        """The three lists of a legacy completion, tokens as ``token_id:N``; ``tokens`` name the rows that are null."""
        names = [tokens[min(at, len(tokens) - 1)] if row is None else row.own for at, row in enumerate(rows)]
        if len(tokens) > 1:  # an echo: what the server says it read
            names[: len(tokens)] = list(tokens)[: len(names)]
        return {
            "tokens": [f"token_id:{token}" for token in names],
            "token_logprobs": [None if row is None else row.entries[0][1] for row in rows],
            "top_logprobs": [
                None if row is None else {f"token_id:{token}": logprob for token, logprob, _ in row.entries}
                for row in rows
            ],
        }

    def answer(self, body: Any, *, status: int = 200) -> None:
        self.send(status, json.dumps(body).encode())

    def send(self, status: int, content: bytes, *, length: int | None = None, **headers: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content) if length is None else length))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(content)
        self.wfile.flush()

    def hang(self, fault: Fault, content: bytes) -> None:
        self.server_state.released.wait(timeout=60)
        self.close_connection = True

    def reset(self, fault: Fault, content: bytes) -> None:
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()
        self.close_connection = True

    def die(self, fault: Fault, content: bytes) -> None:
        self.server_state.die()
        self.reset(fault, content)

    def status(self, fault: Fault, content: bytes) -> None:
        status, wait = fault.value if isinstance(fault.value, tuple) else (fault.value, None)
        body = json.dumps({"error": {"message": f"made-up status {status}"}}).encode()
        self.send(status, body, **({} if wait is None else {"Retry_After": wait}))

    def refusal(self, fault: Fault, content: bytes) -> None:
        self.answer(fault.value, status=400)

    def cut(self, fault: Fault, content: bytes) -> None:
        """The connection ends before the answer does."""
        self.send(200, content[: len(content) // 2], length=len(content))
        self.connection.shutdown(socket.SHUT_RDWR)
        self.close_connection = True

    def truncated(self, fault: Fault, content: bytes) -> None:
        """Half of an answer, sent as a whole one."""
        self.send(200, content[: len(content) // 2])

    def not_json(self, fault: Fault, content: bytes) -> None:
        self.send(200, b"<html><body>Bad gateway</body></html>")


def penalised(body: Any) -> bool:
    """Whether a request asks for penalties, by any name that a server has for them."""
    asked = body.get("sampling_params", body)
    repeated = [asked.get(name, 1) for name in ("repetition_penalty", "repeat_penalty")]
    return repeated != [1, 1] or bool(asked.get("presence_penalty") or asked.get("frequency_penalty"))


class Refused(Exception):
    """Status 400."""
