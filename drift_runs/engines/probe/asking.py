"""Asks an engine and takes every failure for an answer: nothing that an engine does ends a probe."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from drift_runs.engines.base import UNNAMED_END, Engine, ListedBlock, ListedEngine, Written
from drift_runs.engines.probe.answers import ProbeTask, ProbeWindow
from drift_runs.engines.probe.logits import ListedLogits
from drift_runs.engines.probe.wire import on_the_wire
from drift_runs.errors import CannotAsk, CannotGive, ConfigError, ContextOverflow, DriftError, EngineError, one_line

PREFILL_TOKENS, DECODE_TOKENS = 33, 9
"""Tokens of a cut whose every position is scored: a request altogether, or one a position."""
FEWER_ENTRIES = (20, 5)
"""Of a row, where an engine refuses to list as many as the protocol takes: 20 and 5 are limits of servers."""
BUDGET_S = 120.0
SLOW_S = 1.0
_FAILURES = 2
"""Requests in a row that may fail after a wait; nothing more is asked then, because every question would wait again."""

Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class Refusal:
    """An answer that did not come."""

    line: str
    cannot: bool = False
    """The engine itself says that it cannot; otherwise it failed."""
    of_history: bool = False
    """It is the one history that it cannot be asked with, and it answered."""
    unasked: bool = False
    """The question was not put: nothing is known of the engine from it."""

    def __str__(self) -> str:
        return self.line


class Cut(NamedTuple):
    """A short part of a window."""

    window: str
    tokens: tuple[int, ...]
    positions: tuple[int, ...]


class Asking:
    """One engine, and what it answered so far."""

    def __init__(
        self,
        engine: ListedEngine | Engine,
        task: ProbeTask,
        *,
        budget_s: float = BUDGET_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.own = engine
        self.in_process = not hasattr(engine, "score_listed")
        self.engine: ListedEngine = ListedLogits(engine, task.dictionary_size) if self.in_process else engine
        self.task = task
        self.measured: dict[str, float] = {}
        self.calls = 0
        self._clock = clock
        self._started = clock()
        self._budget_s = budget_s
        self._failures = 0
        self._last = ""
        self._kept: dict[str, ListedBlock | Refusal] = {}
        self.top_k = min(task.top_k, task.dictionary_size)
        """Entries that are asked for: the protocol's, or fewer where it turned out that so many are refused."""
        self.refused_top_k: Refusal | None = None
        """Why the protocol's are refused."""
        self._said: Mapping[str, str] | Refusal | None = None
        self._table: list[bytes] | Refusal | None = None

    @property
    def seconds(self) -> float:
        return self._clock() - self._started

    @property
    def left_s(self) -> float:
        """Of the probe's time."""
        return max(0.0, self._budget_s - self.seconds)

    def ask(self, call: Callable[[], Found]) -> Found | Refusal:
        """One call, or what came instead of its answer."""
        if self._failures >= _FAILURES:
            return Refusal(f"not asked: {self._last}", unasked=True)
        if self.seconds > self._budget_s:
            return Refusal(f"not asked: the probe's {self._budget_s:g} s are over", unasked=True)
        self.calls += 1
        began = self._clock()
        try:
            found = call()
        except DriftError as error:
            refusal = Refusal(
                error.line(),
                cannot=isinstance(error, CannotGive | ContextOverflow | ConfigError),
                of_history=isinstance(error, CannotAsk),
            )
        except Exception as error:  # an adapter may fail in any way at what a server sends: it is an answer too
            refusal = Refusal(one_line(f"{type(error).__name__}: {error}"))
        else:
            self._failures = 0
            return found
        self._last = refusal.line
        waited = self._clock() - began >= SLOW_S and not refusal.of_history
        self._failures = self._failures + 1 if waited else 0
        return refusal

    def rows(
        self,
        tokens: Sequence[int],
        positions: Sequence[int],
        *,
        top_k: int,
        wanted: Sequence[Sequence[int]] | None = None,
    ) -> ListedBlock | Refusal:
        """All rows of one request together, exactly those that were asked for; otherwise a refusal that says so."""
        positions = list(positions)
        more = {} if wanted is None else {"wanted": wanted}
        return self.ask(
            lambda: _checked(self.engine.score_listed(tokens, positions, top_k=top_k, **more), tokens, positions, self)
        )

    def otherwise(
        self, tokens: Sequence[int], positions: Sequence[int], *, top_k: int, **changes: object
    ) -> ListedBlock | Refusal:
        """The same with other values of a server's options than the dialect sends."""
        with on_the_wire(self.own, **changes) as wire:
            if wire is None:
                return Refusal("the engine has no requests whose options could be changed", cannot=True)
            found = self.rows(tokens, positions, top_k=top_k)
            if wire.changed or isinstance(found, Refusal):
                return found
            return Refusal(f"its requests have no {' or '.join(changes)} to change", cannot=True)

    def base(self, cut: Cut) -> ListedBlock | Refusal:
        """Rows of a cut with the protocol's K entries, asked for once."""
        return self.kept(f"cut {cut.window}", lambda: self._first_rows(cut))

    def _first_rows(self, cut: Cut) -> ListedBlock | Refusal:
        """With fewer entries where so many are refused: what they say is worth knowing all the same."""
        first = self.rows(cut.tokens, cut.positions, top_k=self.top_k)
        if isinstance(first, Refusal):
            for fewer in FEWER_ENTRIES:
                if fewer < self.top_k:
                    found = self.rows(cut.tokens, cut.positions, top_k=fewer)
                    if not isinstance(found, Refusal):
                        self.top_k, self.refused_top_k = fewer, first
                        return found
        return first

    def kept(self, name: str, ask: Callable[[], ListedBlock | Refusal]) -> ListedBlock | Refusal:
        """What several questions look at, asked for once."""
        if name not in self._kept:
            self._kept[name] = ask()
        return self._kept[name]

    def write(self, tokens: Sequence[int], count: int) -> list[Written] | Refusal:
        """The tokens that it names: of an end that it does not there is nothing to look at."""
        found = self.ask(lambda: self.engine.write(tokens, count, top_k=min(5, self.task.dictionary_size)))
        return found if isinstance(found, Refusal) else [one for one in found if one.token != UNNAMED_END]

    def said(self) -> Mapping[str, str] | Refusal:
        """What the engine said of itself first."""
        if self._said is None:
            self._said = self.said_now()
        return self._said

    def said_now(self) -> Mapping[str, str] | Refusal:
        return self.ask(lambda: {str(name): str(value) for name, value in self.engine.said().items()})

    def table(self) -> list[bytes] | Refusal:
        """The bytes of each id."""
        if self._table is None:
            found = self.ask(self.engine.token_bytes)
            self._table = Refusal("nothing says the bytes of the ids", cannot=True) if found is None else found
        return self._table

    def cuts(self) -> list[Cut]:
        """A short start of two windows of different tokens, every position scored."""
        length = PREFILL_TOKENS if self.task.path_shape == "prefill" or self.in_process else DECODE_TOKENS
        found: list[Cut] = []
        for window in sorted(self.task.windows, key=lambda window: -min(len(window.tokens), length)):
            tokens = window.tokens[:length]
            if len(tokens) > 1 and tokens not in [cut.tokens for cut in found]:
                found.append(Cut(window.name, tokens, tuple(range(1, len(tokens)))))
        return found[:2]

    def looked_at(self) -> list[tuple[Cut, ListedBlock]]:
        """The cuts whose rows came."""
        seen = [(cut, self.base(cut)) for cut in self.cuts()]
        return [(cut, block) for cut, block in seen if not isinstance(block, Refusal)]

    def no_rows(self) -> str:
        """Why there are no rows to look at."""
        cuts = self.cuts()
        return str(self.base(cuts[0])) if cuts else "the protocol has no window of two tokens or more"


