"""The tasks that the documents show: one of each check, each passed by a right answer and failed by a wrong one."""

from __future__ import annotations

import re
import tomllib
import typing
from pathlib import Path

import pytest

from drift_runs.generate.checks import check
from drift_runs.protocol.generation import Task
from tests.generate.test_checks import scene

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "protocol.md"
CALL = '<tool_call>\n{{"name": "open_port", "arguments": {{"port": {port}}}}}\n</tool_call>'
ANSWERS = {
    "calls": (CALL.format(port=5432), CALL.format(port=5433), "another value"),
    "literals": ("Port 5432 of db-3 is open.", "Port 54321 of db-3 is open.", "1 of 2 literals missing"),
    "pattern": ("It runs v2.10 now.", "It runs v2 now.", "is not found"),
    "json": ('```json\n{"tls": true, "port": 5432.0}\n```', '{"port": 5432, "tls": 1}', "tls: 1, expected True"),
    "sql": (
        "```sql\nSELECT id FROM orders WHERE days >= 5 ORDER BY days\n```",
        "SELECT id FROM orders WHERE days > 3 ORDER BY id DESC",
        "",
    ),
}
"""By check: a right answer, a wrong one, and what is said of the wrong one."""


def documented() -> list[Task]:
    blocks = re.findall(r"```toml\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
    (tables,) = [found["tasks"] for block in blocks if "tasks" in (found := tomllib.loads(block))]
    return [Task.model_validate(table) for table in tables]


def test_every_check_is_shown_once() -> None:
    kinds = typing.get_args(Task.model_fields["check"].annotation)
    assert sorted(task.check for task in documented()) == sorted(kinds) == sorted(ANSWERS)


@pytest.mark.parametrize("kind", ANSWERS)
def test_a_right_answer_passes_and_a_wrong_one_fails(kind: str) -> None:
    (task,) = [found for found in documented() if found.check == kind]
    right, wrong, reason = ANSWERS[kind]
    expected = CALL.format(port=5432) if task.answer else None
    assert check(task, expected, right, scene(), ended="turn") == (True, "")
    found = check(task, expected, wrong, scene(), ended="turn")
    assert found.passed is False and found.reason and reason in found.reason
    assert check(task, expected, right, scene(), ended="horizon").passed is False
