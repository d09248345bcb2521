"""Can the engine write, does it write what it scores, and is it text?"""

from __future__ import annotations

import numpy as np

from drift_runs.engines.base import Written
from drift_runs.engines.probe.answers import NO, OPEN, YES, Answer
from drift_runs.engines.probe.asking import Asking, Refusal, histories
from drift_runs.engines.probe.limits import room_tokens
from drift_runs.generate.loops import loop_report

TOKENS = 32
_HISTORY_TOKENS = 128
_AT_LEAST = 4
"""Tokens of a history that an engine goes on from."""
_RESCORED_IN_STEPS = 8
"""Written tokens that are scored again where each is a request."""
_APART_NATS = 0.5
"""Between what a token had when it was written and what it has as text, in the mean. Another geometry, or a cache of 8
bits, is apart by hundredths; gibberish of a broken cache by nats."""
_IMPROBABLE_NATS = 3.5
"""Mean surprise at greedy tokens: a model that knows its text gives its best token more than 3 %."""
_EVEN_SHARE = 0.85
"""Of the surprise at an even draw from the dictionary: the limit in a small one."""
_DISTINCT = 4


def ask_rollout(asking: Asking) -> list[Answer]:
    history, written, why = _written(asking)
    return [_writes(asking, history, written, why), _sense(asking, written, why)]


def _written(asking: Asking) -> tuple[tuple[int, ...], list[Written], str]:
    """The first rollout of two that is not empty, behind what stands before a window's scored part."""
    why = "the protocol has no window to go on from"
    at_most = max(1, min(_HISTORY_TOKENS, room_tokens(asking) - TOKENS - 1))
    found = histories(asking.task, at_most=at_most, at_least=_AT_LEAST)
    if not found:
        found = [
            (window, window.tokens[: min(at_most, len(window.tokens) // 2 or 1)]) for window in asking.task.windows
        ]
    best: tuple[tuple[int, ...], list[Written]] = ((), [])
    known = [tokens for _, tokens in found]
    if not asking.task.needs.scoring:
        known = _whole(asking)
    tries = 2
    for history in known:
        if not tries:
            break
        written = asking.write(history, TOKENS)
        if isinstance(written, Refusal):
            why = str(written)
            if written.of_history:
                continue  # others it may be asked, and it is counted what it could not
            break
        tries -= 1
        why = f"nothing is written behind {len(history)} tokens"
        if len(written) > len(best[1]):
            best = (tuple(history), list(written))
        if len(written) > 1:
            break
    return (*best, why)


def _whole(asking: Asking) -> list[tuple[int, ...]]:
    """Prompts, or what stands before the scored part, the shortest first and none of them cut: a server that takes
    texts may take whole turns alone."""
    room = room_tokens(asking) - TOKENS - 1
    tokens = [prompt for prompt in asking.task.prompts if len(prompt) <= room]
    if not tokens:
        tokens = [history for _, history in histories(asking.task, at_most=room) if len(history) < room]
    return sorted(tokens, key=len)


def _writes(asking: Asking, history: tuple[int, ...], written: list[Written], why: str) -> Answer:
    verdict, evidence = NO, why
    if written:
        verdict, evidence = _looked(asking, history, written)
    return Answer(
        question="writes",
        title="Does the engine go on from a history, greedily and as it scores?",
        answer=verdict,
        evidence=evidence,
        needed=asking.task.needs.generation,
        way_round="leave the lanes of generation out of the protocol (branches, rollouts, sampled, tasks); where "
        "what is written differs from what is scored, look at the KV cache's type and at speculative decoding first",
    )


def _looked(asking: Asking, history: tuple[int, ...], written: list[Written]) -> tuple[str, str]:
    logprobs = np.asarray([token.logprob for token in written])
    if wrong := [token.token for token in written if not 0 <= token.token < asking.task.dictionary_size]:
        return NO, f"id {wrong[0]} was written, outside the dictionary of {asking.task.dictionary_size:,}"
    if not np.isfinite(logprobs).all() or logprobs.max() > 1e-3:
        return NO, f"a written token has log-probability {logprobs.max():.4g}"
    if len(written) > 2 and (logprobs == 0).all():
        return NO, f"all {len(written)} log-probabilities are exactly 0: speculative decoding, or a sampler's own"
    # In a tie either is the best.
    for at, token in enumerate(written):
        if token.top_ids and token.token != token.top_ids[0] and token.logprob < token.top_logprobs[0] - 1e-6:
            return NO, (
                f"token {at} is id {token.token} at {token.logprob:.4f}, and the best of its row is id "
                f"{token.top_ids[0]} at {token.top_logprobs[0]:.4f}: not greedy, or mislabelled"
            )
    asking.measured["rollout_logprob_mean_nats"] = float(logprobs.mean())
    said = f"{len(written)} tokens, {logprobs.mean():.3f} nats in the mean"
    steps = asking.task.path_shape == "decode" and not asking.in_process
    count = min(len(written), _RESCORED_IN_STEPS if steps else TOKENS)
    text = (*history, *(token.token for token in written[:count]))
    again = asking.rows(text, range(len(history), len(text)), top_k=min(5, asking.top_k))
    if isinstance(again, Refusal):
        # A text that an engine cannot score says nothing against what it writes.
        return YES, f"{said}; not scored again: {again}"
    own = again.token_logprob
    told = np.isfinite(own)
    if not told.any():
        return YES, f"{said}; scored again, none of them is among the best"
    apart = float(np.abs(own[told] - logprobs[:count][told]).mean())
    asking.measured["written_against_scored_mean_nats"] = apart
    said += f"; scored as text, {int(told.sum())} of them are {apart:.3g} nats apart in the mean"
    return (NO if apart > _APART_NATS else YES), said


def _sense(asking: Asking, written: list[Written], why: str) -> Answer:
    verdict, evidence = OPEN, why
    if written:
        tokens = [token.token for token in written]
        report, mean = loop_report(tokens), float(np.mean([token.logprob for token in written]))
        distinct = len(set(tokens))
        evidence = f"{distinct} distinct of {len(tokens)} tokens, {mean:.3f} nats in the mean"
        if report.is_loop or (len(tokens) >= TOKENS // 2 and distinct < _DISTINCT):
            verdict = NO
            evidence += f"; a loop of {report.period} tokens over {report.stretch}"
        elif not -mean <= min(_IMPROBABLE_NATS, _EVEN_SHARE * np.log(asking.task.dictionary_size)):
            verdict = NO
            evidence += ": its own best tokens are improbable to it, which is gibberish"
        elif len(tokens) < 2:
            evidence += ": too few to say"
        else:
            verdict = YES
    return Answer(
        question="sense",
        title="Is what it writes neither a loop nor gibberish?",
        answer=verdict,
        evidence=evidence,
        needed=asking.task.needs.sense,
        way_round="look at the type of the KV cache and at the chat template first: such a model can be measured, and "
        "is no reference",
    )
