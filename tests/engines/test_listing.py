"""What a server lists becomes rows, or an error that names the position."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drift_runs.engines.openai_server.listing import Listing, Row, block_of, check_count, check_echo
from drift_runs.errors import EngineError, NonFiniteLogits, ServerError

HALF, QUARTER, EIGHTH = math.log(0.5), math.log(0.25), math.log(0.125)
SIZE = 10


def listed(rows: list[Row], top_k: int = 2, **changed: object):
    return Listing(top_k=top_k, dictionary_size=SIZE, where="server", **changed).block(rows)


def one(entries: list[tuple[int, float]], *, token: int = 4, **changed: object) -> Row:
    return Row(position=7, token=token, entries=entries, **changed)


def test_the_own_token_beyond_rank_k_is_taken_out() -> None:
    block = listed([one([(3, EIGHTH), (1, HALF), (2, QUARTER)], token=3, rank=5)])
    assert block.ids.tolist() == [[1, 2]]
    assert block.logprobs.tolist() == [[HALF, QUARTER]]
    assert (block.token_logprob[0], block.token_rank[0], block.positions[0]) == (EIGHTH, 5, 7)


def test_the_own_token_within_rank_k_stays_and_is_ranked_by_what_lies_above() -> None:
    block = listed([one([(4, QUARTER), (1, HALF)])])
    assert block.ids.tolist() == [[1, 4]]
    assert (block.token_logprob[0], block.token_rank[0]) == (QUARTER, 2)


def test_equal_probabilities_are_ordered_by_id_and_share_a_rank() -> None:
    block = listed([one([(9, QUARTER), (4, QUARTER), (2, QUARTER)])], top_k=3)
    assert block.ids.tolist() == [[2, 4, 9]]
    assert block.token_rank.tolist() == [1]


def test_an_own_token_that_is_told_apart_is_taken_with_its_rank() -> None:
    block = listed([one([(1, HALF), (2, QUARTER)], own_logprob=EIGHTH, rank=3)])
    assert (block.token_logprob[0], block.token_rank[0]) == (EIGHTH, 3)


def test_an_own_token_that_nobody_promised_is_unknown() -> None:
    block = listed([one([(1, HALF), (2, QUARTER)])], own_promised=False)
    assert math.isnan(block.token_logprob[0])
    assert block.token_rank[0] == 0


@pytest.mark.parametrize("placeholder", [-9999.0, -100.0, -math.inf, -1e30])
def test_placeholders_are_counted_and_left_out(placeholder: float) -> None:
    block = listed([one([(4, HALF), (1, QUARTER), (2, placeholder)])], top_k=3)
    assert block.ids.tolist() == [[4, 1, -1]]
    assert math.isnan(block.logprobs[0, 2])
    assert block.sentinels.tolist() == [1]


def test_an_own_token_with_a_placeholder_is_unknown_and_counted() -> None:
    block = listed([one([(4, -9999.0), (1, HALF), (2, QUARTER)])])
    assert math.isnan(block.token_logprob[0])
    assert block.sentinels.tolist() == [1]
    apart = listed([one([(1, HALF), (2, QUARTER)], own_logprob=-100.0)])
    assert math.isnan(apart.token_logprob[0])
    assert apart.sentinels.tolist() == [1]


def test_wanted_ids_are_told_in_the_order_given() -> None:
    rows = [
        Row(position=1, token=1, entries=[(1, HALF)], wanted=[(8, EIGHTH), (0, -9999.0)]),
        Row(position=2, token=1, entries=[(1, HALF)], wanted=[(5, QUARTER)]),
    ]
    block = listed(rows, top_k=1)
    assert block.wanted_ids.tolist() == [[8, 0], [5, -1]]
    np.testing.assert_array_equal(block.wanted_logprobs, [[EIGHTH, np.nan], [QUARTER, np.nan]])


def test_no_rows_are_an_empty_block() -> None:
    block = listed([])
    assert block.ids.shape == (0, 2)
    assert block.wanted_ids.shape == (0, 0)


REFUSED = {
    "NaN": ([(4, math.nan), (1, HALF)], NonFiniteLogits, "NaN"),
    "infinity": ([(4, math.inf), (1, HALF)], NonFiniteLogits, "infinity"),
    "null": ([(4, None), (1, HALF)], ServerError, "null"),
    "text": ([(4, "-1.5"), (1, HALF)], ServerError, "null or a text"),
    "a text of a number for an id": ([("4", QUARTER), (1, HALF)], ServerError, "no pairs"),
    "a huge id": ([(1 << 70, QUARTER), (1, HALF)], ServerError, "too large"),
    "true": ([(4, True), (1, HALF)], ServerError, "null or a text"),
    "a text for an id": ([("four", QUARTER), (1, HALF)], ServerError, "no pairs"),
    "logits": ([(4, 22.875), (1, 12.125)], ServerError, "logits"),
    "above 0": ([(4, 0.01), (1, HALF)], ServerError, "above 1"),
    "too much mass": ([(4, math.log(0.6)), (1, math.log(0.6))], ServerError, "1.2000"),
    "all zero": ([(4, 0.0), (1, 0.0)], ServerError, "not measured"),
    "outside": ([(4, HALF), (SIZE, QUARTER)], ServerError, "dictionary of 10"),
    "negative": ([(4, HALF), (-1, QUARTER)], ServerError, "dictionary of 10"),
    "twice": ([(4, QUARTER), (4, QUARTER)], ServerError, "twice"),
    "own missing": ([(1, HALF), (2, QUARTER)], ServerError, "own token is missing"),
    "too many": ([(1, QUARTER), (2, EIGHTH), (3, EIGHTH), (4, EIGHTH)], ServerError, "more than were asked"),
    "too few": ([(4, HALF)], ServerError, "1 entries where 2"),
    "one more, and own within": ([(4, HALF), (1, EIGHTH), (2, QUARTER)], ServerError, "own token is not it"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_log_probability_is_refused_at_its_position(name: str) -> None:
    entries, kind, words = REFUSED[name]
    good = Row(position=6, token=1, entries=[(1, HALF), (2, QUARTER)])
    with pytest.raises(kind, match=words) as caught:
        listed([good, one(entries)])
    assert "position 7" in str(caught.value)


@pytest.mark.parametrize("value", [math.nan, math.inf, 0.01, 5.0])
def test_an_own_log_probability_told_apart_is_held_to_the_same(value: float) -> None:
    with pytest.raises(EngineError, match="position 7"):
        listed([one([(1, HALF), (2, QUARTER)], own_logprob=value)])


@pytest.mark.parametrize("value", [math.nan, math.inf, 5.0, None])
def test_a_wanted_log_probability_is_held_to_the_same(value: float) -> None:
    with pytest.raises(EngineError, match="position 7"):
        listed([one([(4, HALF), (2, QUARTER)], wanted=[(5, value)])])


def test_fewer_entries_are_an_answer_where_the_dialect_says_so() -> None:
    block = listed([one([(4, HALF)])], short_allowed=True)
    assert block.ids.tolist() == [[4, -1]]


def test_k_is_at_most_the_dictionary() -> None:
    uniform = [(token, math.log(1 / SIZE)) for token in range(SIZE)]
    assert listed([one(uniform)], top_k=500).ids.tolist() == [list(range(SIZE))]


def test_rounding_above_zero_is_let_through() -> None:
    assert listed([one([(4, 1.6e-4), (1, -20.0)])]).token_logprob[0] == 1.6e-4


def certain(position: int) -> Row:
    return Row(position=position, token=4, entries=[(4, 0.0), (1, -9999.0)])


def test_a_few_certain_rows_pass_and_a_window_of_them_does_not() -> None:
    listed([certain(position) for position in (1, 2, 3)])
    with pytest.raises(ServerError, match=r"position 4.*sampler has cut"):
        listed([certain(position) for position in (1, 2, 3, 4)])


def test_certain_rows_are_counted_over_the_blocks_of_a_window() -> None:
    listing = Listing(top_k=2, dictionary_size=SIZE, where="server")
    for position in (1, 2, 3):
        listing.block([certain(position)])
    with pytest.raises(ServerError, match="position 4"):
        listing.block([certain(4)])


def test_a_constant_zero_is_not_taken_for_certainty() -> None:
    rows = [Row(position=position, token=4, entries=[(4, 0.0)]) for position in range(1, 9)]
    listed(rows[:7], top_k=1)
    with pytest.raises(ServerError, match="position 8"):
        listed(rows, top_k=1)


def test_rows_out_of_order_are_refused() -> None:
    good = one([(4, HALF), (1, QUARTER)])
    with pytest.raises(ServerError, match="out of order"):
        listed([good, good])


def test_an_echo_that_differs_is_named_at_its_position() -> None:
    check_echo([5, 6, 7], [5, 6, 7], where="server")
    with pytest.raises(ServerError, match="position 1: the server read id 9; expected 6"):
        check_echo([5, 6, 7], [5, 9, 7], where="server")
    with pytest.raises(ServerError, match="2 tokens read by the server; expected 3"):
        check_echo([5, 6, 7], [5, 6], where="server")
    with pytest.raises(ServerError, match="2 rows; expected 3"):
        check_count("rows", 2, 3, where="server")


@given(st.permutations(range(6)), st.lists(st.floats(0.01, 1.0), min_size=6, max_size=6), st.integers(1, 6))
def test_any_order_of_the_entries_gives_the_same_rows(order: list[int], weights: list[float], own: int) -> None:
    """Six entries; the own token is the ``own``-th best, and K is 5."""
    logprobs = [math.log(weight / sum(weights)) for weight in weights]
    best = sorted(range(6), key=lambda token: (-logprobs[token], token))
    kept = best if own == 6 else best[:5]
    row = Row(position=1, token=best[own - 1], entries=[(token, logprobs[token]) for token in order if token in kept])
    block = block_of([row], top_k=5, dictionary_size=6, where="server")
    assert block.ids[0].tolist() == best[:5]
    assert block.token_logprob[0] == logprobs[best[own - 1]]
