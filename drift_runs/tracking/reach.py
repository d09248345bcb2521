"""Reaching a store: is anybody there, one process at a time, and one line when it goes wrong. No MLflow here."""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from drift_runs.errors import StoreBusy, StoreError
from drift_runs.tracking import uris

_LOCK_WAIT_S = 120.0
_CONNECT_TIMEOUT_S = 5.0
_SQLITE_MAGIC = b"SQLite format 3\x00"
_LIBRARIES = ("mlflow", "sqlalchemy", "alembic", "requests", "botocore", "boto3")


def refuse_unreachable(uri: str, *, create: bool) -> None:
    """A quick look before MLflow's own retries, which take minutes over an address that nobody answers."""
    if uris.scheme_of(uri) == "sqlite":
        path = uris.sqlite_path(uri)
        if path is None or not path.exists():
            if path is not None and create:
                with asked(uri, "make the folder for the tracking store"):
                    path.parent.mkdir(parents=True, exist_ok=True)
                return
            raise StoreError(
                "there is no tracking store", where=str(path), todo="run a campaign first, or name another store"
            )
        with asked(uri, "read the tracking store"), path.open("rb") as file:
            start = file.read(len(_SQLITE_MAGIC))
        if start and start != _SQLITE_MAGIC:
            raise StoreError("the file is no sqlite database", where=str(path), todo="name another store")
        return
    endpoint = uris.endpoint_of(uri)
    if endpoint is not None:
        try:
            socket.create_connection(endpoint, timeout=_CONNECT_TIMEOUT_S).close()
        except OSError as error:
            raise StoreError(
                f"nothing answers at {endpoint.host} port {endpoint.port} ({error})",
                where=uris.redacted(uri),
                todo="start the server, or check the address",
            ) from error


@contextmanager
def locked(uri: str) -> Iterator[None]:
    """Only one process of this machine at a time opens a database or decides which run to go on with."""
    kind = uris.scheme_of(uri)
    if kind == "sqlite":
        path = uris.sqlite_path(uri)
        lock_path = Path(f"{path}.lock")
        writable = os.access(lock_path.parent, os.W_OK)
    else:
        lock_path = Path(tempfile.gettempdir(), f"drift-runs-{_digest(uri)}.lock")
        writable = True
    if kind in uris.SERVER_SCHEMES or not writable:
        yield
        return
    from filelock import FileLock, Timeout

    try:
        with FileLock(lock_path, timeout=_LOCK_WAIT_S):
            yield
    except Timeout as error:
        raise StoreBusy(
            f"the store was locked for {_LOCK_WAIT_S:.0f} s", where=str(lock_path), todo="wait, then start again"
        ) from error


@contextmanager
def asked(uri: str, doing: str, run_id: str = "") -> Iterator[None]:
    """Turn what MLflow and the libraries below it raise into one line that hides passwords."""
    try:
        yield
    except StoreError:
        raise
    except ImportError as error:
        raise StoreError(
            f"cannot {doing}: the library {error.name!r} is missing",
            where=uris.redacted(uri),
            todo="install the driver of that database or artifact store",
        ) from error
    except Exception as error:
        if not isinstance(error, OSError | ValueError) and not _is_of_the_store(error):
            raise
        text = uris.redacted(str(error)).strip().splitlines()
        raise StoreError(
            f"cannot {doing}: {text[0][:300] if text else type(error).__name__}",
            where=f"run {run_id} in {uris.redacted(uri)}" if run_id else uris.redacted(uri),
            todo="check the address and that the store is whole",
        ) from error


def _is_of_the_store(error: Exception) -> bool:
    return type(error).__module__.split(".")[0] in _LIBRARIES


def _digest(text: str) -> str:
    from hashlib import sha256

    return sha256(text.encode()).hexdigest()[:16]
