"""What encloses a root: a tool call, a JSON value, a fenced block. Where it ends, and what is wrong with it.

A structure that the history has broken already encloses nothing: no future can be blamed for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from drift_runs.generate.calls import misfit, strict_json
from drift_runs.generate.code_blocks import block_at, open_block
from drift_runs.generate.future import Scene
from drift_runs.generate.json_prefix import scan, skip_space
from drift_runs.generate.languages import python_problem, shell_problem, sql_problem
from drift_runs.generate.syntaxes import envelope, envelopes, typed

CALL = "call"
JSON = "json"
FENCE = "fence"

_SQL = {"sql": "", "sqlite": "sqlite", "mysql": "mysql", "postgres": "postgres", "postgresql": "postgres"}
"""Dialects that a fence names by itself; ``sql`` has the protocol's."""
KINDS: Mapping[str, str] = {
    **dict.fromkeys(_SQL, "sql"),
    **dict.fromkeys(("bash", "sh", "shell", "zsh", "console", "shell-session", "terminal"), "shell"),
    **dict.fromkeys(("python", "python3", "py"), "python"),
    "json": JSON,
}
"""What is held against a grammar, by the language that a fence names; a block of any other language is a ``fence``."""
OPEN_AT_END = "the turn ends inside it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Structure:
    """What is open at a root."""

    kind: str
    """``call``, ``json``, ``sql``, ``shell``, ``python``, ``fence``; empty: nothing is open."""
    start: int
    """Offset in characters of the turn at which it opens."""
    language: str
    """What the fence names; empty for a call, a JSON value without a fence, a fence that names nothing."""


NOTHING = Structure(kind="", start=0, language="")


def enclosing(scene: Scene) -> Structure:
    """What is open at the root. A call comes first, then a fenced block, then JSON that the turn consists of."""
    turn = scene.turn
    found = envelopes(scene.syntax, turn)
    if found and found[-1][1].end is None:
        start, last = found[-1]
        return NOTHING if last.why else Structure(kind=CALL, start=start, language="")
    block = open_block(turn, [(start, call.end) for start, call in found if call.end is not None])
    if block is not None:
        structure = Structure(kind=KINDS.get(block.language, FENCE), start=block.start, language=block.language)
        return NOTHING if problem(structure, turn, scene, complete=False) else structure
    start = _open_json(turn)
    return NOTHING if start is None else Structure(kind=JSON, start=start, language="")


def end_of(structure: Structure, turn: str, scene: Scene) -> int | None:
    """The offset behind the structure's end in a longer text of the turn; None: it is still open, or there is none."""
    if not structure.kind:
        return None
    if structure.kind == CALL:
        return envelope(scene.syntax, turn, structure.start).end
    if _is_bare(structure):
        return scan(turn, structure.start).end
    block = block_at(turn, structure.start)
    return block.end if block else None


def problem(structure: Structure, turn: str, scene: Scene, *, complete: bool) -> str:
    """Why the structure is malformed, as far as the text of the turn goes; empty when nothing is wrong.

    ``complete``: the turn has ended, so that what is open is malformed. Otherwise the horizon cut it, and only what can
    never become sound is a fault. A call must fit a schema of the scene's tools where it has any. SQL, shell and Python
    are judged once their block is closed.
    """
    if not structure.kind:
        return ""
    if structure.kind == CALL:
        return _call_problem(structure, turn, scene, complete)
    if _is_bare(structure):
        return _json_problem(turn, structure.start, complete)
    block = block_at(turn, structure.start)
    if block is None:
        return ""
    if block.end is None:
        if complete:
            return f"{structure.kind}: {OPEN_AT_END}"
        return _json_problem(block.body, skip_space(block.body, 0), False) if structure.kind == JSON else ""
    return _grammar(structure, scene)(block.body)


def _call_problem(structure: Structure, turn: str, scene: Scene, complete: bool) -> str:
    found = envelope(scene.syntax, turn, structure.start)
    if found.why:
        return found.why
    if found.end is None:
        return f"call: {OPEN_AT_END}" if complete else ""
    if not scene.tools:
        return ""
    reasons = (misfit(call, scene.tools) for call in typed(scene.syntax, found.calls, scene.tools))
    return next(filter(None, reasons), "")


def _json_problem(text: str, start: int, complete: bool) -> str:
    """The value that begins at ``start``; what is behind it is of no concern."""
    if text[start : start + 1] not in ("{", "["):
        return ""
    found = scan(text, start)
    if found.fault is not None:
        return f"no JSON: {found.why}"
    if found.end is None:
        return f"json: {OPEN_AT_END}" if complete else ""
    return _strict_problem(text[start : found.end])


def _strict_problem(text: str) -> str:
    try:
        strict_json(text)
    except ValueError as error:
        return f"no JSON: {error}"
    return ""


def _grammar(structure: Structure, scene: Scene) -> Callable[[str], str]:
    if structure.kind == "sql":
        dialect = _SQL[structure.language] or scene.sql_dialect
        return lambda text: sql_problem(text, dialect)
    known: Mapping[str, Callable[[str], str]] = {
        JSON: _strict_problem,
        "shell": shell_problem,
        "python": python_problem,
        FENCE: lambda _text: "",
    }
    return known[structure.kind]


def _is_bare(structure: Structure) -> bool:
    return structure.kind == JSON and not structure.language


def _open_json(turn: str) -> int | None:
    """Where the JSON begins that is open at the end of a turn of JSON values and nothing else, one or more."""
    start = skip_space(turn, 0)
    while turn[start : start + 1] in ("{", "["):
        found = scan(turn, start)
        if found.end is None:
            return start if found.fault is None else None
        start = skip_space(turn, found.end)
    return None
