"""Branches of a held history in llama.cpp: a root costs its futures, and not its history.

How near a branch is to a history of its own was measured with SmolLM2-135M on one thread of a processor, futures
written greedily:

* F16 weights and KV, flash attention, 1,000 tokens held, 6 roots, 40 tokens each: against a fresh prefill of the root's
  history in the same micro-batches, and decode from there, every logit is equal to the last bit. So it is, with 3 roots
  of 500 tokens and 16 tokens each, for micro-batches of 32, a KV cache of q8_0 and weights of q4_0.
* The bits differ (same 3 roots) without flash attention, and on two threads, which part attention by cells: a
  log-probability of a written token by 0.004 and 0.010 nats at most, of any token by 0.039 and 0.056; no token of 48
  differs. The order of roots changes no bit there either.
* Against a history that was itself decoded one by one (the 6 roots): 0.017 nats at most for a written token, 0.16 for
  any; no token of 240 differs. A history held in decode shape gives the bits of a fresh one in decode shape.
"""

from __future__ import annotations

import ctypes as c
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from drift_runs.engines import llama_cpp_binding as binding
from drift_runs.engines.base import EngineSettings
from drift_runs.engines.llama_cpp import DIGEST_BYTES, LlamaCpp, state_digest
from drift_runs.errors import ConfigError, ContextOverflow, EngineError

_HELD, _BRANCH = 0, 1
"""The two sequences of the memory. They share the cells of the history that both have."""


