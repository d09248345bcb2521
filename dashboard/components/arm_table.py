"""Arms as rows: facets, then each figure with what stands beside it. One table a group, so that ranks never mix."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING

from dashboard.components.cells import figure_cell, header_cell, table
from dashboard.components.markup import Html, tag
from dashboard.figures import FLIP, FLIP_STRICT, STRONG, STRONG_RATE, Column
from dashboard.frame import BESIDE_ROLES, chip

if TYPE_CHECKING:
    from dashboard.frame import Page
    from drift_runs.measure.figures import Figure
    from drift_runs.tracking.records import ArmRecord

FACET_HEADERS = {
    "derivative": "derivative",
    "weights": "weights",
    "kv": "KV",
    "engine": "engine",
    "settings": "settings",
}
NOT_SAID = "not-said"
"""What an import writes for a facet that its source does not name."""

BESIDE = {FLIP.key: FLIP_STRICT, STRONG.key: STRONG_RATE}
"""What stands in the cell of another figure."""


def arm_table(
    page: Page,
    arms: list[ArmRecord],
    *,
    label: str,
    caption: str = "",
    reasons: Mapping[str, tuple[str, ...]] | None = None,
) -> Html:
    """The table of one group of arms; side by side gives each arm a row with and a row without outliers.

    A facet that is the same for every arm of the campaign is said once, above the table; what an imported file says of
    itself is under Measures. ``reasons``: by arm, why it
    is not ranked; they get a column.
    """
    sets = page.sets
    facets = varying_facets(page)
    head = [tag("th", "arm", scope="col")]
    head += [tag("th", FACET_HEADERS[facet], scope="col") for facet in facets]
    head += [tag("th", "outliers", scope="col")] if len(sets) > 1 else []
    head += [tag("th", "why not", scope="col")] if reasons else []
    head += [header_cell(column) for column in page.columns.overview]
    head += [tag("th", "n", scope="col", cls="dr-right")]
    body = []
    for arm in arms:
        for index, outliers in enumerate(sets):
            lead = _lead(page, arm, facets, span=len(sets)) if index == 0 else []
            mark = [tag("td", outliers)] if len(sets) > 1 else []
            if reasons and index == 0:
                mark.append(_reasons(reasons.get(arm.arm, ()), span=len(sets)))
            body.append(tag("tr", lead, mark, _figures(page, arm, outliers), data_arm=arm.arm, data_outliers=outliers))
    return table(caption, head, body, label=label)


def _reasons(reasons: tuple[str, ...], *, span: int) -> Html:
    words = [tag("span", reason, cls="dr-line dr-wrap") for reason in reasons]
    return tag("td", words, cls="dr-reasons dr-small", rowspan=span if span > 1 else None)


def _facet(page: Page, arm: ArmRecord, facet: str) -> str:
    return settings_text(arm.settings) if facet == "settings" else getattr(arm, facet)


def varying_facets(page: Page) -> list[str]:
    """Facets that tell the campaign's arms, the reference among them, apart."""
    arms = [arm for arm in page.campaign.arms if arm.role not in BESIDE_ROLES]
    facets = [facet for facet in FACET_HEADERS if not (page.campaign.imported and facet in ("settings", "engine"))]
    return [
        facet for facet in facets if len({_facet(page, arm, facet) for arm in arms} | {_of_reference(page, facet)}) > 1
    ]


def common_facets(page: Page) -> str:
    """The facets that every arm shares, in words; empty when there are none."""
    varying = varying_facets(page)
    shared = [
        f"{FACET_HEADERS[facet]} {_of_reference(page, facet)}"
        for facet in FACET_HEADERS
        if facet not in varying
        and _of_reference(page, facet) not in ("", NOT_SAID)
        and not (page.campaign.imported and facet in ("settings", "engine"))
    ]
    return f"The same for every arm: {', '.join(shared)}." if shared else ""


def _of_reference(page: Page, facet: str) -> str:
    """The reference's own value. Its engine is the observed one, build included, which a floor of it has as well."""
    if facet == "settings":
        return ""
    if facet == "engine":
        floors = {floor.name for floor in page.protocol.floors if floor.arm == page.campaign.reference}
        observed = next((arm.engine for arm in page.campaign.arms if arm.arm in floors), "")
        return observed or page.protocol.reference.engine
    return str(getattr(page.protocol.reference, facet))


def _lead(page: Page, arm: ArmRecord, facets: list[str], *, span: int) -> list[Html]:
    rows = span if span > 1 else None
    marks = []
    if arm.role == "follow-up":
        marks.append(chip("follow-up", "plain", "Outside the frozen protocol: not ranked with its candidates."))
    if page.campaign.draft and not page.campaign.imported:
        marks.append(chip("draft", "warn", "The protocol was not frozen."))
    if arm.reference:
        marks.append(chip(f"against {arm.reference}", "plain", "Its reference is another arm than the campaign's."))
    if "with" in page.sets and any(page.includes_outliers(arm.arm, column) for column in page.columns.overview):
        marks.append(chip("incl. outlier", "outlier", "Figures in this row count a window declared as an outlier."))
    title = tag("span", arm.title, cls="dr-line dr-title dr-wrap") if arm.title and arm.title != arm.arm else None
    cells = [tag("th", arm.arm, title, tag("span", marks, cls="dr-line") if marks else None, scope="row", rowspan=rows)]
    for facet in facets:
        value = _facet(page, arm, facet)
        seen = f"the file's tensor types: {arm.weights_observed}" if facet == "weights" else None
        word = tag("span", value, cls="dr-same") if value == _of_reference(page, facet) else tag("b", value)
        cells.append(tag("td", word, title=seen, cls="dr-facet dr-wrap", rowspan=rows))
    return cells


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
    for column in page.columns.overview:
        more = BESIDE.get(column.key)
        beside = page.figure(arm.arm, more, outliers) if more else None
        lines = figure_cell(page.figure(arm.arm, column, outliers), column, beside=beside)
        cells.append(tag("td", lines, data_figure=column.key))
    first = page.figure(arm.arm, page.columns.overview[0], outliers)
    cells.append(tag("td", f"{first.n:,}" if first else "", cls="dr-num dr-right"))
    return cells


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
                        "engine": arm.engine,
                        "settings": arm.settings,
                        **figure_fields(figure),
                    }
                )
    return rows


def figure_fields(figure: Figure) -> dict[str, object]:
    """A figure as CSV fields, in the order of the schema."""
    return {name: value for name, value in asdict(figure).items() if name != "arm"}
