"""llama.cpp in-process: full-vocabulary logits at any position, prefill and decode geometry, every KV type."""

from __future__ import annotations

import contextlib
import ctypes as c
import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from drift_runs.engines import llama_cpp_binding as binding
from drift_runs.engines.base import Capabilities, EngineIdentity, EngineSettings, ScoredBlock
from drift_runs.engines.llama_cpp_library import CAPABILITIES, identity, last_log, library
from drift_runs.errors import ConfigError, ContextOverflow, DriftError, EngineError, ModelFileError

_NO_DEVICE = (c.c_void_p * 1)(None)
"""An empty list of devices. Without it a GPU that the library finds (Metal on a Mac) would be lent large products even
when no layer is put there, and the capture says that its backend is the processor. It outlives every model."""

DIGEST_BYTES = 32


def state_digest(tokens: Sequence[int], state: NDArray[np.uint8]) -> bytes:
    """SHA-256 of a memory's state and of the tokens that it is of. The library ends the process at a damaged one."""
    found = hashlib.sha256(np.asarray(tokens, dtype="<i4").tobytes())
    found.update(state)
    return found.digest()


class LlamaCpp:
    """One model with one context. Not safe for use by several threads at once.

    ``adapter``: a LoRA file in GGUF that is applied to every product of the weights it names, at
    ``settings.adapter_scale``; the weights themselves stay as they are. Both are given or neither.
    """

    def __init__(self, model_file: Path, settings: EngineSettings, *, adapter: Path | None = None) -> None:
        self._model: int | None = None
        self._context: int | None = None
        self._adapter: int | None = None
        self.model_file = Path(model_file)
        self.settings = settings
        self._library = library()
        if (adapter is None) != (settings.adapter_scale is None):
            raise ConfigError(
                "a scale without an adapter" if adapter is None else "an adapter without a scale",
                where=f"engine llama_cpp, {self.model_file.name}",
                expected="both or neither",
            )
        if settings.kv not in binding.GGML_TYPES:
            raise ConfigError(
                f"unknown KV type {settings.kv!r}", where="kv", expected=f"one of {', '.join(binding.GGML_TYPES)}"
            )
        if settings.kv not in ("f32", "f16", "bf16") and settings.flash_attention == "off":
            raise ConfigError(
                f"a {settings.kv} V cache needs flash attention",
                where="settings.flash_attention",
                expected="'on' with a quantised KV cache",
            )
        if not self.model_file.is_file():
            raise ModelFileError(
                "no such file",
                where=str(model_file),
                expected="a GGUF model",
                todo="correct the path in drift.toml",
            )
        self._model = self._open_model()
        self._vocab = self._library.llama_model_get_vocab(self._model)
        self._size = int(self._library.llama_vocab_n_tokens(self._vocab))
        try:
            self._context = self._open_context()
            if adapter is not None and settings.adapter_scale is not None:
                self._apply(Path(adapter), settings.adapter_scale)
        except DriftError:
            self.close()
            raise
        self._memory = self._library.llama_get_memory(self._context)
        self._used = 0

    def _open_model(self) -> int:
        params = self._library.llama_model_default_params()
        params.n_gpu_layers = 0
        params.devices = c.cast(_NO_DEVICE, c.c_void_p)
        model = self._library.llama_model_load_from_file(str(self.model_file).encode(), params)
        if not model:
            raise ModelFileError(
                f"llama.cpp cannot load it: {last_log()}",
                where=str(self.model_file),
                expected="a whole GGUF file of a supported architecture",
                todo="fetch or make it again",
            )
        return model

    def _context_params(self) -> binding.ContextParams:
        settings = self.settings
        params = self._library.llama_context_default_params()
        params.n_ctx = settings.context_tokens
        params.n_batch = min(settings.batch, settings.context_tokens)
        params.n_ubatch = min(settings.micro_batch, params.n_batch)
        params.n_threads = params.n_threads_batch = settings.threads
        params.type_k = params.type_v = binding.GGML_TYPES[settings.kv]
        params.offload_kqv = params.op_offload = False
        params.flash_attn_type = binding.FLASH_ATTENTION[settings.flash_attention]
        return params

    def _open_context(self) -> int:
        params = self._context_params()
        context = self._library.llama_init_from_model(self._model, params)
        if not context:
            raise EngineError(
                f"llama.cpp cannot open a context: {last_log()}",
                where=str(self.model_file),
                todo="check KV type, flash attention and memory",
            )
        granted = self._library.llama_n_ubatch(context)
        if granted != params.n_ubatch:
            raise EngineError(
                f"micro-batch {granted} was granted",
                where=str(self.model_file),
                expected=f"{params.n_ubatch}, as the protocol says",
            )
        return context

    def _apply(self, file: Path, scale: float) -> None:
        if not file.is_file():
            raise ModelFileError(
                "no such file", where=str(file), expected="a GGUF adapter", todo="correct the path in drift.toml"
            )
        self._adapter = self._library.llama_adapter_lora_init(self._model, str(file).encode())
        if not self._adapter:
            reason = last_log().rpartition("failed to apply lora adapter: ")[2]
            raise ModelFileError(
                f"llama.cpp cannot apply it to {self.model_file.name}: {reason}",
                where=str(file),
                expected="a LoRA adapter in GGUF that was made for this model",
                todo="name the adapter's own file, or the base model that it was made for",
            )
        if self._library.llama_adapter_get_alora_n_invocation_tokens(self._adapter):
            raise ModelFileError(
                "it is to be active from its invocation tokens on only",
                where=str(file),
                expected="an adapter that holds for every token",
            )
        adapters, scales = (c.c_void_p * 1)(self._adapter), (c.c_float * 1)(scale)
        code = self._library.llama_set_adapters_lora(self._context, adapters, 1, scales)
        if code != 0:
            raise EngineError(f"llama_set_adapters_lora returned {code}: {last_log()}", where=str(file))

    @property
    def identity(self) -> EngineIdentity:
        return identity()

    @property
    def capabilities(self) -> Capabilities:
        return CAPABILITIES

    @property
    def dictionary_size(self) -> int:
        return self._size

    @property
    def parameters(self) -> int:
        """Number of weights."""
        return int(self._library.llama_model_n_params(self._model))

    def token_bytes(self) -> list[bytes]:
        """The bytes of each id; control tokens by their name, as they are written in a text."""
        piece = c.create_string_buffer(512)
        table = []
        for token in range(self._size):
            length = self._library.llama_token_to_piece(self._vocab, token, piece, len(piece), 0, True)
            if length < 0:
                piece = c.create_string_buffer(-length)
                length = self._library.llama_token_to_piece(self._vocab, token, piece, len(piece), 0, True)
            table.append(piece.raw[:length])
        return table

    def tokenize(self, text: str, *, special: bool = True) -> list[int]:
        """Ids of ``text`` without an automatic BOS; ``special``: control tokens in it are recognised."""
        data = text.encode("utf-8")
        room = len(data) + 8
        buffer = (c.c_int32 * room)()
        count = self._library.llama_tokenize(self._vocab, data, len(data), buffer, room, False, special)
        if count < 0:
            raise EngineError(f"the tokenizer asks for {-count} ids", where=str(self.model_file))
        return list(buffer[:count])

    @property
    def automatic_bos(self) -> int | None:
        """The id that the vocabulary asks to be put in front of a text; None where it asks for none."""
        if not self._library.llama_vocab_get_add_bos(self._vocab):
            return None
        return int(self._library.llama_vocab_bos(self._vocab))

    def ends_generation(self, token: int) -> bool:
        """True for an end-of-turn or end-of-text token."""
        return bool(self._library.llama_vocab_is_eog(self._vocab, token))

    def score(self, tokens: Sequence[int], positions: Sequence[int]) -> Iterator[ScoredBlock]:
        """See ``Engine.score``. The last token is never evaluated: nothing is predicted from it."""
        wanted = np.asarray(positions, dtype=np.int32)
        if wanted.size == 0:
            return
        if wanted[0] < 1 or wanted[-1] >= len(tokens) or np.any(np.diff(wanted) <= 0):
            raise ConfigError(
                f"positions {wanted[0]}..{wanted[-1]} of {len(tokens)} tokens",
                expected="ascending positions from 1 to the last token",
            )
        history = np.asarray(tokens[: int(wanted[-1])], dtype=np.int32)
        is_output = np.zeros(len(history), dtype=bool)
        is_output[wanted - 1] = True
        yield from self._evaluate(history, is_output)

    def _evaluate(self, history: NDArray[np.int32], is_output: NDArray[np.bool_]) -> Iterator[ScoredBlock]:
        """All of ``history`` from an empty memory, in the shape of the settings; rows where ``is_output``."""
        self._check_room(len(history))
        self.reset()
        step = 1 if self.settings.path_shape == "decode" else self.settings.batch
        for begin in range(0, len(history), step):
            part = history[begin : begin + step]
            outputs = is_output[begin : begin + step]
            self._decode(part, outputs)
            rows = np.flatnonzero(outputs)
            if rows.size:
                block = self._library.llama_get_logits(self._context)
                if not block:
                    raise EngineError("no logits were returned", where=f"position {begin + int(rows[0]) + 1}")
                logits = np.ctypeslib.as_array(block, shape=(rows.size, self._size))
                yield ScoredBlock((rows + begin + 1).astype(np.int32), logits)

    def start(self, tokens: Sequence[int]) -> NDArray[np.float32]:
        if not len(tokens):
            raise ConfigError("no history to start from", where=self.model_file.name, expected="one token or more")
        self._check_room(len(tokens))
        self.reset()
        history = np.asarray(tokens, dtype=np.int32)
        for begin in range(0, len(history), self.settings.batch):
            part = history[begin : begin + self.settings.batch]
            outputs = np.zeros(len(part), dtype=bool)
            outputs[-1] = begin + len(part) == len(history)
            self._decode(part, outputs)
        return self._last_row()

    def append(self, token: int) -> NDArray[np.float32]:
        self._check_room(self._used + 1)
        self._decode(np.asarray([token], dtype=np.int32), np.ones(1, dtype=bool))
        return self._last_row()

    def extend(self, tokens: Sequence[int], wanted: Sequence[int]) -> NDArray[np.float32]:
        """Add a batch of tokens to the history of ``score`` or ``start`` (or to none, behind ``reset``).

        Returns float32[len(wanted), columns], a copy: the logits behind the tokens at the ascending indices ``wanted``.
        """
        if not 1 <= len(tokens) <= self.settings.batch:
            raise ConfigError(
                f"{len(tokens)} tokens at once", where=self.model_file.name, expected=f"1 to {self.settings.batch}"
            )
        # One row is read for each of them: a repeated or negative index would read what was never written.
        if any(not 0 <= index < len(tokens) for index in wanted) or np.any(np.diff(wanted) <= 0):
            raise ConfigError(
                f"logits wanted at {list(wanted[:8])} of {len(tokens)} tokens",
                where=self.model_file.name,
                expected="ascending indices of these tokens",
            )
        self._check_room(self._used + len(tokens))
        outputs = np.zeros(len(tokens), dtype=bool)
        outputs[list(wanted)] = True
        self._decode(np.asarray(tokens, dtype=np.int32), outputs)
        if not len(wanted):
            return np.empty((0, self._size), dtype=np.float32)
        block = self._library.llama_get_logits(self._context)
        if not block:
            raise EngineError("no logits were returned", where=f"position {self._used}")
        return np.ctypeslib.as_array(block, shape=(len(wanted), self._size)).copy()

    def rewind(self, count: int) -> None:
        """Keep the first ``count`` tokens of what was scored or started, so that ``append`` goes on from there."""
        self._refuse_closed()
        if not 1 <= count <= self._used:
            raise ConfigError(
                f"cannot keep {count} tokens", where=self.model_file.name, expected=f"1 to {self._used}, as evaluated"
            )
        if not self._library.llama_memory_seq_rm(self._memory, 0, count, -1):
            raise EngineError("the model's memory cannot be cut", where=self.model_file.name)
        self._used = count

    @property
    def state_bytes(self) -> int:
        """Size of what ``keep_state`` would write."""
        self._refuse_closed()
        return int(self._library.llama_state_seq_get_size(self._context, 0))

    def keep_state(self, tokens: Sequence[int], file: Path) -> bool:
        """Write keys and values of the first ``_used`` of ``tokens``, which were just scored; False: it did not fit.

        Whoever opens the same weights with the same KV types and takes them is where this engine is now, to the bit.
        """
        self._refuse_closed()
        state = np.empty(self.state_bytes, dtype=np.uint8)
        room = state.ctypes.data_as(c.POINTER(c.c_uint8))
        if self._library.llama_state_seq_get_data(self._context, room, state.size, 0) != state.size:
            return False
        part = file.with_name(f".{file.name}.tmp")
        try:
            part.parent.mkdir(parents=True, exist_ok=True)
            with part.open("wb") as out:
                out.write(state_digest(tokens[: self._used], state))
                state.tofile(out)
            part.replace(file)
        except OSError:  # the disk is full: whoever comes evaluates the text again
            with contextlib.suppress(OSError):
                part.unlink(missing_ok=True)
            return False
        return True

    def reset(self) -> None:
        """Forget the history; the cache's bytes are cleared too, so that a stale cell can change nothing."""
        self._refuse_closed()
        self._library.llama_memory_clear(self._memory, True)
        self._used = 0

    def _refuse_closed(self) -> None:
        if not self._context:  # the library would end the process
            raise EngineError("the engine is closed", where=self.model_file.name)

    def _last_row(self) -> NDArray[np.float32]:
        row = self._library.llama_get_logits_ith(self._context, -1)
        if not row:
            raise EngineError("no logits were returned", where=f"position {self._used}")
        return np.ctypeslib.as_array(row, shape=(self._size,)).copy()

    def _check_room(self, count: int) -> None:
        if count > self.settings.context_tokens:
            raise ContextOverflow(
                f"{count} tokens do not fit",
                where=f"engine llama_cpp, {self.model_file.name}",
                expected=f"at most {self.settings.context_tokens} (capture.context_tokens)",
                todo="raise capture.context_tokens in a new version of the protocol or shorten the window",
            )

    def _decode(self, part: NDArray[np.int32], outputs: NDArray[np.bool_], *, sequence: int = 0) -> None:
        """Evaluate tokens behind the first ``_used`` of a sequence of the memory."""
        self._refuse_closed()
        count = len(part)
        token = np.ascontiguousarray(part)
        if count and (token.min() < 0 or token.max() >= self._size):
            raise ConfigError(f"a token id lies outside the dictionary of {self._size}", where=self.model_file.name)
        position = np.arange(self._used, self._used + count, dtype=np.int32)
        sequences = np.ones(count, dtype=np.int32)
        number = (c.c_int32 * 1)(sequence)
        sequence_ids = (c.POINTER(c.c_int32) * count)(*([c.cast(number, c.POINTER(c.c_int32))] * count))
        flags = outputs.astype(np.int8)

        def pointer(array: NDArray, kind: type) -> object:
            return array.ctypes.data_as(c.POINTER(kind))

        batch = binding.Batch(
            count,
            pointer(token, c.c_int32),
            None,
            pointer(position, c.c_int32),
            pointer(sequences, c.c_int32),
            sequence_ids,
            pointer(flags, c.c_int8),
        )
        code = self._library.llama_decode(self._context, batch)
        if code != 0:
            raise EngineError(
                f"llama_decode returned {code}: {last_log()}",
                where=f"{self.model_file.name}, positions {self._used} to {self._used + count}",
            )
        self._used += count

    def close(self) -> None:
        if self._context:
            self._library.llama_free(self._context)
            self._context = None
        if self._adapter:  # it holds tensors of the model's buffers: never after it
            self._library.llama_adapter_lora_free(self._adapter)
            self._adapter = None
        if self._model:
            self._library.llama_model_free(self._model)
            self._model = None

    def __enter__(self) -> LlamaCpp:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()
