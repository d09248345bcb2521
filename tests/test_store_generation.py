"""Where generation lies: one file a future, answers, rollouts prompt by prompt, and what a killed run goes on with."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from drift_runs import schema
from drift_runs.errors import StoreError
from drift_runs.generate.future import Future
from drift_runs.generate.futures import futures_of, futures_table
from drift_runs.store import Store
from drift_runs.store.generation import FutureKey

LANE = "0123456789abcdef"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    made = Store(tmp_path / "store")
    made.open(create=True)
    return made


def future(window: str = "w", position: int = 7, first: int = 3, text: str = "ab") -> Future:
    return Future(
        window=window,
        position=position,
        first=first,
        best=4,
        tokens=(first, 5),
        written=(False, True),
        logprobs=(None, -0.5),
        text=text,
        ended="horizon",
        turns=1,
    )


def rollout(prompt: str) -> pa.Table:
    row = {"prompt": prompt, "run": 0, "tokens": ["a"], "token_ids": [2], "logprobs": [-1.0]}
    return pa.Table.from_pylist([row], schema=schema.ROLLOUTS)


class TestFutures:
    def test_one_small_file_a_future(self, store: Store) -> None:
        path = store.write_future(LANE, futures_table([future()]))
        assert path == store.root / "generation" / LANE / "w" / "7-3.parquet"
        assert path == store.future_file(LANE, "w", 7, 3)
        assert futures_of(store.read_futures(LANE, [("w", 7, 3)])) == (future(),)

    def test_a_run_goes_on_with_what_is_not_there(self, store: Store) -> None:
        assert store.futures_there(LANE) == frozenset()
        for window, position, first in (("w", 7, 3), ("w", 7, 11), ("v.1", 12, 0)):
            store.write_future(LANE, futures_table([future(window, position, first)]))
        store.write_future("another", futures_table([future("w", 9, 9)]))
        half = store.generation_folder(LANE) / "w" / "8-1.parquet.77.part"
        half.write_bytes(b"half")
        assert store.futures_there(LANE) == {FutureKey("w", 7, 3), FutureKey("w", 7, 11), FutureKey("v.1", 12, 0)}
        with store.locked():
            assert not half.exists()
        assert len(store.futures_there(LANE)) == 3

    def test_read_in_the_order_asked_for(self, store: Store) -> None:
        keys = [("w", 9, 1), ("v", 2, 2), ("w", 3, 4)]
        for key in keys:
            store.write_future(LANE, futures_table([future(*key)]))
        for order in (keys, keys[::-1], keys[:1] * 2):
            found = store.read_futures(LANE, order)
            assert [(one.window, one.position, one.first) for one in futures_of(found)] == order
        assert store.read_futures(LANE, []).schema.equals(schema.FUTURES)

    def test_the_same_future_is_the_same_file(self, store: Store) -> None:
        one = store.write_future(LANE, futures_table([future()])).read_bytes()
        assert store.write_future("another", futures_table([future()])).read_bytes() == one

    def test_one_that_is_not_what_its_name_says(self, store: Store) -> None:
        path = store.write_future(LANE, futures_table([future()]))
        path.rename(path.with_name("8-3.parquet"))
        with pytest.raises(StoreError, match=r"8-3\.parquet: not the future that its name says.*run again"):
            store.read_futures(LANE, [("w", 8, 3)])
        with pytest.raises(StoreError, match=r"7-3\.parquet: cannot be read"):
            store.read_futures(LANE, [("w", 7, 3)])

    def test_two_futures_are_no_file(self, store: Store) -> None:
        with pytest.raises(ValueError, match="too many values"):
            store.write_future(LANE, futures_table([future(), future(first=4)]))


class TestAnswers:
    def test_an_answer_lies_under_its_task(self, store: Store) -> None:
        path = store.write_answer(LANE, "open-it", futures_table([future(text="an answer")]))
        assert path == store.answer_file(LANE, "open-it") == store.root / "generation" / LANE / "open-it.parquet"
        assert futures_of(store.read_answer(LANE, "open-it")) == (future(text="an answer"),)
        assert store.futures_there(LANE) == frozenset()


class TestRollouts:
    def test_prompt_by_prompt(self, store: Store) -> None:
        assert store.rolled_prompts(LANE, 0) == frozenset()
        for prompt in ("b", "a"):
            path = store.add_rollouts(LANE, 0, rollout(prompt))
        assert path == store.rollouts_file(LANE, 0) == store.root / "generation" / LANE / "rollouts-0.parquet"
        assert store.rolled_prompts(LANE, 0) == {"a", "b"} and store.rolled_prompts(LANE, 1) == frozenset()
        found = store.read_rollouts(LANE, 0)
        assert found["prompt"].to_pylist() == ["b", "a"] and found.schema.equals(schema.ROLLOUTS)

    def test_a_prompt_twice_is_refused_and_nothing_is_lost(self, store: Store) -> None:
        store.add_rollouts(LANE, 0, rollout("a"))
        with pytest.raises(StoreError, match="a prompt twice in one run"):
            store.add_rollouts(LANE, 0, rollout("a"))
        assert store.rolled_prompts(LANE, 0) == {"a"}


def test_the_identity_lies_beside(store: Store) -> None:
    store.write_identity(store.generation_folder(LANE), "generation.json", {"lane": "futures"})
    assert (store.generation_folder(LANE) / "generation.json").read_bytes() == b'{"lane":"futures"}\n'
