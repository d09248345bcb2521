from __future__ import annotations

from dataclasses import replace

import pytest

from drift_runs.measure.changes import ABOVE, UNDECIDED, WITHIN, Point, change_of

BEFORE = Point(value=0.10, low=0.08, high=0.12, floor=0.01)
FAR = Point(value=0.20, low=0.17, high=0.23, floor=0.02)


def test_apart_and_larger_than_both_floors_is_above_in_either_direction() -> None:
    for one, other, sign in ((BEFORE, FAR, 1), (FAR, BEFORE, -1)):
        found = change_of(one, other)
        assert found.kind == ABOVE and found.difference == pytest.approx(sign * 0.10)


@pytest.mark.parametrize("side", [0, 1])
def test_a_floor_of_either_campaign_that_is_as_large_holds_the_change(side: int) -> None:
    points = [BEFORE, FAR]
    points[side] = replace(points[side], floor=0.11)
    assert change_of(*points) == (WITHIN, pytest.approx(0.10), "no larger than a floor")


def test_intervals_that_touch_overlap() -> None:
    assert change_of(BEFORE, replace(FAR, low=0.12)).kind == WITHIN
    assert change_of(BEFORE, replace(FAR, low=0.1201)).kind == ABOVE


def test_the_same_value_is_within_whatever_is_not_known() -> None:
    bare = Point(value=0.1, low=None, high=None, floor=None)
    assert change_of(bare, bare) == (WITHIN, 0.0, "the same value")


@pytest.mark.parametrize(
    ("after", "said"),
    [
        (Point(value=None, low=None, high=None, floor=0.01, reason="withheld: 3 values"), "withheld: 3 values"),
        (replace(FAR, low=None, high=None), "no interval"),
        (replace(FAR, floor=None), "no floor"),
    ],
)
def test_what_is_not_known_is_not_decided(after: Point, said: str) -> None:
    found = change_of(BEFORE, after)
    assert found.kind == UNDECIDED and said in found.reason


def test_without_a_floor_overlapping_intervals_still_say_within() -> None:
    bare = replace(BEFORE, floor=None)
    assert change_of(bare, replace(bare, value=0.11)).kind == WITHIN
