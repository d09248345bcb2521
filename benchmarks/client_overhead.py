"""What the client of a server costs beside the server's own time, at K = 20 and K = 200.

The server is a real vLLM where ``DRIFT_VLLM_URL`` names one. Otherwise it is a page on loopback that hands out one body
of that size: then its time says nothing of a real one, and stands here to show what the client alone can take.

The server's time is what passes between the sending of a request and the last byte of its answer, on this client's
clock. All else is the client's: reading the JSON, the checks of the rows, and asking whether the model is the same.
"""

from __future__ import annotations

import json
import math
import os
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from drift_runs.engines.base import EngineSettings
from drift_runs.engines.openai_server.transport import Reply
from drift_runs.engines.openai_server.vllm import COMPLETIONS, VLLM
from drift_runs.machine import Place

URL_VARIABLE = "DRIFT_VLLM_URL"
DICTIONARY = 49_152
TOKENS = 512
TOP_KS = (20, 200)
REPEATS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientOverhead:
    """Seconds over ``windows`` windows of ``positions`` positions each."""

    top_k: int
    positions: int
    windows: int
    all_s: float
    server_s: float
    """From the sending of the scoring request to its last byte."""
    decode_s: float
    size_bytes: int
    """Of one answer."""

    @property
    def overhead(self) -> float:
        """The client's seconds over the server's."""
        return (self.all_s - self.server_s) / self.server_s

    @property
    def decode_share(self) -> float:
        """JSON decoding over all that passed."""
        return self.decode_s / self.all_s

    def line(self) -> str:
        rate = self.positions * self.windows / self.all_s
        server = self.positions * self.windows / self.server_s
        return (
            f"K = {self.top_k:3}: {rate:8.0f} positions/s, the server alone {server:8.0f}; client over server "
            f"{self.overhead:6.1%}, JSON decoding {self.decode_share:5.1%} of all, "
            f"{self.size_bytes / 1e6:5.2f} MB a window"
        )


class Timed:
    """Keeps what each scoring request took, as the transport reports it."""

    def __init__(self, engine: VLLM) -> None:
        self.replies: list[Reply] = []
        post = engine.transport.post

        def timed(path: str, body: dict[str, Any]) -> Reply:
            reply = post(path, body)
            if path == COMPLETIONS:
                self.replies.append(reply)
            return reply

        engine.transport.post = timed  # type: ignore[method-assign]


def measure(url: str, top_k: int, *, windows: int = REPEATS, tokens: int = TOKENS) -> ClientOverhead:
    settings = EngineSettings(
        path_shape="prefill",
        context_tokens=tokens,
        batch=tokens,
        micro_batch=tokens,
        threads=1,
        kv="auto",
        flash_attention="auto",
    )
    stream = [random.Random(7).randrange(1, 40_000) for _ in range(tokens)]
    with VLLM(Place(url=url), settings, dictionary_size=DICTIONARY) as engine:
        timed = Timed(engine)
        positions = range(1, tokens)
        list(engine.score_listed(stream, positions, top_k=top_k))  # the first request warms the server
        timed.replies.clear()
        started = time.perf_counter()
        for _ in range(windows):
            list(engine.score_listed(stream, positions, top_k=top_k))
        all_s = time.perf_counter() - started
    return ClientOverhead(
        top_k=top_k,
        positions=len(positions),
        windows=windows,
        all_s=all_s,
        server_s=sum(reply.seconds for reply in timed.replies),
        decode_s=sum(reply.decode_s for reply in timed.replies),
        size_bytes=timed.replies[0].size_bytes,
    )


def answer(prompt: list[int], top_k: int) -> bytes:
    """A body as vLLM writes it: K entries and the text's own token a position, each with its rank and its text."""
    draw = random.Random(1)
    rows: list[dict[str, Any] | None] = [None]
    for token in prompt[1:]:
        others = draw.sample([*range(40_000, DICTIONARY)], top_k)
        values = sorted((math.log(0.9 / top_k) - draw.random() for _ in others), reverse=True)
        row = {str(token): {"logprob": -15.2 - draw.random(), "rank": 3429, "decoded_token": " text"}}
        row |= {
            str(other): {"logprob": value, "rank": rank, "decoded_token": " text"}
            for rank, (other, value) in enumerate(zip(others, values, strict=True), start=1)
        }
        rows.append(row)
    choice = {"index": 0, "text": "", "finish_reason": "length", "logprobs": None, "prompt_logprobs": rows}
    usage = {"prompt_tokens": len(prompt), "completion_tokens": 1}
    return json.dumps({"model": "made-up", "choices": [choice | {"prompt_token_ids": prompt}], "usage": usage}).encode()


@contextmanager
def bodies() -> Iterator[str]:
    """A page on loopback that hands out such bodies, each made once."""
    made: dict[tuple[int, int], bytes] = {}

    class Page(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def log_message(self, *_: object) -> None:
            pass

        def do_GET(self) -> None:
            self.send(b'{"data":[{"id":"made-up"}]}' if self.path == "/v1/models" else b'{"version":"0"}')

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            asked = (len(body["prompt"]), body["prompt_logprobs"])
            if asked not in made:
                made[asked] = answer(body["prompt"], body["prompt_logprobs"])
            self.send(made[asked])

        def send(self, content: bytes) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    http = ThreadingHTTPServer(("127.0.0.1", 0), Page)
    thread = threading.Thread(target=http.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{http.server_address[1]}"
    finally:
        http.shutdown()
        http.server_close()
        thread.join()


def main() -> None:
    url = os.environ.get(URL_VARIABLE, "")
    if url:
        print(f"a real server, {TOKENS} tokens a window, {REPEATS} windows")
        for top_k in TOP_KS:
            print(measure(url, top_k).line(), flush=True)
        return
    print(f"bodies on loopback ({URL_VARIABLE} names no server), {TOKENS} tokens a window, {REPEATS} windows")
    with bodies() as page:
        for top_k in TOP_KS:
            print(measure(page, top_k).line(), flush=True)
