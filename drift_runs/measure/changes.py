"""Has a figure changed from one campaign to the next, or is it what floors and sampling move anyway?

The rule: a change is *above the floor* when the two intervals do not overlap and the difference is larger than the
floor of either campaign. It is *within* where one of the two fails, and *undecided* where something that the rule needs
is not known. It is a rule of display and no test: nothing is corrected for how many changes are looked at.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

ABOVE = "above"
WITHIN = "within"
UNDECIDED = "undecided"
FIRST = "first"
RULE = (
    "A change from one campaign to the next is above the floor when the two intervals do not overlap and the "
    "difference is larger than the floor of either campaign; otherwise it is within."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One figure of one arm in one campaign."""

    value: float | None
    low: float | None
    high: float | None
    floor: float | None
    """How far the largest floor of the campaign lies from no drift, in the figure's unit; None where there is none."""
    reason: str = ""
    """Why there is no value."""


class Change(NamedTuple):
    """What a point is against the one before."""

    kind: str
    """``above``, ``within`` or ``undecided``."""
    difference: float | None
    """Later minus earlier, in the figure's unit."""
    reason: str


def change_of(before: Point, after: Point) -> Change:
    """The change between two points of figures that may be set against each other."""
    if before.value is None or after.value is None:
        reason = (after if after.value is None else before).reason
        return Change(UNDECIDED, None, reason or "one of the two is not measured")
    difference = after.value - before.value
    floors = [point.floor for point in (before, after) if point.floor is not None]
    if difference == 0:
        return Change(WITHIN, difference, "the same value")
    if floors and abs(difference) <= max(floors):
        return Change(WITHIN, difference, "no larger than a floor")
    if before.low is None or before.high is None or after.low is None or after.high is None:
        return Change(UNDECIDED, difference, "one of the two has no interval")
    if before.high >= after.low and after.high >= before.low:
        return Change(WITHIN, difference, "the intervals overlap")
    if len(floors) < 2:
        return Change(UNDECIDED, difference, "one of the two campaigns has no floor of this figure")
    return Change(ABOVE, difference, "the intervals do not overlap, and it is larger than both floors")
