"""Are the numbers log-probabilities of the model itself: no logits, nothing sampled, no placeholder?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from drift_runs.engines.base import ListedBlock
from drift_runs.engines.probe.answers import NO, OPEN, YES, Answer, Verdict
from drift_runs.engines.probe.asking import Asking, Cut, Refusal
from drift_runs.engines.probe.compared import entries_of, row_difference
from drift_runs.engines.probe.rows import full_rows

_ABOVE_ZERO_NATS = 1e-3
"""What a server's rounding, or a constant of its own, may put above 0."""
_ONE = 1e-6
_NOTHING_NATS = -30.0
"""A listed entry below it beside a probability of 1 says no more than none."""
_MASS_NATS = 1e-3
_SPREAD_NATS = 5e-4
"""Of the log-mass of whole rows: what is constant within it can be subtracted. A server that sums in 32 bits was seen
to be off by 0.3e-4 to 2.3e-4, row by row, with a dictionary of 49,152 ..."""
_NOTED_NATS = 1e-4
_OFFSET_NATS = 1e-2
"""... up to here. One server adds 1.6e-4; no softmax gives more."""
TEMPERATURE = 1.7
"""Asked for against the settings: a row of the model itself does not hang on it."""
PENALTY = 1.7
_PENALTIES = ("repetition_penalty", "repeat_penalty", "presence_penalty", "frequency_penalty")
"""What servers call what they take from tokens that were said before. 2 is the most that many of them allow."""
_ITS_OWN = "rows are computed from logits here: no sampler stands between"
_RAW_MODE = "start the server so that it gives raw log-probabilities (vLLM: --logprobs-mode raw_logprobs)"


def ask_raw(asking: Asking) -> list[Answer]:
    return [
        _raw(asking),
        _speculation(asking),
        _temperature(asking),
        _penalties(asking),
        _full(asking),
        _mass(asking),
    ]


