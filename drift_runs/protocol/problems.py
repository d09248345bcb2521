"""Everything that is wrong with a file, collected: one line each, with file, key and the nearest valid name."""

from __future__ import annotations

import math
import re
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError

from drift_runs.errors import ProtocolError

Loc = tuple[str | int, ...]
"""Keys and array indices from the top of a file to a value."""

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+\Z")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")
_SHOWN_CHARACTERS = 60


def did_you_mean(name: str, options: Iterable[str]) -> str:
    """``did you mean 'x'?`` with the nearest of ``options``; empty when none is near."""
    import difflib

    # Case is folded because P-a for P-A is the commonest slip, and a ratio alone ranks it low in short names.
    folded = {option.casefold(): option for option in options}
    found = difflib.get_close_matches(name.casefold(), folded, n=1, cutoff=0.6)
    return f"did you mean '{folded[found[0]]}'?" if found else ""


def one_of(options: Iterable[str], limit: int = 12) -> str:
    """``one of a, b, c`` for a message, cut after ``limit`` names."""
    names = list(options)
    if not names:
        return "no name at all, because none is declared"
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ("one of " if len(names) > 1 else "") + ", ".join(names[:limit]) + more


def shown(value: Any) -> str:
    """A value in one short, printable piece: control characters stay escaped, long values are cut."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and value.bit_length() > 128:
        return "a very large number"
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 1] + "…"


def key_path(loc: Sequence[str | int], data: Any = None) -> str:
    """``windows[3].scored[0][1] of 'shell-1'``: the dotted path, and the name of the array item it lies in."""
    path = ""
    name = ""
    value = data
    for part in loc:
        if isinstance(part, int):
            path += f"[{part}]"
            value = value[part] if isinstance(value, list) and -len(value) <= part < len(value) else None
            if isinstance(value, dict) and not name:
                found = value.get("name", value.get("window"))
                name = found if isinstance(found, str) else ""
                depth = len(path)
        else:
            key = part if _BARE_KEY.match(part) else shown(part)
            path += f".{key}" if path else key
            value = value.get(part) if isinstance(value, dict) else None
    if not name:
        return path
    return f"{path} of {shown(name)}" if len(path) > depth else f"{path} {shown(name)}"


class Problems:
    """Collects the errors of one file; ``raise_all`` throws the first, which carries the others."""

    def __init__(self, file: str, data: Any = None) -> None:
        self.file = file
        self.data = data
        self.errors: list[ProtocolError] = []
        self._lines: set[str] = set()

    def add(
        self, loc: Sequence[str | int], what: str, *, expected: str = "", todo: str = "", kind: type = ProtocolError
    ) -> None:
        where = f"{self.file}: {key_path(loc, self.data)}" if loc else self.file
        error = kind(what, where=where, expected=expected, todo=todo)
        if str(error) not in self._lines:
            self._lines.add(str(error))
            self.errors.append(error)

    def unknown(self, loc: Sequence[str | int], noun: str, name: str, options: Iterable[str]) -> None:
        """A reference to something that is not declared."""
        names = list(options)
        self.add(loc, f"unknown {noun} {shown(name)}", expected=one_of(names), todo=did_you_mean(name, names))

    def raise_all(self) -> None:
        if self.errors:
            raise_first(self.errors)


def raise_first(errors: Sequence[ProtocolError]) -> typing.NoReturn:
    first, *others = errors
    first.others = tuple(others)
    raise first


def check_values(problems: Problems, value: Any, loc: Loc = ()) -> None:
    """Refuse what parses and yet has no place in a protocol.

    No canonical JSON: NaN, infinity, dates, whole numbers beyond 64 bits. Not to be shown or logged: control characters
    other than tab and line ends.
    """
    if isinstance(value, dict):
        for key, item in value.items():
            check_values(problems, item, (*loc, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            check_values(problems, item, (*loc, index))
    elif isinstance(value, float):
        if not math.isfinite(value):
            problems.add(loc, f"{value} is not a finite number", expected="a finite number")
    elif isinstance(value, int):
        if not -(2**63) <= value < 2**63:
            problems.add(loc, "the number does not fit into 64 bits", expected="a 64-bit whole number")
    elif isinstance(value, str):
        if found := _CONTROL.search(value):
            problems.add(loc, f"the text holds the control character U+{ord(found[0]):04X}", expected="plain text")
    elif value is not None:
        problems.add(loc, f"a date or time ({value}) has no place here", expected="text, a number or true/false")


def check_field_names(problems: Problems, model: type[BaseModel], value: Any, loc: Loc = ()) -> None:
    """Refuse a Python field name where the file has another key (``start`` for ``from``): one spelling, one digest."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            check_field_names(problems, model, item, (*loc, index))
    elif isinstance(value, dict):
        for name, field in model.model_fields.items():
            key = field.alias or name
            if key != name and name in value:
                problems.add((*loc, name), f"unknown key '{name}'", todo=f"did you mean '{key}'?")
            child = _model_in(field.annotation)
            if child is not None and key in value:
                check_field_names(problems, child, value[key], (*loc, key))


