"""The lock beside a protocol: what was frozen, and which key or file differs from it now."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from drift_runs.errors import LockMismatch, ProtocolError
from drift_runs.protocol.canonical import canonical_json, protocol_sha256
from drift_runs.protocol.model import Digest, Name, Part
from drift_runs.protocol.problems import Problems, add_validation_errors, key_path, shown

LOCK_SCHEMA = "drift.lock/1"
LOCK_LIMIT_BYTES = 10_000_000
NEW_VERSION = "restore it, or make a new version in a new file with [supersedes]"

_ABSENT = object()


class Tool(Part):
    """What wrote the lock."""

    name: Name
    version: str


class Lock(Part):
    """A lock file (schema ``drift.lock/1``)."""

    schema_: Annotated[Literal["drift.lock/1"], Field(alias="schema")]
    protocol: dict[str, Any]
    """The parsed TOML, whole: so that a mismatch can name the key and its frozen value."""
    protocol_sha256: Digest
    files: dict[str, Digest]
    """Stream files: path relative to the protocol, with ``/``, and SHA-256."""
    tool: Tool
    frozen_at: str
    """UTC, ISO 8601."""


def lock_path(protocol_path: Path) -> Path:
    """``<name>.lock.json`` beside ``<name>.toml``."""
    return protocol_path.with_name(f"{protocol_path.stem}.lock.json")


def lock_bytes(lock: Lock) -> bytes:
    return canonical_json(lock.model_dump(by_alias=True)) + b"\n"


def read_lock(path: Path) -> Lock | None:
    """The lock in a file, ``None`` when there is no such file; ``ProtocolError`` when it is no sound lock."""
    problems = Problems(path.name)
    try:
        if path.stat().st_size > LOCK_LIMIT_BYTES:
            raise ProtocolError("the file is too large", where=path.name, expected=f"at most {LOCK_LIMIT_BYTES} bytes")
        raw = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ProtocolError(f"cannot be read: {error.strerror}", where=path.name) from error
    try:
        problems.data = json.loads(raw)
        lock = Lock.model_validate_json(raw, strict=True)
        digest = protocol_sha256(lock.protocol)
    except ValidationError as failure:
        add_validation_errors(problems, Lock, failure)
        problems.raise_all()
        raise
    except (ValueError, RecursionError) as error:
        raise ProtocolError(
            f"not valid JSON: {error}", where=path.name, todo="restore the lock that was frozen"
        ) from error
    if digest != lock.protocol_sha256:
        raise LockMismatch(
            "the lock was edited: protocol_sha256 is not the digest of the protocol in it",
            where=f"{path.name}: protocol_sha256",
            expected=digest,
            todo="restore the lock that was frozen",
        )
    return lock


def differences(lock: Lock, content: Mapping[str, Any], digests: Mapping[str, str], file: str) -> list[LockMismatch]:
    """Every key and file that is not as frozen, one error each; empty when all is as it was."""
    found: list[LockMismatch] = []
    if protocol_sha256(content) != lock.protocol_sha256:
        for where, old, new in _changes((), lock.protocol, content):
            found.append(_mismatch(f"{file}: {where}", old, new))
    for path in sorted(lock.files.keys() | digests.keys()):
        old, new = lock.files.get(path, _ABSENT), digests.get(path, _ABSENT)
        if old != new:
            found.append(_mismatch(f"{file}: file {path}", old, new, "sha256 "))
    return found


def _mismatch(where: str, old: Any, new: Any, unit: str = "") -> LockMismatch:
    def text(value: Any) -> str:
        return unit + (f"{value[:12]}…" if unit else shown(value))

    if old is _ABSENT:
        return LockMismatch(f"not in the lock, now {text(new)}", where=where, todo=NEW_VERSION)
    if new is _ABSENT:
        return LockMismatch(f"frozen {text(old)}, now missing", where=where, todo=NEW_VERSION)
    return LockMismatch(f"frozen {text(old)}, now {text(new)}", where=where, todo=NEW_VERSION)


def _changes(loc: tuple[str | int, ...], old: Any, new: Any) -> Iterator[tuple[str, Any, Any]]:
    """(dotted path, frozen value, present value) of each leaf that differs."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | new.keys()):
            yield from _pair((*loc, key), old.get(key, _ABSENT), new.get(key, _ABSENT))
    elif isinstance(old, list) and isinstance(new, list):
        old_names, new_names = _names(old), _names(new)
        if old_names is None or new_names is None:
            for index in range(max(len(old), len(new))):
                yield from _pair(
                    (*loc, index),
                    old[index] if index < len(old) else _ABSENT,
                    new[index] if index < len(new) else _ABSENT,
                )
            return
        # By name, so that one inserted item is one difference and not a difference in every item after it.
        by_name = dict(zip(new_names, enumerate(new), strict=True))
        for index, name in enumerate(old_names):
            place, item = by_name.get(name, (index, _ABSENT))
            yield from _pair((*loc, place), old[index], item, name)
        for name in new_names:
            if name not in old_names:
                yield from _pair((*loc, by_name[name][0]), _ABSENT, by_name[name][1], name)
        kept = [name for name in old_names if name in by_name]
        now = [name for name in new_names if name in set(old_names)]
        if kept != now:
            first = next(index for index, pair in enumerate(zip(kept, now, strict=True)) if pair[0] != pair[1])
            yield f"order of {key_path(loc)}", kept[first], now[first]
    else:
        yield key_path(loc), old, new


def _pair(loc: tuple[str | int, ...], old: Any, new: Any, name: str = "") -> Iterator[tuple[str, Any, Any]]:
    label = f" of {shown(name)}" if name else ""
    if old is _ABSENT or new is _ABSENT:
        yield key_path(loc) + label, old, new
    elif canonical_json(old) != canonical_json(new):  # 1, 1.0 and true are equal in Python and not in the digest
        for where, before, after in _changes(loc, old, new):
            yield where + label, before, after


def _names(items: list[Any]) -> list[str] | None:
    """The items' names when each has one and they differ, else ``None``."""
    names = [item.get("name") for item in items if isinstance(item, dict)]
    sound = len(names) == len(items) == len(set(map(str, names))) and all(isinstance(name, str) for name in names)
    return names if sound and names else None
