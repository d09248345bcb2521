"""The pages' HTML, told where their server is."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

SAYS_WHERE = b'<script>window.__streamlit = {BACKEND_BASE_URL: new URL("./", location.href).href}</script>'
"""The folder of a page's address, from which its scripts come as well, behind a proxy with a prefix too."""
_AFTER = b"<head>"
_ABOUT_THE_FILE = (b"content-length", b"etag", b"last-modified")


class Rooted:
    """Middleware that adds :data:`SAYS_WHERE` to every page.

    Streamlit's script otherwise takes a link such as ``/ranges`` for the server's own folder first. It asks there for
    the server's state, gets two answers 404, which the browser's console shows as errors, and only then asks at the
    root: a visitor with a link waits for that.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on what is no visit of a page."""
        if scope["type"] != "http" or scope["method"] != "GET" or not _wants_a_page(scope):
            await self.app(scope, receive, send)
            return
        plain = [(name, value) for name, value in scope["headers"] if name != b"accept-encoding"]
        start: Message | None = None
        parts: list[bytes] = []

        async def gather(message: Message) -> None:
            nonlocal start
            if message["type"] == "http.response.start" and _is_html(message):
                start = message
            elif message["type"] == "http.response.body" and start is not None:
                parts.append(message.get("body", b""))
                if not message.get("more_body", False):
                    await _send_page(send, start, b"".join(parts))
            else:
                await send(message)

        await self.app({**scope, "headers": plain}, receive, gather)


def _wants_a_page(scope: Scope) -> bool:
    return any(name == b"accept" and value.startswith(b"text/html") for name, value in scope["headers"])


def _is_html(start: Message) -> bool:
    types = [value for name, value in start["headers"] if name.lower() == b"content-type"]
    return start["status"] == 200 and bool(types) and types[0].startswith(b"text/html")


async def _send_page(send: Send, start: Message, page: bytes) -> None:
    said = page.replace(_AFTER, _AFTER + SAYS_WHERE, 1)
    # What names the file's state would let a browser keep a page of another version.
    kept = [(name, value) for name, value in start["headers"] if name.lower() not in _ABOUT_THE_FILE]
    kept.append((b"content-length", str(len(said)).encode()))
    await send({**start, "headers": kept})
    await send({"type": "http.response.body", "body": said})
