"""Colours and marks that every chart and page share: the same thing looks the same everywhere.

The hues are Okabe and Ito's, lightened or darkened until each has a contrast of 3:1 or more on white and on the dark
page, so that one chart serves both themes. Nothing is told by colour alone: a shape or a word stands with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

WITH_OUTLIERS = "#2f86c6"
WITHOUT_OUTLIERS = "#d9730d"
FLOOR = "#8a8f98"

ABOVE = "#d55e00"
WITHIN = "#0a9a72"
INCONCLUSIVE = "#b58900"

NEUTRAL = "#8a8f98"
"""Reference, grids, values that are withheld."""

OUTLIER_LABELS = {"with": "with outlier windows", "without": "without outlier windows", "only": "outlier windows only"}
OUTLIER_COLOURS = {
    "with outlier windows": WITH_OUTLIERS,
    "without outlier windows": WITHOUT_OUTLIERS,
    "outlier windows only": NEUTRAL,
}
OUTLIER_SHAPES = {
    "with outlier windows": "circle",
    "without outlier windows": "diamond",
    "outlier windows only": "square",
}

VERDICT_MARKS = {"above": "▲", "within": "●", "inconclusive": "◆"}
VERDICT_LABELS = {"above": "above floor", "within": "within floor", "inconclusive": "inconclusive"}
VERDICT_COLOURS = {"above": ABOVE, "within": WITHIN, "inconclusive": INCONCLUSIVE}

PAGE_LIGHT = "#ffffff"
PAGE_DARK = "#171614"
"""Behind everything on a page: what scrolls below a column that stays must not be seen through it."""

SEQUENTIAL = "viridis"
"""Even steps for every kind of colour vision, also in grey."""

SERIES_COLOURS = (WITH_OUTLIERS, "#a0619a", WITHIN, ABOVE, INCONCLUSIVE, NEUTRAL)
SERIES_SHAPES = ("circle", "cross", "diamond", "square", "triangle-up", "triangle-down")
"""One for each of at most six things that share a chart."""

ARM_COLOURS = ("#2f86c6", "#d9730d", "#0a9a72", "#b0569f", "#a58b00", "#c8415b", "#17949e", "#8d6e4f")
"""One for each of at most eight arms of a campaign."""
GROUPED = "#9aa0a8"
"""Arms beyond the eighth: the name, and not the colour, tells them apart."""


def arm_colours(arms: Sequence[str], *, reference: str) -> Mapping[str, str]:
    """The colour of each arm, by its place in the protocol; the reference is neutral, arms past the eighth are grey."""
    found = {name: ARM_COLOURS[at] if at < len(ARM_COLOURS) else GROUPED for at, name in enumerate(arms)}
    return {**found, reference: NEUTRAL}
