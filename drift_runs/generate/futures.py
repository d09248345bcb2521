"""Futures: what an engine writes greedily behind a root and a first token that is given. METRICS, Generation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from drift_runs.errors import CannotAsk, EngineError, NonFiniteLogits
from drift_runs.generate.calls import WellFormed
from drift_runs.generate.environment import TEXT, answer
from drift_runs.generate.future import CONTEXT, HORIZON, STRUCTURE, TURN, Future, Scene
from drift_runs.generate.listed import Listed, Row, best_of
from drift_runs.generate.structures import Structure, enclosing, end_of
from drift_runs.generate.syntaxes import parse
from drift_runs.protocol.generation import Environment, ScriptedResult
from drift_runs.schema import FUTURES

ALTERNATIVES = 5
"""Of the best tokens at each written one, how many are kept."""

Logits = NDArray[np.float32]
Stops = Literal["structure", "turn"]


class Branching(Protocol):
    """An engine that keeps a history and continues it again and again."""

    def hold(self, tokens: Sequence[int], wanted: Sequence[int]) -> Logits | Sequence[Listed]:
        """Forget everything and take ``tokens`` in the shape of a capture.

        Returns float32[len(wanted), columns], a copy: the logits behind the tokens at the ascending indices ``wanted``;
        of an engine that lists entries, what it lists there.
        """
        ...

    def branch(self, count: int) -> None:
        """Drop the branch before; a new one begins behind the first ``count`` of the held tokens."""
        ...

    def append(self, token: int) -> Row:
        """Add one token to the branch in decode shape; the next one's logits float32[columns] (a copy), or entries."""
        ...

    def tokenize(self, text: str, *, special: bool = True) -> list[int]: ...

    @property
    def context_left(self) -> int:
        """Tokens that the branch can still take."""
        ...


@runtime_checkable
class AppendsAll(Protocol):
    """A branching engine that takes several tokens at once."""

    def append_all(self, tokens: Sequence[int]) -> Row:
        """Add tokens that are given; the next one's logits or entries."""
        ...


class Constraint(Protocol):
    """What a grammar lets an engine write. It is told every token of the branch's turns, the given one included."""

    def mask(self, logits: Logits) -> Logits:
        """The logits with minus infinity where a token is not allowed next."""
        ...

    def accept(self, token: int) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """How far a future goes."""

    horizon_tokens: int
    """Tokens that may be written, all turns together; the first token and an environment's answers do not count."""
    stops: Stops = "structure"
    """``structure``: where what was open at the root is closed, if anything was; ``turn``: not before the turn ends."""
    turns: int = 1
    """Turns of the assistant at most. With an environment and more than one, no structure ends a future."""
    tool_turn: str = ""
    """``chat.tool_turn`` of the protocol: for several turns."""


def follow(
    engine: Branching,
    scene: Scene,
    first: int,
    rule: Rule,
    *,
    window: str,
    position: int,
    best: int,
    grammar: Constraint | None = None,
    environment: Environment | None = None,
    recorded: Sequence[ScriptedResult] = (),
) -> Future:
    """Continue greedily behind ``scene.history`` and ``first``; the engine holds that history's window.

    The next token is the one of the largest logit among the dictionary's columns, the lowest id winning a tie; with a
    grammar, among those that it allows. Log-probabilities are natural, of a float64 softmax over all of the
    dictionary's columns, so that a token that a grammar forced shows how little it was wanted.

    The future ends with an end token (``turn``), with the end of the structure that was open at the root
    (``structure``), at the horizon, or where the engine can take no more tokens (``context``); ``first`` alone may end
    it. With an environment and ``rule.turns`` above 1 a turn that ended and holds well-formed calls is answered, one
    line a call, and the next turn begins; ``recorded`` is :func:`~drift_runs.generate.environment.recorded_results` of
    the window's stream. An answer is never markup: what looks like it is taken as text.

    Raises
    ------
    NonFiniteLogits
        a logit was NaN or plus infinity, or all were minus infinity.
    EngineError
        a grammar allows no token.
    """
    walk = _Walk(engine, scene, rule, grammar, where=f"window {window}, position {position}")
    if environment is not None and rule.turns > 1:
        walk.ask(environment, recorded)
    elif rule.stops == STRUCTURE:
        walk.stop_behind(enclosing(scene))
    ended = walk.run(first)
    return Future(
        window=window,
        position=position,
        first=first,
        best=best,
        tokens=tuple(walk.tokens),
        written=tuple(walk.written),
        logprobs=tuple(walk.logprobs),
        text=scene.read(walk.tokens),
        ended=ended,
        turns=walk.turns,
        top_ids=tuple(walk.top_ids),
        top_logprobs=tuple(walk.top_logprobs),
    )


