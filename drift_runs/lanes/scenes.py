"""The place of a root or a task, from a window's stream."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from drift_runs.errors import ProtocolError
from drift_runs.generate.future import Scene
from drift_runs.protocol.generation import Chat
from drift_runs.protocol.load import LoadedProtocol


def end_tokens(chat: Chat | None, dictionary: Sequence[bytes]) -> frozenset[int]:
    """Ids of the protocol's ends of a turn; none where it has no chat. ``ProtocolError`` for one that is no token."""
    return frozenset() if chat is None else frozenset(ends_in_order(chat, dictionary))


def ends_in_order(chat: Chat, dictionary: Sequence[bytes]) -> tuple[int, ...]:
    """The same in the protocol's order."""
    ids = {text: token for token, text in enumerate(dictionary)}
    missing = [end for end in chat.ends if end.encode() not in ids]
    if missing:
        raise ProtocolError(
            f"{missing[0]!r} is no token of the dictionary", where="chat.ends", expected="markup that is one token"
        )
    return tuple(ids[end.encode()] for end in chat.ends)


def scene_of(
    tokens: Sequence[int],
    position: int,
    *,
    dictionary: Sequence[bytes],
    chat: Chat | None,
    ends: frozenset[int],
    tools: Sequence[Mapping[str, Any]],
    syntax: str,
    sql_dialect: str,
) -> Scene:
    """The scene in front of one position of a stream."""
    return Scene(
        history=tuple(tokens[:position]),
        dictionary=dictionary,
        end_tokens=ends,
        assistant=chat.assistant if chat is not None else "",
        tools=tuple(tools),
        syntax=syntax,
        sql_dialect=sql_dialect,
    )


class Scenes:
    """The scenes of a protocol, for whoever judges what was written in them."""

    def __init__(self, loaded: LoadedProtocol, dictionary: Sequence[bytes]) -> None:
        self.loaded = loaded
        self.dictionary = dictionary
        self.ends = end_tokens(loaded.protocol.chat, dictionary)

    def at(self, window: str, position: int) -> Scene:
        """In front of a position of a window."""
        protocol = self.loaded.protocol
        branches = protocol.branches
        return scene_of(
            self.loaded.tokens(window),
            position,
            dictionary=self.dictionary,
            chat=protocol.chat,
            ends=self.ends,
            tools=self.loaded.streams[window].tools,
            syntax=branches.syntax if branches is not None else "hermes",
            sql_dialect=branches.sql_dialect if branches is not None else "sqlite",
        )
