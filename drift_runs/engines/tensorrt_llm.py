"""TensorRT-LLM in this process, through its LLM API. Written after its documentation; not run.

A window in one pass asks for the context's logits: a row of the whole dictionary behind each token of the prompt. They
need the reuse of KV blocks off, or only the part that was not reused has rows. From them the K best, the ids that are
wanted and the text's own token are taken here, so every log-probability is exact. One token at a time asks for the
logits of one generated token behind each history, over the reused blocks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drift_runs.engines.base import Capabilities, EngineIdentity, EngineSettings, ListedBlock, Written
from drift_runs.engines.hf_dictionary import token_bytes_of
from drift_runs.engines.openai_server.listing import Listing, Row, check_count, check_echo
from drift_runs.engines.openai_server.written import greedy
from drift_runs.errors import CannotGive, ConfigError, ContextOverflow, EngineError, EngineMissing, NonFiniteLogits

DISTRIBUTION = "tensorrt-llm"
WHERE = "engine tensorrt_llm"
ROWS_AT_ONCE = 64
"""Rows of logits that are turned into log-probabilities together: 64 of 128,000 are 66 MB."""
CAPABILITIES = Capabilities(
    full_vocabulary=False, largest_top_k=None, path_shapes=("prefill", "decode"), token_ids=True, continues=True
)


def identity(_settings: EngineSettings) -> EngineIdentity:
    """Without opening a model. ``EngineMissing`` where the package is not installed."""
    try:
        version = metadata.version(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        raise _missing() from None
    return EngineIdentity(
        engine="tensorrt_llm",
        build=f"{DISTRIBUTION} {version}",
        backend="cuda",
        hardware=_accelerator(),
        capabilities=CAPABILITIES,
    )


class TensorRTLLM:
    """One model folder. A ``ListedEngine`` of this process: it has logits, and gives the best of them."""

    retries = 0
    gives_wanted = True

    def __init__(self, model: Path, settings: EngineSettings) -> None:
        if settings.path_shape not in CAPABILITIES.path_shapes:
            raise CannotGive(f"the path shape {settings.path_shape!r}", where=WHERE)
        self.model = model
        self.settings = settings
        self._table = token_bytes_of(model)
        self.identity = identity(settings)
        try:
            from tensorrt_llm import LLM, SamplingParams
            from tensorrt_llm.llmapi import KvCacheConfig
        except ImportError as error:
            raise _missing(str(error)) from None
        self._params = SamplingParams
        # One pass needs a row behind each token of the prompt: reused blocks have none.
        self.reuses_blocks = settings.path_shape == "decode" and settings.cache_prompt is not False
        options: dict[str, Any] = {
            "model": str(model),
            "max_seq_len": settings.context_tokens,
            "max_batch_size": 1,
            "max_num_tokens": settings.batch,
            "kv_cache_config": KvCacheConfig(enable_block_reuse=self.reuses_blocks),
        }
        if settings.dtype is not None:
            options["dtype"] = settings.dtype
        self._llm = LLM(**options)

    @property
    def capabilities(self) -> Capabilities:
        return CAPABILITIES

    @property
    def dictionary_size(self) -> int:
        """Entries of the tokenizer."""
        return len(self._table)

    def said(self) -> Mapping[str, str]:
        return {
            "version": self.identity.build,
            "model": self.model.name,
            "dtype": self.settings.dtype or "as the model's folder says",
            "block_reuse": "on" if self.reuses_blocks else "off",
            "context_tokens": str(self.settings.context_tokens),
        }

    def token_bytes(self) -> list[bytes]:
        return list(self._table)

    def tokenize(self, text: str) -> list[int]:
        return list(self._llm.tokenizer.encode(text, add_special_tokens=False))

    def score_listed(
        self,
        tokens: Sequence[int],
        positions: Sequence[int],
        *,
        top_k: int,
        wanted: Sequence[Sequence[int]] | None = None,
    ) -> Iterator[ListedBlock]:
        """See ``ListedEngine``. ``NonFiniteLogits`` naming the position; ids of our choice are told in both shapes."""
        if not positions or positions[0] < 1 or positions[-1] >= len(tokens) or top_k < 1:
            raise ConfigError(f"{len(positions)} positions of {len(tokens)} tokens, K = {top_k}", where=WHERE)
        listing = Listing(top_k=top_k, dictionary_size=self.dictionary_size, where=WHERE)
        named = [()] * len(positions) if wanted is None else wanted
        if self.settings.path_shape == "prefill":
            logits = self._context_logits(tokens[: positions[-1] + 1])
            for begin in range(0, len(positions), ROWS_AT_ONCE):
                part = positions[begin : begin + ROWS_AT_ONCE]
                # Row i is behind tokens[i] and predicts the next.
                rows = logits[[position - 1 for position in part]]
                yield listing.block(self._rows(rows, tokens, part, named[begin : begin + ROWS_AT_ONCE], top_k))
            return
        for position, ids in zip(positions, named, strict=True):
            output = self._generated(tokens[:position], 1, return_generation_logits=True)
            logits = self._columns(output.generation_logits, 1, position)
            yield listing.block(self._rows(logits, tokens, [position], [ids], top_k))

    def write(self, tokens: Sequence[int], count: int, *, top_k: int) -> list[Written]:
        output = self._generated(tokens, count, logprobs=top_k)
        listed = output.logprobs
        if not listed or not all(isinstance(row, Mapping) for row in listed):
            raise CannotGive(
                "the answer has no lists of the best entries",
                where=WHERE,
                todo="use a version whose CompletionOutput.logprobs holds an entry an id",
            )
        check_count("rows of what was written", len(listed), len(output.token_ids), where=WHERE)
        if output.finish_reason != "stop" and not (output.finish_reason == "length" and len(listed) == count):
            raise EngineError(f"it stopped after {len(listed)} tokens by {output.finish_reason!r}", where=WHERE)
        rows = [
            Row(len(tokens) + at, token, [(found, float(entry.logprob)) for found, entry in row.items()])
            for at, (token, row) in enumerate(zip(output.token_ids, listed, strict=True))
        ]
        listing = Listing(top_k=top_k, dictionary_size=self.dictionary_size, where=WHERE)
        return greedy(rows, listing, most=count)

    def _generated(self, tokens: Sequence[int], count: int, **asked: Any) -> Any:
        """The one output behind ``tokens``, which the engine says that it read."""
        return self._request(tokens, count, **asked).outputs[0]

    def _request(self, tokens: Sequence[int], count: int, **asked: Any) -> Any:
        if len(tokens) + count > self.settings.context_tokens:
            raise ContextOverflow(
                f"{len(tokens) + count:,} tokens with what is written",
                where=WHERE,
                expected=f"at most {self.settings.context_tokens:,}",
            )
        # top_k = 1 is how its sampler is greedy; an end token is listed, and ends it.
        params = self._params(
            max_tokens=count,
            temperature=0.0,
            top_k=1,
            include_stop_str_in_output=True,
            detokenize=False,
            add_special_tokens=False,
            **asked,
        )
        result = self._llm.generate({"prompt_token_ids": list(tokens)}, params, use_tqdm=False)
        check_echo(tokens, list(result.prompt_token_ids), where=WHERE)
        return result

    def _context_logits(self, tokens: Sequence[int]) -> NDArray[np.float32]:
        """float32[len(tokens) - 1, columns]: behind each token but the last, which predicts nothing here."""
        result = self._request(tokens[:-1], 1, return_context_logits=True)
        return self._columns(result.context_logits, len(tokens) - 1, None)

    def _columns(self, found: Any, rows: int, position: int | None) -> NDArray[np.float32]:
        where = WHERE + ("" if position is None else f", position {position}")
        if found is None:
            raise CannotGive("the answer has no logits", where=where, todo="use an engine that keeps them")
        array = np.asarray(found.float().cpu().numpy(), dtype=np.float32)
        array = array.reshape(-1, array.shape[-1])
        check_count("rows of logits", len(array), rows, where=where)
        if array.shape[1] < self.dictionary_size:
            raise EngineError(
                f"{array.shape[1]:,} columns", where=where, expected=f"{self.dictionary_size:,} or more, the dictionary"
            )
        return array

    def _rows(
        self,
        logits: NDArray[np.float32],
        tokens: Sequence[int],
        positions: Sequence[int],
        wanted: Sequence[Sequence[int]],
        top_k: int,
    ) -> list[Row]:
        values = logits[:, : self.dictionary_size].astype(np.float64)
        if bad := np.flatnonzero(~np.isfinite(values).all(axis=1)).tolist():
            raise NonFiniteLogits(
                "NaN or infinity where a logit was expected", where=f"{WHERE}, position {positions[bad[0]]}"
            )
        values -= np.logaddexp.reduce(values, axis=1, keepdims=True)
        count = min(top_k, self.dictionary_size)
        # Stable over falling values: of equal ones the lowest id is among the best.
        best = np.argsort(-values, axis=1, kind="stable")[:, :count]
        return [
            Row(
                position,
                tokens[position],
                [(int(token), float(row[token])) for token in best[at]],
                rank=1 + int((row > row[tokens[position]]).sum()),
                own_logprob=float(row[tokens[position]]),
                wanted=[(token, float(row[token])) for token in wanted[at]],
            )
            for at, (position, row) in enumerate(zip(positions, values, strict=True))
        ]

    def close(self) -> None:
        if self._llm is not None:
            self._llm.shutdown()
            self._llm = None


def _missing(why: str = "") -> EngineMissing:
    return EngineMissing(
        f"{DISTRIBUTION} is not installed" + (f": {why}" if why else ""),
        where=WHERE,
        todo="install it as NVIDIA's documentation says (a CUDA machine), or run another engine",
    )


def _accelerator() -> str:
    try:
        import torch

        return torch.cuda.get_device_name() if torch.cuda.is_available() else "no accelerator"
    except ImportError:
        return "not said"
