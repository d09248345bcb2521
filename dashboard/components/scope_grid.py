"""Scopes as rows and a few figures as columns: what a bucket, a band, a role or a group holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dashboard.components.cells import figure_cell, table
from dashboard.components.markup import Html, tag
from dashboard.figures import Column

if TYPE_CHECKING:
    from dashboard.frame import Page
    from drift_runs.measure.figures import Figure


class ScopeGrid:
    """Figures of one arm over every scope of some kinds, for a table and for a CSV."""

    def __init__(self, page: Page, arm: str, kinds: Sequence[str], columns: Sequence[Column]) -> None:
        self.page = page
        self.columns = list(columns)
        self.sets = page.sets
        self.figures: dict[tuple[str, str, str, str], Figure] = {}
        for outliers in self.sets:
            for figure in page.book.rows(arm=arm, scope_kind=list(kinds), outliers=outliers):
                for column in self.columns:
                    if (figure.spec, figure.statistic) == (column.spec, column.statistic):
                        key = (figure.scope_kind, figure.scope, outliers, column.key)
                        self.figures.setdefault(key, figure)
        # A column that no scope has is not a column of this arm.
        there = {key[3] for key in self.figures}
        self.columns = [column for column in self.columns if column.key in there]
        self.scopes = list(dict.fromkeys((kind, scope) for kind, scope, _, _ in self.figures))

    def __bool__(self) -> bool:
        return bool(self.figures)

    def table(self, *, label: str, first: str, caption: str = "", words: dict[str, str] | None = None) -> Html:
        """``first`` heads the column of scopes; ``words`` says a scope's name in other words."""
        head = [tag("th", first, scope="col")]
        head += [tag("th", "outliers", scope="col")] if len(self.sets) > 1 else []
        head += [
            tag("th", column.header, tag("span", column.spec, cls="dr-line dr-spec"), scope="col")
            for column in self.columns
        ]
        head += [tag("th", "n", scope="col", cls="dr-right")]
        body = []
        for kind, scope in self.scopes:
            for outliers in self.sets:
                found = {column.key: self.figures.get((kind, scope, outliers, column.key)) for column in self.columns}
                if not any(found.values()):
                    continue
                mark = [tag("td", outliers)] if len(self.sets) > 1 else []
                cells = [
                    tag("td", figure_cell(found[column.key], column), data_figure=column.key) for column in self.columns
                ]
                n = max(figure.n for figure in found.values() if figure)
                name = (words or {}).get(scope, scope)
                body.append(
                    tag(
                        "tr",
                        tag("th", name, scope="row"),
                        mark,
                        cells,
                        tag("td", f"{n:,}", cls="dr-num dr-right"),
                        data_scope=scope,
                        data_outliers=outliers,
                    )
                )
        return table(caption, head, body, label=label)

    def all_figures(self) -> list[Figure]:
        """What the table shows, for a CSV."""
        return list(self.figures.values())
