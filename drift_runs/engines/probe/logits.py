"""An engine of this process as one that lists: what its logits say, in the form that every question reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from drift_runs.engines.base import Capabilities, Engine, EngineIdentity, ListedBlock, Written
from drift_runs.errors import EngineError, NonFiniteLogits


class ListedLogits:
    """Rows of an :class:`~drift_runs.engines.base.Engine`, of the dictionary's columns alone: padding is dropped."""

    def __init__(self, engine: Engine, dictionary_size: int) -> None:
        self._engine = engine
        self._size = dictionary_size
        self.columns = 0
        """Of the last row, padding included."""

    @property
    def identity(self) -> EngineIdentity:
        return self._engine.identity

    @property
    def capabilities(self) -> Capabilities:
        return self._engine.capabilities

    @property
    def gives_wanted(self) -> bool:
        return True

    def said(self) -> Mapping[str, str]:
        """What it was opened with: an engine of this process does as it is told, or refuses to open."""
        settings = getattr(self._engine, "settings", None)
        names = ("kv", "dtype", "quantise", "path_shape", "context_tokens", "batch", "micro_batch", "flash_attention")
        found = {name: getattr(settings, name, None) for name in names}
        return {name: str(value) for name, value in found.items() if value is not None}

    def token_bytes(self) -> list[bytes]:
        return self._engine.token_bytes()

    def tokenize(self, text: str) -> list[int] | None:
        own = getattr(self._engine, "tokenize", None)
        return None if own is None else list(own(text))

    def score_listed(
        self,
        tokens: Sequence[int],
        positions: Sequence[int],
        *,
        top_k: int,
        wanted: Sequence[Sequence[int]] | None = None,
    ) -> Iterator[ListedBlock]:
        place = 0
        for block in self._engine.score(tokens, positions):
            count = len(block.positions)
            logprobs = self._logprobs(block.logits, f"positions from {int(block.positions[0])}")
            asked = [()] * count if wanted is None else wanted[place : place + count]
            yield _listed(block.positions, [tokens[int(at)] for at in block.positions], logprobs, top_k, asked)
            place += count

    def write(self, tokens: Sequence[int], count: int, *, top_k: int) -> list[Written]:
        ends = getattr(self._engine, "ends_generation", None)
        logits = self._engine.start(tokens)
        written: list[Written] = []
        while True:
            logprobs = self._logprobs(logits[None, :], f"token {len(written) + 1} behind {len(tokens)}")[0]
            ids = np.argsort(-logprobs, kind="stable")[:top_k]
            token = int(ids[0])
            written.append(Written(token, float(logprobs[token]), tuple(ids.tolist()), tuple(logprobs[ids].tolist())))
            if len(written) == count or (ends is not None and ends(token)):
                return written
            logits = self._engine.append(token)

    def _logprobs(self, logits: NDArray[np.float32], where: str) -> NDArray[np.float64]:
        """float64[n, dictionary]."""
        self.columns = logits.shape[1]
        if self.columns < self._size:
            raise EngineError(f"{self.columns} columns", where=where, expected=f"{self._size}, an entry an id")
        kept = logits[:, : self._size].astype(np.float64)
        best = kept.max(axis=1, keepdims=True)
        if not np.isfinite(best).all() or np.isnan(kept).any():
            raise NonFiniteLogits("NaN or infinity among the logits", where=where, expected="finite logits")
        kept -= best
        return kept - np.log(np.exp(kept).sum(axis=1, keepdims=True))


def _listed(
    positions: NDArray[np.int32],
    own: Sequence[int],
    logprobs: NDArray[np.float64],
    top_k: int,
    wanted: Sequence[Sequence[int]],
) -> ListedBlock:
    rows = np.arange(len(own))
    ids = np.argsort(-logprobs, axis=1, kind="stable")[:, :top_k].astype(np.int32)
    own_logprob = logprobs[rows, own]
    better = (logprobs > own_logprob[:, None]).sum(axis=1)
    before = [int((row[:token] == row[token]).sum()) for row, token in zip(logprobs, own, strict=True)]
    width = max(map(len, wanted), default=0)
    wanted_ids = np.full((len(own), width), -1, dtype=np.int32)
    wanted_logprobs = np.full((len(own), width), np.nan)
    for row, asked in enumerate(wanted):
        wanted_ids[row, : len(asked)] = asked
        wanted_logprobs[row, : len(asked)] = logprobs[row, list(asked)]
    return ListedBlock(
        positions=np.asarray(positions, dtype=np.int32),
        ids=ids,
        logprobs=np.take_along_axis(logprobs, ids, axis=1),
        token_logprob=own_logprob,
        token_rank=(better + np.asarray(before, dtype=np.int64) + 1).astype(np.int32),
        wanted_ids=wanted_ids,
        wanted_logprobs=wanted_logprobs,
        sentinels=np.zeros(len(own), dtype=np.int32),
    )
