"""What every engine offers to the rest of the tool, and how it says what it is.

There are two kinds. An :class:`Engine` runs in this process and gives the logits of the whole dictionary. A
:class:`ListedEngine` stands behind a connection and gives the K best entries of a row, as log-probabilities.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """What an engine is opened with. All of it is part of a capture's identity."""

    path_shape: str
    """``prefill``: the stream in batches; ``decode``: one token at a time, as a server generates."""
    context_tokens: int
    batch: int
    micro_batch: int
    threads: int
    kv: str
    flash_attention: str
    adapter_scale: float | None = None
    """What the engine's low-rank adapter is multiplied by; None: it is opened without one."""
    dtype: str | None = None
    """``float32``, ``bfloat16``, ``float16``: what an engine of this process computes in; None: its own choice."""
    quantise: str | None = None
    """How weights are quantised when they are loaded, ``<library>-<scheme>``; None: they are taken as they lie."""
    cache_prompt: bool | None = None
    """Whether a server may reuse what it holds of a history; None: its own choice."""
    server: tuple[tuple[str, str], ...] = ()
    """What the protocol says a server was started with: (option, value), by option."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What an engine can return."""

    full_vocabulary: bool
    largest_top_k: int | None
    """None: no limit but the dictionary."""
    path_shapes: tuple[str, ...]
    token_ids: bool
    continues: bool
    """Can go on from a history token by token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineIdentity:
    """What was observed of the engine and the machine, not what somebody called it."""

    engine: str
    build: str
    backend: str
    hardware: str
    """Processor or accelerator model with the features that kernels are chosen by."""
    capabilities: Capabilities


class ScoredBlock(NamedTuple):
    """Rows of one step of the engine."""

    positions: NDArray[np.int32]
    """int32[n], ascending: row i predicts ``tokens[positions[i]]``."""
    logits: NDArray[np.float32]
    """float32[n, columns], raw logits. A view that is valid until the engine's next step: copy what must stay."""


class Engine(Protocol):
    """A model that is open in this process or behind a connection."""

    @property
    def identity(self) -> EngineIdentity: ...

    @property
    def capabilities(self) -> Capabilities: ...

    @property
    def dictionary_size(self) -> int:
        """Entries of the tokenizer."""
        ...

    def token_bytes(self) -> list[bytes]:
        """The bytes of each id, in order."""
        ...

    def score(self, tokens: Sequence[int], positions: Sequence[int]) -> Iterator[ScoredBlock]:
        """Teacher-force ``tokens`` from an empty cache; rows for ``positions`` (ascending, none is 0)."""
        ...

    def start(self, tokens: Sequence[int]) -> NDArray[np.float32]:
        """Empty the cache, take ``tokens`` as history; logits float32[columns] of the next token (a copy)."""
        ...

    def append(self, token: int) -> NDArray[np.float32]:
        """Add one token to the history of ``start``; logits of the next token (a copy)."""
        ...

    def close(self) -> None: ...


class ListedBlock(NamedTuple):
    """Rows as a server lists them. Natural log-probabilities at temperature 1, over the whole dictionary."""

    positions: NDArray[np.int32]
    """int32[n], ascending: row i predicts ``tokens[positions[i]]``."""
    ids: NDArray[np.int32]
    """int32[n, K] by (-log-probability, id); -1 where a row has fewer. What the server appends beyond rank K (the
    text's own token) is not among them."""
    logprobs: NDArray[np.float64]
    """float64[n, K]; NaN where there is no entry."""
    token_logprob: NDArray[np.float64]
    """float64[n] of the text's own token; NaN where the server does not say."""
    token_rank: NDArray[np.int32]
    """int32[n] of the text's own token, 1 is the best; 0 where the server does not say."""
    wanted_ids: NDArray[np.int32]
    """int32[n, W]: ids that were asked for beside the best; -1 where a row has fewer. W may be 0."""
    wanted_logprobs: NDArray[np.float64]
    """float64[n, W]; NaN where there is no entry."""
    sentinels: NDArray[np.int32]
    """int32[n]: entries that the server filled with a placeholder (-9999, -100, -inf) and that were left out."""


UNNAMED_END = -1
"""Stands for an end token that a server wrote and did not name: it says that it ended, and lists what came before."""


class Written(NamedTuple):
    """One token that a server chose greedily."""

    token: int
    """``UNNAMED_END``, always as the last, where only the end itself is told."""
    logprob: float
    """NaN of an unnamed end."""
    top_ids: tuple[int, ...]
    """The best entries of its row by (-log-probability, id)."""
    top_logprobs: tuple[float, ...]


ENDED = Written(token=UNNAMED_END, logprob=float("nan"), top_ids=(), top_logprobs=())


class ListedEngine(Protocol):
    """A model behind a connection. Raises ``EngineError`` or one of its kinds for whatever a server does wrong."""

    @property
    def identity(self) -> EngineIdentity: ...

    @property
    def capabilities(self) -> Capabilities: ...

    @property
    def gives_wanted(self) -> bool:
        """Whether ``score_listed`` can return log-probabilities of ids that the caller names."""
        ...

    @property
    def retries(self) -> int:
        """Requests that were sent again so far."""
        ...

    def said(self) -> Mapping[str, str]:
        """What the server says of its model, types, build and limits, asked anew: short texts by name."""
        ...

    def token_bytes(self) -> list[bytes] | None:
        """The bytes of each id in order, control tokens by their name; None where nothing says them."""
        ...

    def tokenize(self, text: str) -> list[int] | None:
        """Ids of ``text`` without an automatic BOS, control tokens recognised; None where the server cannot say."""
        ...

    def score_listed(
        self,
        tokens: Sequence[int],
        positions: Sequence[int],
        *,
        top_k: int,
        wanted: Sequence[Sequence[int]] | None = None,
    ) -> Iterator[ListedBlock]:
        """Teacher-force ``tokens``; rows for ``positions`` (ascending, none is 0) in the settings' path shape.

        ``wanted``: ids a position to be told beside the best; only where ``gives_wanted``. One block a request.
        """
        ...

    def write(self, tokens: Sequence[int], count: int, *, top_k: int) -> list[Written]:
        """Go on greedily behind ``tokens``: 1 to ``count`` tokens, fewer where an end token was written: the last."""
        ...

    def close(self) -> None: ...


@runtime_checkable
class Calibrated(Protocol):
    """A ``ListedEngine`` whose rows depend on numbers that were measured of its server."""

    def measured(self) -> Collection[str]:
        """Names of what ``said`` tells that was measured, and may come out otherwise the next time."""
        ...

    def calibration(self) -> Mapping[str, float]:
        """The numbers that its rows are made with, by name; measured where nothing was given."""
        ...

    def calibrate(self, kept: Mapping[str, Any]) -> None:
        """Make rows with ``kept``, which is an earlier ``calibration``. ``EngineError`` where it cannot be of this
        server."""
        ...


@runtime_checkable
class TakesState(Protocol):
    """An engine that goes on from what ``KeepsState`` wrote."""

    def take_state(self, tokens: Sequence[int], file: Path) -> bool:
        """Hold ``tokens`` as they lie in ``file``, evaluating nothing; False: it cannot be used."""
        ...


@runtime_checkable
class KeepsState(Protocol):
    """An engine whose memory can be written to a file, and read again by another process."""

    @property
    def state_bytes(self) -> int:
        """Size of what ``keep_state`` would write."""
        ...

    def keep_state(self, tokens: Sequence[int], file: Path) -> bool:
        """Write what the memory holds behind the scored part of ``tokens``; False: it could not be written."""
        ...
