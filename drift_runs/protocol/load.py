"""A protocol from its file: parsed, validated, cross-checked, its streams read, its lock verified.

Nothing but ``ProtocolError`` leaves this module for a bad file. Errors are collected as far as it makes sense: the
exception is the first, ``others`` holds the rest.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from drift_runs.errors import ProtocolError
from drift_runs.protocol.canonical import canonical_json, protocol_sha256
from drift_runs.protocol.crosscheck import check_arm, cross_check, unique
from drift_runs.protocol.lock import Lock, differences, lock_path, read_lock
from drift_runs.protocol.model import Arm, FollowUps, Protocol, Stream
from drift_runs.protocol.problems import (
    Problems,
    add_validation_errors,
    check_field_names,
    check_values,
    did_you_mean,
    one_of,
    raise_first,
    shown,
)

TOML_LIMIT_BYTES = 5_000_000
STREAM_LIMIT_BYTES = 50_000_000

Model = TypeVar("Model", bound=BaseModel)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedProtocol:
    """A protocol that passed every check, with what lies beside it."""

    protocol: Protocol
    path: Path
    content: Mapping[str, Any]
    """The parsed TOML as it stands: what the digest is made of."""
    streams: Mapping[str, Stream]
    """By window name; windows of one file share the object."""
    protocol_sha256: str
    file_digests: Mapping[str, str]
    """Stream path, relative to the protocol and with ``/``, to SHA-256."""
    lock: Lock | None
    draft: bool
    """True without a lock: results are marked so everywhere."""

    def tokens(self, window: str) -> tuple[int, ...]:
        return self.streams[window].tokens


def load_protocol(path: Path | str, *, verify_lock: bool = True) -> LoadedProtocol:
    """Load and check a protocol file.

    Raises ``ProtocolError`` (``LockMismatch`` when it differs from its lock). ``verify_lock=False`` reads the lock
    without comparing, for freezing.
    """
    path = Path(path)
    content = _read_toml(path)
    problems = Problems(path.name, content)
    protocol = _validate(problems, Protocol, content)
    streams, digests = _read_streams(problems, protocol, path.parent)
    cross_check(problems, protocol, streams)
    lock = read_lock(lock_path(path))
    mismatches = differences(lock, content, digests, path.name) if lock and verify_lock else []
    # The mismatch first: a frozen file that was edited into nonsense is best explained by what was edited.
    if errors := [*mismatches, *problems.errors]:
        raise_first(errors)
    return LoadedProtocol(
        protocol=protocol,
        path=path,
        content=content,
        streams=streams,
        protocol_sha256=protocol_sha256(content),
        file_digests=digests,
        lock=lock,
        draft=lock is None,
    )


def load_followups(path: Path | str, loaded: LoadedProtocol) -> tuple[Arm, ...]:
    """The arms of a follow-up file, which must name the very protocol that is loaded."""
    path = Path(path)
    content = _read_toml(path)
    problems = Problems(path.name, content)
    followups = _validate(problems, FollowUps, content)
    if followups.protocol != loaded.protocol.name:
        problems.add(
            ("protocol",), f"the file belongs to {shown(followups.protocol)}", expected=f"'{loaded.protocol.name}'"
        )
    if followups.protocol_sha256 != loaded.protocol_sha256:
        problems.add(
            ("protocol_sha256",),
            f"{followups.protocol_sha256[:12]}… is another state of the protocol",
            expected=loaded.protocol_sha256,
            todo="check that the arms still make sense, then write the digest of this protocol",
        )
    if not followups.arms:
        problems.add(("arms",), "no arm is declared", expected="at least one [[arms]]")
    unique(problems, "arms", [arm.name for arm in followups.arms])
    taken = {item.name.casefold(): "arm" for item in loaded.protocol.arms}
    taken |= {item.name.casefold(): "floor" for item in loaded.protocol.floors}
    for index, arm in enumerate(followups.arms):
        if noun := taken.get(arm.name.casefold()):
            problems.add(
                ("arms", index, "name"),
                f"the protocol has {'an' if noun == 'arm' else 'a'} {noun} named {shown(arm.name)}",
                expected="a new name",
            )
        if arm.role != "follow-up":
            problems.add(
                ("arms", index, "role"), f"'{arm.role}' has no place in a follow-up file", expected="role 'follow-up'"
            )
        check_arm(problems, ("arms", index), arm, loaded.protocol.capture)
    problems.raise_all()
    return followups.arms


def find_protocol(name: str | Path) -> Path:
    """A path as it is; a name in ``./protocols``, then in the project's tree, then among the shipped protocols."""
    path = Path(name)
    if _is_file(path):
        return path
    package = Path(__file__).resolve().parents[1]
    folders = [Path("protocols"), package.parent / "protocols", package / "shipped_protocols"]
    wanted = path.name.removesuffix(".toml")
    if path.name == str(name):
        for folder in folders:
            if _is_file(folder / f"{wanted}.toml"):
                return folder / f"{wanted}.toml"
    known = sorted({file.stem for folder in folders for file in folder.glob("*.toml") if _is_protocol(file)})
    raise ProtocolError(
        "no such protocol",
        where=shown(str(name)),
        expected="a path" + (f", or {one_of(known)}" if known else ""),
        todo=did_you_mean(wanted, known),
    )


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # a name too long, or with a null byte
        return False


