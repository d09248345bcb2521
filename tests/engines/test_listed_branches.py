"""Branches behind a connection: what is asked for, how often, and what an end that is not named becomes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest

from drift_runs.engines.base import ENDED, Written
from drift_runs.engines.listed_branches import AHEAD_TOKENS, ListedBranches
from drift_runs.errors import CannotGive
from drift_runs.generate.listed import Listed

DICTIONARY = [b"a", b"b", b"</s>", b"<end>"]


class Writes:
    """A test double of an engine: writes the same list behind any history, and remembers what it was asked."""

    def __init__(self, written: Sequence[Written]) -> None:
        self.written = list(written)
        self.asked: list[tuple[list[int], int]] = []

    def write(self, tokens: Sequence[int], count: int, *, top_k: int) -> list[Written]:
        self.asked.append((list(tokens), count))
        return self.written[:count]


def token(number: int) -> Written:
    return Written(token=number, logprob=-0.5, top_ids=(number,), top_logprobs=(-0.5,))


def branches(*written: Written, ends: Sequence[int] = (2, 3)) -> tuple[ListedBranches, Writes]:
    engine = Writes(written)
    return ListedBranches(engine, context_tokens=64, dictionary=DICTIONARY, ends=ends), engine


def test_an_end_that_is_not_named_is_the_protocols_first() -> None:
    branch, engine = branches(token(0), ENDED)
    assert branch.start([1]).ids == (0,)
    row = branch.append(0)
    assert row.ids == (2,) and row.best_logprob is None and math.isnan(row.logprobs[0])
    assert engine.asked == [([1], AHEAD_TOKENS)], "one request"


@pytest.mark.parametrize("end", [2, 3])
def test_an_end_that_is_named_stays_what_it_is(end: int) -> None:
    branch, _ = branches(token(0), token(end), ENDED)
    branch.start([1])
    assert branch.append(0) == Listed((end,), (-0.5,))


def test_it_ended_at_once() -> None:
    branch, _ = branches(ENDED)
    assert branch.start([1]).ids == (2,)
    (row,) = branch.hold([0, 1], [1])
    assert row.ids == (2,)
    silent, _ = branches(ENDED, ends=())
    with pytest.raises(CannotGive, match=r"ended at once, and its answer does not name the end token.*\[chat\]"):
        silent.start([1])


def test_without_ends_of_a_turn_it_is_asked_again() -> None:
    branch, engine = branches(token(0), ENDED, ends=())
    branch.start([1])
    branch.append(0)
    assert [asked for asked, _ in engine.asked] == [[1], [1, 0]]


def test_a_branch_takes_up_what_was_written_at_its_root() -> None:
    """What a server of texts wrote need not be the same tokens when it is sent back: nothing is asked behind it."""
    branch, engine = branches(token(0), token(1), token(0), ENDED)
    branch.take([1, 0, 1])
    branch.ahead_tokens = 9
    assert branch.ask(2).ids == (0,)
    branch.branch(2)
    assert [branch.append(number).ids[0] for number in (0, 1, 0)] == [1, 0, 2]
    assert engine.asked == [([1, 0], 9)]
    branch.branch(3)
    branch.append(0)
    assert engine.asked[-1] == ([1, 0, 1, 0], 9), "another root begins anew"


def test_what_is_given_is_sent_once() -> None:
    branch, engine = branches(token(0))
    branch.take([1])
    branch.branch(1)
    assert branch.append_all([0, 1, 0]).ids == (0,)
    assert [asked for asked, _ in engine.asked] == [[1, 0, 1, 0]]
