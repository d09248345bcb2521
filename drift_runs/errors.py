"""Every error that a user can meet, and the exit code that each one stands for.

    DriftError                        2  the user's input is wrong
      ProtocolError                   2  a protocol, its lock, a stream or a follow-up file
        LockMismatch                  2  the content is not what was frozen
      ConfigError                     2  drift.toml, an option or an environment variable
        ServedOtherwise               2  a server that does not serve what drift.toml names
      StoreError                      2  a store that cannot be read or written as asked
        StoreBusy                     2  another campaign holds the store
      NotComparable                   2  two figures that must not be set against each other
      ImportFileError                 2  a file of another tool that cannot be read or trusted
      FetchError                      2  a model could not be fetched
      Inconclusive                    3  measured, and the data do not decide
      NotMeasured                     4  a figure that was asked for does not exist
      EngineError                     5  an engine failed
        EngineMissing                 5  its library is not installed
        LayoutMismatch                5  its library is not the one the binding was written for
        ModelFileError                5  a weight file is missing, cut short or of another kind than declared
        ContextOverflow               5  a window is longer than the engine's context
        NonFiniteLogits               5  NaN or infinity where a logit was expected
        EngineDied                    5  its process ended before its work did
        SameRows                      5  two arms that must differ gave the same bytes: the switch did nothing
        ServerError                   5  a server failed, or answered something that cannot be used
        CannotGive                    5  an engine cannot give what the protocol needs
        NotAllowed                    5  a token or a text that a grammar does not allow at its place

A message is one line: what happened, where, what was expected, what to do next.
"""

from __future__ import annotations

import re

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def one_line(text: str) -> str:
    """A text of a file, fit for a terminal: one line, and what would steer the terminal is shown as its code.

    A title with an escape sequence could clear the screen or repaint a figure, a bidirectional override turn one round.
    Half a character, which JSON may hold, cannot be written as UTF-8.
    """
    return uncontrolled(" ".join(text.split()))


def uncontrolled(text: str) -> str:
    """The same with every blank kept: for a token, whose blanks are part of it."""
    return _CONTROL.sub(lambda found: ascii(found[0])[1:-1], text)


class DriftError(Exception):
    """Root of the tree. ``str(error)`` is the one line that a user sees.

    Parts are keyword arguments so that no message forgets one: ``where`` (file and key, arm, window, position),
    ``expected`` and ``todo`` (what to do next).
    """

    exit_code = 2

    def __init__(self, what: str, *, where: str = "", expected: str = "", todo: str = "") -> None:
        self.what = what
        self.where = where
        self.expected = expected
        self.todo = todo
        super().__init__(self.line())

    def line(self) -> str:
        parts = [f"{self.where}: {self.what}" if self.where else self.what]
        if self.expected:
            parts.append(f"expected {self.expected}")
        if self.todo:
            parts.append(self.todo)
        return "; ".join(map(one_line, parts))

    def __reduce__(self):
        return (_rebuild, (type(self), self.what, self.where, self.expected, self.todo))


def _rebuild(kind: type[DriftError], what: str, where: str, expected: str, todo: str) -> DriftError:
    return kind(what, where=where, expected=expected, todo=todo)


class ProtocolError(DriftError):
    """A protocol, its lock, a stream or a follow-up file is wrong."""

    others: tuple[ProtocolError, ...] = ()
    """What else is wrong in the same files, in order; ``drift check`` prints all of it."""


class LockMismatch(ProtocolError):
    """The content of a protocol is not what its lock froze."""


class ConfigError(DriftError):
    """``drift.toml``, an option or an environment variable is wrong."""


class ServedOtherwise(ConfigError):
    """A server answers, and does not serve what ``drift.toml`` names: one of the two is to be put right."""


class StoreError(DriftError):
    """A store cannot be read or written as asked."""


class StoreBusy(StoreError):
    """Another campaign holds the store."""


class NotComparable(DriftError):
    """Two figures that must not be set against each other."""


class ImportFileError(DriftError):
    """A file of another tool cannot be read, is cut short, or says something that cannot be trusted."""


class FetchError(DriftError):
    """A model could not be fetched."""


class Inconclusive(DriftError):
    """Measured, and the data do not decide."""

    exit_code = 3


class NotMeasured(DriftError):
    """A figure that was asked for does not exist."""

    exit_code = 4


class EngineError(DriftError):
    """An engine failed."""

    exit_code = 5


class EngineMissing(EngineError):
    """The engine's library is not installed."""


class LayoutMismatch(EngineError):
    """The engine's library is not the one that the binding was written for."""


class ModelFileError(EngineError):
    """A weight file is missing, cut short, or of another kind than the protocol declares."""


class ContextOverflow(EngineError):
    """A window is longer than the engine's context."""


class NonFiniteLogits(EngineError):
    """NaN or infinity where a logit was expected."""


class EngineDied(EngineError):
    """The engine's process ended before its work did."""


class SameRows(EngineError):
    """Two arms that the protocol says differ gave the same bytes: the switch did nothing."""


class ServerError(EngineError):
    """A server failed, could not be reached, or answered something that must not become a number."""

    status: int | None = None
    """HTTP status by which it refused; None: it failed otherwise, or the error crossed a process boundary."""


class CannotGive(EngineError):
    """An engine cannot give what the protocol needs of it; the message names the way round."""


class CannotAsk(CannotGive):
    """A server that takes texts cannot be given one history as it is; others it may."""


class NotAllowed(EngineError):
    """A token, or a text that is written already, that a grammar does not allow at its place."""


def by_name(name: str) -> type[DriftError]:
    """The class of that name, for an error that crossed a process boundary; ``EngineError`` when there is none."""
    kind = globals().get(name)
    return kind if isinstance(kind, type) and issubclass(kind, DriftError) else EngineError
