"""Rollouts of one step of a worker: prompt by prompt, kept as they come."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from typing import Any

from drift_runs.errors import CannotAsk
from drift_runs.generate.stepping import Choose, Continues, greedy, roll, rolled_table, sampled
from drift_runs.lanes.identity import SAMPLED
from drift_runs.store import Store

KEPT_AT_ONCE = 8
"""Prompts after which a run's file is written again: what a kill can cost."""

Told = Callable[[int, int, float], None]
"""Told of finished prompts: how many, tokens that the engine evaluated, seconds."""


def roll_step(
    engine: Continues,
    store: Store,
    dictionary: Sequence[bytes],
    step: dict[str, Any],
    told: Told,
    *,
    ends: Collection[int] = (),
) -> None:
    """Roll every prompt of a step, run by run, and keep each few of them. ``ends``: where a rule may say to stop."""
    rule = step["rule"]
    stops = rule.get("stops") == "end"
    by_run: dict[int, list[tuple[str, list[int]]]] = {}
    for number, name, ids in step["prompts"]:
        by_run.setdefault(number, []).append((name, ids))
    for number, prompts in by_run.items():
        for begin in range(0, len(prompts), KEPT_AT_ONCE):
            started = time.perf_counter()
            part = prompts[begin : begin + KEPT_AT_ONCE]
            rolled, tokens = [], 0
            for name, ids in part:
                try:
                    written = roll(
                        engine,
                        ids,
                        tokens=rule["tokens"],
                        choose=_choice(step["lane"], rule, name, number),
                        size=len(dictionary),
                        stop=ends if stops else (),
                    )
                except CannotAsk as refused:
                    if not stops:
                        raise
                    # A server of texts reads this prompt otherwise than it is written, and perhaps the others not.
                    store.refuse_prompt(step["generation"], number, name, refused.line())
                    continue
                rolled.append((name, written))
                tokens += len(ids) + len(written.token_ids) - 1
            if rolled:
                store.add_rollouts(step["generation"], number, rolled_table(rolled, dictionary, run=number))
            told(len(part), tokens, time.perf_counter() - started)


def _choice(lane: str, rule: dict[str, Any], prompt: str, draw: int) -> Choose:
    if lane != SAMPLED:
        return greedy
    return sampled(seed=rule["seed"], prompt=prompt, draw=draw, temperature=rule["temperature"])
