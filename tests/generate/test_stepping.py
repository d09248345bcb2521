"""Rollouts of a scripted engine by hand, and of a real one against its own rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from drift_runs.engines.base import EngineSettings
from drift_runs.engines.llama_cpp import LlamaCpp
from drift_runs.errors import ConfigError, NonFiniteLogits
from drift_runs.generate.coupled import choose, gumbel
from drift_runs.generate.listed import Listed
from drift_runs.generate.stepping import Rolled, roll, rolled_table, sampled
from drift_runs.schema import ROLLOUTS
from tests.conftest import tiny_dictionary
from tests.tiny_model import write_tiny_model

SETTINGS = EngineSettings(
    path_shape="prefill",
    context_tokens=64,
    batch=64,
    micro_batch=64,
    threads=1,
    kv="f16",
    flash_attention="off",
)


class Table:
    """An engine whose logits are given by the last token of its history."""

    def __init__(self, rows: Sequence[Sequence[float]]) -> None:
        self.rows = np.array(rows, dtype=np.float32)
        self.history: list[int] = []

    def start(self, tokens: Sequence[int]) -> NDArray[np.float32]:
        self.history = list(tokens)
        return self.rows[self.history[-1]].copy()

    def append(self, token: int) -> NDArray[np.float32]:
        self.history.append(token)
        return self.rows[token].copy()


CYCLE = [[0, 2, 1], [0, 1, 3], [5, 5, 0]]
"""0 -> 1 -> 2 -> 0, the last one by a tie."""


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("model") / "tiny.gguf")


def test_greedy_by_hand():
    engine = Table(CYCLE)
    found = roll(engine, [2, 0], tokens=4)
    assert found.token_ids == (1, 2, 0, 1)
    first = 2 - math.log(1 + math.exp(2) + math.exp(1))
    second = 3 - math.log(1 + math.exp(1) + math.exp(3))
    third = 5 - math.log(2 * math.exp(5) + 1)
    assert found.logprobs == pytest.approx((first, second, third, first), rel=1e-14)
    assert engine.history == [2, 0, 1, 2, 0]  # the last token is written and never evaluated


def test_padding_columns_have_no_part():
    wide = [[*row, 50.0, math.nan] for row in CYCLE]
    assert roll(Table(wide), [0], tokens=5, size=3) == roll(Table(CYCLE), [0], tokens=5)


def test_sampled_tokens_are_those_of_the_common_noise():
    found = roll(Table(CYCLE), [0], tokens=20, choose=sampled(seed=4, prompt="p", draw=2, temperature=1.5))
    history = [0]
    for step in range(20):
        row = np.array(CYCLE[history[-1]], dtype=np.float32)
        history.append(choose(row, 1.5, gumbel(4, "p", 2, step, 3)))
    assert list(found.token_ids) == history[1:]
    assert len(set(found.token_ids)) == 3
    assert found.logprobs[0] == pytest.approx(CYCLE[0][found.token_ids[0]] - math.log(1 + math.exp(2) + math.exp(1)))
    other = roll(Table(CYCLE), [0], tokens=20, choose=sampled(seed=4, prompt="p", draw=3, temperature=1.5))
    assert other.token_ids != found.token_ids


def test_a_bad_row_is_named_by_its_step():
    rows = [[0, 2, 1], [0, math.nan, 3], [5, 5, 0]]
    with pytest.raises(NonFiniteLogits, match=r"step 1, behind 3 tokens: a logit is NaN"):
        roll(Table(rows), [2, 0], tokens=4)
    with pytest.raises(ConfigError, match="0 tokens"):
        roll(Table(CYCLE), [0], tokens=0)


def test_a_real_engine_writes_what_its_rows_say(tiny: Path):
    prompt = [0, 5, 9, 4]
    with LlamaCpp(tiny, SETTINGS) as engine:
        found = roll(engine, prompt, tokens=12, size=engine.dictionary_size)
        assert roll(engine, prompt, tokens=12, size=engine.dictionary_size) == found
        stream = [*prompt, *found.token_ids]
        blocks = list(engine.score(stream, range(len(prompt), len(stream))))
        rows = np.concatenate([block.logits.copy() for block in blocks]).astype(np.float64)
    # Prefill and decode shapes differ in the last digits, which moves no choice of this model.
    assert tuple(rows.argmax(axis=1)) == found.token_ids
    logprobs = rows - np.log(np.exp(rows).sum(axis=1, keepdims=True))
    assert logprobs[range(12), found.token_ids] == pytest.approx(found.logprobs, abs=0.02)


def test_the_table():
    rolled = [
        ("one", Rolled(token_ids=(2, 3), logprobs=(-0.5, -1.0))),
        ("two", Rolled(token_ids=(1, 29), logprobs=(0.0, -2.0))),
    ]
    table = rolled_table(rolled, tiny_dictionary(), run=3)
    assert table.schema.equals(ROLLOUTS, check_metadata=True)
    assert table.to_pylist() == [
        {"prompt": "one", "run": 3, "tokens": ["a", "b"], "token_ids": [2, 3], "logprobs": [-0.5, -1.0]},
        {"prompt": "two", "run": 3, "tokens": ["</s>", "\n"], "token_ids": [1, 29], "logprobs": [0.0, -2.0]},
    ]
    half = rolled_table([("x", Rolled(token_ids=(0,), logprobs=(-1.0,)))], ["é".encode()[:1]])
    assert half["tokens"].to_pylist() == [["\ufffd"]]
    assert rolled_table([], []).schema.equals(ROLLOUTS, check_metadata=True)


class Lists:
    """An engine that lists the best of each row: rows in their order."""

    def __init__(self, rows: Sequence[Listed]) -> None:
        self.rows = iter(rows)

    def start(self, tokens: Sequence[int]) -> Listed:
        return next(self.rows)

    def append(self, token: int) -> Listed:
        return next(self.rows)


def test_nothing_is_asked_behind_an_end_that_stops():
    rows = [Listed((3, 1), (-0.5, -2.0)), Listed((1,), (-0.25,))]
    assert roll(Lists(rows), [2], tokens=8, stop={1}) == Rolled(token_ids=(3, 1), logprobs=(-0.5, -0.25))
    with pytest.raises(StopIteration):
        roll(Lists(rows), [2], tokens=8)


def test_of_an_end_that_is_not_named_no_number_is_known():
    found = roll(Lists([Listed((1,), (math.nan,))]), [2], tokens=8, stop={1})
    assert found == Rolled(token_ids=(1,), logprobs=(None,))
    table = rolled_table([("one", found)], [b"a", b"</s>"])
    assert table["logprobs"].to_pylist() == [[None]] and table["tokens"].to_pylist() == [["</s>"]]
