"""The bytes of a foreign file, and JSON that is read without trust.

What Python's parser lets through is refused here: a key that is written twice, NaN, numbers that overflow to infinity,
nesting without end. Every error is one line with the file and the place in it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from drift_runs.errors import ImportFileError
from drift_runs.protocol.problems import key_path, shown

JSON_LIMIT_BYTES = 512 * 2**20
"""A parsed file takes about ten times its size in memory."""

WINDOWS_LIMIT = 2**15 - 1
"""Names of windows are numbered in 16 bits in every table."""

Model = TypeVar("Model", bound=BaseModel)


class Foreign(BaseModel):
    """Part of a file of another tool: types are taken as written, and keys that are not read are left alone."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore", allow_inf_nan=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A file's bytes."""

    path: Path
    data: bytes
    sha256: str

    @property
    def where(self) -> str:
        return str(self.path)

    def refuse(self, what: str, *, at: str = "", expected: str = "", todo: str = "") -> NoReturn:
        """Raise what is wrong at a place of this file."""
        where = f"{self.where}: {at}" if at else self.where
        raise ImportFileError(what, where=where, expected=expected, todo=todo)


def read_source(path: Path, *, limit_bytes: int = JSON_LIMIT_BYTES) -> Source:
    """The bytes of a regular file that is not empty; ``ImportFileError`` for anything else."""
    where = str(path)
    try:
        if not path.is_file():
            raise ImportFileError("not a regular file" if path.exists() else "no such file", where=where)
        with path.open("rb") as file:
            data = file.read(limit_bytes + 1)
    except (OSError, ValueError) as error:  # a name too long, or with a null byte
        raise ImportFileError(f"cannot be read: {getattr(error, 'strerror', None) or error}", where=where) from error
    if len(data) > limit_bytes:
        raise ImportFileError("the file is too large", where=where, expected=f"at most {limit_bytes:,} bytes")
    if not data:
        raise ImportFileError("the file is empty", where=where)
    return Source(path=path, data=data, sha256=hashlib.sha256(data).hexdigest())


def parse_json(source: Source, model: type[Model]) -> Model:
    """The file as ``model``; ``ImportFileError`` with the first place that does not fit."""
    return fitted(source, json_value(source, source.data), model)


def json_value(source: Source, data: bytes, *, at: str = "") -> Any:
    """``data`` of the file as JSON; ``at`` is its place, empty for the whole file."""
    try:
        value = json.loads(data.decode("utf-8-sig"), object_pairs_hook=_once, parse_constant=_no_constant)
        if _HALF.search(data):
            _no_halves(value)
        return value
    except RecursionError:
        source.refuse("not valid JSON: nested too deeply", at=at)
    except ValueError as error:  # also bytes that are no UTF-8, and whole numbers of thousands of digits
        source.refuse(f"not valid JSON: {error}", at=at, expected="a whole file in UTF-8 JSON" if not at else "")


def json_lines(source: Source) -> Iterator[tuple[int, Any]]:
    """(line number, value) of each line that is not blank."""
    start = 0
    number = 0
    while start < len(source.data):
        end = source.data.find(b"\n", start)
        end = len(source.data) if end < 0 else end
        number += 1
        line = source.data[start:end]
        start = end + 1
        if line.strip():
            yield number, json_value(source, line, at=f"line {number}")


def fitted(source: Source, content: Any, model: type[Model], *, at: str = "") -> Model:
    """``content`` as ``model``; ``ImportFileError`` with the first key that does not fit, behind ``at``."""
    try:
        return model.model_validate(content)
    except ValidationError as failure:
        raise _first_fault(source, content, failure, at) from failure


def _first_fault(source: Source, content: Any, failure: ValidationError, where: str) -> ImportFileError:
    """The first thing that does not fit the format, in the words of the file."""
    first = failure.errors(include_url=False)[0]
    loc = tuple(first["loc"])
    if first["type"] == "missing":
        loc, what, expected = loc[:-1], f"missing key {loc[-1]!r}", ""
    elif first["type"] == "extra_forbidden":
        what, expected = f"unknown key {shown(loc[-1])}", ""
    else:
        given = first["input"]
        name = {dict: "an object", list: "an array"}.get(type(given)) or shown(given)
        what = f"{name} does not fit"
        expected = first["msg"].removeprefix("Input should be ").removeprefix("Value error, ")
        if first["type"] == "model_type":
            expected = "an object"
    at = " ".join(part for part in (where, key_path(loc, content)) if part)
    return ImportFileError(what, where=f"{source.where}: {at}" if at else source.where, expected=expected)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise ValueError(f"key {shown(key)} is given twice in one object")
            seen.add(key)
    return found


_HALF = re.compile(rb"\\u[dD][89a-fA-F]")
"""Half of a character, as an escape. Two of them are one character; alone it is none, and no file can hold it."""


def _no_halves(value: Any) -> None:
    if isinstance(value, str):
        if any("\ud800" <= letter <= "\udfff" for letter in value):
            raise ValueError(f"the text {shown(value)} holds half of a character")
    elif isinstance(value, dict):
        for key, item in value.items():
            _no_halves(key)
            _no_halves(item)
    elif isinstance(value, list):
        for item in value:
            _no_halves(item)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")
