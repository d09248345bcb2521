"""Arms as rows: facets, then each figure with what stands beside it. One table a group, so that ranks never mix."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from dashboard.components.cells import figure_cell, header_cell, table
from dashboard.components.markup import Html, tag
from dashboard.figures import FLIP, FLIP_STRICT, OVERVIEW, Column, sort_key
from dashboard.frame import chip

if TYPE_CHECKING:
    from dashboard.frame import Page
    from drift_runs.tracking.records import ArmRecord

FACET_HEADERS = (("derivative", "derivative"), ("weights", "weights"), ("kv", "KV"), ("engine", "engine"))
SET_WORDS = {"with": "with", "without": "without", "only": "only"}


def ordered(page: Page, arms: list[ArmRecord]) -> list[ArmRecord]:
    """Arms by the view's sort column, withheld figures last in either direction, ties by name."""
    arms = sorted(arms, key=lambda arm: arm.arm)
    if page.view.sort == "arm":
        return arms[::-1] if page.view.order == "desc" else arms
    column = next(column for column in OVERVIEW if column.key == page.view.sort)
    keys = {arm.arm: sort_key(page.figure(arm.arm, column, page.view.outlier_sets[0])) for arm in arms}
    present = [arm for arm in arms if not keys[arm.arm][0]]
    absent = [arm for arm in arms if keys[arm.arm][0]]
    return sorted(present, key=lambda arm: keys[arm.arm][1], reverse=page.view.order == "desc") + absent


def arm_table(page: Page, arms: list[ArmRecord], *, label: str, caption: str = "") -> Html:
    """The table of one group of arms; side by side gives each arm a row with and a row without outliers."""
    sets = page.view.outlier_sets
    head = [tag("th", "arm", scope="col")]
    head += [tag("th", words, scope="col") for _, words in FACET_HEADERS]
    head += [tag("th", "settings", scope="col")]
    head += [tag("th", "outliers", scope="col")] if len(sets) > 1 else []
    head += [header_cell(column) for column in OVERVIEW]
    head += [tag("th", "n", scope="col", cls="dr-right")]
    body = []
    for arm in arms:
        for index, outliers in enumerate(sets):
            lead = _lead(page, arm, span=len(sets)) if index == 0 else []
            mark = [tag("td", SET_WORDS[outliers])] if len(sets) > 1 else []
            body.append(tag("tr", lead, mark, _figures(page, arm, outliers), data_arm=arm.arm, data_outliers=outliers))
    return table(caption, head, body, label=label)


def _lead(page: Page, arm: ArmRecord, *, span: int) -> list[Html]:
    rows = span if span > 1 else None
    marks = []
    if arm.role == "follow-up":
        marks.append(chip("follow-up", "plain", "Outside the frozen protocol: not ranked with its candidates."))
    if page.campaign.draft:
        marks.append(chip("draft", "warn", "The protocol was not frozen."))
    if "with" in page.view.outlier_sets and any(page.includes_outliers(arm.arm, column) for column in OVERVIEW):
        marks.append(chip("incl. outlier", "outlier", "Figures in this row count a window declared as an outlier."))
    title = tag("span", arm.title, cls="dr-line dr-small dr-wrap") if arm.title and arm.title != arm.arm else None
    cells = [tag("th", arm.arm, title, tag("span", marks, cls="dr-line") if marks else None, scope="row", rowspan=rows)]
    for facet, _ in FACET_HEADERS:
        value = getattr(arm, facet)
        same = value == page.facets_of_reference.get(facet)
        cells.append(
            tag(
                "td",
                tag("span", value, cls="dr-same") if same else tag("b", value),
                _observed(arm) if facet == "weights" else None,
                rowspan=rows,
            )
        )
    cells.append(tag("td", settings_text(arm.settings), cls="dr-small dr-wrap", rowspan=rows))
    return cells


def _observed(arm: ArmRecord) -> Html | None:
    if not arm.weights_observed or arm.weights_observed == arm.weights:
        return None
    return tag("span", arm.weights_observed, cls="dr-line dr-small dr-wrap", title="what the file's tensor types say")


def settings_text(canonical: str) -> str:
    """Canonical JSON of settings as ``name value`` pairs; the text itself when it is no JSON object."""
    try:
        found = json.loads(canonical) if canonical else {}
    except ValueError:
        return canonical
    if not isinstance(found, dict):
        return canonical
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in found.items())


def _figures(page: Page, arm: ArmRecord, outliers: str) -> list[Html]:
    cells = []
    for column in OVERVIEW:
        strict = page.figure(arm.arm, FLIP_STRICT, outliers) if column is FLIP else None
        lines = figure_cell(page.figure(arm.arm, column, outliers), column, strict=strict)
        cells.append(tag("td", lines, data_figure=column.key))
    first = page.figure(arm.arm, FLIP, outliers)
    cells.append(tag("td", f"{first.n:,}" if first else "", cls="dr-num dr-right"))
    return cells


def csv_rows(page: Page, arms: list[ArmRecord], columns: tuple[Column, ...]) -> list[dict[str, object]]:
    """The same figures as flat rows for a CSV: full precision, one row an arm, column and set of windows."""
    rows = []
    for arm in arms:
        for outliers in page.view.outlier_sets:
            for column in columns:
                figure = page.figure(arm.arm, column, outliers)
                if figure is None:
                    continue
                rows.append(
                    {
                        "arm": arm.arm,
                        "role": arm.role,
                        "derivative": arm.derivative,
                        "weights": arm.weights,
                        "kv": arm.kv,
                        "engine": arm.engine,
                        "settings": arm.settings,
                        **figure_fields(figure),
                    }
                )
    return rows


def figure_fields(figure: object) -> dict[str, object]:
    """A figure as CSV fields, in the order of the schema."""
    from dataclasses import asdict

    return {name: value for name, value in asdict(figure).items() if name != "arm"}
