"""``drift.toml``: what differs from one machine to the next. Never frozen, never committed by default.

    schema = "drift.machine/1"

    [defaults]
    threads = 2

    [arms.f16]
    model = "models/f16.gguf"        # relative to this file
    threads = 4

An arm whose table names no model takes the model of the arm that ``same_model_as`` names, and nothing else of it: an
``adapter`` is each arm's own, so that two arms of one model may differ in it.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv6Address
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from drift_runs.errors import ConfigError
from drift_runs.protocol.problems import did_you_mean

SCHEMA = "drift.machine/1"
FILE_NAME = "drift.toml"
DEFAULT_TIMEOUT_S = 600.0


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


class Defaults(_Part):
    """What every arm takes unless its own table says otherwise."""

    threads: Annotated[int, Field(ge=1, le=1024)] | None = None


class MachineArm(_Part):
    """Where an arm's engine finds what it needs on this machine."""

    model: str | None = None
    """Path of the weight file; relative to this file."""
    same_model_as: str | None = None
    """Another arm whose weight file this arm runs."""
    adapter: str | None = None
    """Path of the adapter that the protocol's ``adapter_scale`` applies to the weights; relative to this file."""
    threads: Annotated[int, Field(ge=1, le=1024)] | None = None

    rows: str | None = None
    """Folder of a recorded capture that engine ``replay`` plays; relative to this file."""
    url: str | None = None
    """Address of the arm's server, for instance ``http://127.0.0.1:8101``."""
    served: str | None = None
    """Name of the model in requests to it; absent: the only one that it lists."""
    key_env: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")] | None = None
    """Name of the environment variable that holds the server's key."""
    tokenizer: str | None = None
    """Folder or file with the model's tokenizer, where the server does not tell the bytes of its tokens."""
    hardware: Annotated[str, Field(max_length=200)] | None = None
    """Processor or accelerator behind the server, as its owner says: a server does not tell it."""
    concurrency: Annotated[int, Field(ge=1, le=64)] | None = None
    """Requests to the server at a time."""
    timeout_s: Annotated[float, Field(gt=0, le=86_400)] | None = None
    """Longest wait for one answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a server stands, and how it is asked."""

    url: str
    """Without a trailing slash."""
    served: str = ""
    """Name of the model in requests; empty: the only one that the server lists."""
    key_env: str = ""
    """Name of an environment variable; never the key."""
    tokenizer: Path | None = None
    hardware: str = ""
    concurrency: int = 1
    timeout_s: float = DEFAULT_TIMEOUT_S

    @property
    def shown(self) -> str:
        """The address as it may be shown and stored: some services put an account or a secret into the path."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}{'/…' if parts.path else ''}"


class _Content(_Part):
    schema_: Annotated[Literal["drift.machine/1"], Field(alias="schema")]
    defaults: Defaults = Defaults()
    arms: dict[str, MachineArm] = {}


class Machine:
    """A loaded ``drift.toml``."""

    def __init__(self, content: _Content, path: Path) -> None:
        self._content = content
        self.path = path

    def model_file(self, arm: str) -> Path:
        """The arm's weight file (whether it exists is for the engine to say)."""
        seen: list[str] = []
        name = arm
        while True:
            seen.append(name)
            entry = self._content.arms.get(name)
            where = f"{self.path.name}: arms.{name}"
            if entry is None:
                raise ConfigError(
                    "this arm has no entry",
                    where=where,
                    expected='a table with model = "…" or same_model_as = "…"',
                    todo=did_you_mean(name, self._content.arms) or "add it",
                )
            if entry.model is not None:
                return self._path(entry.model, where=f"{where}.model", what="a weight file")
            if entry.same_model_as is None:
                raise ConfigError("no weight file is named", where=where, expected="model or same_model_as")
            name = entry.same_model_as
            if name in seen:
                raise ConfigError(f"same_model_as goes in a circle: {' -> '.join([*seen, name])}", where=where)

    def adapter_file(self, arm: str) -> Path | None:
        """The arm's own adapter; None where its table names none. ``same_model_as`` is not followed."""
        entry = self._content.arms.get(arm)
        if entry is None or entry.adapter is None:
            return None
        return self._path(entry.adapter, where=f"{self.path.name}: arms.{arm}.adapter", what="an adapter")

    def place(self, arm: str) -> Place:
        """Where the arm's server stands; ``ConfigError`` where its table names none."""
        entry = self._content.arms.get(arm)
        where = f"{self.path.name}: arms.{arm}"
        if entry is None or entry.url is None:
            raise ConfigError(
                "no server is named" if entry is not None else "this arm has no entry",
                where=where,
                expected='url = "http://127.0.0.1:8101"',
                todo="" if entry is not None else did_you_mean(arm, self._content.arms) or "add it",
            )
        url = entry.url.rstrip("/").removesuffix("/v1")
        if not _is_address(url):
            raise ConfigError(
                "no address of a server",
                where=f"{where}.url",
                expected="http://HOST:PORT without a user, a key or a query in it",
                todo="a key is named by key_env",
            )
        return Place(
            url=url,
            served=entry.served or "",
            key_env=entry.key_env or "",
            tokenizer=None
            if entry.tokenizer is None
            else self._path(entry.tokenizer, where=f"{where}.tokenizer", what="a tokenizer"),
            hardware=entry.hardware or "",
            concurrency=entry.concurrency or 1,
            timeout_s=entry.timeout_s or DEFAULT_TIMEOUT_S,
        )

    def names_model(self, arm: str) -> bool:
        """Whether the arm's table names a weight file, its own or another arm's."""
        entry = self._content.arms.get(arm)
        return entry is not None and (entry.model is not None or entry.same_model_as is not None)

    def knows(self, name: str) -> bool:
        """Whether there is a table of that name: a repeat of an arm may have one of its own."""
        return name in self._content.arms

    def rows_folder(self, arm: str) -> Path:
        """The recorded capture that the arm plays; ``ConfigError`` where its table names none."""
        entry = self._content.arms.get(arm)
        where = f"{self.path.name}: arms.{arm}"
        if entry is None or entry.rows is None:
            raise ConfigError("no recorded rows are named", where=where, expected='rows = "…", a folder of a capture')
        return self._path(entry.rows, where=f"{where}.rows", what="a capture's folder")

    def _path(self, text: str, *, where: str, what: str) -> Path:
        try:
            return (self.path.parent / Path(text).expanduser()).resolve()
        except (OSError, RuntimeError, ValueError) as error:  # no such home, a name too long, a null byte
            raise ConfigError(f"no path of a file: {error}", where=where, expected=f"the path of {what}") from None

    def threads(self, arm: str) -> int:
        """Engine threads: the arm's, else the default, else the processors this process may use."""
        entry = self._content.arms.get(arm)
        if entry is not None and entry.threads is not None:
            return entry.threads
        return self._content.defaults.threads or usable_processors()


