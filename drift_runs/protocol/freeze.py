"""Freezing: writes the lock once, and never again with other content."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from drift_runs import __version__
from drift_runs.errors import LockMismatch, ProtocolError
from drift_runs.protocol.amend import superseded_lock
from drift_runs.protocol.canonical import canonical_json, protocol_sha256, write_atomically
from drift_runs.protocol.load import LoadedProtocol, load_protocol
from drift_runs.protocol.lock import LOCK_SCHEMA, Lock, Tool, differences, lock_bytes, lock_path
from drift_runs.protocol.problems import raise_first

__all__ = ["Frozen", "canonical_json", "check_lock", "freeze", "protocol_sha256"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Frozen:
    """What freezing did."""

    path: Path
    """The lock file."""
    lock: Lock
    already: bool
    """True when the same content was frozen before and nothing was written."""


def check_lock(loaded: LoadedProtocol) -> None:
    """Raise ``LockMismatch`` for the first key or file that is not as frozen; its ``others`` are the rest."""
    if loaded.lock is None:
        return
    if found := differences(loaded.lock, loaded.content, loaded.file_digests, loaded.path.name):
        raise_first(found)


def freeze(path: Path | str, *, now: datetime | None = None) -> Frozen:
    """Check a protocol and write its lock beside it.

    The same content frozen before: nothing is written. Other content frozen before: ``LockMismatch``, because results
    may exist that point at the lock.
    """
    loaded = load_protocol(path, verify_lock=False)
    target = lock_path(loaded.path)
    if loaded.lock is not None:
        try:
            check_lock(loaded)
        except LockMismatch as error:
            frozen = LockMismatch(
                f"is frozen already, with other content ({error.line()})",
                where=target.name,
            )
            frozen.others = error.others
            raise frozen from error
        return Frozen(path=target, lock=loaded.lock, already=True)
    superseded_lock(loaded)
    moment = (now or datetime.now(UTC)).astimezone(UTC).replace(microsecond=0)
    lock = Lock(
        schema=LOCK_SCHEMA,
        protocol=dict(loaded.content),
        protocol_sha256=loaded.protocol_sha256,
        files=dict(sorted(loaded.file_digests.items())),
        tool=Tool(name="drift-runs", version=__version__),
        frozen_at=moment.isoformat().replace("+00:00", "Z"),
    )
    try:
        write_atomically(target, lock_bytes(lock))
    except OSError as error:
        raise ProtocolError(
            f"cannot be written: {error.strerror}", where=str(target), todo="make the folder writable"
        ) from error
    return Frozen(path=target, lock=lock, already=False)
