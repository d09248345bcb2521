"""An engine's table of ids and bytes, held against the one that a protocol names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import NamedTuple, Protocol

_PADDING = re.compile(rb"(\[PAD\d*\])?")
"""What converters write into the entries that fill a table up."""
_REPLACED = "\N{REPLACEMENT CHARACTER}".encode()


class Spelled(Protocol):
    """A stream of the protocol: what its ids are read as."""

    @property
    def name(self) -> str: ...
    @property
    def tokens(self) -> Sequence[int]: ...
    @property
    def text(self) -> str: ...


class SpelledStream(NamedTuple):
    """One by itself."""

    name: str
    tokens: Sequence[int]
    text: str


class Used(NamedTuple):
    """Entries behind the protocol's that are no padding: what a model has learnt to say, and the protocol cannot name.

    Rows are compared over the protocol's columns, and the mass behind them is called padding. With such entries that
    would be false.
    """

    count: int
    first: int
    """Its id."""
    entry: bytes

    def __str__(self) -> str:
        return f"{self.count:,} tokens more than the protocol's, the first is id {self.first}, {self.entry!r}"


def used_beyond(table: Sequence[bytes], size: int) -> Used | None:
    """What stands in a table behind the first ``size`` entries and is no padding; None where nothing does."""
    used = [at for at, entry in enumerate(table[size:], start=size) if not _PADDING.fullmatch(entry)]
    return Used(len(used), used[0], table[used[0]]) if used else None


def first_difference(table: Sequence[bytes], *, known: Sequence[bytes] | None, streams: Iterable[Spelled]) -> str:
    """The first entry that differs, by the protocol's own table where it is ``known``, or else by its streams' texts.

    A protocol holds the digest of its table and not the table: a text shows no more than the entries that it uses.
    """
    if known is not None:
        for at, (ours, theirs) in enumerate(zip_longest(known, table)):
            if ours != theirs:
                here = "nothing" if theirs is None else repr(theirs)
                there = "nothing" if ours is None else repr(ours)
                return f"the first difference is id {at}: {here} here, {there} in the protocol's"
    for stream in streams:
        if found := _misread(table, stream):
            return found
    return "no window holds an entry that differs"


def _misread(table: Sequence[bytes], stream: Spelled) -> str:
    """Where a table reads a stream's ids as something else than its text; empty where it does not."""
    text, place = stream.text.encode("utf-8"), 0
    if not text:
        return ""
    for at, token in enumerate(stream.tokens):
        if token >= len(table):
            return f"window {stream.name} has id {token} at {at}, which is not in the table"
        entry = table[token]
        if text[place : place + len(entry)] != entry:
            there = text[place : place + max(len(entry), 8)]
            if _REPLACED in there:  # bytes that are no text are not shown in it: what follows has no known place
                return ""
            return f"id {token} is {entry!r} here, and {there!r} begins at its place in window {stream.name}"
        place += len(entry)
    return ""
