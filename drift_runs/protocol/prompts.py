"""The panel of prompts of a protocol's rollouts, and their token ids: two files beside it that its lock covers too."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from drift_runs.errors import ProtocolError
from drift_runs.protocol.files import once, outside, parse_toml, read_limited, validate
from drift_runs.protocol.generation import PromptIds, Prompts, Rollouts
from drift_runs.protocol.problems import Problems, add_validation_errors, check_field_names, shown

PROMPTS_LIMIT_BYTES = 20_000_000
IDS_LIMIT_BYTES = 50_000_000


class ReadPrompts(NamedTuple):
    """What could be read; None for what was not asked for, or is in the problems."""

    prompts: Prompts | None
    ids: PromptIds | None
    digests: dict[str, str]
    """Path, relative to the protocol and with ``/``, to SHA-256 of the file's bytes."""


def read_prompts(problems: Problems, rollouts: Rollouts | None, folder: Path) -> ReadPrompts:
    """Read both files of ``rollouts``. What is wrong with one of them goes into ``problems``."""
    digests: dict[str, str] = {}
    if rollouts is None:
        return ReadPrompts(None, None, digests)
    prompts = ids = None
    if (raw := _raw(problems, "prompts", rollouts.prompts, folder, PROMPTS_LIMIT_BYTES)) is not None:
        digests[rollouts.prompts] = hashlib.sha256(raw).hexdigest()
        prompts = _prompts(problems, rollouts.prompts, raw)
    if (raw := _raw(problems, "ids", rollouts.ids, folder, IDS_LIMIT_BYTES)) is not None:
        digests[rollouts.ids] = hashlib.sha256(raw).hexdigest()
        ids = _ids(problems, rollouts.ids, raw)
    return ReadPrompts(prompts, ids, digests)


def load_prompts(path: Path) -> Prompts:
    """A panel of prompts from its file, TOML or (by its name) JSON. Raises ``ProtocolError``."""
    raw = read_limited(path, PROMPTS_LIMIT_BYTES, path.name)
    problems = Problems(path.name)
    prompts = _prompts(problems, path.name, raw)
    problems.raise_all()
    assert prompts is not None
    return prompts


def _raw(problems: Problems, key: str, name: str, folder: Path, limit: int) -> bytes | None:
    loc = ("rollouts", key)
    if reason := outside(name, folder):
        problems.add(loc, f"{shown(name)} {reason}", expected="a path below the protocol's folder, with /")
        return None
    try:
        return read_limited(folder / name, limit, "")
    except ProtocolError as error:
        todo = "write it with drift record" if key == "ids" and error.what == "no such file" else ""
        expected = error.expected or ("a panel of prompts" if key == "prompts" else "the prompts' token ids")
        problems.add(loc, f"{shown(name)}: {error.what}", expected=expected, todo=todo)
        return None


def _prompts(problems: Problems, name: str, raw: bytes) -> Prompts | None:
    try:
        content = parse_toml(raw, name) if not name.endswith(".json") else _json(raw, name)
        here = Problems(name, content)
        prompts = validate(here, Prompts, content)
    except ProtocolError as error:
        problems.errors += [error, *error.others]
        return None
    seen: dict[str, int] = {}
    for index, prompt in enumerate(prompts.prompts):
        if (first := seen.setdefault(prompt.name.casefold(), index)) != index:
            here.add(
                ("prompts", index, "name"),
                f"duplicate name {shown(prompt.name)}, first used by prompts[{first}]",
                expected="names that differ in more than case",
            )
    problems.errors += here.errors
    return prompts if not here.errors else None


def _ids(problems: Problems, name: str, raw: bytes) -> PromptIds | None:
    here = Problems(name)
    try:
        here.data = _json(raw, name)
        check_field_names(here, PromptIds, here.data)
        ids = PromptIds.model_validate_json(raw, strict=True)
    except ValidationError as failure:
        add_validation_errors(here, PromptIds, failure)
    except ProtocolError as error:
        here.errors.append(error)
    problems.errors += here.errors
    return ids if not here.errors else None


def _json(raw: bytes, name: str) -> dict:
    try:
        content = json.loads(raw.decode(), object_pairs_hook=once)
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"not valid JSON: {error}", where=name, expected="a table in UTF-8 JSON") from None
    if not isinstance(content, dict):
        raise ProtocolError("no table", where=name, expected="a table in UTF-8 JSON")
    return content