def _raw(asking: Asking) -> Answer:
    verdict, evidence = OPEN, asking.no_rows()
    if seen := [block for _, block in asking.looked_at()]:
        values = np.concatenate([block.logprobs[block.ids >= 0] for block in seen])
        one_hot = np.concatenate([_one_hot(block) for block in seen])
        highest, rows = float(values.max()), len(one_hot)
        if highest > _ABOVE_ZERO_NATS:
            verdict = NO
            evidence = f"the highest value is {highest:.4f}, above 0: logits, or something else than log-probabilities"
        elif one_hot.sum() > max(1, rows // 2):
            verdict = NO
            evidence = f"{one_hot.sum()} of {rows} rows have one token of probability 1: distributions behind a sampler"
        elif max(len(block.ids[0]) for block in seen) < 2 and not asking.in_process:
            evidence = "one entry a row does not say it"
        else:
            verdict = YES
            evidence = (
                f"the highest of {values.size:,} values is {highest:.3g}; {one_hot.sum()} of {rows} rows are one-hot"
            )
    return Answer(
        question="raw",
        title="Are they log-probabilities of the model, before any sampling?",
        answer=verdict,
        evidence=evidence,
        needed=asking.task.needs.scoring,
        way_round=_RAW_MODE,
    )


def _one_hot(block: ListedBlock) -> NDArray[np.bool_]:
    """bool[n]: one entry has everything. Entries that are listed far below say nothing else."""
    first = block.logprobs[:, 0] >= np.log1p(-_ONE)
    rest = block.logprobs[:, 1:]
    nothing = np.isnan(rest) | (rest < _NOTHING_NATS) | (block.ids[:, 1:] < 0)
    return first & nothing.all(axis=1)


def _speculation(asking: Asking) -> Answer:
    """Tokens that a draft model proposed come back with a log-probability of exactly 0 from some servers."""
    verdict, evidence = OPEN, asking.no_rows()
    if seen := [block for _, block in asking.looked_at()]:
        zero = sum(int(((block.logprobs == 0) | (block.ids < 0)).all(axis=1).sum()) for block in seen)
        own = np.concatenate([block.token_logprob for block in seen])
        own_zero = int((own == 0).sum())
        rows = len(own)
        verdict = NO if zero > 1 or own_zero > rows // 2 else YES
        evidence = f"{zero} of {rows} rows are zeros alone, {own_zero} of the text's own tokens are exactly 0"
    said = asking.said()
    if isinstance(said, Mapping) and (on := _speculates(said)):
        evidence += f"; the engine says {on}"
    return Answer(
        question="speculation",
        title="Are they computed, and not zeros of speculative decoding?",
        answer=verdict,
        evidence=evidence,
        needed=asking.task.needs.scoring,
        way_round="start the server without speculative decoding",
    )


def _speculates(said: Mapping[str, str]) -> str:
    for name, value in said.items():
        if ("specul" in name.lower() or "draft" in name.lower()) and value.strip().lower() not in (
            "", "none", "no", "off", "false", "0", "null", "[]", "{}", "not said",
        ):  # fmt: skip
            return f"{name} = {value}"
    return ""


def _temperature(asking: Asking) -> Answer:
    verdict, evidence = OPEN, asking.no_rows()
    if asking.in_process:
        verdict, evidence = YES, _ITS_OWN
    elif place := _place(asking):
        verdict, evidence = _hangs_on(asking, place, f"temperature {TEMPERATURE:g}", temperature=TEMPERATURE)
    return Answer(
        question="temperature",
        title="Are the rows the same whatever temperature is asked for?",
        answer=verdict,
        evidence=evidence,
        needed=verdict == NO and asking.task.needs.scoring,
        way_round=_RAW_MODE
        if verdict == NO
        else "every request asks for neutral sampling; the raw question shows what sampling leaves behind",
    )


def _penalties(asking: Asking) -> Answer:
    """Of tokens that were said before, in a row that lists some of them: in another one nothing would show."""
    verdict, evidence = OPEN, asking.no_rows()
    if asking.in_process:
        verdict, evidence = YES, _ITS_OWN
    elif place := _place(asking):
        asked = dict.fromkeys(_PENALTIES, PENALTY)
        verdict, evidence = _hangs_on(asking, place, f"penalties of {PENALTY:g}", **asked)
        if verdict == YES and not place.said_before:
            verdict, evidence = OPEN, f"{evidence}, and no row lists a token of its history"
    return Answer(
        question="penalties",
        title="Are the rows the same whatever penalties are asked for?",
        answer=verdict,
        evidence=evidence,
        needed=verdict == NO and asking.task.needs.scoring,
        way_round=_RAW_MODE if verdict == NO else "every request asks for no penalties",
    )


class Place(NamedTuple):
    """A row that is asked for again and again."""

    cut: Cut
    at: int
    said_before: int
    """Entries that are tokens of its history."""


def _place(asking: Asking) -> Place | None:
    """The row that gives most to tokens of its history; None where no rows are had."""
    found: list[tuple[float, Place]] = []
    for cut, block in asking.looked_at():
        for row, at in enumerate(map(int, block.positions)):
            before = set(cut.tokens[:at])
            said = [value for token, value in entries_of(block, row).items() if token in before]
            found.append((float(np.exp(said).sum()), Place(cut, at, len(said))))
    return max(found, key=lambda entry: entry[0])[1] if found else None


def _hangs_on(asking: Asking, place: Place, what: str, **changes: object) -> tuple[Verdict, str]:
    """Whether a row is another one when ``what`` is asked for."""
    cut, at = place.cut, [place.at]
    plain = asking.kept("plain", lambda: asking.rows(cut.tokens, at, top_k=asking.top_k))
    changed = asking.otherwise(cut.tokens, at, top_k=asking.top_k, **changes)
    again = asking.kept("plain again", lambda: asking.rows(cut.tokens, at, top_k=asking.top_k))
    for block in (plain, changed, again):
        if isinstance(block, Refusal):
            return OPEN, str(block)
    # A server that never repeats itself would differ anyhow.
    gap, noise = row_difference(again, changed), row_difference(plain, again)
    differs = gap.largest_nats > max(_ABOVE_ZERO_NATS, 2 * noise.largest_nats) or (
        gap.unshared > noise.unshared and gap.largest_nats > noise.largest_nats
    )
    return NO if differs else YES, f"asked for {what} too: {gap}"


def _full(asking: Asking) -> Answer:
    task = asking.task
    found = full_rows(asking)
    if isinstance(found, Refusal):
        verdict, evidence = NO if asking.looked_at() else OPEN, str(found)
    else:
        entries = int((found.ids >= 0).sum(axis=1).min())
        verdict = YES if entries >= task.dictionary_size else NO
        evidence = f"{entries:,} of {task.dictionary_size:,} entries in the shortest of {len(found.ids)} rows"
    needed = task.full_vocabulary and task.needs.scoring
    if needed and not asking.in_process and verdict == YES:
        evidence += "; a server's rows are too large to be taken so"
    return Answer(
        question="full-rows",
        title="Can a row hold the whole dictionary?",
        answer=verdict,
        evidence=evidence,
        needed=needed,
        way_round='full_vocabulary = "no" with a divergence of the best entries (kl.topk-tail, kl.topk-lower, '
        "kl.topk-shared), or an engine of this process",
    )


def _mass(asking: Asking) -> Answer:
    verdict, evidence = OPEN, asking.no_rows()
    whole = full_rows(asking)
    is_whole = not isinstance(whole, Refusal) and int((whole.ids >= 0).sum(axis=1).min()) >= asking.task.dictionary_size
    if is_whole:
        mass = _log_mass(whole)
        offset, spread = float(mass.mean()), float(np.ptp(mass))
        constant = spread <= _SPREAD_NATS
        verdict = YES if constant and abs(offset) <= _OFFSET_NATS else NO
        evidence = f"the log-mass of {len(mass)} whole rows is {offset:+.2e}, within {spread:.1e}"
        if np.isfinite(offset):
            asking.measured["log_mass_mean_nats"] = offset
            asking.measured["log_mass_spread_nats"] = spread
        if verdict == YES and abs(offset) > _NOTED_NATS:
            evidence += ": a constant, which can be subtracted"
    elif seen := asking.looked_at():
        mass = np.concatenate([_log_mass(block) for _, block in seen])
        highest = float(mass.max())
        verdict = YES if highest <= _MASS_NATS else NO
        evidence = f"{asking.top_k} entries have {np.exp(min(highest, 700.0)):.6g} at most in {len(mass)} rows"
        evidence += ": a constant on every log-probability would not show" if verdict == YES else ", above 1"
    said = asking.said()
    if isinstance(said, Mapping) and said.get("log_mass"):
        evidence += f"; the engine subtracts {said['log_mass']}"
    return Answer(
        question="mass",
        title="Do the probabilities of a row sum to 1, those of its best entries to 1 at most?",
        answer=verdict,
        evidence=evidence,
        needed=asking.task.needs.scoring,
        way_round="the numbers are no log-probabilities of one distribution: look at the server's options for "
        "log-probabilities, or use another engine",
    )


def _log_mass(block: ListedBlock) -> NDArray[np.float64]:
    """float64[n]: log of the sum of a row's probabilities."""
    values = np.where(block.ids >= 0, block.logprobs, -np.inf)
    return np.logaddexp.reduce(values, axis=1)
