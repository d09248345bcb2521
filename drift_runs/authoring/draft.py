"""The part of a protocol file that recording writes, between two marker lines: windows, ranges, answers and tasks."""

from __future__ import annotations

import json
from collections.abc import Sequence

from drift_runs.authoring.recipe import Recipe
from drift_runs.authoring.record import Recorded
from drift_runs.authoring.tasks import tasks_of
from drift_runs.errors import ProtocolError
from drift_runs.protocol.generation import Task

BEGIN = "# --- windows and ranges: written by 'drift record', do not edit by hand"
END = "# --- end of what 'drift record' wrote"


def blocks(recipe: Recipe, recorded: Sequence[Recorded], token_bytes: Sequence[bytes]) -> str:
    """The TOML of all windows with their ranges, answers and tasks, in the recipe's order."""
    parts = []
    for item in recorded:
        window, stream = item.window, item.stream
        spans = ", ".join(f"[{start}, {end}]" for start, end in item.layout.scored)
        parts.append(
            f"[[windows]]\nname = {_text(window.name)}\npanel = {_text(window.panel)}\n"
            f"document = {_text(window.document)}\ntitle = {_text(window.title)}\n"
            f"stream = {_text(f'{recipe.streams}/{stream.name}.json')}\nscored = [{spans}]\n"
        )
        parts += [
            f"[[ranges]]\nname = {_text(span.name)}\nwindow = {_text(window.name)}\nkind = {_text(span.kind)}\n"
            f"from = {span.start}\nto = {span.end}\n"
            for span in item.layout.spans
        ]
        parts += [
            f"[[answers]]\nname = {_text(answer.name)}\nwindow = {_text(window.name)}\nfrom = {answer.start}\n"
            f"to = {answer.end}\nform = {_text(answer.kind)}\n"
            for answer in item.layout.answers
        ]
        parts += [
            f"[[tasks]]\nname = {_text(task.name)}\nwindow = {_text(window.name)}\nat = {task.at}\n"
            f"check = {_text(task.check)}\n{_expected(task)}horizon_tokens = {task.horizon_tokens}\n"
            for task in (tasks_of(item, token_bytes) if window.tasks else ())
        ]
    return "\n".join(parts)


def _expected(task: Task) -> str:
    if task.answer:
        return f"answer = {_text(task.answer)}\n"
    return f"expected = [{', '.join(map(_text, task.expected))}]\n"


def replaced(protocol_text: str, new_blocks: str, *, where: str) -> str:
    """``protocol_text`` with the part between the markers replaced."""
    before, begin, rest = protocol_text.partition(f"{BEGIN}\n")
    _old, end, after = rest.partition(f"{END}\n")
    if not begin or not end:
        raise ProtocolError(
            "there is no place for the windows",
            where=where,
            expected=f"the lines {BEGIN!r} and {END!r}",
            todo="add both lines, or move the file away so that a draft is written",
        )
    return f"{before}{BEGIN}\n\n{new_blocks}\n{END}\n{after}"


def skeleton(recipe: Recipe, *, dictionary_size: int, dictionary_sha256: str, new_blocks: str) -> str:
    """A whole draft protocol with a reference and nothing to compare it with yet."""
    panels = "\n".join(
        f"[[panels]]\nname = {_text(panel.name)}\ntitle = {_text(panel.title)}\nrole = {_text(panel.role)}\n"
        for panel in recipe.panels
    )
    return f"""schema = "drift.protocol/1"
name = {_text(recipe.protocol)}
version = 1
title = {_text(recipe.title)}
question = {_text(recipe.question)}

[dictionary]
size = {dictionary_size}
sha256 = "{dictionary_sha256}"

[seeds]
bootstrap = 1

[capture]
context_tokens = {recipe.context_tokens}

{panels}
{BEGIN}

{new_blocks}
{END}

[[arms]]
name = "f16"
role = "reference"
derivative = "stock"
weights = "f16"
"""


def _text(value: str) -> str:
    # A JSON string is a valid TOML basic string.
    return json.dumps(value, ensure_ascii=False)
