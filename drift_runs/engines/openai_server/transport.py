"""Sends requests to one server, a few at a time, and tries again what failed by chance.

The client's own retries are off: a request that is sent twice is counted here, and no caller measures a wait that it
does not see. What comes back is JSON or a ``ServerError``; what the JSON means is for the dialects to say.

What is tried again: a connection that failed or broke, a time-out (once), and the statuses 408, 425, 429 and 5xx. Any
other status is an answer, and an answer that is no JSON is a fault that asking again does not cure.
"""

from __future__ import annotations

import asyncio
import os
import random
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from drift_runs.engines.openai_server.json_body import parsed
from drift_runs.errors import ConfigError, ServerError, one_line
from drift_runs.machine import Place

if TYPE_CHECKING:
    from openai import AsyncOpenAI

LARGEST_ANSWER_BYTES = 1 << 30
"""An answer is held whole while it is read. A window of 4,096 tokens at K = 1,000 is about 300 MB."""
KEPT_ALIVE_S = 2.0
"""Servers drop an idle connection after some five seconds; ours goes first, so that no request meets a closing one."""
MESSAGE_CHARS = 300
SAFE = "windows that were finished are safe on disk; put the server right and run the same command again"
"""What every fault of a server says at its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """How often and how long a request waits before it is sent again."""

    tries: int = 6
    """Sendings of one request, the first among them."""
    timeouts: int = 2
    """Sendings that may end in a time-out: each has waited as long as the owner of the machine allows."""
    first_s: float = 0.5
    longest_s: float = 30.0
    longest_asked_s: float = 120.0
    """Longest wait that a server may ask for by ``Retry-After``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One answer, read to its last byte."""

    status: int
    body: Any
    """Parsed JSON: a dict or a list."""
    seconds: float
    """From the sending of the request that succeeded to its last byte."""
    decode_s: float
    size_bytes: int
    retries: int
    """How often this request was sent before."""


class _Raw(NamedTuple):
    status: int
    content: bytes
    seconds: float
    retries: int


class _Again(Exception):
    """A sending failed in a way that another may not."""

    def __init__(self, what: str, *, status: int | None = None, asked_s: float | None = None, timed_out: bool = False):
        super().__init__(what)
        self.status = status
        self.asked_s = asked_s
        self.timed_out = timed_out


class Transport:
    """A connection to one server. Its callers are synchronous; the requests run on a thread of its own."""

    def __init__(
        self,
        place: Place,
        *,
        clock: Callable[[], float] = time.perf_counter,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        backoff: Backoff | None = None,
    ) -> None:
        self.place = place
        self.retries = 0
        """Requests that were sent again so far."""
        self._clock = clock
        self._sleep = sleep
        self._backoff = backoff or Backoff()
        self._jitter = random.Random()
        key = _key(place)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="drift-server", daemon=True)
        self._thread.start()
        try:
            self._client = self._begin(_open_client(place, key)).result()
        except BaseException:
            self._stop()
            raise

    def get(self, path: str) -> Reply:
        """Ask for ``path``, absolute from the server's root. ``ServerError`` as for ``post``."""
        return self._read(path, self._result(self._begin(self._tried("get", path, None))))

    def get_text(self, path: str) -> str:
        """The same for a page that is text and no JSON. What is no UTF-8 is replaced."""
        return self._result(self._begin(self._tried("get", path, None))).content.decode("utf-8", errors="replace")

    def post(self, path: str, body: dict[str, Any]) -> Reply:
        """Send ``body``. ``ServerError``, with ``status`` where the server refused by one, for whatever goes wrong."""
        return self._read(path, self._result(self._begin(self._tried("post", path, body))))

    def post_all(self, path: str, bodies: Iterable[dict[str, Any]]) -> Iterator[Reply]:
        """Send ``bodies``; the answers in order.

        ``bodies`` is read as far as it is sent. At most ``place.concurrency`` requests are under way or wait here to
        be taken, so that memory is bounded by them; what is under way is given up when one fails or the caller stops.
        """
        waiting: deque[Future[_Raw]] = deque()
        source = iter(bodies)
        try:
            while True:
                while len(waiting) < self.place.concurrency and (body := next(source, None)) is not None:
                    waiting.append(self._begin(self._tried("post", path, body)))
                if not waiting:
                    return
                yield self._read(path, self._result(waiting.popleft()))
        finally:
            for future in waiting:
                future.cancel()

    def close(self) -> None:
        """End the connection; what is under way is given up. May be called twice."""
        if self._loop.is_closed():
            return
        try:
            self._begin(self._client.close()).result(timeout=10)
        finally:
            self._stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _stop(self) -> None:
        async def end() -> None:
            under_way = asyncio.all_tasks() - {asyncio.current_task()}
            for task in under_way:
                task.cancel()
            await asyncio.gather(*under_way, return_exceptions=True)

        self._begin(end()).result(timeout=10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _begin(self, coroutine: Coroutine[Any, Any, Any]) -> Future[Any]:
        if self._loop.is_closed():
            coroutine.close()
            raise ServerError("the connection is closed", where=self.place.shown)
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def _result(self, future: Future[_Raw]) -> _Raw:
        try:
            return future.result()
        except CancelledError:
            raise ServerError("the connection was closed", where=self.place.shown) from None
        except BaseException:
            future.cancel()
            raise

    async def _tried(self, method: str, path: str, body: dict[str, Any] | None) -> _Raw:
        timeouts = 0
        for tried in range(self._backoff.tries):
            start = self._clock()
            try:
                status, content = await asyncio.wait_for(self._sent(method, path, body), self.place.timeout_s)
                return _Raw(status, content, self._clock() - start, tried)
            except TimeoutError:
                failure = _Again(f"no whole answer within {self.place.timeout_s:g} s", timed_out=True)
            except _Again as again:
                failure = again
            timeouts += failure.timed_out
            if tried + 1 == self._backoff.tries or timeouts == self._backoff.timeouts:
                break
            self.retries += 1
            await self._sleep(self._wait_s(tried, failure.asked_s))
        raise self._failed(path, f"{failure} ({tried + 1} tries)", status=failure.status)

    def _wait_s(self, tried: int, asked_s: float | None) -> float:
        backoff = self._backoff
        grown = min(backoff.first_s * 2**tried, backoff.longest_s)
        own = grown * self._jitter.uniform(0.5, 1.0)
        return own if asked_s is None else max(own, min(asked_s, backoff.longest_asked_s))

    async def _sent(self, method: str, path: str, body: dict[str, Any] | None) -> tuple[int, bytes]:
        """One sending: status and content. ``_Again``: worth another; ``ServerError``: not."""
        import httpx2
        import openai

        try:
            response = await self._asked(method, path, body)
            try:
                return response.status_code, await self._whole(path, response)
            finally:
                await response.aclose()
        except openai.APIStatusError as error:
            status = error.status_code
            what = f"status {status}: {_said(error)}"
            if status in (408, 425, 429) or status >= 500:
                raise _Again(what, status=status, asked_s=_asked_s(error.response.headers.get("retry-after"))) from None
            raise self._failed(path, what, status=status) from None
        except openai.APITimeoutError:
            raise _Again(f"no answer within {self.place.timeout_s:g} s", timed_out=True) from None
        except openai.APIConnectionError as error:
            cause = error.__cause__ or error
            raise _Again(f"the connection failed: {_named(cause)}") from None
        except httpx2.TimeoutException:
            raise _Again(f"no whole answer within {self.place.timeout_s:g} s", timed_out=True) from None
        except httpx2.TransportError as error:  # while the answer's bytes came
            raise _Again(f"the connection broke off within the answer: {_named(error)}") from None
        except httpx2.DecodingError as error:
            raise self._failed(path, f"an answer that cannot be unpacked: {_named(error)}") from None

    async def _asked(self, method: str, path: str, body: dict[str, Any] | None) -> Any:
        from httpx2 import Response
        from openai import AsyncStream, Omit

        # The head only: the body is read here, so that its size has a limit.
        how = {"cast_to": Response, "stream": True, "stream_cls": AsyncStream[Any]}
        if not self._client.api_key:
            how["options"] = {"headers": {"Authorization": Omit()}}
        return await (self._client.get(path, **how) if method == "get" else self._client.post(path, body=body, **how))

    async def _whole(self, path: str, response: Any) -> bytes:
        parts = bytearray()
        async for part in response.aiter_bytes():
            parts += part
            if len(parts) > LARGEST_ANSWER_BYTES:
                raise self._failed(path, f"an answer of more than {LARGEST_ANSWER_BYTES:,} bytes")
        return bytes(parts)

    def _read(self, path: str, raw: _Raw) -> Reply:
        start = self._clock()
        try:
            body = parsed(raw.content)
        except ValueError as error:
            # Of an answer only its kind of fault: what it holds may be a page, or anybody's text.
            raise self._failed(path, f"status {raw.status}, and no JSON in the answer: {error}") from None
        return Reply(
            status=raw.status,
            body=body,
            seconds=raw.seconds,
            decode_s=self._clock() - start,
            size_bytes=len(raw.content),
            retries=raw.retries,
        )

    def _failed(self, path: str, what: str, *, status: int | None = None) -> ServerError:
        error = ServerError(what, where=f"{self.place.shown}{path}", expected="an answer in JSON", todo=SAFE)
        error.status = status
        return error


def _key(place: Place) -> str:
    if not place.key_env:
        return ""
    key = os.environ.get(place.key_env, "").strip()
    if not key:
        raise ConfigError(
            f"the environment variable {place.key_env} is not set",
            where=place.shown,
            expected="the server's key in it",
        )
    if not key.isascii() or not key.isprintable():
        raise ConfigError(f"the environment variable {place.key_env} holds no key", where=place.shown)
    return key


async def _open_client(place: Place, key: str) -> AsyncOpenAI:
    import httpx2
    from openai import AsyncOpenAI, DefaultAsyncHttpxClient

    connections = httpx2.Limits(max_connections=place.concurrency, keepalive_expiry=KEPT_ALIVE_S)
    timeout = httpx2.Timeout(place.timeout_s, connect=min(10.0, place.timeout_s), pool=None)
    client = AsyncOpenAI(
        base_url=place.url,
        api_key=key,
        admin_api_key="",
        max_retries=0,
        timeout=timeout,
        # A server that sends a request elsewhere is not the one that was named.
        http_client=DefaultAsyncHttpxClient(limits=connections, timeout=timeout, follow_redirects=False),
    )
    # The client takes these from variables that are meant for another service than this server.
    client.organization = client.project = None
    client._custom_headers = {}
    return client


def _said(error: Any) -> str:
    """The server's own message, short. It is untrusted text."""
    body = error.body
    if isinstance(body, dict):
        # Detail of one server, message of the next; some put it one level down, which the client has undone.
        body = next((body[key] for key in ("message", "detail", "error") if isinstance(body.get(key), str)), body)
    text = one_line(str(body if body else error.response.reason_phrase or "no message"))
    return text if len(text) <= MESSAGE_CHARS else f"{text[:MESSAGE_CHARS]}…"


def _asked_s(header: str | None) -> float | None:
    """Seconds of a ``Retry-After``; None where it has none (a date is not honoured: no clock here is the server's)."""
    try:
        seconds = float(header or "")
    except ValueError:
        return None
    return seconds if 0 <= seconds < float("inf") else None


def _named(error: BaseException) -> str:
    text = one_line(str(error))[:MESSAGE_CHARS]
    return f"{type(error).__name__} {text}".strip()
