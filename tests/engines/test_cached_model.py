"""What engines with a cache of their own have in common, on a model in numpy: scoring, going on, branches."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from drift_runs.engines.cached_model import CachedModel
from drift_runs.engines.llama_cpp import LlamaCpp
from drift_runs.errors import CannotGive, ConfigError, ContextOverflow, ModelFileError
from drift_runs.weights.hf_folder import write_hf_folder
from tests.engines.conftest import rows, settings
from tests.numpy_llama import llama_logits, read_weights
from tests.tiny_model import write_tiny_model


class NumpyModel(CachedModel):
    """Its cache is the list of its tokens: every step computes all of them again, exactly."""

    engine = "numpy"
    cuttable = True
    reads_float = False

    def __init__(self, folder: Path, limit: int | None = None, columns: int | None = None, **changed: Any) -> None:
        super().__init__(folder, settings(**changed))
        self._columns = columns
        self._weights = read_weights(folder / "model.safetensors")
        self._config = json.loads((folder / "config.json").read_text("utf-8"))
        self.steps: list[int] = []
        self._opened(limit)
        self.steps.clear()

    def _empty(self) -> list[int]:
        return []

    def _forward(self, cache: list[int], tokens: NDArray[np.int64], wanted: NDArray[np.int64]) -> NDArray[np.float32]:
        self.steps.append(len(tokens))
        before = len(cache)
        cache += tokens.tolist()
        logits = llama_logits(self._weights, self._config, cache)[before:][wanted]
        return logits[:, : self._columns].astype(np.float32)

    def _cut(self, cache: list[int], count: int) -> list[int] | None:
        return cache[:count] if self.cuttable else None

    def _copy(self, cache: list[int]) -> list[int]:
        return list(cache)

    @property
    def _first_step_is_float(self) -> bool:
        return self.reads_float


class Uncut(NumpyModel):
    cuttable = False


Opener = Callable[..., NumpyModel]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("numpy") / "tiny.gguf", added={})


@pytest.fixture(scope="module")
def folder(source: Path) -> Path:
    write_hf_folder(source, source.parent / "hf", dtype="float32")
    return source.parent / "hf"


@pytest.mark.parametrize(
    ("changed", "steps"),
    [
        ({}, [32, 8]),
        ({"batch": 16}, [16, 16, 8]),
        ({"path_shape": "decode"}, [1] * 40),
    ],
)
def test_rows_are_those_of_another_engine(
    source: Path, folder: Path, tokens: list[int], changed: dict[str, Any], steps: list[int]
) -> None:
    engine = NumpyModel(folder, **changed)
    found = rows(engine, tokens)
    assert engine.steps == steps
    with LlamaCpp(source, settings(kv="f32", flash_attention="off")) as other:
        expected = rows(other, tokens)
        assert engine.token_bytes() == other.token_bytes()
        assert np.abs(engine.start(tokens[:9]) - other.start(tokens[:9])).max() < 2e-4
        assert np.abs(engine.append(tokens[9]) - other.append(tokens[9])).max() < 2e-4
    assert np.abs(found - expected).max() < 2e-4


def test_only_what_is_wanted_is_given_and_nothing_behind_it_evaluated(folder: Path, tokens: list[int]) -> None:
    engine = NumpyModel(folder, batch=8)
    blocks = list(engine.score(tokens, [3, 4, 20]))
    assert [block.positions.tolist() for block in blocks] == [[3, 4], [20]]
    assert engine.steps == [8, 8, 4]
    assert np.array_equal(np.concatenate([b.logits for b in blocks]), rows(engine, tokens)[[2, 3, 19]])
    assert list(engine.score(tokens, [])) == []


@pytest.mark.parametrize("kind", [NumpyModel, Uncut])
@pytest.mark.parametrize("changed", [{"batch": 8, "micro_batch": 4}, {"batch": 8, "path_shape": "decode"}])
def test_a_branch_is_the_history_and_nothing_else(
    folder: Path, tokens: list[int], kind: Opener, changed: dict[str, Any]
) -> None:
    engine = kind(folder, **changed)
    held = engine.hold(tokens[:30], [4, 29])
    assert np.array_equal(held, rows(engine, tokens[:31])[[4, 29]])
    engine.hold(tokens[:30], [])
    for count in (30, 13, 8, 13):
        engine.steps.clear()
        engine.branch(count)
        # At most a batch is evaluated again, and nothing where the cache can be cut.
        assert sum(engine.steps) <= (0 if engine.cuttable else engine.settings.batch)
        assert engine.context_left == 64 - count
        first = engine.append(5)
        second = engine.append(6)
        plain = NumpyModel(folder, **changed)
        plain.start(tokens[:count])
        assert np.array_equal(first, plain.append(5))
        assert np.array_equal(second, plain.append(6))


def test_without_a_branch_nothing_is_put_onto_a_held_text(folder: Path, tokens: list[int]) -> None:
    engine = NumpyModel(folder)
    with pytest.raises(ConfigError, match="held text"):
        engine.branch(1)
    engine.hold(tokens[:5], [])
    with pytest.raises(ConfigError, match="no branch to append to"):
        engine.append(3)
    for count in (0, 6):
        with pytest.raises(ConfigError, match="1 to 5, as held"):
            engine.branch(count)
    engine.start(tokens[:3])
    assert engine.append(3).shape == (32,)


def test_what_does_not_fit_is_refused(folder: Path, tokens: list[int]) -> None:
    engine = NumpyModel(folder, context_tokens=10)
    with pytest.raises(ContextOverflow, match=r"at most 10 \(capture\.context_tokens\)"):
        engine.start(tokens[:11])
    engine.start(tokens[:9])
    engine.append(3)
    assert engine.context_left == 0
    with pytest.raises(ContextOverflow, match="11 tokens do not fit"):
        engine.append(3)
    with pytest.raises(ContextOverflow, match=r"at most 6 \(the positions of the model\)"):
        next(NumpyModel(folder, limit=6).score(tokens, [7]))


@pytest.mark.parametrize("positions", [[0], [41], [3, 3], [5, 4]])
def test_positions_that_are_none_are_refused(folder: Path, tokens: list[int], positions: list[int]) -> None:
    with pytest.raises(ConfigError, match="ascending positions"):
        next(NumpyModel(folder).score(tokens, positions))


def test_ids_outside_the_dictionary_are_refused(folder: Path) -> None:
    engine = NumpyModel(folder)
    for wrong in (32, -1):
        with pytest.raises(ConfigError, match="outside the dictionary"):
            engine.start([1, wrong])
    for empty in (engine.start, lambda tokens: engine.hold(tokens, [])):
        with pytest.raises(ConfigError, match="one token or more"):
            empty([])
    with pytest.raises(ConfigError, match="ascending indices"):
        engine.hold([1, 2], [2])


def test_a_quantised_cache_that_is_never_read_is_no_measurement(folder: Path, tokens: list[int]) -> None:
    class Quantised(NumpyModel):
        reads_float = True

    with pytest.raises(CannotGive, match="never read the f16 cache"):
        rows(Quantised(folder), tokens[:20])
    assert rows(Quantised(folder, batch=8), tokens[:20]).shape == (19, 32)
    assert rows(Quantised(folder, path_shape="decode"), tokens[:20]).shape == (19, 32)


def test_a_head_that_is_narrower_than_the_dictionary_is_refused(folder: Path) -> None:
    with pytest.raises(ModelFileError, match="31 columns; expected 32"):
        NumpyModel(folder, columns=31)


def test_settings_and_places_of_other_engines_are_refused(folder: Path, source: Path) -> None:
    with pytest.raises(ConfigError, match="adapter_scale"):
        NumpyModel(folder, adapter_scale=1.0)
    with pytest.raises(ConfigError, match="cache_prompt"):
        NumpyModel(folder, cache_prompt=False)
    with pytest.raises(ModelFileError, match=r"no folder.*hf_folder"):
        NumpyModel(source)
    with pytest.raises(ModelFileError, match="no such folder"):
        NumpyModel(folder / "none")
