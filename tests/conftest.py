"""The tiny protocol, copied and changed as a test asks for it."""

from __future__ import annotations

import json
import re
import shutil
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

TINY = Path(__file__).parent / "data" / "tiny"
TinyProtocol = Callable[..., Path]

DELETE = object()
"""As a change: take the key or the item away."""


def tiny_dictionary() -> list[bytes]:
    """The 32 tokens of the tiny protocol: begin, end, a to z, space, newline, braces."""
    letters = [bytes([letter]) for letter in range(ord("a"), ord("z") + 1)]
    return [b"<s>", b"</s>", *letters, b" ", b"\n", b"{", b"}"]


@pytest.fixture(name="tiny_dictionary")
def _tiny_dictionary() -> list[bytes]:
    return tiny_dictionary()


@pytest.fixture
def tiny_protocol() -> TinyProtocol:
    """A factory: ``tiny_protocol(tmp_path, {"windows[0].panel": "P-C"}, frozen=False)`` gives the copied file's path.

    A change is a dotted path to a new value, ``DELETE``, or a function of the old value. ``frozen=True`` copies the
    golden lock too (which fits only the unchanged protocol).
    """
    return copy_tiny


def copy_tiny(folder: Path, changes: dict[str, Any] | None = None, *, frozen: bool = False) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copytree(TINY / "streams", folder / "streams", dirs_exist_ok=True)
    path = folder / "tiny.toml"
    shutil.copy(TINY / "tiny.toml", path)
    if frozen:
        shutil.copy(TINY / "tiny.lock.json", folder)
    if changes:
        change_toml(path, changes)
    return path


def change_toml(path: Path, changes: dict[str, Any]) -> None:
    content = tomllib.loads(path.read_text("utf-8"))
    change(content, changes)
    path.write_text(dump_toml(content), "utf-8")


def change_json(path: Path, changes: dict[str, Any]) -> None:
    content = json.loads(path.read_text("utf-8"))
    change(content, changes)
    path.write_text(json.dumps(content), "utf-8")


def change(content: Any, changes: dict[str, Any]) -> None:
    """Apply changes by dotted path; an index at the end of an array appends."""
    for dotted, new in changes.items():
        *parents, last = [
            int(number) if number else name for number, name in re.findall(r"\[(\d+)\]|([^.\[\]]+)", dotted)
        ]
        place = content
        for part in parents:
            place = place.setdefault(part, {}) if isinstance(place, dict) else place[part]
        if new is DELETE:
            del place[last]
        elif isinstance(place, list) and last == len(place):
            place.append(new)
        else:
            place[last] = new(place[last]) if callable(new) else new


def dump_toml(content: dict[str, Any]) -> str:
    """TOML with every table inline: enough for tests, which only need it to be parsed again."""
    return "".join(f"{_key(key)} = {_value(value)}\n" for key, value in content.items())


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else json.dumps(key)


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_key(key)} = {_value(item)}" for key, item in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    if isinstance(value, (str, bool)):
        return json.dumps(value, ensure_ascii=False)
    return repr(value)


@pytest.fixture(scope="session")
def tiny_arms(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``drift.toml`` of the tiny protocol's weight files; read it, never write beside it."""
    from tests.tiny_model import write_tiny_arms

    return write_tiny_arms(tmp_path_factory.mktemp("arms"))


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An initialised tracking store without a run: copying it saves the seconds of its making."""
    from tests.campaigns import make_database

    return make_database(tmp_path_factory.mktemp("tracking") / "mlflow.db")


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory, tiny_arms: Path, empty_database: Path):
    """A complete campaign of the tiny protocol; take a copy (``tests.campaigns.copied``) to change it."""
    from tests.campaigns import new_campaign

    campaign = new_campaign(tmp_path_factory.mktemp("finished") / "campaign", tiny_arms, empty_database)
    assert campaign.run().failed == ()
    return campaign


@pytest.fixture(scope="session")
def smollm2() -> Path:
    """The demo's model as shipped; skips, saying why, where it is neither cached nor to be had."""
    from drift_runs.errors import FetchError
    from drift_runs.weights.fetch import SMOLLM2, fetch

    try:
        return fetch(SMOLLM2)
    except FetchError as error:
        pytest.skip(f"needs the demo's model: {error}")
