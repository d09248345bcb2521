"""Tool calls as values: what a parser makes of a text, when two are the same, and whether one fits a tool's schema.

Which texts are calls is for ``generate.syntaxes`` to say. Nothing of a text is evaluated. JSON is read strictly: no NaN
or infinity, no key twice, no text that has no UTF-8.
"""

from __future__ import annotations

import json
import math
import signal
import threading
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any, NoReturn

SCHEMA_LIMIT_S = 5.0
"""Processor time that one call may take to be held against one schema: a sound pair takes about a millisecond."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call and where it stands: half-open offsets in characters of the text, markup included.

    Calls that stand in one array share the offsets of all that encloses it.
    """

    name: str
    arguments: Mapping[str, Any]
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NoCall:
    """The text holds nothing that opens or closes a call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Malformed:
    """A call is begun or ended, and it is none."""

    why: str
    start: int
    """Offset in characters of the markup that is at fault."""
    before: tuple[Call, ...]
    """The sound calls before it."""
    unfinished: bool = False
    """The text ends inside the call, and nothing is wrong with it as far as it goes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WellFormed:
    """One call or more, and no markup of calls besides theirs. Whether they fit a schema: see ``misfit``."""

    calls: tuple[Call, ...]
    prose: tuple[str, ...] = ()
    """What is written beside the calls, in order, white space around it left out; empty pieces are not listed."""


def same_calls(left: Sequence[Call], right: Sequence[Call]) -> bool:
    """Whether both hold the same calls equally often, in any order.

    Values are compared as JSON: 1 is 1.0, the order of keys and white space count for nothing, true is not 1, texts are
    equal to the letter.
    """
    return Counter(map(call_key, left)) == Counter(map(call_key, right))


def call_key(call: Call) -> Hashable:
    """What two calls have in common when they are the same."""
    return call.name, value_key(call.arguments)


def value_key(value: Any) -> Hashable:
    """What two JSON values have in common when they are equal, for a set or a count."""
    if isinstance(value, bool) or value is None:
        return "constant", value
    if isinstance(value, (int, float)):
        return "number", value
    if isinstance(value, str):
        return "text", value
    if isinstance(value, Mapping):
        return "object", frozenset((key, value_key(item)) for key, item in value.items())
    return "array", tuple(map(value_key, value))


def strict_json(text: str) -> Any:
    """The one JSON value that ``text`` is.

    Raises ``ValueError`` for anything else: text behind the value, NaN or infinity, a key twice, nesting too deep.
    """
    try:
        value = _DECODER.decode(text)
        _refuse_lone_surrogates(text, value)
    except RecursionError as error:
        raise ValueError(_reason(error)) from None
    return value


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"key {_short(repr(key))} is given twice")
        found[key] = value
    return found


def _no_number(word: str) -> NoReturn:
    raise ValueError(f"{word} is no number of JSON")


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError(f"{digits[:20]} is beyond the numbers that there are")
    return value


_DECODER = json.JSONDecoder(object_pairs_hook=_once, parse_constant=_no_number, parse_float=_finite)


def _refuse_lone_surrogates(text: str, value: Any) -> None:
    """An escaped half of a character is JSON and yet no text: it could be neither stored nor shown."""
    if "\\ud" in text or "\\uD" in text:
        json.dumps(value, ensure_ascii=False).encode("utf-8")


def _reason(error: Exception) -> str:
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)


def _short(text: str) -> str:
    """A reason quotes what a file says, and a file may say a megabyte."""
    return text if len(text) <= 200 else f"{text[:200]}…"


def misfit(call: Call, tools: Iterable[Mapping[str, Any]]) -> str:
    """Why a call fits no schema among ``tools``; empty when it does.

    A tool is ``{"name": ..., "parameters": ...}``, or that under the key ``function``. Several of one name may stand
    side by side; one that fits is enough. ``parameters`` is JSON Schema, Draft 2020-12. Nothing fits a schema with a
    reference that leads out of it, which is not followed, or that takes more than ``SCHEMA_LIMIT_S`` to decide.
    """
    functions = [tool["function"] if isinstance(tool.get("function"), Mapping) else tool for tool in tools]
    named = [function for function in functions if function.get("name") == call.name]
    if not named:
        known = ", ".join(sorted({str(function.get("name")) for function in functions}))
        return f"no tool {call.name!r} among {known or 'none'}"
    reasons = [_unfit(call.arguments, function.get("parameters", {})) for function in named]
    return "" if "" in reasons else reasons[0]


def _unfit(arguments: Mapping[str, Any], schema: Any) -> str:
    # Loaded here: most of what reads calls off a text asks for no schema.
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import SchemaError
    from referencing import Registry
    from referencing.exceptions import Unresolvable

    try:
        with time_limit(SCHEMA_LIMIT_S):
            Draft202012Validator.check_schema(schema)
            # A registry of its own: the default one would fetch what a reference names.
            validator = Draft202012Validator(schema, registry=Registry())
            found = validator.iter_errors(dict(arguments))
            first = min(found, key=lambda error: list(map(str, error.path)), default=None)
    except SchemaError as error:
        return f"the tool's parameters are no JSON Schema: {_short(error.message)}"
    except (Unresolvable, RecursionError):
        return "the tool's parameters refer to what they do not hold"
    except TooSlow:
        return f"the tool's parameters take more than {SCHEMA_LIMIT_S:g} s to decide"
    except (ValueError, OverflowError) as error:  # an address that is none, a number that no float holds
        return f"the tool's parameters cannot be applied: {_short(str(error))}"
    if first is None:
        return ""
    place = ".".join(map(str, first.path))
    return _short(f"argument {place}: {first.message}" if place else first.message)


class TooSlow(Exception):
    """Processor time ran out. A pattern can take ages on thirty letters, and references can fan out likewise."""


_AGAIN_S = 0.005
"""Least time between two tries to stop what is too slow."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise ``TooSlow`` after so much processor time of this process; outside the main thread there is no limit."""
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        yield
        return

    over = False

    def stop(_number: int, _frame: FrameType | None) -> None:
        if not over:
            raise TooSlow

    before = signal.signal(signal.SIGVTALRM, stop)
    # Again and again: what is raised inside a finaliser or a callback of the garbage collector is swallowed there.
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds, max(seconds / 4, _AGAIN_S))
    try:
        yield
    finally:
        over = True
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
