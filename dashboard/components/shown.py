"""The figures of one arm over the chosen positions, and a section that lists some of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import streamlit as st

from dashboard.components.arm_table import figure_fields
from dashboard.components.export import csv_button
from dashboard.components.markup import tag
from dashboard.components.measures import Measure, measure_table, same_figure
from dashboard.figures import split_scope

if TYPE_CHECKING:
    from dashboard.frame import Page
    from drift_runs.measure.figures import Figure
    from drift_runs.tracking.records import ArmRecord


class Shown:
    """The figures of one arm over the chosen positions, and which of them a section has shown already."""

    def __init__(self, page: Page, arm: ArmRecord) -> None:
        self.page = page
        self.arm = arm
        self.sets = page.sets
        kind, name = split_scope(page.view.scope)
        self.here = page.book.rows(arm=arm.arm, scope_kind=kind, scope=name, outliers=list(self.sets))
        self.seen: set[tuple[str, str]] = set()

    def find(self, measures: Sequence[Measure]) -> list[tuple[str, Figure]]:
        """Rows of (words, figure) in the order of ``measures``; what the arm does not have is not there."""
        found = []
        for measure in measures:
            for figure in self.here:
                if same_figure(figure, measure):
                    found.append((measure.words, figure))
                    self.seen.add((figure.spec, figure.statistic))
        return found

    def one(self, spec: str, statistic: str, outliers: str) -> Figure | None:
        """The figure of a spec (whatever its K) and statistic."""
        for figure in self.here:
            if figure.outliers == outliers and same_figure(figure, Measure("", spec, statistic)):
                self.seen.add((figure.spec, figure.statistic))
                return figure
        return None

    def find_all(self, test: Callable[[Figure], bool]) -> list[Figure]:
        """Figures that pass a test, in the order of the table."""
        found = [figure for figure in self.here if test(figure)]
        self.seen.update((figure.spec, figure.statistic) for figure in found)
        return found

    def rest(self) -> list[Figure]:
        """Figures that no section has shown."""
        return [figure for figure in self.here if (figure.spec, figure.statistic) not in self.seen]


def shown_csv(shown: Shown, figures: Sequence[Figure], key: str) -> None:
    """The button that hands these figures out."""
    rows = [{"arm": figure.arm, **figure_fields(figure)} for figure in figures]
    csv_button(rows, name=f"{shown.page.campaign.protocol_name}-{shown.arm.arm}-{key}", key=key)


def section(shown: Shown, title: str, measures: Sequence[Measure], key: str, says: str) -> None:
    """A heading, what it is about, the figures that the arm has of a list, and their CSV; nothing when it has none."""
    found = shown.find(measures)
    if not found:
        return
    st.subheader(title, anchor=False)
    st.html(tag("p", says, cls="dr-say"))
    st.html(measure_table(found, label=title, sets=shown.sets))
    shown_csv(shown, [figure for _, figure in found], key)
