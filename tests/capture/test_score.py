"""The unit of work on the tiny model, against arithmetic written out here."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from drift_runs import schema
from drift_runs.capture.score import ReferenceRows, WindowTask, score_window
from drift_runs.engines.base import ScoredBlock
from drift_runs.engines.llama_cpp import LlamaCpp
from drift_runs.errors import EngineError, NonFiniteLogits
from tests.engines.conftest import rows, settings
from tests.tiny_model import write_tiny_model

TOKENS = np.array([0, *range(2, 30), 5, 9, 28, 14], dtype=np.int32)
POSITIONS = np.array([1, 2, 3, 10, 11, 12, 30, 32], dtype=np.int32)


def task(**changed: object) -> WindowTask:
    plain = {
        "window": "alpha-1",
        "role": "prompt",
        "tokens": TOKENS,
        "positions": POSITIONS,
        "top_k": 5,
        "dictionary_size": 32,
    }
    return WindowTask(**{**plain, **changed})


@pytest.fixture(scope="module")
def engine(tiny_arms: Path) -> Iterator[LlamaCpp]:
    with LlamaCpp(tiny_arms.parent / "f16.gguf", settings()) as opened:
        yield opened


@pytest.fixture(scope="module")
def other(tiny_arms: Path) -> Iterator[LlamaCpp]:
    with LlamaCpp(tiny_arms.parent / "q4_0.gguf", settings()) as opened:
        yield opened


def log_softmax(logits: np.ndarray) -> np.ndarray:
    wide = logits.astype(np.float64)
    top = wide.max(axis=1, keepdims=True)
    return wide - top - np.log(np.exp(wide - top).sum(axis=1, keepdims=True))


def test_marks_of_the_text_reach_the_comparison(engine: LlamaCpp) -> None:
    logits = rows(engine, TOKENS.tolist(), POSITIONS.tolist())
    copy, literal = np.arange(len(POSITIONS)) % 2 == 0, np.arange(len(POSITIONS)) == 3
    reference = ReferenceRows(logits=logits, row_full=[None] * len(POSITIONS))
    found = score_window(engine, task(copy=copy, literal=literal), reference=reference).comparison
    assert found["copy"].to_pylist() == copy.tolist() and found["literal"].to_pylist() == literal.tolist()
    without = score_window(engine, task(), reference=reference).comparison
    assert without["copy"].null_count == without["literal"].null_count == len(POSITIONS)
    marks = ["copy", "literal"]
    assert found.drop_columns(marks).equals(without.drop_columns(marks))


def test_rows_are_those_of_the_logits(engine: LlamaCpp) -> None:
    logits = rows(engine, TOKENS.tolist(), POSITIONS.tolist())
    table = score_window(engine, task()).rows
    assert table.schema.equals(schema.ROWS, check_metadata=True)
    logprobs = log_softmax(logits)
    actual = TOKENS[POSITIONS]
    each = np.arange(len(POSITIONS))
    assert table["position"].to_pylist() == POSITIONS.tolist()
    assert table["token"].to_pylist() == actual.tolist()
    assert set(table["window"].to_pylist()) == {"alpha-1"} and set(table["role"].to_pylist()) == {"prompt"}
    np.testing.assert_allclose(table["logprob"].to_numpy(), logprobs[each, actual], rtol=1e-6)
    ranks = (logits > logits[each, actual][:, None]).sum(axis=1) + 1
    assert table["rank"].to_pylist() == ranks.tolist()
    best = np.argsort(-logits, axis=1, kind="stable")[:, :5]
    assert table["top_ids"].to_pylist() == best.tolist()
    np.testing.assert_allclose(
        np.array(table["top_logprobs"].to_pylist()), np.take_along_axis(logprobs, best, axis=1), rtol=1e-6
    )
    outside = np.exp(np.sort(logprobs, axis=1)[:, :-5]).sum(axis=1)
    np.testing.assert_allclose(table["tail_logprob"].to_numpy(), np.log(outside), rtol=1e-9)
    np.testing.assert_allclose(table["p1"].to_numpy(), np.exp(logprobs.max(axis=1)), rtol=1e-12)
    np.testing.assert_allclose(table["entropy_nats"].to_numpy(), -(np.exp(logprobs) * logprobs).sum(axis=1), rtol=1e-12)
    assert table["flags"].to_pylist() == [0] * len(POSITIONS)


def test_the_spill_holds_the_logits(engine: LlamaCpp, tmp_path: Path) -> None:
    scored = score_window(engine, task(), spill=tmp_path / "alpha-1.npy")
    spilled = np.load(tmp_path / "alpha-1.npy", mmap_mode="r")
    assert spilled.dtype == np.float32
    assert spilled.tobytes() == rows(engine, TOKENS.tolist(), POSITIONS.tolist()).tobytes()
    assert scored.comparison is None and scored.engine_s > 0 and scored.own_s > 0


def test_a_comparison_is_that_of_the_two_logits(engine: LlamaCpp, other: LlamaCpp, tmp_path: Path) -> None:
    reference = score_window(engine, task(), spill=tmp_path / "spill.npy")
    rows_of_reference = ReferenceRows(
        logits=np.load(tmp_path / "spill.npy", mmap_mode="r"), row_full=reference.rows["row_full"].to_pylist()
    )
    table = score_window(other, task(), reference=rows_of_reference).comparison
    assert table is not None and table.schema.equals(schema.COMPARISON, check_metadata=True)
    p = log_softmax(rows(engine, TOKENS.tolist(), POSITIONS.tolist()))
    q = log_softmax(rows(other, TOKENS.tolist(), POSITIONS.tolist()))
    each, actual = np.arange(len(POSITIONS)), TOKENS[POSITIONS]
    np.testing.assert_allclose(table["kl_full_nats"].to_numpy(), (np.exp(p) * (p - q)).sum(axis=1), rtol=1e-9)
    assert table["flip"].to_pylist() == (p.argmax(axis=1) != q.argmax(axis=1)).tolist()
    np.testing.assert_allclose(table["dp"].to_numpy(), np.exp(q[each, actual]) - np.exp(p[each, actual]), rtol=1e-9)
    assert table["row_identical"].to_pylist() == [False] * len(POSITIONS)
    again = score_window(engine, task(), reference=rows_of_reference).comparison
    assert again is not None
    assert again["row_identical"].to_pylist() == [True] * len(POSITIONS)
    assert again["kl_full_nats"].to_pylist() == [0.0] * len(POSITIONS)


def test_full_rows_leave_no_column_empty_that_they_can_fill(engine: LlamaCpp, other: LlamaCpp, tmp_path: Path) -> None:
    reference = score_window(engine, task(), spill=tmp_path / "spill.npy")
    rows_of_reference = ReferenceRows(
        logits=np.load(tmp_path / "spill.npy", mmap_mode="r"), row_full=reference.rows["row_full"].to_pylist()
    )
    scored = score_window(other, task(), reference=rows_of_reference)
    assert scored.comparison is not None
    empty = {name for name in scored.comparison.column_names if scored.comparison[name].null_count}
    # The text decides the marks; raw logits are known, so the difference of log-probabilities is not taken.
    assert empty == {"copy", "literal", "max_abs_dlogprob"}
    assert {name for name in scored.rows.column_names if scored.rows[name].null_count} == {
        "wanted_ids",
        "wanted_logprobs",
    }
    assert set(scored.comparison["top_k"].to_pylist()) == {5}
    p = log_softmax(rows(engine, TOKENS.tolist(), POSITIONS.tolist()))
    q = log_softmax(rows(other, TOKENS.tolist(), POSITIONS.tolist()))
    middle = np.logaddexp(p, q) - np.log(2)
    js = (np.exp(p) * (p - middle) + np.exp(q) * (q - middle)).sum(axis=1) / 2
    np.testing.assert_allclose(scored.comparison["js_full_nats"].to_numpy(), js, rtol=1e-8)
    full = scored.comparison["kl_full_nats"].to_numpy()
    for name in ("kl_topk_tail_nats", "kl_topk_lower_nats"):
        assert (scored.comparison[name].to_numpy() <= full + 1e-12).all()


def test_path_shapes_are_scored_alike(tiny_arms: Path, engine: LlamaCpp) -> None:
    """Decoding hands over one row at a time; they are gathered, and none is lost or overwritten."""
    every = np.arange(1, len(TOKENS), dtype=np.int32)
    with LlamaCpp(tiny_arms.parent / "f16.gguf", settings(path_shape="decode")) as decoding:
        logits = rows(decoding, TOKENS.tolist())
        table = score_window(decoding, task(positions=every)).rows
    np.testing.assert_allclose(table["logprob"].to_numpy(), log_softmax(logits)[every - 1, TOKENS[every]], rtol=1e-6)
    prefill = score_window(engine, task(positions=every)).rows
    np.testing.assert_allclose(table["entropy_nats"].to_numpy(), prefill["entropy_nats"].to_numpy(), atol=0.02)


def test_the_first_bad_position_is_named(tmp_path: Path) -> None:
    bad = write_tiny_model(tmp_path / "bad.gguf", poison="blk.0.attn_v.weight")
    with LlamaCpp(bad, settings()) as engine, pytest.raises(NonFiniteLogits) as caught:
        score_window(engine, task(positions=POSITIONS[3:]))
    assert caught.value.where == "window alpha-1, position 10"
    assert "NaN or infinity in 5 of 5 rows" in str(caught.value)


class Wrong:
    """An engine whose answer does not fit the question."""

    def __init__(self, blocks: Sequence[ScoredBlock]) -> None:
        self._blocks = blocks

    def score(self, tokens: Sequence[int], positions: Sequence[int]) -> Iterator[ScoredBlock]:
        yield from self._blocks


def block(positions: Sequence[int]) -> ScoredBlock:
    return ScoredBlock(np.array(positions, dtype=np.int32), np.zeros((len(positions), 32), dtype=np.float32))


@pytest.mark.parametrize(
    ("blocks", "message"),
    [
        ([], r"0 rows were returned; expected 8 rows"),
        ([block([1, 2, 3])], r"3 rows were returned; expected 8 rows"),
        ([block([2, 3, 10, 11, 12, 30, 32, 33])], r"rows for positions \[2, 3, 10\]"),
    ],
)
def test_rows_that_were_not_asked_for(blocks: list[ScoredBlock], message: str) -> None:
    with pytest.raises(EngineError, match=message) as caught:
        score_window(Wrong(blocks), task())
    assert "window alpha-1" in caught.value.where


def test_a_task_is_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        task().top_k = 3
