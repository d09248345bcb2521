"""TensorRT-LLM's engine on a double of its LLM API, written after its documentation; the library was not run."""

from __future__ import annotations

import math
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from drift_runs.engines import tensorrt_llm
from drift_runs.engines.base import ListedBlock
from drift_runs.engines.tensorrt_llm import TensorRTLLM
from drift_runs.errors import CannotGive, ContextOverflow, EngineError, EngineMissing, NonFiniteLogits, ServerError
from tests.engines.canned_server import tokenizer_folder
from tests.engines.conftest import settings

SIZE, COLUMNS = 20, 24
TOKENS = [3, 7, 1, 12, 5, 19, 0, 8]


def logits(history: list[int]) -> np.ndarray:
    """float32[COLUMNS] of a made-up model; the columns beyond the dictionary are the largest."""
    row = np.random.default_rng([len(history), *history]).normal(size=COLUMNS).astype(np.float32)
    row[SIZE:] += 9
    return row


def log_softmax(history: list[int]) -> np.ndarray:
    row = logits(history)[:SIZE].astype(np.float64)
    return row - np.logaddexp.reduce(row)


class Tensor:
    """As much of a tensor as the engine asks for."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array

    def float(self) -> Tensor:
        return self

    def cpu(self) -> Tensor:
        return self

    def numpy(self) -> np.ndarray:
        return self._array


@dataclass
class Logprob:
    logprob: float
    rank: int | None = None


@dataclass
class CompletionOutput:
    token_ids: list[int] = field(default_factory=list)
    logprobs: list[Any] = field(default_factory=list)
    finish_reason: str = "length"
    generation_logits: Tensor | None = None


@dataclass
class RequestOutput:
    prompt_token_ids: list[int]
    outputs: list[CompletionOutput]
    context_logits: Tensor | None = None


class LLM:
    """The double: greedy over the made-up model."""

    opened: ClassVar[list[LLM]] = []

    def __init__(self, **options: Any) -> None:
        self.options = options
        self.closed = False
        self.spoil: Callable[[RequestOutput], None] = lambda _: None
        self.tokenizer = types.SimpleNamespace(encode=lambda text, add_special_tokens: [ord(text[0]) % SIZE])
        LLM.opened.append(self)

    def generate(self, prompt: Mapping[str, Any], params: types.SimpleNamespace, use_tqdm: bool) -> RequestOutput:
        history = list(prompt["prompt_token_ids"])
        output = CompletionOutput()
        found = RequestOutput(list(history), [output])
        if getattr(params, "return_context_logits", False):
            found.context_logits = Tensor(np.stack([logits(history[: at + 1]) for at in range(len(history))]))
        rows = []
        for _ in range(params.max_tokens):
            values = log_softmax(history)
            rows.append(logits(history))
            best = np.argsort(-values)[: getattr(params, "logprobs", 1)]
            output.logprobs.append(
                {int(token): Logprob(float(values[token]), rank + 1) for rank, token in enumerate(best)}
            )
            output.token_ids.append(int(best[0]))
            history.append(int(best[0]))
        if getattr(params, "return_generation_logits", False):
            output.generation_logits = Tensor(np.stack(rows))
        self.spoil(found)
        return found

    def shutdown(self) -> None:
        self.closed = True


@pytest.fixture
def open_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., TensorRTLLM]]:
    library, api = types.ModuleType("tensorrt_llm"), types.ModuleType("tensorrt_llm.llmapi")
    library.LLM, library.SamplingParams = LLM, lambda **values: types.SimpleNamespace(**values)
    api.KvCacheConfig = lambda **values: types.SimpleNamespace(**values)
    monkeypatch.setitem(sys.modules, "tensorrt_llm", library)
    monkeypatch.setitem(sys.modules, "tensorrt_llm.llmapi", api)
    monkeypatch.setattr(tensorrt_llm.metadata, "version", lambda _: "1.4.0")
    folder = tokenizer_folder(tmp_path / "made-up", SIZE)
    opened: list[TensorRTLLM] = []

    def open_one(shape: str = "prefill", **changed: Any) -> TensorRTLLM:
        opened.append(TensorRTLLM(folder, settings(path_shape=shape, **changed)))
        return opened[-1]

    yield open_one
    for engine in opened:
        engine.close()
        engine.close()
    assert all(double.closed for double in LLM.opened)
    LLM.opened.clear()


def scored(engine: TensorRTLLM, positions: list[int], **asked: Any) -> ListedBlock:
    blocks = list(engine.score_listed(TOKENS, positions, **{"top_k": 4, **asked}))
    return ListedBlock(*(np.concatenate(parts) for parts in zip(*blocks, strict=True)))


@pytest.mark.parametrize("shape", ["prefill", "decode"])
@pytest.mark.parametrize("positions", [[1, 2, 3, 4, 5, 6, 7], [2, 5]])
def test_rows_are_of_the_dictionary(open_it: Callable[..., TensorRTLLM], shape: str, positions: list[int]) -> None:
    wanted = [[position, position + 9] for position in positions]
    block = scored(open_it(shape), positions, wanted=wanted)
    assert block.positions.tolist() == positions
    for at, position in enumerate(positions):
        expected = log_softmax(TOKENS[:position])
        assert block.ids[at].tolist() == np.argsort(-expected)[:4].tolist()
        np.testing.assert_allclose(block.logprobs[at], np.sort(expected)[::-1][:4])
        assert math.isclose(block.token_logprob[at], expected[TOKENS[position]])
        assert block.token_rank[at] in (0, 1 + (expected > expected[TOKENS[position]]).sum())
        np.testing.assert_allclose(block.wanted_logprobs[at], expected[wanted[at]])


def test_reuse_of_blocks_is_off_where_it_would_take_rows_away(open_it: Callable[..., TensorRTLLM]) -> None:
    engines = [open_it(), open_it("decode"), open_it("decode", cache_prompt=False)]
    assert [engine.reuses_blocks for engine in engines] == [False, True, False]
    for engine, double in zip(engines, LLM.opened, strict=True):
        assert double.options["kv_cache_config"].enable_block_reuse is engine.reuses_blocks
        assert engine.said()["block_reuse"] == ("on" if engine.reuses_blocks else "off")


def test_it_writes(open_it: Callable[..., TensorRTLLM]) -> None:
    written = open_it().write(TOKENS[:3], 5, top_k=3)
    history = TOKENS[:3]
    for got in written:
        expected = log_softmax(history)
        assert got.token == expected.argmax() == got.top_ids[0]
        np.testing.assert_allclose(got.top_logprobs, np.sort(expected)[::-1][:3])
        history = [*history, got.token]
    assert len(written) == 5


def test_what_it_is(open_it: Callable[..., TensorRTLLM]) -> None:
    engine = open_it()
    assert engine.identity.build == "tensorrt-llm 1.4.0" and engine.identity.backend == "cuda"
    assert engine.dictionary_size == SIZE and engine.tokenize("a") == [97 % SIZE]
    assert engine.gives_wanted and engine.retries == 0


@pytest.mark.parametrize(
    ("spoil", "kind", "message"),
    [
        (lambda found: found.prompt_token_ids.append(1), ServerError, "tokens read by the server"),
        (lambda found: setattr(found, "context_logits", None), CannotGive, "no logits"),
        (lambda found: _cut(found, slice(1, None), slice(None)), ServerError, "rows of logits; expected 7"),
        (lambda found: _cut(found, slice(None), slice(0, 19)), EngineError, "19 columns; expected 20 or more"),
        (lambda found: _set(found, 3, np.nan), NonFiniteLogits, "position 4"),
        (lambda found: _set(found, 6, np.inf), NonFiniteLogits, "position 7"),
    ],
)
def test_an_answer_that_is_another(
    open_it: Callable[..., TensorRTLLM], spoil: Any, kind: type[Exception], message: str
) -> None:
    engine = open_it()
    LLM.opened[-1].spoil = spoil
    with pytest.raises(kind, match=message):
        scored(engine, [1, 2, 3, 4, 5, 6, 7])


def _cut(found: RequestOutput, rows: slice, columns: slice) -> None:
    assert found.context_logits is not None
    found.context_logits = Tensor(found.context_logits.numpy()[rows, columns])


def _set(found: RequestOutput, row: int, value: float) -> None:
    assert found.context_logits is not None
    found.context_logits.numpy()[row, 2] = value


def test_lists_that_are_numbers_only(open_it: Callable[..., TensorRTLLM]) -> None:
    engine = open_it()
    LLM.opened[-1].spoil = lambda found: setattr(found.outputs[0], "logprobs", [-0.5])
    with pytest.raises(CannotGive, match="no lists of the best entries"):
        engine.write(TOKENS[:3], 1, top_k=3)


def test_a_history_that_is_too_long(open_it: Callable[..., TensorRTLLM]) -> None:
    with pytest.raises(ContextOverflow, match="expected at most 6"):
        scored(open_it(context_tokens=6), [7])


@pytest.mark.skipif(
    any(found.metadata["Name"] == "tensorrt-llm" for found in metadata.distributions()), reason="it is installed here"
)
def test_without_the_library(tmp_path: Path) -> None:
    with pytest.raises(EngineMissing, match="tensorrt-llm is not installed"):
        TensorRTLLM(tokenizer_folder(tmp_path, SIZE), settings())
    with pytest.raises(EngineMissing):
        tensorrt_llm.identity(settings())
