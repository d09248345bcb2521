"""An arm's own answers to the protocol's tasks, checked: table ``TASKS``."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from drift_runs.generate.checks import check
from drift_runs.lanes.identity import Lane
from drift_runs.lanes.scenes import Scenes
from drift_runs.lanes.stored import stored_answer
from drift_runs.protocol.generation import Task
from drift_runs.protocol.model import Protocol, Range
from drift_runs.schema import TASKS
from drift_runs.store import Store


def tasks_table(store: Store, scenes: Scenes, tasks: Sequence[Task], lane: Lane) -> pa.Table:
    """Check every task's answer: schema ``TASKS``, in the order given. Every answer must be there."""
    protocol = scenes.loaded.protocol
    answers = {answer.name: answer for answer in protocol.answers}
    rows = []
    for task in tasks:
        answer = stored_answer(store, scenes, lane, task)
        scene = scenes.at(task.window, task.at)
        expected = None
        if task.answer:
            span = answers[task.answer]
            expected = scene.read(scenes.loaded.tokens(task.window)[span.start : span.end])
        checked = check(task, expected, answer.text, scene, ended=answer.ended)
        window = protocol.window(task.window)
        place = _range_of(protocol, task)
        rows.append(
            {
                "arm": lane.execution.name,
                "task": task.name,
                "window": task.window,
                "document": window.document,
                "panel": window.panel,
                "range": place.name if place is not None else "",
                "kind": place.kind if place is not None else "",
                "outlier": task.window in protocol.outlier_windows,
                "check": task.check,
                "passed": checked.passed,
                "reason": checked.reason,
                "ended": answer.ended,
                "tokens": len(answer.tokens),
                "text": answer.text,
            }
        )
    return pa.Table.from_pylist(rows, schema=TASKS)


def _range_of(protocol: Protocol, task: Task) -> Range | None:
    here = [found for found in protocol.ranges if found.window == task.window]
    return next((found for found in here if found.start <= task.at < found.end), None)
