"""Exact answers of every arm, in all and by kind of range, the reference's own first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from dashboard.components.arm_table import figure_fields
from dashboard.components.cells import figure_cell, table
from dashboard.components.markup import Html, tag
from dashboard.figures import ANSWERS, Column, is_withheld, split_scope
from dashboard.frame import chip

if TYPE_CHECKING:
    from dashboard.frame import Page
    from drift_runs.measure.figures import Figure
    from drift_runs.tracking.records import ArmRecord

COUNT = replace(ANSWERS, key="count", header="exact", statistic="count", unit="count")
REFERENCE = replace(ANSWERS, key="reference", header="exact, reference", statistic="reference_count", unit="count")
LOST = replace(ANSWERS, key="lost", header="lost", statistic="lost", unit="count")
GAINED = replace(ANSWERS, key="gained", header="gained", statistic="gained", unit="count")

Scope = tuple[str, str]
"""Kind and name."""


class AnswerTable:
    """What the campaign's arms have of exact answers, over the chosen positions and over each kind of range."""

    def __init__(self, page: Page, arms: Sequence[ArmRecord]) -> None:
        self.page = page
        self.arms = list(arms)
        self.chosen: Scope = split_scope(page.view.scope)
        found = page.book.rows(spec=ANSWERS.spec, outliers=list(page.sets))
        self._figures = {
            (figure.arm, figure.scope_kind, figure.scope, figure.outliers, figure.statistic): figure for figure in found
        }
        self.kinds = list(dict.fromkeys(figure.scope for figure in found if figure.scope_kind == "kind"))

    def __bool__(self) -> bool:
        return bool(self._figures)

    def figure(self, arm: str, column: Column, scope: Scope, outliers: str) -> Figure | None:
        return self._figures.get((arm, *scope, outliers, column.statistic))

    def reference(self, scope: Scope, outliers: str) -> Figure | None:
        """The reference's own rate, from the comparison with it that judged the most answers. It has no interval: what
        is resampled is the comparisons."""
        of_reference = [arm.arm for arm in self.page.campaign.arms if arm.complete and not arm.reference]
        counts = [self.figure(arm, REFERENCE, scope, outliers) for arm in of_reference]
        known = [figure for figure in counts if figure is not None and not is_withheld(figure)]
        if not known:
            return None
        most = max(known, key=lambda figure: figure.n)
        return replace(
            most,
            arm=self.page.campaign.reference,
            statistic=ANSWERS.statistic,
            value=most.value / most.n,
            floor="",
            floor_value=None,
            borrowed=False,
        )

    def html(self, caption: str) -> Html:
        sets = self.page.sets
        head = [tag("th", "arm", scope="col")]
        head += [tag("th", "outliers", scope="col")] if len(sets) > 1 else []
        whole = "all answers" if self.chosen == ("all", "all") else f"panel {self.chosen[1]}"
        head += [tag("th", whole, tag("span", ANSWERS.spec, cls="dr-line dr-spec"), scope="col")]
        head += [tag("th", column.header, scope="col") for column in (LOST, GAINED)]
        head += [tag("th", kind, scope="col") for kind in self.kinds]
        body = []
        for index, outliers in enumerate(sets):
            body.append(self._reference_row(outliers, first=index == 0))
        for arm in self.arms:
            for index, outliers in enumerate(sets):
                body.append(self._row(arm, outliers, first=index == 0))
        return table(caption, head, body, label="Exact answers")

    def _reference_row(self, outliers: str, *, first: bool) -> Html:
        name = self.page.campaign.reference
        cells = [tag("td", figure_cell(self.reference(self.chosen, outliers), ANSWERS), data_figure=ANSWERS.key)]
        cells += [tag("td", "", data_figure=column.key) for column in (LOST, GAINED)]
        cells += [
            tag("td", figure_cell(self.reference(("kind", kind), outliers), ANSWERS), data_figure=f"kind:{kind}")
            for kind in self.kinds
        ]
        return self._line(name, [chip("reference")], cells, outliers, first=first)

    def _row(self, arm: ArmRecord, outliers: str, *, first: bool) -> Html:
        marks = [chip(arm.role)] if arm.role != "candidate" else []
        if arm.reference:
            marks.append(chip(f"against {arm.reference}", "plain", "Its reference is another arm than the campaign's."))
        whole = self.figure(arm.arm, ANSWERS, self.chosen, outliers)
        unknown = f"{whole.excluded:,} not judged" if whole is not None and whole.excluded else ""
        cells = [
            tag(
                "td",
                figure_cell(whole, ANSWERS),
                tag("span", unknown, cls="dr-line dr-small") if unknown else None,
                data_figure=ANSWERS.key,
            )
        ]
        for column in (LOST, GAINED):
            found = self.figure(arm.arm, column, self.chosen, outliers)
            value = "" if found is None or found.value is None else f"{found.value:,.0f}"
            cells.append(tag("td", value, cls="dr-num", data_figure=column.key))
        for kind in self.kinds:
            found = self.figure(arm.arm, ANSWERS, ("kind", kind), outliers)
            # The floor of each kind would fill the table; it stands beside the whole.
            plain = None if found is None else replace(found, floor="", floor_value=None, borrowed=False)
            cell = figure_cell(plain, ANSWERS) if plain is not None else tag("span", "none", cls="dr-small")
            cells.append(tag("td", cell, data_figure=f"kind:{kind}"))
        return self._line(arm.arm, marks, cells, outliers, first=first)

    def _line(self, name: str, marks: list[Html], cells: list[Html], outliers: str, *, first: bool) -> Html:
        span = len(self.page.sets)
        lead = tag(
            "th",
            name,
            tag("span", marks, cls="dr-line") if marks else None,
            scope="row",
            rowspan=span if span > 1 else None,
        )
        mark = [tag("td", outliers)] if span > 1 else []
        return tag("tr", lead if first else None, mark, cells, data_arm=name, data_outliers=outliers)

    def csv_rows(self) -> list[dict[str, object]]:
        """Every figure that the table is made of, at full precision."""
        scopes = [self.chosen, *(("kind", kind) for kind in self.kinds)]
        return [
            {"arm": arm.arm, **figure_fields(figure)}
            for arm in self.arms
            for outliers in self.page.sets
            for scope in scopes
            for column in (ANSWERS, COUNT, REFERENCE, LOST, GAINED)
            if (figure := self.figure(arm.arm, column, scope, outliers)) is not None
        ]
