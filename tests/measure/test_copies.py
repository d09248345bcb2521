"""Copy marks: known answers, a naive oracle, and the speed of a long stream."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drift_runs.measure.copies import copy_marks


def naive(tokens: list[int], copy_tokens: int, distance: int) -> list[bool]:
    """The definition, word for word."""
    marks = []
    for t in range(len(tokens)):
        run = tokens[t - copy_tokens + 1 : t + 1]
        earlier = range(copy_tokens - 1, max(copy_tokens - 1, t - distance))
        marks.append(t >= copy_tokens - 1 and any(tokens[s - copy_tokens + 1 : s + 1] == run for s in earlier))
    return marks


def test_a_run_that_comes_again():
    run = list(range(100, 112))
    fill = list(range(1000, 1000 + 2037))
    # The run ends at 11, and again at 11 + 2037 + 12 = 2060: 2049 later, which is more than 2048.
    marks = copy_marks(np.array(run + fill + run, dtype=np.int32))
    assert np.flatnonzero(marks).tolist() == [2060]
    assert not copy_marks(np.array(run + fill[1:] + run, dtype=np.int32)).any()


def test_a_longer_copy_is_marked_from_its_twelfth_token_on():
    run, fill = list(range(100, 130)), list(range(1000, 4000))
    marks = copy_marks(np.array(run + fill + run, dtype=np.int32))
    assert np.flatnonzero(marks).tolist() == list(range(3030 + 11, 3060))


def test_eleven_equal_tokens_are_no_copy():
    run, fill = list(range(100, 111)), list(range(1000, 4000))
    assert not copy_marks(np.array([1, *run, *fill, 2, *run], dtype=np.int32)).any()
    assert copy_marks(np.array([1, *run, *fill, 1, *run], dtype=np.int32)).sum() == 1


def test_one_token_over_and_over():
    marks = copy_marks(np.zeros(3000, dtype=np.int32))
    assert np.flatnonzero(marks)[0] == 11 + 2049 and marks[2060:].all()


@pytest.mark.parametrize("count", [0, 1, 11])
def test_a_stream_shorter_than_a_run(count):
    marks = copy_marks(np.zeros(count, dtype=np.int32), copy_distance_tokens=1)
    assert marks.dtype == np.bool_ and marks.shape == (count,) and not marks.any()


def test_no_run_of_nothing():
    with pytest.raises(ValueError, match="a run of 0 tokens"):
        copy_marks(np.zeros(4, dtype=np.int32), copy_tokens=0)


@given(
    tokens=st.lists(st.integers(-2, 2), max_size=80),
    copy_tokens=st.integers(1, 13),
    distance=st.integers(1, 40),
)
def test_as_the_definition_says(tokens, copy_tokens, distance):
    found = copy_marks(np.array(tokens, dtype=np.int32), copy_tokens=copy_tokens, copy_distance_tokens=distance)
    assert found.tolist() == naive(tokens, copy_tokens, distance)


@given(tokens=st.lists(st.integers(0, 3), min_size=1, max_size=60), names=st.permutations([7, 2**31 - 1, -(2**31), 0]))
def test_names_of_tokens_do_not_count(tokens, names):
    settings = {"copy_tokens": 3, "copy_distance_tokens": 5}
    renamed = np.array([names[token] for token in tokens], dtype=np.int32)
    assert copy_marks(renamed, **settings).tolist() == copy_marks(np.array(tokens), **settings).tolist()


@pytest.mark.parametrize("kind", ["random", "equal", "period"])
def test_a_long_stream_takes_well_under_a_second(kind):
    rng = np.random.default_rng(3)
    tokens = {
        "random": rng.integers(0, 150_000, 130_000),
        "equal": np.zeros(130_000),
        "period": np.arange(130_000) % 5000,
    }[kind].astype(np.int32)
    before = time.process_time()
    marks = copy_marks(tokens)
    assert time.process_time() - before < 1.0
    assert marks.sum() == {"random": 0, "equal": 130_000 - 2060, "period": 130_000 - 5011}[kind]
