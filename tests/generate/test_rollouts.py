"""Every reading of how far two arms' rollouts agree."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drift_runs.errors import NotComparable
from drift_runs.generate.rollouts import Sides, compare_rollouts, up_to_end
from drift_runs.importers import rollouts
from drift_runs.measure.resampler import Resampler
from drift_runs.schema import ROLLOUTS
from tests.importers.files import invented

texts = st.lists(st.sampled_from("abc"), min_size=1, max_size=6)


def table(*prompts: tuple[str, list[str]], run: int = 0, ids: list[list[int]] | None = None, logprobs=None) -> pa.Table:
    return pa.Table.from_pylist(
        [
            {
                "prompt": prompt,
                "run": run,
                "tokens": tokens,
                "token_ids": None if ids is None else ids[at],
                "logprobs": None if logprobs is None else logprobs[at],
            }
            for at, (prompt, tokens) in enumerate(prompts)
        ],
        schema=ROLLOUTS,
    )


def test_the_invented_files_by_hand():
    a, b = (rollouts.read(invented("rollouts", side)).table for side in "ab")
    found = compare_rollouts(a, b)
    # One: 4 of 4. Two: 1 of 4, and 3 of 4 steps agree. Three: b has a third token.
    assert [(item.prompt, item.prefix_tokens, item.agreeing_tokens, item.exact) for item in found.prompts] == [
        ("One", 4, 4, True),
        ("Two", 1, 3, False),
        ("Three", 2, 2, False),
    ]
    assert (found.exact_count, found.prefix_tokens, found.tokens) == (1, 7, 11)
    assert found.exact.value == pytest.approx(1 / 3)
    assert found.prefix.value == pytest.approx((1 + 1 / 4 + 2 / 3) / 3)
    assert found.agree.value == pytest.approx((1 + 3 / 4 + 2 / 3) / 3)
    assert found.first == ((1, 1), (2, 1))
    # One: 0.25 at the first token; Two: 0.1; Three: 0, and one unknown.
    assert found.mean_abs_dlogprob_nats == pytest.approx((0.25 + 0.1) / 6)
    assert (found.logprobs, found.logprobs_excluded) == (6, 1)
    assert found.compared_by == "text" and found.exact.low is None


def test_the_second_run_is_equal():
    a, b = (rollouts.read(invented("rollouts", side)).table for side in "ab")
    found = compare_rollouts(a, b, run=1, resampler=Resampler(seed=1, resamples=200))
    assert found.exact_count == 3 and found.first == () and found.mean_abs_dlogprob_nats == 0
    assert (found.exact.low, found.exact.high) == (1, 1)


def test_ids_decide_where_both_sides_have_them():
    one = table(("p", ["a", "a"]), ids=[[1, 2]])
    other = table(("p", ["a", "a"]), ids=[[1, 3]])
    assert compare_rollouts(one, other).prefix_tokens == 1
    assert compare_rollouts(one, table(("p", ["a", "a"]))).compared_by == "text"
    assert compare_rollouts(one, table(("p", ["a", "a"]))).exact_count == 1


@pytest.mark.parametrize(
    ("left", "right", "words"),
    [
        (table(("p", ["a"])), table(("q", ["a"])), "the left side lacks the prompt 'q'"),
        (table(("p", ["a"]), ("q", ["a"])), table(("p", ["a"])), "the right side lacks the prompt 'q'"),
        (table(("p", ["a"]), ("p", ["b"])), table(("p", ["a"])), "has the prompt 'p' twice"),
        (table(("p", ["a"])), table(("p", ["a"]), run=1), "the right side has no run 0; expected one of 1"),
        (table(("p", [])), table(("p", ["a"])), "no token"),
        (ROLLOUTS.empty_table(), ROLLOUTS.empty_table(), "no run 0; expected a rollout"),
    ],
)
def test_what_cannot_be_compared(left, right, words):
    with pytest.raises(NotComparable) as caught:
        compare_rollouts(left, right)
    assert words in caught.value.line()


@settings(deadline=None)
@given(st.lists(st.tuples(texts, texts), min_size=1, max_size=5))
def test_properties(pairs: list[tuple[list[str], list[str]]]):
    left = table(*((str(at), one) for at, (one, _) in enumerate(pairs)))
    right = table(*((str(at), other) for at, (_, other) in reversed(list(enumerate(pairs)))))
    found, turned = compare_rollouts(left, right), compare_rollouts(right, left)
    assert found.exact_count == sum(one == other for one, other in pairs)
    assert sum(count for _, count in found.first) == len(pairs) - found.exact_count
    assert 0 <= found.exact.value <= found.prefix.value <= found.agree.value <= 1
    for name in ("exact_count", "prefix_tokens", "tokens", "first"):
        assert getattr(found, name) == getattr(turned, name)
    assert found.prefix.value == pytest.approx(turned.prefix.value)
    for item in found.prompts:
        one, other = pairs[int(item.prompt)]
        assert one[: item.prefix_tokens] == other[: item.prefix_tokens]
        if not item.exact and item.prefix_tokens < min(len(one), len(other)):
            assert one[item.prefix_tokens] != other[item.prefix_tokens]


def test_one_prompt_has_no_interval():
    found = compare_rollouts(table(("p", ["a"])), table(("p", ["b"])), resampler=Resampler(seed=1, resamples=100))
    assert (found.exact.value, found.exact.low, found.exact.high) == (0, None, None)


def test_early_stops_of_each_side():
    words = [["x"] * 3] * 4
    names = ("both", "other step", "one", "none")
    left = table(*zip(names, words, strict=True), ids=[[5, 1, 2], [1, 3, 4], [3, 4, 1], [3, 4, 5]])
    right = table(*zip(names, words, strict=True), ids=[[6, 1, 1], [3, 1, 4], [3, 4, 5], [5, 5, 5]])
    found = compare_rollouts(left, right, end_tokens={1, 9})
    assert [(item.left_stop, item.right_stop) for item in found.prompts] == [(1, 1), (0, 1), (2, None), (None, None)]
    assert found.early_stop == Sides(left=3, right=2, differ=2)
    assert compare_rollouts(left, right).early_stop is None
    assert compare_rollouts(left, table(*zip(names, words, strict=True)), end_tokens={1}).early_stop is None


def test_repetition_counts_up_to_the_end_token():
    plain, cycle = list(range(10, 42)), [7, 8, 9, 10] * 8
    stopped = [*range(10, 18), 1, *([2, 1] * 11), 2]  # behind its end the model has nothing left to say
    names = ("p", "q", "r")
    words = [["x"] * 32] * 3
    left = table(*zip(names, words, strict=True), ids=[plain, plain, stopped])
    right = table(*zip(names, words, strict=True), ids=[cycle, plain, stopped])
    assert compare_rollouts(left, right, end_tokens={1}).loop == Sides(left=0, right=1, differ=1)
    assert compare_rollouts(left, right).loop == Sides(left=1, right=2, differ=1)


def test_texts_repeat_themselves_as_ids_do():
    left = table(("p", ["ha", " "] * 16))
    right = table(("p", [f"w{at}" for at in range(32)]))
    assert compare_rollouts(left, right).loop == Sides(left=1, right=0, differ=1)


def test_both_sides_are_cut_at_their_own_end():
    """1 is the end: what a server does not write behind it is no difference, and an end that is missing is one."""
    one = table(
        ("early", list("aeb")), ("late", list("aab")), ("other", list("abe")), ids=[[5, 1, 6], [5, 5, 6], [5, 6, 1]]
    )
    other = table(("early", list("ae")), ("late", list("aab")), ("other", list("ae")), ids=[[5, 1], [5, 5, 6], [5, 1]])
    found = compare_rollouts(up_to_end(one, {"e"}), up_to_end(other, {"e"}), end_tokens={1})
    assert [(item.left_tokens, item.right_tokens, item.prefix_tokens, item.exact) for item in found.prompts] == [
        (2, 2, 2, True),
        (3, 3, 3, True),
        (3, 2, 1, False),
    ]
    assert found.early_stop == Sides(left=2, right=2, differ=1)
    whole = compare_rollouts(one, other, end_tokens={1})
    assert whole.prompts[0].left_tokens == 3 and not whole.prompts[0].exact
