"""Write windows as source texts of ``drift record``, with the schemas of their tools and a file of what was drawn."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from ops_evaluation.call_answers import tools_for
from ops_tasks.tasks import Task, pieces

from drift_runs.authoring.source import render
from drift_runs.errors import ConfigError
from drift_runs.generate.answer_forms import form_problem
from ops_windows.grow import Window


def form_of(window: Window, text: str) -> str:
    if text.startswith("<tool_call>"):
        return "call"
    return "json" if window.wanted.kind == "json" else "text"


def all_tools(window: Window) -> list[dict]:
    """What the conversation offers, and under its new name what an error renamed."""
    task = Task(kind="", template="", turns=window.turns, tools=window.tools)
    tools = list(window.tools)
    for at, turn in enumerate(window.turns):
        if turn.role == "assistant":
            tools += [tool for tool in tools_for(task, at) if tool not in tools]
    return tools


def source_text(window: Window) -> str:
    """The source of one window."""
    short = window.wanted.name.removeprefix("pt-")
    lines = [f"%% schemas {window.wanted.name}"] if window.tools else []
    lines.append(f"%% range {window.wanted.kind} {short}")
    answer = 0
    for turn in window.turns:
        if turn.role == "assistant":
            answer += 1
            lines.append(f"%% answer {form_of(window, turn.text)} {short}.{answer}")
        lines += [f"%% {turn.role}", turn.text]
    return "\n".join([*lines, "%% end", ""])


def write(folder: Path, window: Window) -> None:
    """Write the source and its schemas, and read them back: the text must be the one that the reference passed."""
    name = window.wanted.name
    tools = all_tools(window)
    if tools:
        (folder / "tools").mkdir(parents=True, exist_ok=True)
        text = json.dumps(tools, indent=1, ensure_ascii=False) + "\n"
        (folder / "tools" / f"{name}.json").write_text(text, encoding="utf-8")
    file = folder / f"{name}.txt"
    file.write_text(source_text(window), encoding="utf-8")
    expected = "".join(piece.text for piece in pieces(Task(kind="", template="", turns=window.turns)))
    rendered = render(file)
    if rendered.text != f"{expected}\n" or len(rendered.answers) != len(window.answers):
        raise ConfigError("the source does not give the conversation back", where=str(file))
    for turn in window.turns:
        if turn.role == "assistant" and (reason := form_problem(form_of(window, turn.text), turn.text, tools)):
            raise ConfigError(f"an answer has not its form: {reason}", where=str(file))


def facts(window: Window) -> dict[str, int | float]:
    """What is kept of one window's making."""
    literal = np.asarray(window.p1)[list(window.literal)]
    return {
        "answers_drawn": window.counts.drawn,
        "answers_passed": window.counts.passed,
        "answers": len(window.answers),
        "scored_tokens": window.scored,
        "stream_tokens": len(window.tokens),
        "literal_tokens": len(literal),
        "literal_p1_mean": round(float(literal.mean()), 6) if len(literal) else 0.0,
        "literal_p1_strong_share": round(float((literal >= 0.9).mean()), 6) if len(literal) else 0.0,
    }