def _is_address(url: str) -> bool:
    """Whether a client can ask there at all. No user, key or query: what is no part of an address is refused."""
    found = re.fullmatch(r"https?://([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::(\d{1,5}))?(/[!-~]*)?", url)
    if found is None or re.search("[?#@]", url):
        return False
    host, port = found[1], found[2]
    if host.startswith("["):
        try:
            IPv6Address(host[1:-1])
        except ValueError:
            return False
    return port is None or 1 <= int(port) <= 65_535


def usable_processors() -> int:
    """Processors that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def load_machine(path: Path) -> Machine:
    """Read a machine file. Raises ``ConfigError`` with file and key."""
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
        return Machine(_Content.model_validate(raw), path.resolve())
    except FileNotFoundError:
        raise ConfigError(
            "no such file",
            where=str(path),
            expected="a machine file that says where each arm's model lies",
            todo="write one (see docs/running.md) and name it with --machine",
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot be read: {error}", where=str(path)) from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"not TOML: {error}", where=str(path)) from None
    except ValidationError as failure:
        first = failure.errors(include_url=False)[0]
        key = ".".join(str(part) for part in first["loc"])
        options = [*MachineArm.model_fields, *Defaults.model_fields, "schema", "defaults", "arms"]
        hint = did_you_mean(str(first["loc"][-1]), options) if first["type"] == "extra_forbidden" and key else ""
        raise ConfigError(first["msg"].lower(), where=f"{path.name}: {key}", todo=hint) from None


def machine_text(
    models: Mapping[str, Path],
    *,
    same_model: Mapping[str, str],
    threads: int,
    adapters: Mapping[str, Path] | None = None,
) -> str:
    """The text of a machine file: weight file by arm, arms that share one, threads, adapters by arm."""

    def quoted(value: str) -> str:
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'

    tables: dict[str, list[str]] = {}
    for key, entries in (("model", models), ("same_model_as", same_model), ("adapter", adapters or {})):
        for arm, value in entries.items():
            tables.setdefault(arm, []).append(f"{key} = {quoted(str(value))}")
    lines = [f'schema = "{SCHEMA}"', "", "[defaults]", f"threads = {threads}"]
    for arm, keys in tables.items():
        lines += ["", f"[arms.{quoted(arm)}]", *keys]
    return "\n".join(lines) + "\n"
