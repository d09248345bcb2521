"""A protocol from its file: parsed, validated, cross-checked, its streams read, its lock verified.

Nothing but ``ProtocolError`` leaves this module for a bad file. Errors are collected as far as it makes sense: the
exception is the first, ``others`` holds the rest.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from drift_runs.errors import ProtocolError
from drift_runs.protocol.canonical import protocol_sha256
from drift_runs.protocol.crosscheck import cross_check, unique
from drift_runs.protocol.crosscheck_arms import check_arm
from drift_runs.protocol.crosscheck_generation import check_generation
from drift_runs.protocol.files import is_file, once, outside, parse_toml, read_limited, validate
from drift_runs.protocol.generation import PromptIds, Prompts
from drift_runs.protocol.lock import Lock, differences, lock_path, read_lock
from drift_runs.protocol.model import Arm, FollowUps, Protocol, Stream
from drift_runs.protocol.problems import (
    Problems,
    add_validation_errors,
    check_field_names,
    check_values,
    did_you_mean,
    one_of,
    raise_first,
    shown,
)
from drift_runs.protocol.prompts import read_prompts

TOML_LIMIT_BYTES = 5_000_000
STREAM_LIMIT_BYTES = 50_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedProtocol:
    """A protocol that passed every check, with what lies beside it."""

    protocol: Protocol
    path: Path
    content: Mapping[str, Any]
    """The parsed TOML as it stands: what the digest is made of."""
    streams: Mapping[str, Stream]
    """By window name; windows of one file share the object."""
    protocol_sha256: str
    file_digests: Mapping[str, str]
    """Path of a stream or of the prompts' files, relative to the protocol and with ``/``, to SHA-256."""
    lock: Lock | None
    draft: bool
    """True without a lock: results are marked so everywhere."""
    prompts: Prompts | None = None
    """The panel of ``rollouts``; None without that table. So are ``prompt_ids``, which cover all of it."""
    prompt_ids: PromptIds | None = None

    def tokens(self, window: str) -> tuple[int, ...]:
        return self.streams[window].tokens


def load_protocol(path: Path | str, *, verify_lock: bool = True) -> LoadedProtocol:
    """Load and check a protocol file.

    Raises ``ProtocolError`` (``LockMismatch`` when it differs from its lock). ``verify_lock=False`` reads the lock
    without comparing, for freezing.
    """
    path = Path(path)
    content = _read_toml(path)
    problems = Problems(path.name, content)
    protocol = validate(problems, Protocol, content)
    streams, digests = _read_streams(problems, protocol, path.parent)
    cross_check(problems, protocol, streams)
    found = read_prompts(problems, protocol.rollouts, path.parent)
    check_generation(problems, protocol, streams, found)
    digests |= found.digests
    lock = read_lock(lock_path(path))
    mismatches = differences(lock, content, digests, path.name) if lock and verify_lock else []
    # The mismatch first: a frozen file that was edited into nonsense is best explained by what was edited.
    if errors := [*mismatches, *problems.errors]:
        raise_first(errors)
    return LoadedProtocol(
        protocol=protocol,
        path=path,
        content=content,
        streams=streams,
        protocol_sha256=protocol_sha256(content),
        file_digests=digests,
        lock=lock,
        draft=lock is None,
        prompts=found.prompts,
        prompt_ids=found.ids,
    )