def _is_protocol(path: Path) -> bool:
    try:
        return b"drift.protocol/" in path.read_bytes()[:100_000]
    except OSError:
        return False


def _read_limited(path: Path, limit: int, where: str) -> bytes:
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


def _read_toml(path: Path) -> dict[str, Any]:
    raw = _read_limited(path, TOML_LIMIT_BYTES, path.name if _is_file(path) else str(path))
    try:
        return tomllib.loads(raw.decode("utf-8-sig"))  # some editors write a byte order mark
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise ProtocolError(f"not UTF-8 at line {line}", where=path.name, expected="a TOML file in UTF-8") from error
    except RecursionError as error:
        raise ProtocolError("not valid TOML: nested too deeply", where=path.name) from error
    except ValueError as error:
        raise ProtocolError(f"not valid TOML: {error}", where=path.name) from error


def _validate(problems: Problems, model: type[Model], content: dict[str, Any]) -> Model:
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


def _read_streams(problems: Problems, protocol: Protocol, folder: Path) -> tuple[dict[str, Stream], dict[str, str]]:
    """Streams by window name and digests by path; what could not be read is absent and in ``problems``."""
    streams: dict[str, Stream] = {}
    digests: dict[str, str] = {}
    read: dict[str, Stream | None] = {}
    for index, window in enumerate(protocol.windows):
        if window.stream not in read:
            read[window.stream] = None
            loc = ("windows", index, "stream")
            if reason := _outside(window.stream, folder):
                problems.add(
                    loc, f"{shown(window.stream)} {reason}", expected="a path below the protocol's folder, with /"
                )
                continue
            try:
                raw = _read_limited(folder / window.stream, STREAM_LIMIT_BYTES, "")
            except ProtocolError as error:
                problems.add(loc, f"{shown(window.stream)}: {error.what}", expected=error.expected or "a stream file")
                continue
            digests[window.stream] = hashlib.sha256(raw).hexdigest()
            read[window.stream] = _parse_stream(problems, window.stream, raw)
        if (stream := read[window.stream]) is not None:
            streams[window.name] = stream
    return streams, digests


def _outside(name: str, folder: Path) -> str:
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


def _parse_stream(problems: Problems, name: str, raw: bytes) -> Stream | None:
    here = Problems(name)
    try:
        here.data = json.loads(raw.decode(), object_pairs_hook=_once)
        # Ids have their own check; walking them one by one would cost seconds for a long stream.
        if isinstance(here.data, dict):
            # A stream's text may hold whatever a model writes.
            check_values(here, {key: value for key, value in here.data.items() if key not in ("tokens", "text")})
            check_field_names(here, Stream, here.data)
        stream = Stream.model_validate_json(raw, strict=True)
    except ValidationError as failure:
        add_validation_errors(here, Stream, failure)
        stream = None
    except (ValueError, RecursionError) as error:
        here.add((), f"not valid JSON: {error}", expected="a stream file in UTF-8 JSON")
        stream = None
    problems.errors.extend(here.errors)
    return stream if not here.errors else None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"key {next(key for key in keys if keys.count(key) > 1)!r} is given twice")
    return found