class _Walk:
    """One future while it grows."""

    def __init__(
        self,
        engine: Branching,
        scene: Scene,
        rule: Rule,
        grammar: Constraint | None,
        *,
        where: str,
    ) -> None:
        self.engine = engine
        self.scene = scene
        self.rule = rule
        self.grammar = grammar
        self.where = where
        self.tokens: list[int] = []
        self.written: list[bool] = []
        self.logprobs: list[float | None] = []
        self.top_ids: list[tuple[int, ...]] = []
        self.top_logprobs: list[tuple[float, ...]] = []
        self.left = rule.horizon_tokens
        self.turns = 1
        # Bytes, because the first token may end a character that the history began.
        self.turn = _turn_bytes(scene)
        self.structure: Structure | None = None
        self.environment: Environment | None = None
        self.recorded: Sequence[ScriptedResult] = ()

    def ask(self, environment: Environment, recorded: Sequence[ScriptedResult]) -> None:
        """Have calls answered, and go on behind them."""
        self.environment, self.recorded = environment, recorded

    def stop_behind(self, structure: Structure) -> None:
        """End where that structure does."""
        self.structure = structure if structure.kind else None

    def run(self, first: int) -> str:
        """Grow to the end; why it is the end."""
        self.engine.branch(len(self.scene.history))
        self._add(first, written=False)
        if self.grammar is not None:
            self.grammar.accept(first)
        while True:
            if self.tokens[-1] in self.scene.end_tokens:
                answered = self._answered()
                if answered is None:
                    return TURN
                if not self.left:
                    return HORIZON
                # The end token goes into the history too, and one more token must fit behind the answer.
                if len(answered) + 1 > self.engine.context_left:
                    return CONTEXT
                given = [self.tokens[-1], *answered]
            elif self._closed():
                return STRUCTURE
            elif not self.left:
                return HORIZON
            elif not self.engine.context_left:
                return CONTEXT
            else:
                given, answered = [self.tokens[-1]], None
            try:
                logits = self._append(given)
            except CannotAsk:  # a text that its own server reads otherwise: it can be taken no further
                return CONTEXT
            if answered is not None:
                for token in answered:
                    self._add(token, written=False)
                self.turn = b""
                self.turns += 1
            self._write(logits)

    def _add(
        self,
        token: int,
        *,
        written: bool,
        logprob: float | None = None,
        top: tuple[tuple[int, ...], tuple[float, ...]] = ((), ()),
    ) -> None:
        self.tokens.append(token)
        self.written.append(written)
        self.logprobs.append(logprob)
        self.top_ids.append(top[0])
        self.top_logprobs.append(top[1])
        if token not in self.scene.end_tokens:
            self.turn += self.scene.dictionary[token]

    def _append(self, tokens: Sequence[int]) -> Row:
        """The row behind these tokens, one or more."""
        if len(tokens) > 1 and isinstance(self.engine, AppendsAll):
            row = self.engine.append_all(tokens)
        else:
            for token in tokens:
                row = self.engine.append(token)
        return row if isinstance(row, Listed) else row[: len(self.scene.dictionary)]

    def _write(self, row: Row) -> None:
        behind = f"{self.where}, {len(self.tokens)} tokens behind it"
        if isinstance(row, Listed):
            self._write_listed(row, behind)
        else:
            self._write_logits(row, behind)
        self.left -= 1

    def _write_listed(self, row: Listed, behind: str) -> None:
        if self.grammar is not None:
            raise EngineError("a grammar needs logits, and this engine lists entries", where=behind)
        best_of(row, len(self.scene.dictionary))
        # Of an end that the server did not name nothing but the end is known.
        known = row.best_logprob is not None
        top = (row.ids[:ALTERNATIVES], row.logprobs[:ALTERNATIVES]) if known else ((), ())
        self._add(row.ids[0], written=True, logprob=row.best_logprob, top=top)

    def _write_logits(self, logits: Logits, behind: str) -> None:
        best = logits.max()  # NaN where one is
        if not np.isfinite(best):
            raise NonFiniteLogits(
                f"the largest logit is {best}",
                where=behind,
                expected="finite logits",
                todo="look at the arm's weights: such a model cannot be followed",
            )
        allowed = logits if self.grammar is None else self.grammar.mask(logits.copy())[: len(logits)]
        token = int(np.argmax(allowed))
        if not np.isfinite(allowed[token]):
            raise EngineError("the grammar allows no token", where=behind)
        shifted = logits.astype(np.float64) - float(best)
        total = np.log(np.exp(shifted).sum())
        ids = _best(logits)
        top = tuple(ids.tolist()), tuple((shifted[ids] - total).tolist())
        self._add(token, written=True, logprob=float(shifted[token] - total), top=top)
        if self.grammar is not None:
            self.grammar.accept(token)

    def _closed(self) -> bool:
        """Whether what was open at the root is closed now."""
        if self.structure is None:
            return False
        return end_of(self.structure, self.turn.decode("utf-8", "replace"), self.scene) is not None

    def _answered(self) -> list[int] | None:
        """Tokens of what answers the turn that has just ended, up to the next turn; None: the future ends here."""
        if self.environment is None or self.turns >= self.rule.turns:
            return None
        parsed = parse(self.scene.syntax, self.turn.decode("utf-8", "replace"), self.scene.tools)
        if not isinstance(parsed, WellFormed):
            return None
        results = answer(self.environment, self.recorded, parsed.calls)
        return _turn_tokens(self.engine, self.rule.tool_turn, "\n".join(results))


