"""Which store is meant, and paths in both directions on both kinds of system."""

from __future__ import annotations

from pathlib import Path, PurePosixPath, PureWindowsPath

import pytest

from drift_runs.errors import StoreError
from drift_runs.tracking import uris


@pytest.fixture(autouse=True)
def no_environment(monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)


def test_option_comes_before_environment_before_store(monkeypatch, tmp_path):
    assert uris.resolve_uri(None, tmp_path) == f"sqlite:///{tmp_path.as_posix()}/mlflow.db"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://tracking:5000/")
    assert uris.resolve_uri(None, tmp_path) == "http://tracking:5000"
    assert uris.resolve_uri("postgresql+psycopg://tracking/db", tmp_path) == "postgresql+psycopg://tracking/db"


def test_a_relative_store_becomes_absolute():
    assert uris.sqlite_path(uris.resolve_uri(None, Path("store"))) == Path("store/mlflow.db").absolute()


@pytest.mark.parametrize(
    "uri", ["mlruns", "./mlruns", "/data/mlruns", "file:///data/mlruns", r"C:\mlruns", "C:/mlruns"]
)
def test_a_file_store_is_refused_with_the_way_out(uri, tmp_path):
    with pytest.raises(StoreError, match=r"file store.*sqlite:///.*migrate-filestore"):
        uris.resolve_uri(uri, tmp_path)


@pytest.mark.parametrize("uri", ["sqlite://", "sqlite:///:memory:", "http://", "postgresql:///db", "ftp://host/x"])
def test_an_address_that_cannot_serve_is_refused(uri, tmp_path):
    with pytest.raises(StoreError):
        uris.resolve_uri(uri, tmp_path)


def test_the_message_says_where_the_address_came_from(monkeypatch, tmp_path):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "mlruns")
    with pytest.raises(StoreError, match="environment variable MLFLOW_TRACKING_URI"):
        uris.resolve_uri(None, tmp_path)


def test_a_password_is_never_shown(tmp_path):
    with pytest.raises(StoreError) as caught:
        uris.resolve_uri("oracle://user:secret@host/db", tmp_path)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("path", "uri"),
    [
        (PurePosixPath("/data/my store/mlflow.db"), "sqlite:////data/my store/mlflow.db"),
        (PureWindowsPath(r"C:\data\mlflow.db"), "sqlite:///C:/data/mlflow.db"),
    ],
)
def test_sqlite_addresses(path, uri):
    assert uris.sqlite_uri(path) == uri


def test_a_question_mark_cannot_be_in_a_database_path():
    with pytest.raises(StoreError, match="'\\?'"):
        uris.sqlite_uri(PurePosixPath("/data/what?/mlflow.db"))


@pytest.mark.parametrize(
    ("path", "uri"),
    [
        (PurePosixPath("/data/my store/50%"), "file:///data/my%20store/50%25"),
        (PureWindowsPath(r"C:\data\my store"), "file:///C:/data/my%20store"),
        (PureWindowsPath(r"\\server\share\x"), "file://server/share/x"),
    ],
)
def test_file_addresses_there_and_back(path, uri):
    assert uris.file_uri(path) == uri
    assert uris.local_path(uri, windows=isinstance(path, PureWindowsPath)) == path


@pytest.mark.parametrize("uri", ["s3://bucket/x", "mlflow-artifacts:/0/abc", "http://host/x"])
def test_what_lies_elsewhere_has_no_local_path(uri):
    assert uris.local_path(uri, windows=False) is None
    assert uris.local_path(uri, windows=True) is None


@pytest.mark.parametrize(
    ("uri", "endpoint"),
    [
        ("http://tracking", ("tracking", 80)),
        ("https://tracking/path", ("tracking", 443)),
        ("postgresql+psycopg://user:pw@db:6000/x", ("db", 6000)),
        ("sqlite:////data/mlflow.db", None),
        ("databricks", None),
    ],
)
def test_endpoints(uri, endpoint):
    assert uris.endpoint_of(uri) == endpoint


@pytest.mark.parametrize(
    "uri",
    [
        "http://user:SEC/RET@127.0.0.1:9",
        "http://user:RET@SEC@127.0.0.1:9",
        "http://user:SEC RET@127.0.0.1:9",
        "http://127.0.0.1:9/?password=SEC",
        "postgresql://h/db?user=a&PASSWORD=SEC&sslmode=off",
        "file://user:SEC@host/x",
        "user:SEC@host/db",
        "unknown://user:SEC@host/db",
        "http://user:SEC@[::1",
        "http://user:SEC@host:99999",
    ],
)
def test_no_part_of_a_password_is_shown(uri: str) -> None:
    try:
        uris.endpoint_of(uris.checked_uri(uri, where="option"))
        shown = uris.redacted(uri)
    except StoreError as error:
        shown = str(error)
    assert "SEC" not in shown and "RET" not in shown
    if " " not in uri:
        assert "SEC" not in uris.redacted(f"cannot reach '{uri}' (it said: {uri})")


@pytest.mark.parametrize(
    "text", ["sqlite:////data/a@b/mlflow.db", "http://127.0.0.1:5000", "see https://example.org/a?b=c: no", "a: b@c"]
)
def test_what_hides_nothing_is_shown_whole(text: str) -> None:
    assert uris.redacted(text) == text
