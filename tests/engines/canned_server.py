"""A test double: an HTTP server on loopback that answers each page with what a test wrote down for it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

Answer = Callable[[Any], Any]
"""From a request's body to the answer's; an answer of ``(status, body)`` has that status."""
DATA = Path(__file__).parent.parent / "data" / "servers"


@dataclass(slots=True)
class Canned:
    """A running double; ``pages`` may be changed while it runs."""

    pages: dict[str, Any]
    url: str = ""
    asked: list[tuple[str, Any]] = field(default_factory=list)
    """Path and body of each POST, in order."""

    def bodies(self, path: str) -> list[Any]:
        return [body for asked, body in self.asked if asked == path]


@contextmanager
def answering(pages: Mapping[str, Any]) -> Iterator[Canned]:
    """``pages``: by path a body, or an ``Answer``; any other page is a 404."""
    state = Canned(dict(pages))

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # head and body in one packet: apart, the second waits for the first to be acknowledged

        def log_message(self, *_: object) -> None:
            pass

        def do_GET(self) -> None:
            self._answer(None)

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            state.asked.append((self.path, body))
            self._answer(body)

        def _answer(self, body: Any) -> None:
            page = state.pages.get(self.path, (404, {"error": "no such page"}))
            found = page(body) if callable(page) else page
            status, found = found if isinstance(found, tuple) else (200, found)
            content = json.dumps(found).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http.daemon_threads = True
    state.url = f"http://127.0.0.1:{http.server_address[1]}"
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield state
    finally:
        http.shutdown()
        http.server_close()
        thread.join(timeout=10)


def recorded(dialect: str, name: str) -> Any:
    """The answer of a real server."""
    return json.loads((DATA / dialect / f"{name}.json").read_text("utf-8"))["response"]


def tokenizer_folder(folder: Path, size: int, *, named: Mapping[int, str] | None = None) -> Path:
    """A folder with a ``tokenizer.json`` of byte-level BPE: ``named`` tokens as BPE writes them, fillers elsewhere."""
    named = named or {}
    vocabulary = {named.get(token, f"<{token}>"): token for token in range(size)}
    content = {
        "model": {"type": "BPE", "vocab": vocabulary, "merges": []},
        "pre_tokenizer": {"type": "ByteLevel"},
        "added_tokens": [],
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokenizer.json").write_text(json.dumps(content, ensure_ascii=False), "utf-8")
    return folder
