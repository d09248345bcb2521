"""Files of a protocol: read up to a limit, parsed, validated; nothing but ``ProtocolError`` for a bad one."""

from __future__ import annotations

import tomllib
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from drift_runs.errors import ProtocolError
from drift_runs.protocol.canonical import canonical_json
from drift_runs.protocol.problems import Problems, add_validation_errors, check_field_names, check_values

Model = TypeVar("Model", bound=BaseModel)


def is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # a name too long, or with a null byte
        return False


def read_limited(path: Path, limit: int, where: str) -> bytes:
    try:
        if not path.is_file():
            raise ProtocolError("not a regular file" if path.exists() else "no such file", where=where)
        with path.open("rb") as file:
            raw = file.read(limit + 1)
    except (OSError, ValueError) as error:
        raise ProtocolError(f"cannot be read: {getattr(error, 'strerror', None) or error}", where=where) from error
    if len(raw) > limit:
        raise ProtocolError("the file is too large", where=where, expected=f"at most {limit} bytes")
    return raw


def parse_toml(raw: bytes, file: str) -> dict[str, Any]:
    """The tables of a TOML file; ``ProtocolError`` with the line for anything else."""
    try:
        return tomllib.loads(raw.decode("utf-8-sig"))  # some editors write a byte order mark
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise ProtocolError(f"not UTF-8 at line {line}", where=file, expected="a TOML file in UTF-8") from error
    except RecursionError as error:
        raise ProtocolError("not valid TOML: nested too deeply", where=file) from error
    except ValueError as error:
        raise ProtocolError(f"not valid TOML: {error}", where=file) from error


def validate(problems: Problems, model: type[Model], content: dict[str, Any]) -> Model:
    """Through JSON, because only there is pydantic both strict about types and content with arrays for tuples."""
    try:
        check_values(problems, content)
        problems.raise_all()
        check_field_names(problems, model, content)
        value = model.model_validate_json(canonical_json(content), strict=True)
    except RecursionError as error:  # dotted keys nest without the parser's own limit
        raise ProtocolError("nested too deeply", where=problems.file) from error
    except ValidationError as failure:
        add_validation_errors(problems, model, failure)
        problems.raise_all()
        raise
    problems.raise_all()
    return value


def outside(name: str, folder: Path) -> str:
    """Why a stream path is refused; empty when it is sound. A file has one spelling, so ``./a`` is refused."""
    if not name or any(ord(letter) < 32 or letter in "\\:" for letter in name):
        return "is no plain relative path"
    pure = PurePosixPath(name)
    if pure.is_absolute() or ".." in pure.parts:
        return "leaves the protocol's folder"
    if str(pure) != name or name == ".":
        return "is no plain relative path"
    try:
        inside = (folder / pure).resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError):
        return "cannot be resolved"
    return "" if inside else "leaves the protocol's folder through a link"


def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"key {next(key for key in keys if keys.count(key) > 1)!r} is given twice")
    return found
