"""Following 100 roots from a held history, against a prefill for every future.

A held text of 1,600 tokens has a root behind each of its last 100, so that a root has 1,500 tokens of history and more.
Behind each root its best token is followed greedily: once as a branch of the held text, and once behind a prefill of
the root's own history, in the same geometry. Both are timed in one run, and what they wrote is compared: the tokens,
and the log-probabilities of the tokens that both wrote behind the same text.

The prefill costs minutes for few roots, so that every tenth root is followed in this way and the time of all is theirs
times ten. ``DRIFT_BENCH_FULL=1`` follows all. ``DRIFT_BENCH_ROOTS`` sets how many roots there are. Needs the demo's
model: run ``drift demo`` or ``make demo`` once.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from drift_runs.engines.base import EngineSettings
from drift_runs.engines.llama_cpp import LlamaCpp
from drift_runs.engines.llama_cpp_branches import BranchingLlamaCpp
from drift_runs.protocol.load import find_protocol, load_protocol
from drift_runs.weights.demo import QUICK, prepare

HISTORY_TOKENS = 1_500
ROOTS = 100
FUTURE_TOKENS = 32
NAIVE_EVERY = 10
THREADS = 2
SETTINGS = EngineSettings(
    path_shape="prefill",
    context_tokens=2_048,
    batch=2_048,
    micro_batch=512,
    threads=THREADS,
    kv="f16",
    flash_attention="on",
)


class Followed(NamedTuple):
    """One future."""

    tokens: list[int]
    logits: NDArray[np.float32]
    """float32[tokens, dictionary]: the row at ``i`` stands behind the token at ``i``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchingTime:
    """Seconds of the two ways, and how their futures differ. Times of the clock."""

    roots: int
    naive_roots: int
    hold_s: float
    branches_s: float
    """All roots, without the hold."""
    naive_s: float
    """``naive_roots`` of them."""
    same_tokens: int
    """Futures, of the naive ones, that have every token equal."""
    same_bytes: int
    """Of these, those whose logits are equal too, to the last bit."""
    largest_difference_nats: float
    """Of a log-probability of the token that both wrote, behind the same text."""

    @property
    def branching_s(self) -> float:
        return self.hold_s + self.branches_s

    @property
    def naive_all_s(self) -> float:
        return self.naive_s / self.naive_roots * self.roots


def long_text(count: int) -> list[int]:
    """Tokens of the demo's windows, one behind the other."""
    loaded = load_protocol(find_protocol(QUICK.protocol))
    tokens = [token for window in loaded.protocol.windows for token in loaded.tokens(window.name)]
    return tokens[:count]


def follow(engine: LlamaCpp, first: int) -> Followed:
    """Greedily, behind the branch or the history that the engine stands at."""
    tokens, rows = [first], []
    while len(rows) < FUTURE_TOKENS:
        rows.append(engine.append(tokens[-1]))
        tokens.append(int(rows[-1].argmax()))
    return Followed(tokens[:-1], np.stack(rows))


def logprob(row: NDArray[np.float32], token: int) -> float:
    values = row.astype(np.float64)
    return float(values[token] - values.max() - np.log(np.exp(values - values.max()).sum()))


def difference(one: Followed, other: Followed) -> float:
    """The largest |difference| over the places at which both stand behind the same text; rows there predict tokens."""
    largest = 0.0
    for at in range(1, len(one.tokens)):
        if one.tokens[:at] != other.tokens[:at]:
            break
        token = one.tokens[at]
        largest = max(largest, abs(logprob(one.logits[at - 1], token) - logprob(other.logits[at - 1], token)))
    return largest


def measure(roots: int, naive_every: int) -> BranchingTime:
    model = prepare(QUICK).models[QUICK.reference]
    text = long_text(HISTORY_TOKENS + roots)
    places = range(HISTORY_TOKENS, HISTORY_TOKENS + roots)
    branches_s = naive_s = largest = 0.0
    naive_roots = same_tokens = same_bytes = 0
    with BranchingLlamaCpp(model, SETTINGS, branch_tokens=FUTURE_TOKENS) as holding, LlamaCpp(model, SETTINGS) as other:
        started = time.perf_counter()
        rows = holding.hold(text, [place - 1 for place in places])
        hold_s = time.perf_counter() - started
        # The two ways take turns, so that what else the machine does falls on both.
        for at, (place, first) in enumerate(zip(places, rows.argmax(axis=1), strict=True)):
            started = time.perf_counter()
            holding.branch(place)
            branched = follow(holding, int(first))
            branches_s += time.perf_counter() - started
            if at % naive_every:
                continue
            started = time.perf_counter()
            other.start(text[:place])
            naive = follow(other, int(first))
            naive_s += time.perf_counter() - started
            naive_roots += 1
            same_tokens += naive.tokens == branched.tokens
            same_bytes += naive.tokens == branched.tokens and naive.logits.tobytes() == branched.logits.tobytes()
            largest = max(largest, difference(naive, branched))
    return BranchingTime(
        roots=roots,
        naive_roots=naive_roots,
        hold_s=hold_s,
        branches_s=branches_s,
        naive_s=naive_s,
        same_tokens=same_tokens,
        same_bytes=same_bytes,
        largest_difference_nats=largest,
    )


def main() -> None:
    roots = int(os.environ.get("DRIFT_BENCH_ROOTS", ROOTS))
    found = measure(roots, 1 if os.environ.get("DRIFT_BENCH_FULL") else NAIVE_EVERY)
    print(f"roots, history, future  {found.roots}, {HISTORY_TOKENS:,} tokens and more, {FUTURE_TOKENS} tokens")
    print(f"hold the text           {found.hold_s:.1f} s")
    print(f"branches                {found.branches_s:.1f} s ({found.branches_s / found.roots:.2f} s a root)")
    each_s = found.naive_s / found.naive_roots
    print(
        f"a prefill a future      {found.naive_all_s:.1f} s ({each_s:.2f} s a root, from {found.naive_roots} of them)"
    )
    print(f"naive / branching       {found.naive_all_s / found.branching_s:.1f}")
    print(
        f"futures with the same tokens, the same bytes  {found.same_tokens}, {found.same_bytes} of {found.naive_roots}"
    )
    print(f"largest |d logprob|     {found.largest_difference_nats:.2e} nats")
