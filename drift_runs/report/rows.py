"""Rows of figures by arm: the table that most sections have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict

from drift_runs.measure.figures import Figure
from drift_runs.report.content import Content
from drift_runs.report.figures import Column, differs_by_outliers, sort_key
from drift_runs.report.grid import Cell, Grid, Row, count, figure_cell, words
from drift_runs.tracking.records import ArmRecord

SET_WORDS = {"with": "with", "without": "without", "only": "only"}


def by_arm(
    content: Content,
    arms: Sequence[ArmRecord],
    columns: Sequence[Column],
    *,
    name: str,
    title: str,
    says: str = "",
    reasons: Mapping[str, Sequence[str]] | None = None,
    counted: str = "n",
) -> Grid:
    """A row an arm and set of windows, a column a figure; with several sets they stand beneath each other, always.

    ``reasons``: by arm, why it is not ranked. ``counted``: what the last column counts.
    """
    several = len(content.sets) > 1
    head = ["arm", *(["outlier windows"] if several else []), *(["why not"] if reasons else [])]
    head += [f"{column.header} ({column.spec})" for column in columns]
    rows, fields = [], []
    for arm in arms:
        for at, outliers in enumerate(content.sets):
            figures = [content.figure(arm.arm, column, outliers) for column in columns]
            lead = _lead(content, arm, columns) if at == 0 else words("")
            cells: list[Cell] = [lead]
            if several:
                cells.append(words(SET_WORDS[outliers]))
            if reasons:
                cells.append(words("; ".join(reasons.get(arm.arm, ())) if at == 0 else ""))
            n = next((figure.n for figure in figures if figure is not None), None)
            cells += [
                figure_cell(figure, column, beside=_own_count(figure, column, n))
                for figure, column in zip(figures, columns, strict=True)
            ]
            rows.append(Row(cells=(*cells, count(n)), arm=arm.arm, outliers=outliers))
            fields += [{"role": arm.role, **asdict(figure)} for figure in figures if figure is not None]
    return Grid(
        name=name, title=title, head=(*head, counted), rows=tuple(rows), says=says, fields=tuple(_leading(fields))
    )


def _own_count(figure: Figure | None, column: Column, n: int | None) -> tuple[str, ...]:
    """What a figure counts, where it is not what the row's last column says and the cell does not say it already."""
    if figure is None or figure.n == n or figure.named or column.unit == "count" or column.key == "answers":
        return ()
    return (f"n {figure.n:,}",)


def _lead(content: Content, arm: ArmRecord, columns: Sequence[Column]) -> Cell:
    marks = [arm.title] if arm.title and arm.title != arm.arm else []
    if arm.role == "follow-up":
        marks.append("follow-up: outside the frozen protocol")
    if arm.reference:
        marks.append(f"against {arm.reference}")
    badge = "with" in content.sets and any(
        differs_by_outliers(content.figure(arm.arm, column, "with"), content.figure(arm.arm, column, "without"))
        for column in columns
    )
    if badge:
        marks.append("incl. outlier")
    return words(arm.arm, *marks, mark="outlier" if badge else "")


def _leading(fields: list[dict[str, object]]) -> list[dict[str, object]]:
    """The arm first, whatever the order of the fields."""
    return [{"arm": row["arm"], **{name: value for name, value in row.items() if name != "arm"}} for row in fields]


def ordered(content: Content, arms: Sequence[ArmRecord], column: Column) -> list[ArmRecord]:
    """Arms by a figure, the largest first, those without one last and by name."""
    keys = {arm.arm: sort_key(content.figure(arm.arm, column, content.sets[0])) for arm in arms}
    by_name = sorted(arms, key=lambda arm: arm.arm)
    there = [arm for arm in by_name if not keys[arm.arm][0]]
    return sorted(there, key=lambda arm: keys[arm.arm][1], reverse=True) + [arm for arm in by_name if keys[arm.arm][0]]


def present(content: Content, arms: Sequence[ArmRecord], columns: Sequence[Column]) -> list[Column]:
    """The columns that at least one of the arms has a figure of."""
    return [
        column
        for column in columns
        if any(content.figure(arm.arm, column, outliers) for arm in arms for outliers in content.sets)
    ]


def figure_fields(figures: Sequence[Figure]) -> tuple[Mapping[str, object], ...]:
    """Figures as flat rows."""
    return tuple(_leading([asdict(figure) for figure in figures]))
