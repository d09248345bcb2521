"""The probe: every question to one engine, in seconds."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from drift_runs.engines.base import Engine, EngineIdentity, ListedEngine
from drift_runs.engines.probe.answers import NO, YES, Answer, ProbeReport, ProbeTask
from drift_runs.engines.probe.asking import BUDGET_S, Asking, Refusal
from drift_runs.engines.probe.chunks import ask_chunks
from drift_runs.engines.probe.ids import ask_ids
from drift_runs.engines.probe.limits import ask_limits
from drift_runs.engines.probe.raw import ask_raw
from drift_runs.engines.probe.repeats import ask_repeats
from drift_runs.engines.probe.rollout import ask_rollout
from drift_runs.engines.probe.rows import ask_rows
from drift_runs.errors import DriftError

Group = Callable[[Asking], list[Answer]]
GROUPS: tuple[Group, ...] = (
    ask_ids,
    ask_rows,
    ask_raw,
    ask_repeats,
    ask_rollout,
    ask_chunks,
    ask_limits,  # the last, because it looks whether the model is still the one of the start
)
QUESTIONS = (
    "dictionary", "round-trip", "bos", "rows", "own-token", "history", "top-k", "wanted", "raw", "speculation",
    "temperature", "penalties", "full-rows", "mass", "repeats", "cache", "writes", "sense", "chunks",
    "context", "declared",
)  # fmt: skip
"""The names of all answers, in order."""
IDS_ALONE = (ask_ids,)
"""For an engine whose rows need no asking: what it reads texts as is its file's, and is asked of every engine."""


def probe(
    engine: ListedEngine | Engine,
    task: ProbeTask,
    *,
    groups: Sequence[Group] = GROUPS,
    budget_s: float = BUDGET_S,
    clock: Callable[[], float] = time.monotonic,
) -> ProbeReport:
    """Ask an open engine everything, with short cuts of the protocol's windows. It is neither closed nor changed.

    ``groups``: what is asked, where it is not everything.

    Raises nothing for what an engine does: an error is an answer, with its one line as evidence. After ``budget_s``
    seconds nothing more is asked, and what was not asked is not established.
    """
    asking = Asking(engine, task, budget_s=budget_s, clock=clock)
    identity = asking.ask(lambda: asking.engine.identity)
    said = asking.said()
    answers = [
        replace(answer, way_round="") if answer.answer == YES else answer
        for group in groups
        for answer in group(asking)
    ]
    known = isinstance(identity, EngineIdentity)
    return ProbeReport(
        engine=identity.engine if known else type(engine).__name__,
        build=identity.build if known else "not said",
        hardware=identity.hardware if known else "not said",
        answers=tuple(answers),
        measured=asking.measured,
        said={} if isinstance(said, Refusal) else said,
        calls=asking.calls,
        seconds=asking.seconds,
    )


def not_opened(engine: str, error: DriftError) -> ProbeReport:
    """The report of an engine that cannot be opened: one answer, which blocks."""
    answer = Answer(
        question="opens",
        title="Does the engine open as it is declared?",
        answer=NO,
        evidence=error.line(),
        needed=True,
        way_round=error.todo,
    )
    return ProbeReport(engine=engine, build="not opened", hardware="not said", answers=(answer,))
