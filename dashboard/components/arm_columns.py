"""Arms side by side: one column an arm, one row a figure, the best and the worst marked by a word."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dashboard.components.arm_generated import counted_words, shown_columns
from dashboard.components.cells import figure_cell, table
from dashboard.components.markup import Html, tag
from dashboard.figures import (
    AGREE,
    ANSWERS,
    EXACT,
    FLIP_STRICT,
    PASSED,
    PREFIX,
    STRONG_RATE,
    Column,
    is_withheld,
    write_value,
)
from dashboard.frame import chip
from drift_runs.charts.palette import NEUTRAL

if TYPE_CHECKING:
    from dashboard.frame import Page
    from drift_runs.tracking.records import ArmRecord

LARGER_IS_BETTER = frozenset({ANSWERS.key, EXACT.key, PREFIX.key, AGREE.key, PASSED.key})
"""Figures of which more is nearer to the reference, or more of the work done; of all others less is."""


def figure_rows(page: Page) -> tuple[Column, ...]:
    """The figures that stand side by side, in the order of the overview."""
    if page.columns.free_running:
        return page.columns.measured
    rows: list[Column] = []
    for column in page.columns.measured:
        rows.append(column)
        rows += [FLIP_STRICT] if column.key == "flip" else [STRONG_RATE] if column.key == "strong" else []
    return (*rows, *shown_columns(page))


def side_by_side(page: Page, arms: Sequence[ArmRecord], *, label: str, judged: bool, caption: str = "") -> Html:
    """The table. ``judged``: mark the best and the worst of each row, follow-ups left out of it."""
    sets = page.sets
    head = [tag("th", "figure", scope="col")]
    head += [tag("th", "outliers", scope="col")] if len(sets) > 1 else []
    head += [_arm_header(page, arm) for arm in arms]
    body = []
    for column in figure_rows(page):
        for index, outliers in enumerate(sets):
            marks = best_and_worst(page, arms, column, outliers) if judged else {}
            span = len(sets) if len(sets) > 1 else None
            spec = tag("span", column.spec, cls="dr-line dr-spec")
            lead = [tag("th", column.header, spec, scope="row", rowspan=span)] if index == 0 else []
            lead += [tag("td", outliers)] if len(sets) > 1 else []
            cells = [_cell(page, arm, column, outliers, marks.get(arm.arm, "")) for arm in arms]
            body.append(tag("tr", lead, cells, data_figure=column.key, data_outliers=outliers))
    return table(caption, head, body, label=label, wide=True)


def _arm_header(page: Page, arm: ArmRecord) -> Html:
    hue = page.colours.get(arm.arm, NEUTRAL)
    title = tag("span", arm.title, cls="dr-line dr-title dr-wrap") if arm.title and arm.title != arm.arm else None
    marks = [chip("follow-up", "plain", "Outside the frozen protocol.")] if arm.role == "follow-up" else []
    marks += [chip(f"against {arm.reference}", "plain", "Another reference.")] if arm.reference else []
    if "with" in page.sets and any(page.includes_outliers(arm.arm, column) for column in page.columns.overview):
        marks.append(chip("incl. outlier", "outlier", "Figures in this column count a declared outlier window."))
    swatch = tag("span", cls="dr-swatch", style=f"background:{hue}", aria_hidden="true")
    below = tag("span", marks, cls="dr-line") if marks else None
    return tag("th", swatch, arm.arm, title, below, scope="col", data_arm=arm.arm)


def _cell(page: Page, arm: ArmRecord, column: Column, outliers: str, mark: str) -> Html:
    figure = page.figure(arm.arm, column, outliers)
    lines = figure_cell(figure, column, counted=counted_words(page, arm.arm, column, outliers))
    known = figure is not None and column.unit != "count" and not figure.named
    count = (
        tag("span", f"n {figure.n:,}", cls="dr-line dr-small dr-num") if known and not _counts(page, column) else None
    )
    sign = {"best": "▲ best", "worst": "▼ worst"}.get(mark)
    mark_line = tag("span", tag("b", sign), cls="dr-line dr-small") if sign else None
    return tag("td", lines, count, mark_line, data_arm=arm.arm, data_figure=column.key, data_mark=mark or None)


def _counts(page: Page, column: Column) -> bool:
    """Whether the cell says already what it counts."""
    return column in page.columns.generated or column.key == ANSWERS.key


def best_and_worst(page: Page, arms: Sequence[ArmRecord], column: Column, outliers: str) -> dict[str, str]:
    """``best`` and ``worst`` by arm, of the values alone; nothing where fewer than two are known or all are alike."""
    found = {arm.arm: page.figure(arm.arm, column, outliers) for arm in arms if arm.role == "candidate"}
    values = {
        name: figure.value
        for name, figure in found.items()
        if figure is not None and not is_withheld(figure) and figure.value is not None
    }
    if len(values) < 2 or min(values.values()) == max(values.values()):
        return {}
    best, worst = min(values.values()), max(values.values())
    if column.key in LARGER_IS_BETTER:
        best, worst = worst, best
    marks = {name: "best" for name, value in values.items() if value == best}
    return marks | {name: "worst" for name, value in values.items() if value == worst}


def columns_csv(page: Page, arms: Sequence[ArmRecord]) -> list[dict[str, object]]:
    """The same at full precision: one row a figure and set of windows, three fields an arm."""
    rows = []
    for column in figure_rows(page):
        for outliers in page.sets:
            row: dict[str, object] = {"spec": column.spec, "statistic": column.statistic, "outliers": outliers}
            for arm in arms:
                figure = page.figure(arm.arm, column, outliers)
                for name in ("value", "low", "high", "n", "state", "reason"):
                    row[f"{arm.arm}.{name}"] = None if figure is None else getattr(figure, name)
            rows.append(row)
    return rows


def sentence(page: Page, arms: Sequence[ArmRecord], pairs: list[dict[str, Any]]) -> list[object]:
    """Which of the arms is nearest and which furthest by the headline, and whether the two are told apart."""
    column, outliers = page.columns.first, page.sets[0]
    marks = best_and_worst(page, arms, column, outliers)
    best = next((name for name, mark in marks.items() if mark == "best"), "")
    worst = next((name for name, mark in marks.items() if mark == "worst"), "")
    if not best or not worst:
        return [f"By {column.label} no arm of these is nearer to the reference than another."]

    def said(name: str) -> str:
        figure = page.figure(name, column, outliers)
        return "" if figure is None else write_value(figure, column.unit)

    parts: list[object] = [f"By {column.label} ", tag("b", best), f" ({said(best)}) is nearest to the reference, "]
    parts += [tag("b", worst), f" ({said(worst)}) furthest. "]
    for row in pairs:
        if (
            {row["left"], row["right"]} == {best, worst}
            and row["outliers"] == outliers
            and row["p_sign_flip"] is not None
        ):
            alpha = 1 - page.protocol.intervals.confidence
            differ = "The two differ" if row["p_sign_flip"] < alpha else "The two are not told apart"
            parts.append(f"{differ} by the cluster sign-flip permutation (p {row['p_sign_flip']:.2g}).")
            break
    return parts
