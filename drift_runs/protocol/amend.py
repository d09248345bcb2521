"""An amendment names what it replaces; where that one's lock lies beside it, the claim is verified."""

from __future__ import annotations

from pathlib import Path

from drift_runs.errors import ProtocolError
from drift_runs.protocol.load import LoadedProtocol
from drift_runs.protocol.lock import Lock, lock_path, read_lock


def superseded_lock(loaded: LoadedProtocol) -> Lock | None:
    """The lock of the protocol that this one supersedes, from the same folder; ``None`` when it is not there.

    Raises ``ProtocolError`` when ``[supersedes]`` says another digest than that lock, or when a protocol supersedes
    itself or a later version of itself.
    """
    claim = loaded.protocol.supersedes
    if claim is None:
        return None
    protocol = loaded.protocol
    if claim.name == protocol.name and claim.version >= protocol.version:
        raise ProtocolError(
            f"version {protocol.version} cannot supersede version {claim.version} of itself",
            where=f"{loaded.path.name}: supersedes.version",
            expected=f"a version below {protocol.version}",
        )
    for path in sorted(loaded.path.parent.glob("*.lock.json")):
        if path.name == lock_path(loaded.path).name:
            continue
        lock = _readable(path)
        if lock is None or (lock.protocol.get("name"), lock.protocol.get("version")) != (claim.name, claim.version):
            continue
        if lock.protocol_sha256 != claim.sha256:
            raise ProtocolError(
                f"{claim.sha256[:12]}… is not what {path.name} froze",
                where=f"{loaded.path.name}: supersedes.sha256",
                expected=lock.protocol_sha256,
            )
        return lock
    return None


def _readable(path: Path) -> Lock | None:
    """A broken lock of some other protocol is that protocol's fault and not this one's."""
    try:
        return read_lock(path)
    except ProtocolError:
        return None
