"""The syntaxes in which models write tool calls: found in a text, parsed, and told apart when they are broken.

Three things are told apart, because they mean different things: a text without a call, a text with a broken call, and
sound calls. A broken call is never read as none. Prose around calls is allowed and reported. JSON is strict.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from drift_runs.errors import ProtocolError
from drift_runs.generate.calls import Call, Malformed, NoCall, WellFormed, same_calls
from drift_runs.generate.syntaxes.envelope import Envelope, Syntax
from drift_runs.generate.syntaxes.fenced_json import FENCED_JSON
from drift_runs.generate.syntaxes.hermes import HERMES
from drift_runs.generate.syntaxes.llama3 import LLAMA3
from drift_runs.generate.syntaxes.mistral import MISTRAL
from drift_runs.generate.syntaxes.openai_json import OPENAI_JSON
from drift_runs.generate.syntaxes.qwen3_coder import QWEN3_CODER

__all__ = ["SYNTAXES", "closed", "envelope", "envelopes", "opened", "parse", "same_calls", "syntax_of", "typed"]

SYNTAXES: Mapping[str, Syntax] = {
    syntax.name: syntax for syntax in (HERMES, OPENAI_JSON, MISTRAL, LLAMA3, FENCED_JSON, QWEN3_CODER)
}
UNFINISHED = "the text ends inside the call"


def syntax_of(name: str) -> Syntax:
    """The parser of that name. A name that no parser claims is an error of the protocol, not a failure of a model."""
    if name not in SYNTAXES:
        raise ProtocolError(
            f"no parser claims the call syntax {name!r}",
            where="branches.syntax",
            expected=f"one of {', '.join(SYNTAXES)}",
        )
    return SYNTAXES[name]


def parse(syntax: str, text: str, tools: Sequence[Mapping[str, Any]] = ()) -> NoCall | Malformed | WellFormed:
    """Every call of a text, in order.

    With ``tools`` the values of a syntax that writes them as bare texts (``qwen3-coder``) have the types that their
    tool declares; without, they are texts. Whether calls fit their schemas is another question: see ``calls.misfit``.
    """
    how = syntax_of(syntax)
    calls: list[Call] = []
    prose: list[str] = []
    place = 0
    for start, found in how.envelopes(text):
        stray = how.stray.search(text, place, start) if how.stray else None
        if stray:
            return Malformed(why=f"{stray[0]} outside of a call", start=stray.start(), before=tuple(calls))
        if found.end is None or found.why:
            why = found.why or UNFINISHED
            return Malformed(why=why, start=start, before=tuple(calls), unfinished=not found.why)
        prose.append(_prose(how, text[place:start]))
        calls.extend(typed(syntax, found.calls, tools))
        place = found.end
    stray = how.stray.search(text, place) if how.stray else None
    if stray:
        return Malformed(why=f"{stray[0]} outside of a call", start=stray.start(), before=tuple(calls))
    if not calls:
        return NoCall()
    prose.append(_prose(how, text[place:]))
    return WellFormed(calls=tuple(calls), prose=tuple(filter(None, prose)))


def opened(syntax: str, text: str) -> int | None:
    """The offset at which a call is open where the text ends, sound or not; None: none is."""
    last = None
    for start, found in syntax_of(syntax).envelopes(text):
        last = start if found.end is None else None
    return last


def closed(syntax: str, text: str, start: int) -> int | None:
    """The offset behind the end of the call that opens at ``start``; None: it is still open.

    A longer text never moves it. A call that can never be sound ends with its closing tag, or where the next one opens.
    """
    return envelope(syntax, text, start).end


def envelope(syntax: str, text: str, start: int) -> Envelope:
    """What opens at ``start``: its calls, its end, what is wrong with it."""
    return syntax_of(syntax).read(text, start)


def envelopes(syntax: str, text: str) -> list[tuple[int, Envelope]]:
    """Everything that opens a call, with its offset; only the last can be open."""
    return list(syntax_of(syntax).envelopes(text))


def typed(syntax: str, calls: Sequence[Call], tools: Sequence[Mapping[str, Any]]) -> tuple[Call, ...]:
    """The calls with values of the types that their tools declare, where the syntax writes values as bare texts."""
    how = syntax_of(syntax)
    return tuple(how.typed(call, tools) for call in calls) if how.typed and tools else tuple(calls)


def _prose(how: Syntax, piece: str) -> str:
    return piece.strip(f" \t\r\n{how.between}")
