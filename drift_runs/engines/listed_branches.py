"""Branches behind a connection: a server goes on from a history that is sent again, and its own cache saves the cost.

It is asked for some tokens ahead at once, so that they are decoded as the server decodes, in one stream. As long as
the caller takes what the server chose, nothing is asked twice; another token begins a new request.
"""

from __future__ import annotations

from collections.abc import Sequence

from drift_runs.engines.base import UNNAMED_END, ListedEngine, Written
from drift_runs.errors import CannotGive, ConfigError
from drift_runs.generate.futures import ALTERNATIVES
from drift_runs.generate.listed import Listed

AHEAD_TOKENS = 32
"""Tokens of one request: those of a whole rollout. Fixed, because where a request ends can change the bytes."""


class ListedBranches:
    """``Branching`` and ``Continues`` over a :class:`ListedEngine`.

    ``context_tokens``: what its context takes. ``ends``: ids of the protocol's ends of a turn; the first of them stands
    for an end that a server does not name, with no log-probability.
    """

    def __init__(
        self,
        engine: ListedEngine,
        *,
        context_tokens: int,
        dictionary: Sequence[bytes],
        ends: Sequence[int] = (),
    ) -> None:
        self.engine = engine
        self._context_tokens = context_tokens
        self._dictionary = dictionary
        self._ends = tuple(ends)
        self.ahead_tokens = AHEAD_TOKENS
        """Tokens of one request. A server of texts is asked for all that is wanted at once: what it wrote need not be
        the same tokens when it is sent back."""
        self._held: list[int] = []
        self._history: list[int] = []
        self._ahead: list[Written] = []

    def take(self, tokens: Sequence[int]) -> None:
        """Take ``tokens`` as the text whose branches are followed; nothing is sent."""
        self._held = list(tokens)
        self._begin([])

    def hold(self, tokens: Sequence[int], wanted: Sequence[int]) -> list[Listed]:
        """The same, and the rows behind the tokens at the ascending indices ``wanted``."""
        self.take(tokens)
        return [_listed(self._written(self._held[: at + 1], 1)[0]) for at in wanted]

    def ask(self, count: int) -> Listed:
        """The row behind the first ``count`` of the held tokens; a branch that begins there next takes up what the
        server wrote behind it."""
        self._begin(self._held[:count])
        return self._next()

    def branch(self, count: int) -> None:
        """A new branch begins behind the first ``count`` of the held tokens."""
        if not 1 <= count <= len(self._held):
            raise ConfigError(f"a branch behind {count} tokens", expected=f"1 to {len(self._held)}, as held")
        if not self._ahead or self._history != self._held[:count]:
            self._begin(self._held[:count])

    def start(self, tokens: Sequence[int]) -> Listed:
        """Take ``tokens`` as history; the row of the next token."""
        if not len(tokens):
            raise ConfigError("no history to start from", expected="one token or more")
        self._begin(list(tokens))
        return self._next()

    def append(self, token: int) -> Listed:
        """Add one token to the history; the row of the next."""
        followed = len(self._ahead) > 1 and self._ahead[0].token == token
        self._ahead = self._ahead[1:] if followed else []
        self._history.append(token)
        return self._next()

    def append_all(self, tokens: Sequence[int]) -> Listed:
        """Add several tokens that are given; the row of the next. Nothing is asked for between them."""
        self._ahead = []
        self._history.extend(tokens)
        return self._next()

    def _begin(self, history: list[int]) -> None:
        self._history = history
        self._ahead = []

    def _next(self) -> Listed:
        if not self._ahead:
            count = min(self.ahead_tokens, self.context_left)
            if count < 1:
                raise ConfigError(
                    f"{len(self._history)} tokens leave no room", expected=f"under {self._context_tokens}"
                )
            self._ahead = self._written(self._history, count)
        return _listed(self._ahead[0])

    def _written(self, history: Sequence[int], count: int) -> list[Written]:
        """What the engine writes behind a history, at least one token, an unnamed end as the protocol's."""
        written = self.engine.write(history, count, top_k=ALTERNATIVES)
        if not written or written[-1].token != UNNAMED_END:
            return written
        named = written[:-1]
        if named and named[-1].token in self._ends:
            return named
        if self._ends:
            end = self._ends[0]
            return [*named, written[-1]._replace(token=end, top_ids=(end,), top_logprobs=(written[-1].logprob,))]
        if named:
            return named
        raise CannotGive(
            "the server ended at once, and its answer does not name the end token",
            where=f"behind {len(history):,} tokens",
            expected="a protocol whose [chat] names the ends of a turn, or a server that lists end tokens",
        )

    @property
    def context_left(self) -> int:
        """Tokens that the branch can still take."""
        return self._context_tokens - len(self._history)

    def tokenize(self, text: str, *, special: bool = True) -> list[int]:
        """Ids of a text. ``CannotGive`` where the server does not tokenise, or would read markup that is to be text."""
        ids = self.engine.tokenize(text)
        if ids is None:
            raise CannotGive(
                "the server does not tokenise",
                where="several turns",
                expected="an engine that does",
                todo="set branches.turns to 1, or follow with an engine of this process",
            )
        if not special and any(_is_markup(self._dictionary[token]) for token in ids):
            raise CannotGive(
                "the server reads markup in what is to be plain text",
                where="a tool's answer",
                expected="an answer without the markup of turns",
                todo="change the environment's answer, or follow with an engine of this process",
            )
        return ids


def _listed(written: Written) -> Listed:
    return Listed(written.top_ids, written.top_logprobs)


def _is_markup(token: bytes) -> bool:
    return len(token) > 2 and token.startswith(b"<") and token.endswith(b">")