def add_validation_errors(problems: Problems, model: type[BaseModel], failure: ValidationError) -> None:
    """Say pydantic's errors in the words of the file."""
    for error in failure.errors(include_url=False):
        loc = tuple(error["loc"])
        if loc[:1] == ("recorded",):
            loc = loc[:2]  # pydantic appends the member of the union that it tried
        _add_one(problems, model, loc, error["type"], error.get("ctx", {}), error.get("input"), error["msg"])


def _add_one(
    problems: Problems, model: type[BaseModel], loc: Loc, kind: str, limits: Mapping[str, Any], given: Any, message: str
) -> None:
    if kind == "extra_forbidden":
        parent = _model_at(model, loc[:-1])
        keys = [field.alias or name for name, field in parent.model_fields.items()] if parent else []
        problems.add(
            loc, f"unknown key {shown(loc[-1])}", expected=one_of(keys, 20), todo=did_you_mean(str(loc[-1]), keys)
        )
    elif kind == "missing":
        if isinstance(loc[-1], int):
            problems.add(loc[:-1], f"{shown(given)} is too short", expected="a pair [from, to]")
        else:
            problems.add(loc, f"missing key '{loc[-1]}'", expected=_key_hint(model, loc))
    elif kind == "literal_error":
        options = re.findall(r"'([^']*)'", str(limits.get("expected", "")))
        todo = did_you_mean(given, options) if isinstance(given, str) else ""
        problems.add(loc, f"{shown(given)} is not allowed", expected=one_of(options, 20), todo=todo)
    elif kind == "string_pattern_mismatch":
        digest = "64" in str(limits.get("pattern")) and "a-f" in str(limits.get("pattern"))
        expected = (
            "64 lower-case hex digits"
            if digest
            else "a name of letters, digits, '.', '_' and '-' that starts with a letter or digit, 64 at most"
        )
        if "text" in str(limits.get("pattern")):
            expected = "a text with {text} in it, which stands for what is said"
        problems.add(loc, f"{shown(given)} does not fit", expected=expected)
    elif kind == "too_short" and limits.get("min_length") == 1:
        problems.add(loc, "nothing is in it", expected="one or more")
    elif kind in ("too_short", "too_long"):
        problems.add(loc, f"{shown(given)} has the wrong length", expected="a pair [from, to]")
    elif kind == "string_too_short" and limits["min_length"] == 1:
        problems.add(loc, "the text is empty", expected="some text")
    elif kind == "string_too_short":
        problems.add(
            loc,
            f"{shown(given)} is too short",
            expected=f"a reason in words, at least {limits['min_length']} characters",
        )
    elif kind in _LIMITS:
        key, words = _LIMITS[kind]
        problems.add(loc, f"{shown(given)} is out of bounds", expected=f"{words} {limits[key]}")
    elif kind in _TYPES:
        expected = _TYPES[kind]
        if kind == "tuple_type" and len(loc) == 1 and isinstance(given, dict):
            expected = f"an array of tables ([[{loc[0]}]], not [{loc[0]}])"
        problems.add(loc, f"{_type_name(given)} is of the wrong type", expected=expected)
    else:
        problems.add(loc, message.removeprefix("Value error, "))


_LIMITS = {
    "greater_than_equal": ("ge", "at least"),
    "greater_than": ("gt", "more than"),
    "less_than_equal": ("le", "at most"),
    "less_than": ("lt", "less than"),
}
_TYPES = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "string_type": "text in quotes",
    "bool_type": "true or false",
    "tuple_type": "an array",
    "model_type": "a table",
    "model_attributes_type": "a table",
    "dict_type": "a table",
}


def _type_name(given: Any) -> str:
    if isinstance(given, dict):
        return "a table"
    if isinstance(given, list):
        return f"the array {shown(given)}"
    if isinstance(given, str):
        return f"the text {shown(given)}"
    return shown(given)


def _key_hint(model: type[BaseModel], loc: Loc) -> str:
    parent = _model_at(model, loc[:-1])
    for name, field in (parent.model_fields if parent else {}).items():
        if (field.alias or name) == loc[-1]:
            if typing.get_origin(field.annotation) is typing.Literal:
                return one_of(f"'{option}'" for option in typing.get_args(field.annotation))
            if len(loc) == 1 and _model_in(field.annotation) is not None:
                many = typing.get_origin(field.annotation) is tuple
                return f"[[{loc[0]}]]" if many else f"[{loc[0]}]"
    return ""


def _model_at(model: type[BaseModel], loc: Loc) -> type[BaseModel] | None:
    """The model that describes the table at ``loc``."""
    found: type[BaseModel] | None = model
    for part in loc:
        if isinstance(part, int) or found is None:
            continue
        fields = {field.alias or name: field for name, field in found.model_fields.items()}
        found = _model_in(fields[part].annotation) if part in fields else None
    return found


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """The model inside ``X``, ``X | None`` or ``tuple[X, ...]``."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if typing.get_origin(annotation) in (tuple, types.UnionType, typing.Union, typing.Annotated):
        return next((found for part in typing.get_args(annotation) if (found := _model_in(part))), None)
    return None
