"""What engines of this process that keep keys and values in a cache of their own have in common.

Scoring, going on from a history, and branches of a held text are the same for all of them; a library's part is to make
an empty cache, to put tokens behind one, and to copy one, whole or cut.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from drift_runs.engines.base import Capabilities, EngineSettings, ScoredBlock
from drift_runs.engines.hf_dictionary import FILE_NAME, token_bytes_of
from drift_runs.errors import CannotGive, ConfigError, ContextOverflow, EngineError, ModelFileError

CAPABILITIES = Capabilities(
    full_vocabulary=True,
    largest_top_k=None,
    path_shapes=("prefill", "decode"),
    token_ids=True,
    continues=True,
)

_NONE_OF = ("adapter_scale", "cache_prompt")


class _Kept(NamedTuple):
    """A copy of the cache behind the first ``count`` tokens of the held text."""

    count: int
    cache: Any


class CachedModel(ABC):
    """One model of a folder with one cache. Not safe for use by several threads at once.

    In the shape ``prefill`` tokens are evaluated ``min(batch, micro_batch)`` at a time, in ``decode`` one by one. A
    class that extends this one opens the model, then calls :meth:`_opened`.
    """

    engine = ""
    """The engine's name, for errors."""

    def __init__(self, folder: Path, settings: EngineSettings) -> None:
        self.folder = Path(folder)
        self.settings = settings
        if not self.folder.is_dir():
            raise ModelFileError(
                "no such folder" if not self.folder.exists() else "this is no folder",
                where=str(folder),
                expected="a folder with config.json, tokenizer.json and *.safetensors",
                todo="correct the path in drift.toml; python -m drift_runs.weights.hf_folder makes one from a GGUF",
            )
        for name in _NONE_OF:
            if getattr(settings, name) is not None:
                raise ConfigError(f"{name} is set", where=f"engine {self.engine}", expected="nothing: it has none")
        self._dictionary = token_bytes_of(self.folder)
        self._tokenizer: Any = None
        self._limit = settings.context_tokens
        self._cache: Any = None
        self._used = 0
        self._held: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self._kept: list[_Kept] = []
        self._root: int | None = None

    def _opened(self, limit: int | None) -> None:
        """Take notice of the model's own context limit, and refuse a head that is narrower than the dictionary."""
        self._limit = min(self._limit, limit or self._limit)
        columns = self._forward(self._empty(), np.zeros(1, np.int64), np.zeros(1, np.int64)).shape[1]
        if columns < len(self._dictionary):
            raise ModelFileError(
                f"its logits have {columns} columns",
                where=str(self.folder),
                expected=f"{len(self._dictionary)} or more, one for each token of {FILE_NAME}",
                todo="name a folder whose tokenizer is the model's own",
            )
        self.reset()

    @abstractmethod
    def _empty(self) -> Any:
        """A cache without tokens."""

    @abstractmethod
    def _forward(self, cache: Any, tokens: NDArray[np.int64], wanted: NDArray[np.int64]) -> NDArray[np.float32]:
        """Put tokens into the cache; float32[len(wanted), columns], the logits behind those at the indices wanted."""

    @abstractmethod
    def _cut(self, cache: Any, count: int) -> Any | None:
        """An independent cache of the first ``count`` tokens; None where this kind cannot be cut there."""

    @abstractmethod
    def _copy(self, cache: Any) -> Any:
        """An independent copy."""

    @property
    def _first_step_is_float(self) -> bool:
        """Whether a step that fills an empty cache reads its own keys and values before they are quantised."""
        return False

    @property
    def capabilities(self) -> Capabilities:
        return CAPABILITIES

    @property
    def dictionary_size(self) -> int:
        return len(self._dictionary)

    def token_bytes(self) -> list[bytes]:
        return list(self._dictionary)

    def tokenize(self, text: str, *, special: bool = True) -> list[int]:
        """Ids of ``text`` without an automatic BOS; ``special``: control tokens in it are recognised."""
        if self._tokenizer is None:
            from tokenizers import Tokenizer

            self._tokenizer = Tokenizer.from_file(str(self.folder / FILE_NAME))
        self._tokenizer.encode_special_tokens = not special
        return list(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def score(self, tokens: Sequence[int], positions: Sequence[int]) -> Iterator[ScoredBlock]:
        """See ``Engine.score``. The last token is never evaluated: nothing is predicted from it."""
        wanted = np.asarray(positions, dtype=np.int64)
        if wanted.size == 0:
            return
        if wanted[0] < 1 or wanted[-1] >= len(tokens) or np.any(np.diff(wanted) <= 0):
            raise ConfigError(
                f"positions {wanted[0]}..{wanted[-1]} of {len(tokens)} tokens",
                expected="ascending positions from 1 to the last token",
            )
        self.reset()
        yield from self._evaluate(self._ids(tokens[: int(wanted[-1])]), wanted - 1, keep=False)

    @property
    def _step(self) -> int:
        settings = self.settings
        return 1 if settings.path_shape == "decode" else min(settings.batch, settings.micro_batch)

    def _evaluate(self, history: NDArray[np.int64], wanted: NDArray[np.int64], *, keep: bool) -> Iterator[ScoredBlock]:
        """All of ``history`` behind an empty cache; rows behind the indices ``wanted``.

        ``keep``: copies of the cache are kept on the way, as far as the whole one cannot be cut.
        """
        step = self._step
        if self._first_step_is_float and 1 < len(history) <= step:
            raise CannotGive(
                f"{len(history)} tokens in one step never read the {self.settings.kv} cache",
                where=f"engine {self.engine}",
                expected="steps that are shorter than the text",
                todo='lower micro_batch, or take path_shape = "decode"',
            )
        keep = keep and len(history) > 1
        for begin in range(0, len(history), step):
            if keep and begin and begin % self.settings.batch == 0:
                self._kept.append(_Kept(begin, self._copy(self._cache)))
            part = history[begin : begin + step]
            inside = wanted[np.searchsorted(wanted, begin) : np.searchsorted(wanted, begin + len(part))] - begin
            logits = self._add(part, inside)
            if begin == 0 and keep:
                keep = self._cut(self._cache, 1) is None
            if inside.size:
                yield ScoredBlock((inside + begin + 1).astype(np.int32), logits)

    def start(self, tokens: Sequence[int]) -> NDArray[np.float32]:
        if not len(tokens):
            raise ConfigError("no history to start from", where=self.folder.name, expected="one token or more")
        history = self._ids(tokens)
        self.reset()
        step = min(self.settings.batch, self.settings.micro_batch)
        logits = np.empty((0, 0), np.float32)
        for begin in range(0, len(history), step):
            part = history[begin : begin + step]
            ends = begin + len(part) == len(history)
            logits = self._add(part, np.asarray([len(part) - 1] if ends else [], dtype=np.int64))
        return logits[0].copy()

    def append(self, token: int) -> NDArray[np.float32]:
        """One token onto the branch, or onto the history of ``start``; logits of the next, float32[columns], a copy."""
        if self._held.size and self._root is None:
            raise ConfigError("no branch to append to", where=self.folder.name, expected="branch() before it")
        if self.context_left < 1:
            raise self._overflow(self._used + 1)
        return self._add(self._ids([token]), np.zeros(1, np.int64))[0].copy()

    def hold(self, tokens: Sequence[int], wanted: Sequence[int]) -> NDArray[np.float32]:
        """Forget everything and take ``tokens`` as the text whose branches are followed, in the settings' path shape.

        Returns float32[len(wanted), columns], a copy: the logits behind the tokens at the ascending indices ``wanted``.
        It is evaluated as ``score`` does: the tokens up to a window's last scored position, and its scored positions
        as ``wanted``, give the bytes of its capture.
        """
        indices = np.asarray(wanted, dtype=np.int64)
        if not len(tokens):
            raise ConfigError("no text to hold", where=self.folder.name, expected="one token or more")
        if indices.size and (indices[0] < 0 or indices[-1] >= len(tokens) or np.any(np.diff(indices) <= 0)):
            raise ConfigError(
                f"logits wanted behind {list(wanted[:8])} of {len(tokens)} tokens",
                where=self.folder.name,
                expected="ascending indices of these tokens",
            )
        history = self._ids(tokens)
        self.reset()
        blocks = [block.logits for block in self._evaluate(history, indices, keep=True)]
        self._held = history
        self._kept.append(_Kept(len(history), self._cache))
        self._cache = None
        return np.concatenate(blocks) if blocks else np.empty((0, self.dictionary_size), np.float32)

    def branch(self, count: int) -> None:
        """Drop the branch before; a new one begins behind the first ``count`` of the held tokens.

        A cache that can be cut is cut there. Of another the nearest earlier copy is taken, and the tokens from there
        are evaluated again in the settings' path shape: one batch of them at most.
        """
        if not 1 <= count <= self._held.size:
            raise ConfigError(
                f"no branch behind {count} tokens",
                where=self.folder.name,
                expected=f"1 to {self._held.size}, as held" if self._held.size else "a held text",
            )
        whole = self._kept[-1].cache
        cut = self._copy(whole) if count == self._held.size else self._cut(whole, count)
        if cut is not None:
            self._cache, self._used = cut, count
        else:
            kept = max((kept for kept in self._kept if kept.count <= count), default=None, key=lambda kept: kept.count)
            self._cache, self._used = (self._empty(), 0) if kept is None else (self._copy(kept.cache), kept.count)
            for begin in range(self._used, count, self._step):
                self._add(self._held[begin : min(begin + self._step, count)], np.empty(0, np.int64))
        self._root = count

    @property
    def context_left(self) -> int:
        """Tokens that the branch, or the history of ``start``, can still take."""
        return self._limit - self._used

    def reset(self) -> None:
        """Forget the history."""
        self._held, self._kept, self._root = np.empty(0, np.int64), [], None
        self._cache, self._used = self._empty(), 0

    def _add(self, tokens: NDArray[np.int64], wanted: NDArray[np.int64]) -> NDArray[np.float32]:
        logits = self._forward(self._cache, tokens, wanted)
        self._used += len(tokens)
        return logits

    def _ids(self, tokens: Sequence[int]) -> NDArray[np.int64]:
        found = np.asarray(tokens, dtype=np.int64)
        if found.size > self._limit:
            raise self._overflow(found.size)
        if found.min() < 0 or found.max() >= len(self._dictionary):
            raise ConfigError(
                f"a token id lies outside the dictionary of {len(self._dictionary)}", where=self.folder.name
            )
        return found

    def _overflow(self, count: int) -> ContextOverflow:
        own = self._limit < self.settings.context_tokens
        return ContextOverflow(
            f"{count} tokens do not fit",
            where=f"engine {self.engine}, {self.folder.name}",
            expected=f"at most {self._limit} ({'the positions of the model' if own else 'capture.context_tokens'})",
            todo="shorten the window" if own else "raise capture.context_tokens in a new version of the protocol",
        )

    def close(self) -> None:
        self._cache, self._kept, self._held = None, [], np.empty(0, np.int64)

    def __enter__(self):
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()


def refuse_closed(model: object, folder: Path) -> None:
    """Raise what a closed engine raises."""
    if model is None:
        raise EngineError("the engine is closed", where=folder.name)