class BranchingLlamaCpp(LlamaCpp):
    """A model whose memory holds one text, from any place of which branches are followed, one after the other.

    It is an engine like any other until ``hold`` is called, and again behind ``start``, ``score`` or ``reset``.
    ``branch_tokens``: room in memory for the longest branch, beside a held text of ``settings.context_tokens``;
    None: for any that the context has positions for.
    """

    def __init__(
        self,
        model_file: Path,
        settings: EngineSettings,
        *,
        adapter: Path | None = None,
        branch_tokens: int | None = None,
    ) -> None:
        if branch_tokens is not None and branch_tokens < 1:
            raise ConfigError(f"room for branches of {branch_tokens} tokens", expected="1 or more")
        self._branch_tokens = settings.context_tokens if branch_tokens is None else branch_tokens
        self._held = 0
        self._root: int | None = None
        super().__init__(model_file, settings, adapter=adapter)
        if self._library.llama_model_is_recurrent(self._model) or self._library.llama_model_is_hybrid(self._model):
            self.close()
            raise EngineError(
                "the model's memory is a state that cannot be cut at a place",
                where=f"engine llama_cpp, {self.model_file.name}",
                expected="a model whose memory has a cell for each token",
                todo="leave the arm out of [branches]",
            )
        self._cells = int(self._library.llama_n_ctx(self._context))

    def _context_params(self) -> binding.ContextParams:
        params = super()._context_params()
        params.n_ctx = self.settings.context_tokens + self._branch_tokens
        params.n_seq_max = 2
        # One pool of cells: a copy then shares them, and a batch is cut into micro-batches as for one sequence.
        params.kv_unified = True
        return params

    def hold(self, tokens: Sequence[int], wanted: Sequence[int]) -> NDArray[np.float32]:
        """Forget everything and take ``tokens`` as the text whose branches are followed, in the settings' path shape.

        Returns float32[len(wanted), columns], a copy: the logits behind the tokens at the ascending indices ``wanted``.
        All of the text is evaluated at once, so that a root's history does not depend on the roots that are explored.
        It is evaluated as ``score`` does: the tokens up to a window's last scored position, and its scored positions
        as ``wanted``, give the bytes of its capture.
        """
        indices = np.asarray(wanted, dtype=np.int64)
        if not len(tokens):
            raise ConfigError("no text to hold", where=self.model_file.name, expected="one token or more")
        if indices.size and (indices[0] < 0 or indices[-1] >= len(tokens) or np.any(np.diff(indices) <= 0)):
            raise ConfigError(
                f"logits wanted behind {list(wanted[:8])} of {len(tokens)} tokens",
                where=self.model_file.name,
                expected="ascending indices of these tokens",
            )
        is_output = np.zeros(len(tokens), dtype=bool)
        is_output[indices] = True
        rows = np.empty((indices.size, self.dictionary_size), dtype=np.float32)
        place = 0
        for block in self._evaluate(np.asarray(tokens, dtype=np.int32), is_output):
            rows[place : place + len(block.logits)] = block.logits
            place += len(block.logits)
        self._held = len(tokens)
        return rows

    def take_state(self, tokens: Sequence[int], file: Path) -> bool:
        """Take ``tokens`` as the held text from what ``keep_state`` of the same execution wrote, evaluating nothing.

        Its branches are those behind ``hold(tokens, [])``, to the bit. False, and nothing is held, where the file is
        missing, damaged, of other tokens or of another kind of memory.
        """
        self.reset()
        if not 1 <= len(tokens) <= self.settings.context_tokens:
            return False
        try:
            kept = np.fromfile(file, dtype=np.uint8)
        except OSError:
            return False
        digest, state = kept[:DIGEST_BYTES], kept[DIGEST_BYTES:]
        if digest.tobytes() != state_digest(tokens, state):
            return False
        found = state.ctypes.data_as(c.POINTER(c.c_uint8))
        if self._library.llama_state_seq_set_data(self._context, found, state.size, _HELD) != state.size:
            self.reset()
            return False
        self._held = len(tokens)
        return True

    def branch(self, count: int) -> None:
        """Drop the branch before; a new one begins behind the first ``count`` of the held tokens.

        ``append`` puts tokens onto it, in decode shape. They lie in the same cells whichever branches went before, so
        that the order of roots changes no bit of any.
        """
        self._refuse_closed()
        if not 1 <= count <= self._held:
            raise ConfigError(
                f"no branch behind {count} tokens",
                where=self.model_file.name,
                expected=f"1 to {self._held}, as held" if self._held else "a held text",
            )
        memory = self._library
        if not memory.llama_memory_seq_rm(self._memory, _BRANCH, -1, -1):
            raise EngineError("the model's memory cannot be cut", where=self.model_file.name)
        memory.llama_memory_seq_cp(self._memory, _HELD, _BRANCH, 0, count)
        self._root = self._used = count

    @property
    def context_left(self) -> int:
        """Tokens that the branch can still take, by its positions and by the memory's cells."""
        by_position = self.settings.context_tokens - self._used
        if self._root is None:
            return by_position
        return min(by_position, self._cells - self._held - (self._used - self._root))

    def append(self, token: int) -> NDArray[np.float32]:
        """One token onto the branch, or onto the history of ``start``; logits of the next, float32[columns], a copy."""
        if not self._held:
            return super().append(token)
        if self._root is None:
            raise ConfigError("no branch to append to", where=self.model_file.name, expected="branch() before it")
        if self.context_left < 1:
            raise ContextOverflow(
                f"a branch of {self._used - self._root + 1} tokens behind {self._root} does not fit",
                where=f"engine llama_cpp, {self.model_file.name}",
                expected=f"{self.settings.context_tokens} positions, and {self._branch_tokens} tokens a branch at most",
            )
        self._decode(np.asarray([token], dtype=np.int32), np.ones(1, dtype=bool), sequence=_BRANCH)
        return self._last_row()

    def extend(self, tokens: Sequence[int], wanted: Sequence[int]) -> NDArray[np.float32]:
        self._refuse_held()
        return super().extend(tokens, wanted)

    def rewind(self, count: int) -> None:
        self._refuse_held()
        super().rewind(count)

    def reset(self) -> None:
        super().reset()
        self._held, self._root = 0, None

    def _refuse_held(self) -> None:
        if self._held:  # branches share its cells
            raise ConfigError("the held text is left as it is", where=self.model_file.name, expected="reset() first")