def histories(task: ProbeTask, *, at_most: int, at_least: int = 1) -> list[tuple[ProbeWindow, tuple[int, ...]]]:
    """What stands before the first scored position of each window, the shortest first, cut to ``at_most`` tokens."""
    found = [(window, window.tokens[: window.positions[0]]) for window in task.windows if window.positions]
    found = [(window, tokens[:at_most]) for window, tokens in found if len(tokens) >= at_least]
    return sorted(found, key=lambda entry: len(entry[1]))


def _checked(
    blocks: Iterator[ListedBlock], tokens: Sequence[int], positions: Sequence[int], asking: Asking
) -> ListedBlock:
    """Raises ``EngineError`` where HTTP 200 hides an answer to another question."""
    parts = list(blocks)
    found = [int(at) for part in parts for at in part.positions]
    if found != list(positions):
        missing = sorted(set(positions) - set(found))
        what = f"{len(missing)} of {len(positions)} rows are missing, the first at {missing[0]}" if missing else ""
        raise EngineError(
            what or f"{len(found)} rows came for {len(positions)}",
            where=f"{len(tokens)} tokens",
            expected="a row a position that was asked for, and no other",
        )
    block = ListedBlock(*(_joined([part[field] for part in parts]) for field in range(len(ListedBlock._fields))))
    if block.ids.shape != block.logprobs.shape or block.wanted_ids.shape != block.wanted_logprobs.shape:
        raise EngineError(
            f"{block.ids.shape} ids for {block.logprobs.shape} log-probabilities", expected="one for each"
        )
    size = asking.task.dictionary_size
    for ids, what in ((block.ids, "listed"), (block.wanted_ids, "wanted")):
        if ids.size and (ids.max() >= size or ids.min() < -1):
            outside = ids[(ids >= size) | (ids < -1)][0]
            raise EngineError(f"id {outside} is {what}", expected=f"ids of the dictionary of {size}")
    for at, row in zip(block.positions, block.ids, strict=True):
        kept = row[row >= 0]
        if len(np.unique(kept)) != len(kept):
            raise EngineError("an id is listed twice", where=f"position {int(at)}")
    return block


def _joined(parts: list[NDArray]) -> NDArray:
    """Blocks of rows one under the other; narrower ones are filled up with what stands for no entry."""
    if parts[0].ndim == 1:
        return np.concatenate(parts)
    width = max(part.shape[1] for part in parts)
    fill = -1 if np.issubdtype(parts[0].dtype, np.integer) else np.nan
    return np.concatenate([np.pad(part, ((0, 0), (0, width - part.shape[1])), constant_values=fill) for part in parts])