def load_followups(path: Path | str, loaded: LoadedProtocol) -> tuple[Arm, ...]:
    """The arms of a follow-up file, which must name the very protocol that is loaded."""
    path = Path(path)
    content = _read_toml(path)
    problems = Problems(path.name, content)
    followups = validate(problems, FollowUps, content)
    if followups.protocol != loaded.protocol.name:
        problems.add(
            ("protocol",), f"the file belongs to {shown(followups.protocol)}", expected=f"'{loaded.protocol.name}'"
        )
    if followups.protocol_sha256 != loaded.protocol_sha256:
        problems.add(
            ("protocol_sha256",),
            f"{followups.protocol_sha256[:12]}… is another state of the protocol",
            expected=loaded.protocol_sha256,
            todo="check that the arms still make sense, then write the digest of this protocol",
        )
    if not followups.arms:
        problems.add(("arms",), "no arm is declared", expected="at least one [[arms]]")
    unique(problems, "arms", [arm.name for arm in followups.arms])
    taken = {item.name.casefold(): "arm" for item in loaded.protocol.arms}
    taken |= {item.name.casefold(): "floor" for item in loaded.protocol.floors}
    taken |= {item.name.casefold(): "constrained decode" for item in loaded.protocol.constrained}
    for index, arm in enumerate(followups.arms):
        if noun := taken.get(arm.name.casefold()):
            problems.add(
                ("arms", index, "name"),
                f"the protocol has {'an' if noun == 'arm' else 'a'} {noun} named {shown(arm.name)}",
                expected="a new name",
            )
        if arm.role != "follow-up":
            problems.add(
                ("arms", index, "role"), f"'{arm.role}' has no place in a follow-up file", expected="role 'follow-up'"
            )
        check_arm(problems, ("arms", index), arm, loaded.protocol)
    problems.raise_all()
    return followups.arms


def find_protocol(name: str | Path) -> Path:
    """A path as it is; a name in ``./protocols``, then in the project's tree, then among the shipped protocols."""
    path = Path(name)
    if is_file(path):
        return path
    package = Path(__file__).resolve().parents[1]
    folders = [Path("protocols"), package.parent / "protocols", package / "shipped_protocols"]
    wanted = path.name.removesuffix(".toml")
    if path.name == str(name):
        for folder in folders:
            if is_file(folder / f"{wanted}.toml"):
                return folder / f"{wanted}.toml"
    known = sorted({file.stem for folder in folders for file in folder.glob("*.toml") if _is_protocol(file)})
    raise ProtocolError(
        "no such protocol",
        where=shown(str(name)),
        expected="a path" + (f", or {one_of(known)}" if known else ""),
        todo=did_you_mean(wanted, known),
    )


def _is_protocol(path: Path) -> bool:
    try:
        return b"drift.protocol/" in path.read_bytes()[:100_000]
    except OSError:
        return False


def _read_toml(path: Path) -> dict[str, Any]:
    raw = read_limited(path, TOML_LIMIT_BYTES, path.name if is_file(path) else str(path))
    return parse_toml(raw, path.name)


def _read_streams(problems: Problems, protocol: Protocol, folder: Path) -> tuple[dict[str, Stream], dict[str, str]]:
    """Streams by window name and digests by path; what could not be read is absent and in ``problems``."""
    streams: dict[str, Stream] = {}
    digests: dict[str, str] = {}
    read: dict[str, Stream | None] = {}
    for index, window in enumerate(protocol.windows):
        if window.stream not in read:
            read[window.stream] = None
            loc = ("windows", index, "stream")
            if reason := outside(window.stream, folder):
                problems.add(
                    loc, f"{shown(window.stream)} {reason}", expected="a path below the protocol's folder, with /"
                )
                continue
            try:
                raw = read_limited(folder / window.stream, STREAM_LIMIT_BYTES, "")
            except ProtocolError as error:
                problems.add(loc, f"{shown(window.stream)}: {error.what}", expected=error.expected or "a stream file")
                continue
            digests[window.stream] = hashlib.sha256(raw).hexdigest()
            read[window.stream] = _parse_stream(problems, window.stream, raw)
        if (stream := read[window.stream]) is not None:
            streams[window.name] = stream
    return streams, digests


def _parse_stream(problems: Problems, name: str, raw: bytes) -> Stream | None:
    here = Problems(name)
    try:
        here.data = json.loads(raw.decode(), object_pairs_hook=once)
        # Ids have their own check; walking them one by one would cost seconds for a long stream.
        if isinstance(here.data, dict):
            # A stream's text may hold whatever a model writes.
            check_values(here, {key: value for key, value in here.data.items() if key not in ("tokens", "text")})
            check_field_names(here, Stream, here.data)
        stream = Stream.model_validate_json(raw, strict=True)
    except ValidationError as failure:
        add_validation_errors(here, Stream, failure)
        stream = None
    except (ValueError, RecursionError) as error:
        here.add((), f"not valid JSON: {error}", expected="a stream file in UTF-8 JSON")
        stream = None
    problems.errors.extend(here.errors)
    return stream if not here.errors else None
