"""Two futures that run together again, and those that only look so."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drift_runs.generate.resync import FARTHEST_TOKENS, HISTORY_TOKENS, RUN_TOKENS, Resync, resynchronised

TAIL = list(range(1000, 1000 + RUN_TOKENS))
"""A run that stands nowhere else."""


def ids(text: str) -> list[int]:
    return list(text.encode())


def by_definition(reference: list[int], candidate: list[int], history: list[int]) -> set[tuple[int, int]]:
    """Every place that METRICS allows, by trying all of them."""
    tail = history[-512:]

    def count(run: list[int], tokens: list[int]) -> int:
        return sum(tokens[at : at + 16] == run for at in range(len(tokens) - 15))

    places = set()
    for i in range(len(reference) - 15):
        for j in range(len(candidate) - 15):
            run = reference[i : i + 16]
            shorter = min(len(reference) - i, len(candidate) - j)
            if (
                candidate[j : j + 16] == run
                and abs(i - j) <= 64
                and count(run, reference) == count(run, candidate) == 1
                and count(run, tail) == 0
                and reference[i : i + shorter] == candidate[j : j + shorter]
            ):
                places.add((i, j))
    return places


def test_tokens_before_it_are_counted_on_either_side() -> None:
    assert resynchronised([1, 2, *TAIL], [3, 4, 5, *TAIL], [9, 9]) == Resync(2, 3)


def test_the_rest_of_the_longer_one_is_free() -> None:
    assert resynchronised([1, *TAIL, 7, 8], [2, *TAIL, 7, 8, 9, 9, 9], []) == Resync(1, 1)


def test_a_run_of_fifteen_is_none() -> None:
    assert resynchronised([1, *TAIL[1:]], [2, *TAIL[1:]], []) is None


def test_what_runs_apart_once_more_has_not_come_back() -> None:
    assert resynchronised([1, *TAIL, 7], [2, *TAIL, 8], []) is None
    assert resynchronised([1, *TAIL, 7, *range(2000, 2020)], [2, *TAIL, 8, *range(2000, 2020)], []) == Resync(18, 18)


@pytest.mark.parametrize(("farther", "found"), [(0, True), (1, False)])
def test_no_farther_apart_than_the_limit(farther: int, found: bool) -> None:
    apart = list(range(5000, 5000 + FARTHEST_TOKENS + farther))
    assert (resynchronised([1, *TAIL], [2, *apart, *TAIL], []) is not None) == found
    assert (resynchronised([2, *apart, *TAIL], [1, *TAIL], []) is not None) == found


def test_a_run_that_stands_twice_in_either_future_is_not_taken() -> None:
    twice = [2, *TAIL, 3, *TAIL]
    assert resynchronised([1, *TAIL], twice, []) is None
    assert resynchronised(twice, [1, *TAIL], []) is None


def test_a_run_of_the_history_is_not_taken_while_it_is_near() -> None:
    near = [*TAIL, *range(9000, 9000 + HISTORY_TOKENS - RUN_TOKENS)]
    far = [*TAIL, *range(9000, 9000 + HISTORY_TOKENS - RUN_TOKENS + 1)]
    assert resynchronised([1, *TAIL], [2, *TAIL], near) is None
    assert resynchronised([1, *TAIL], [2, *TAIL], far) == Resync(1, 1)


def test_a_longer_common_end_counts_where_a_part_of_it_is_new() -> None:
    assert resynchronised([1, *TAIL, 7], [2, *TAIL, 7], TAIL) == Resync(2, 2)


def test_records_that_share_their_keys_do_not_run_together() -> None:
    def records(*ports: int) -> list[int]:
        return ids(json.dumps([{"service": "database", "protocol": "tcp", "port": port} for port in ports]))

    left, right = records(5432, 6379, 8080), records(5433, 6380, 8081)
    shared = ids(', "protocol": "tcp", "port": ')
    assert sum(left[at : at + len(shared)] == shared for at in range(len(left))) == 3
    assert resynchronised(left, right, []) is None
    # One record of which the history holds another.
    assert resynchronised(records(5432)[:-6], records(5433)[:-6], records(1, 2)) is None


def test_equal_futures_run_together_from_the_start() -> None:
    assert resynchronised(TAIL, TAIL, []) == Resync(0, 0)


@pytest.mark.parametrize(("left", "right"), [([], []), ([1], []), ([], TAIL), (TAIL[:5], TAIL)])
def test_short_futures(left: list[int], right: list[int]) -> None:
    assert resynchronised(left, right, []) is None


def test_two_blocks_that_change_places_give_one_answer_from_both_sides() -> None:
    other = list(range(3000, 3000 + RUN_TOKENS))
    assert by_definition([*other, *TAIL], [*TAIL, *other], []) == {(16, 0), (0, 16)}
    one = resynchronised([*other, *TAIL], [*TAIL, *other], [])
    assert one == Resync(16, 0)  # where the run of the smaller tokens begins
    assert resynchronised([*TAIL, *other], [*other, *TAIL], []) == Resync(0, 16)


# Few ids make chance repetitions; a common end makes re-synchronisation likely.
STREAM = st.lists(st.integers(0, 2), max_size=30)


@given(STREAM, STREAM, STREAM, STREAM, STREAM)
def test_it_is_the_first_place_of_the_definition_and_the_sides_can_be_exchanged(
    left: list[int], right: list[int], end: list[int], more: list[int], history: list[int]
) -> None:
    reference, candidate = [*left, *end], [*right, *end, *more]
    found = resynchronised(reference, candidate, history)
    places = by_definition(reference, candidate, history)
    if not places:
        assert found is None
    else:
        assert found in places
        assert sum(found) == min(map(sum, places))
    mirrored = resynchronised(candidate, reference, history)
    assert mirrored == (found and Resync(found.candidate_tokens, found.reference_tokens))


@given(STREAM, STREAM, STREAM, st.integers(0, 6), st.integers(0, 6))
def test_tokens_in_front_shift_it(left: list[int], right: list[int], end: list[int], ours: int, theirs: int) -> None:
    reference, candidate = [*left, *TAIL, *end], [*right, *TAIL, *end]
    found = resynchronised(reference, candidate, [])
    shifted = resynchronised([*range(100, 100 + ours), *reference], [*range(200, 200 + theirs), *candidate], [])
    assert found is not None
    assert shifted == Resync(found.reference_tokens + ours, found.candidate_tokens + theirs)
