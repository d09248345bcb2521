"""Addresses of tracking stores: which one is meant, which are refused, and paths in both directions.

Pure string work, no MLflow: a command can refuse a wrong address before it pays four seconds for the import.
"""

from __future__ import annotations

import os
import re
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath
from typing import NamedTuple
from urllib.parse import quote, unquote, urlsplit

from drift_runs.errors import StoreError

DATABASE_SCHEMES = ("postgresql", "mysql", "mssql")
SERVER_SCHEMES = ("http", "https")
ACCEPTED = "sqlite:///<absolute path>, http(s)://<server>, or a postgresql://, mysql:// or mssql:// address"

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")  # two characters at least: one letter and a colon is a drive
_DRIVE = re.compile(r"/?[A-Za-z]:[\\/]")
# To the last @: a password with a slash or an @ that nobody encoded must not be shown in part. After a third slash a
# path begins, in which an @ hides nothing.
_CREDENTIALS = re.compile(r"(://)(?!/)[^\s]*@")
_BARE_CREDENTIALS = re.compile(r"(?<![^\s'\"(])[^\s/:@'\"(]+:(?!//)[^\s@]+@")
_SECRET_PARAMETER = re.compile(r"([?&][^=&\s]*(?:pass|pwd|token|secret|key)[^=&\s]*=)[^&\s'\"]+", re.IGNORECASE)
_DEFAULT_PORTS = {"http": 80, "https": 443, "postgresql": 5432, "mysql": 3306, "mssql": 1433}


class Endpoint(NamedTuple):
    """Where a server or database listens."""

    host: str
    port: int


def resolve_uri(option: str | None, store: Path) -> str:
    """The address to use: the option, else ``MLFLOW_TRACKING_URI``, else sqlite in the store.

    Raises ``StoreError`` for an address that cannot serve, among them MLflow's file store.
    """
    if option:
        return checked_uri(option, where="option --tracking-uri")
    environment = os.environ.get("MLFLOW_TRACKING_URI", "").strip()
    if environment:
        return checked_uri(environment, where="environment variable MLFLOW_TRACKING_URI")
    return sqlite_uri(store.absolute() / "mlflow.db")


def checked_uri(uri: str, *, where: str) -> str:
    """The address itself, or ``StoreError`` that says what is accepted."""
    uri = uri.strip()
    kind = scheme_of(uri)
    if kind in ("", "file"):
        raise StoreError(
            f"{redacted(uri)!r} is a file store, which MLflow no longer serves",
            where=where,
            expected=ACCEPTED,
            todo="use sqlite:///<path>/mlflow.db; old runs are moved once with"
            " 'mlflow migrate-filestore --source <folder> --target sqlite:///<path>/mlflow.db'",
        )
    if kind == "sqlite":
        path = sqlite_path(uri)
        if path is None:
            raise StoreError(
                "a database in memory is lost with its process", where=where, expected="sqlite:///<path>/mlflow.db"
            )
        return uri
    if kind in SERVER_SCHEMES or kind in DATABASE_SCHEMES:
        # Not shown: with a space in it, nobody can say where a password ends.
        if re.search(r"\s", uri):
            raise StoreError(
                "the address has a space in it", where=where, expected=ACCEPTED, todo="write a space as %20"
            )
        try:
            host = urlsplit(uri).hostname
        except ValueError:  # an IPv6 address without its closing bracket
            host = None
        if not host:
            raise StoreError(f"{redacted(uri)!r} names no host", where=where, expected=ACCEPTED)
        return uri.rstrip("/") if kind in SERVER_SCHEMES else uri
    if kind == "databricks":
        return uri
    raise StoreError(f"{redacted(uri)!r} has the unknown scheme {kind!r}", where=where, expected=ACCEPTED)


def scheme_of(uri: str) -> str:
    """Scheme without a driver (``postgresql`` of ``postgresql+psycopg``); empty for a path, a Windows one included."""
    if _DRIVE.match(uri):
        return ""
    if uri == "databricks":
        return uri
    found = _SCHEME.match(uri)
    return found.group(1).lower().split("+")[0] if found else ""


def sqlite_uri(path: PurePath) -> str:
    """Address of a database file: ``sqlite:////data/mlflow.db``, ``sqlite:///C:/data/mlflow.db``.

    The path is not percent-encoded, because SQLAlchemy takes it as it stands; so a question mark cannot be in it.
    """
    text = path.as_posix()
    if "?" in text or "#" in text:
        raise StoreError(
            "a '?' or '#' cannot be in the path of a sqlite database", where=text, todo="choose another store folder"
        )
    return "sqlite:///" + text


def sqlite_path(uri: str) -> Path | None:
    """File of a sqlite address; ``None`` for a database in memory."""
    slashes, path = uri.split(":", 1)[1][:3], uri.split(":", 1)[1][3:].split("?", 1)[0]
    if slashes != "///" or not path or path.startswith(":memory:"):
        return None
    return Path(path)


def file_uri(path: PurePath) -> str:
    """``file:///data/mlartifacts`` or ``file:///C:/data/mlartifacts``; percent-encoded, as MLflow reads it back."""
    text = path.as_posix()
    if isinstance(path, PureWindowsPath) and path.drive.endswith(":"):
        return "file:///" + text[:2] + quote(text[2:])
    if text.startswith("//"):
        return "file:" + quote(text)
    return "file://" + quote(text)


def local_path(uri: str, *, windows: bool = os.name == "nt") -> PurePath | None:
    """Path of a ``file:`` address or of a plain path; ``None`` for what lies elsewhere."""
    kind: type[PurePath] = PureWindowsPath if windows else PurePosixPath
    scheme = scheme_of(uri)
    if scheme == "":
        return kind(uri.lstrip("/") if windows and _DRIVE.match(uri) else uri)
    if scheme != "file":
        return None
    parts = urlsplit(uri)
    text = unquote(parts.path)
    if windows:
        return kind(f"//{parts.netloc}{text}" if parts.netloc else text.lstrip("/") if _DRIVE.match(text) else text)
    return kind(text)


def endpoint_of(uri: str) -> Endpoint | None:
    """Host and port that must answer; ``None`` for a local file or a hosted workspace."""
    kind = scheme_of(uri)
    if kind not in _DEFAULT_PORTS:
        return None
    parts = urlsplit(uri)
    try:
        port = parts.port
    except ValueError as error:
        raise StoreError(f"{redacted(uri)!r} has no valid port", expected=ACCEPTED) from error
    return Endpoint(parts.hostname or "", port or _DEFAULT_PORTS[kind])


def redacted(text: str) -> str:
    """The text without user names and passwords of addresses in it: what may be shown."""
    text = _CREDENTIALS.sub(r"\1***@", text)
    return _SECRET_PARAMETER.sub(r"\1***", _BARE_CREDENTIALS.sub("***@", text))