def _best(logits: Logits) -> NDArray[np.intp]:
    """The ids of the largest logits, the lowest first where two are equal. Minus infinity is none of them."""
    count = min(ALTERNATIVES, len(logits))
    edge = np.partition(logits, len(logits) - count)[len(logits) - count]
    ids = np.flatnonzero((logits >= edge) & (logits > -np.inf))
    return ids[np.argsort(-logits[ids], kind="stable")][:count]


def _turn_bytes(scene: Scene) -> bytes:
    """What the assistant has written of its turn at the root: the bytes of ``scene.turn``."""
    history = b"".join(scene.dictionary[token] for token in scene.history)
    return history.rpartition(scene.assistant.encode())[2] if scene.assistant else history


def _turn_tokens(engine: Branching, template: str, text: str) -> list[int]:
    """Ids of a turn with ``text`` in the place of ``{text}``: markup of the template alone is markup."""
    if engine.tokenize(text) == engine.tokenize(text, special=False):
        # In one piece, as the streams are: a tokenizer may join the end of the template with the start of the text.
        return engine.tokenize(template.replace(TEXT, text, 1))
    before, after = template.split(TEXT, 1)
    return [*engine.tokenize(before), *engine.tokenize(text, special=False), *engine.tokenize(after)]


def futures_table(futures: Iterable[Future]) -> pa.Table:
    """Futures as rows of schema ``FUTURES``, in their order."""
    return pa.Table.from_pylist([future_row(future) for future in futures], schema=FUTURES)


def future_row(future: Future) -> dict[str, object]:
    """One row of schema ``FUTURES``."""
    return {name: getattr(future, name) for name in FUTURES.names}


def futures_of(table: pa.Table) -> tuple[Future, ...]:
    """The futures of a table of schema ``FUTURES``, in its order."""
    return tuple(_future(row) for row in table.to_pylist())


def _future(row: dict[str, Any]) -> Future:
    lists = {name: tuple(row[name]) for name in ("tokens", "written", "logprobs")}
    for name in ("top_ids", "top_logprobs"):
        lists[name] = None if row[name] is None else tuple(map(tuple, row[name]))
    return Future(**(row | lists))
