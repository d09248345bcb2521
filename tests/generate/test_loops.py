"""Repetition is found where it is, and not in what repeats for a reason."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from drift_runs.generate.loops import loop_report

PLAIN = list(range(200))


def test_a_text_that_never_repeats() -> None:
    report = loop_report(PLAIN)
    assert (report.distinct_share, report.period, report.stretch, report.is_loop) == (1.0, 0, 0, False)


def test_a_block_of_three_copies_is_a_loop_and_is_measured() -> None:
    report = loop_report(PLAIN[:100] + list(range(500, 510)) * 3 + PLAIN[100:])
    assert (report.period, report.stretch, report.is_loop) == (10, 30, True)


def test_two_copies_or_a_short_stretch_are_no_loop() -> None:
    assert not loop_report(PLAIN[:100] + list(range(500, 530)) * 2 + PLAIN[100:]).is_loop
    assert not loop_report(PLAIN[:100] + [7] * 20 + PLAIN[100:]).is_loop
    assert loop_report(PLAIN[:100] + [7] * 24 + PLAIN[100:]).is_loop


def test_sentences_that_come_back_out_of_order_are_found_by_their_grams() -> None:
    one, two = list(range(30)), list(range(100, 130))
    report = loop_report([*one, *two, 900, *two, 901, *one, 902, *one, 903, *two])
    assert report.distinct_share < 0.5
    assert report.is_loop


def test_short_and_empty_spans() -> None:
    for tokens in ([], [1], [1, 1], [1, 2, 3]):
        report = loop_report(tokens)
        assert (report.tokens, report.distinct_share, report.is_loop) == (len(tokens), 1.0, False)


@given(
    st.lists(st.integers(0, 30), min_size=1, max_size=20), st.integers(4, 8), st.lists(st.integers(40, 60), max_size=40)
)
def test_any_block_repeated_to_forty_tokens_is_a_loop(block: list[int], copies: int, before: list[int]) -> None:
    copies = max(copies, -(-40 // len(block)))
    assert loop_report([*before, *(block * copies)]).is_loop


@given(st.lists(st.integers(0, 3), max_size=80), st.integers(1, 1000))
def test_renaming_tokens_changes_nothing(tokens: list[int], offset: int) -> None:
    assert loop_report(tokens) == loop_report([token * 7 + offset for token in tokens])
