"""What every engine offers to the rest of the tool, and how it says what it is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable

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
