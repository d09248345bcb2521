"""Does the same request give the same numbers: again at once, and after another text has been in the cache?"""

from __future__ import annotations

from typing import NamedTuple

from drift_runs.engines.base import ListedBlock
from drift_runs.engines.probe.answers import NO, OPEN, YES, Answer
from drift_runs.engines.probe.asking import Asking, Refusal
from drift_runs.engines.probe.compared import RowDifference, row_difference
from drift_runs.engines.probe.limits import room_tokens

_HISTORY_TOKENS = 64
"""Of the request that is repeated: long enough that a cached history is another geometry than a fresh one."""


class Three(NamedTuple):
    """One row of the same text: fresh, from what the engine holds, and once more from what it holds."""

    fresh: ListedBlock | Refusal
    held: ListedBlock | Refusal
    again: ListedBlock | Refusal
    how: str
    """What makes the first one fresh, and the others not."""


def ask_repeats(asking: Asking) -> list[Answer]:
    three = _three(asking)
    refused = next((str(found) for found in three[:3] if isinstance(found, Refusal)), "")
    if refused:
        return [_repeats(asking, None, refused), _cache(asking, None, None, refused, three.how)]
    noise = row_difference(three.held, three.again)
    gap = row_difference(three.fresh, last_row(three.held))
    return [_repeats(asking, noise, refused), _cache(asking, gap, noise, refused, three.how)]


def _three(asking: Asking) -> Three:
    """In decode shape a second position goes on from the first one's history; otherwise the request itself is held.

    A fresh row comes behind another text, which takes the cache.
    """
    window = max(asking.task.windows, key=lambda window: min(len(window.tokens), _HISTORY_TOKENS), default=None)
    if window is None or not asking.looked_at():
        return Three(*[Refusal(asking.no_rows())] * 3, "")
    tokens = window.tokens[: min(_HISTORY_TOKENS, room_tokens(asking) - 1)]
    last = len(tokens) - 1
    stepwise = asking.task.path_shape == "decode" and not asking.in_process and last > 1
    # Its own first token is another one, so that no history is shared.
    other = [(token + 1) % asking.task.dictionary_size for token in tokens]
    if not asking.in_process:
        asking.rows(other, [last], top_k=asking.top_k)
    fresh = asking.rows(tokens, [last], top_k=asking.top_k)
    at = [last - 1, last] if stepwise else [last]
    held, again = (asking.rows(tokens, at, top_k=asking.top_k) for _ in range(2))
    if asking.in_process:
        return Three(fresh, held, again, "from an empty cache, and from an empty cache again")
    return Three(fresh, held, again, f"{'at once' if stepwise else 'behind another text'}, and again from what is held")


def last_row(block: ListedBlock) -> ListedBlock:
    """The last row alone."""
    return ListedBlock(*(part[-1:] for part in block))


def _repeats(asking: Asking, noise: RowDifference | None, refused: str) -> Answer:
    verdict, evidence = OPEN, refused
    if noise is not None:
        asking.measured["repeat_largest_nats"] = noise.largest_nats
        verdict = YES if noise.identical else NO
        evidence = f"the same request twice: {noise}"
    return Answer(
        question="repeats",
        title="Does the same request give the same bytes again?",
        answer=verdict,
        evidence=evidence,
        needed=asking.task.needs.repeats,
        way_round='declare the arm\'s floors with rows = "report", so that the noise is measured; one request at a '
        "time (concurrency = 1) takes the noise of batches away",
    )


def _cache(asking: Asking, gap: RowDifference | None, noise: RowDifference | None, refused: str, how: str) -> Answer:
    task = asking.task
    verdict, evidence = OPEN, refused
    if gap is not None:
        asking.measured["cache_largest_nats"] = gap.largest_nats
        evidence = f"a text taken {how}: {gap}"
        if gap.identical:
            verdict = YES
        elif noise is not None and noise.identical:
            verdict = NO
        else:
            evidence += "; it does not repeat itself either"
    off = task.cache_prompt is False
    return Answer(
        question="cache",
        title="Is a row the same whatever the engine holds in its cache?",
        answer=verdict,
        evidence=evidence,
        needed=off and verdict == NO and task.needs.scoring,
        way_round="the server uses its cache although the protocol says that it must not: start it without one"
        if off
        else "settings = { cache_prompt = false }, or a floor of kind geometry that measures it",
    )
