"""Arms as rows: facets, then each figure with what stands beside it. One table a group, so that ranks never mix."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from itertools import groupby
from typing import TYPE_CHECKING

from dashboard.components.arm_facets import FACET_HEADERS, facet_value, facet_words, of_reference, varying_facets
from dashboard.components.arm_generated import counted_words, shown_columns
from dashboard.components.arm_order import grouped
from dashboard.components.cells import figure_cell, header_cell, table
from dashboard.components.markup import Html, tag
from dashboard.figures import FLIP, FLIP_STRICT, STRONG, STRONG_RATE, Column, short_name
from dashboard.frame import chip

if TYPE_CHECKING:
    from dashboard.frame import Page
    from drift_runs.measure.figures import Figure
    from drift_runs.tracking.records import ArmRecord

BESIDE = {FLIP.key: FLIP_STRICT, STRONG.key: STRONG_RATE}
"""What stands in the cell of another figure."""
SHORT = {"mean": "mean", "p95": "p95", "p99": "p99", "worst": "worst range p95"}
"""Headers of the divergence's columns below their common one."""


def arm_table(
    page: Page,
    arms: list[ArmRecord],
    *,
    label: str,
    caption: str = "",
    reasons: Mapping[str, tuple[str, ...]] | None = None,
) -> Html:
    """The table of one group of arms; side by side gives each arm a row with and a row without outliers.

    A facet stands below an arm's name where it is not the reference's own. One that is the same for every arm of the
    campaign is said once, above the table; what an imported file says of itself is under Measures. ``reasons``: by arm,
    why it is not ranked; they get a column.
    """
    sets = page.sets
    facets = varying_facets(page)
    generated = shown_columns(page)
    lead = ["arm", *(["outliers"] if len(sets) > 1 else []), *(["why not"] if reasons else [])]
    head = _head(page, lead, generated)
    body = []
    for group in grouped(page, arms):
        if group.words:
            width = len(lead) + len(page.columns.measured) + len(generated)
            body.append(_heading(group.words, group.value, len(group.arms), span=width))
        for arm in group.arms:
            for index, outliers in enumerate(sets):
                first = [_name(page, arm, facets, span=len(sets))] if index == 0 else []
                mark = [tag("td", outliers)] if len(sets) > 1 else []
                if reasons and index == 0:
                    mark.append(_reasons(reasons.get(arm.arm, ()), span=len(sets)))
                cells = _figures(page, arm, outliers, generated)
                body.append(tag("tr", first, mark, cells, data_arm=arm.arm, data_outliers=outliers))
    return table(caption, head, body, label=label, wide=True, compact=True)


def _head(page: Page, lead: list[str], generated: tuple[Column, ...]) -> list[Html]:
    """Two rows: the divergence and what is written freely have a common header above those of their columns."""
    above = [tag("th", words, scope="col", rowspan=2) for words in lead]
    below = []
    headline = "" if page.columns.free_running else page.columns.headline
    for together, found in groupby(page.columns.measured, key=lambda column: column.spec == headline):
        columns = list(found)
        if together:
            words = [f"{short_name(headline)}, nats ", tag("span", headline, cls="dr-spec")]
            above.append(tag("th", words, scope="colgroup", colspan=len(columns), cls="dr-over"))
            below += [tag("th", SHORT[column.key], scope="col") for column in columns]
        else:
            above += [header_cell(column, rowspan=2) for column in columns]
    if generated:
        words = "what is written freely"
        above.append(tag("th", words, scope="colgroup", colspan=len(generated), cls="dr-over"))
        below += [header_cell(column) for column in generated]
    return [tag("tr", above), tag("tr", below)]


def _heading(words: str, value: str, count: int, *, span: int) -> Html:
    arms = tag("span", f" {count} arm{'' if count == 1 else 's'}", cls="dr-small")
    cell = tag("th", tag("span", words, arms), colspan=span, scope="colgroup")
    return tag("tr", cell, cls="dr-group", data_group=value)


def _reasons(reasons: tuple[str, ...], *, span: int) -> Html:
    words = [tag("span", reason, cls="dr-line dr-wrap") for reason in reasons]
    return tag("td", words, cls="dr-reasons dr-small", rowspan=span if span > 1 else None)


def _name(page: Page, arm: ArmRecord, facets: list[str], *, span: int) -> Html:
    """The arm with its title, the facets that are not the reference's own, and what is to be minded of it."""
    marks = []
    if arm.role == "follow-up":
        marks.append(chip("follow-up", "plain", "Outside the frozen protocol: not ranked with its candidates."))
    if page.campaign.draft and not page.campaign.imported:
        marks.append(chip("draft", "warn", "The protocol was not frozen."))
    if not arm.scored:
        words = "Its engine takes texts and gives no rows: it is rolled out, asked and followed, and nothing else."
        marks.append(chip("writes only", "plain", words))
    if arm.reference:
        marks.append(chip(f"against {arm.reference}", "plain", "Its reference is another arm than the campaign's."))
    if "with" in page.sets and any(page.includes_outliers(arm.arm, column) for column in page.columns.overview):
        marks.append(chip("incl. outlier", "outlier", "Figures in this row count a window declared as an outlier."))
    title = tag("span", arm.title, cls="dr-line dr-title dr-wrap") if arm.title and arm.title != arm.arm else None
    found = [_facet(page, arm, facet) for facet in facets if facet_value(arm, facet) != of_reference(page, facet)]
    last = tag("span", marks, cls="dr-line") if marks else None
    return tag("th", arm.arm, title, found, last, scope="row", rowspan=span if span > 1 else None)


def _facet(page: Page, arm: ArmRecord, facet: str) -> Html:
    value = facet_value(arm, facet)
    words = facet_words(page, value, facet)
    seen = f"the file's tensor types: {arm.weights_observed}" if facet == "weights" else None
    seen = value if words != value else seen
    name = FACET_HEADERS[facet]
    return tag("span", f"{name} ", tag("b", words), title=seen, cls="dr-line dr-title dr-wrap", data_facet=facet)


def _figures(page: Page, arm: ArmRecord, outliers: str, generated: tuple[Column, ...]) -> list[Html]:
    """The first one says over how many positions all that was measured is."""
    return [_cell(page, arm, column, outliers) for column in (*page.columns.measured, *generated)]


def _cell(page: Page, arm: ArmRecord, column: Column, outliers: str) -> Html:
    more = BESIDE.get(column.key)
    beside = page.figure(arm.arm, more, outliers) if more else None
    words = counted_words(page, arm.arm, column, outliers)
    figure = page.figure(arm.arm, column, outliers)
    lines = figure_cell(figure, column, beside=beside, counted=words)
    if figure is not None and column == page.columns.overview[0]:
        lines.append(tag("span", f"n {figure.n:,}", cls="dr-line dr-small dr-num", data_n=figure.n))
    return tag("td", lines, data_figure=column.key)


def csv_rows(page: Page, arms: list[ArmRecord], columns: tuple[Column, ...]) -> list[dict[str, object]]:
    """The same figures as flat rows for a CSV: full precision, one row an arm, column and set of windows."""
    rows = []
    for arm in arms:
        for outliers in page.sets:
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
                        "hardware": arm.hardware,
                        "engine": arm.engine,
                        "settings": arm.settings,
                        **figure_fields(figure),
                    }
                )
    return rows


def figure_fields(figure: Figure) -> dict[str, object]:
    """A figure as CSV fields, in the order of the schema."""
    return {name: value for name, value in asdict(figure).items() if name != "arm"}
