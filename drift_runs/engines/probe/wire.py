"""What goes over the connection of a server's engine while it is asked: counted, and where asked for, changed.

A dialect sends neutral options and takes no others, which is right for a measurement. Whether a server honours them is
seen only where one of them is another, so it is put into the bodies here, behind the dialect's back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

_IDS = ("prompt", "input_ids", "prompt_token_ids")
"""Where bodies hold the ids."""
_COUNTS = (("tokens_evaluated",), ("usage", "prompt_tokens"), ("meta_info", "prompt_tokens"))
"""Where answers say how many ids the server read."""


class Counted(NamedTuple):
    """Of one request."""

    sent: int
    read: int


class Wire:
    """Stands in for an engine's transport; everything that it does not know is the transport's."""

    def __init__(self, transport: Any, changes: Mapping[str, object]) -> None:
        self._transport = transport
        self._changes = changes
        self.changed = 0
        """Options that were sent otherwise than the dialect had them."""
        self.counted: list[Counted] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def post(self, path: str, body: dict[str, Any]) -> Any:
        reply = self._transport.post(path, self._otherwise(body))
        self._count(body, reply)
        return reply

    def post_all(self, path: str, bodies: Iterable[dict[str, Any]]) -> Iterator[Any]:
        sent: list[dict[str, Any]] = []

        def each() -> Iterator[dict[str, Any]]:
            for body in bodies:
                sent.append(body)
                yield self._otherwise(body)

        replies = self._transport.post_all(path, each())
        try:
            for reply in replies:
                self._count(sent.pop(0), reply)
                yield reply
        finally:
            if hasattr(replies, "close"):
                replies.close()

    def _otherwise(self, body: Mapping[str, Any]) -> dict[str, Any]:
        found = dict(body)
        for name, value in body.items():
            if name in self._changes:
                self.changed += value != self._changes[name]
                found[name] = self._changes[name]
            elif isinstance(value, dict):
                found[name] = self._otherwise(value)
        return found

    def _count(self, body: Mapping[str, Any], reply: Any) -> None:
        ids = next((body[name] for name in _IDS if isinstance(body.get(name), list)), None)
        read = _read(getattr(reply, "body", None))
        if ids and read is not None and all(type(token) is int for token in ids):
            self.counted.append(Counted(len(ids), read))


def _read(answer: object) -> int | None:
    for path in _COUNTS:
        part = answer
        for name in path:
            part = part.get(name) if isinstance(part, Mapping) else None
        if type(part) is int:
            return part
    return None


@contextmanager
def on_the_wire(engine: Any, **changes: object) -> Iterator[Wire | None]:
    """Listens to an engine's requests until the block is left; None: the engine has no connection to listen to."""
    transport = getattr(engine, "transport", None)
    if not hasattr(transport, "post"):
        yield None
        return
    wire = Wire(transport, changes)
    engine.transport = wire
    try:
        yield wire
    finally:
        engine.transport = transport
