"""The section of a hardware comparison: one reference, several machines, each arm on all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import pyarrow as pa
import streamlit as st

from dashboard import state
from dashboard.components.arm_plot import FORMATS, UNIT_WORDS
from dashboard.components.arm_table import figure_fields
from dashboard.components.cells import figure_cell, header_cell, table
from dashboard.components.export import csv_button, shown_chart
from dashboard.components.history_points import when
from dashboard.components.machines import machines_of
from dashboard.components.markup import Html, tag
from dashboard.figures import (
    FLIP,
    Column,
    differs_by_outliers,
    is_withheld,
    short_name,
)
from dashboard.frame import Page, chip
from drift_runs.charts.machines_by_arm import machines_by_arm
from drift_runs.charts.palette import OUTLIER_LABELS
from drift_runs.report.machine_words import Name, between, counted, from_reference, repeats
from drift_runs.report.machines import RUN_ID_DIGITS, Machines, Place, here

if TYPE_CHECKING:
    from drift_runs.tracking.records import CampaignRecord

_CHART = pa.schema(
    [
        *((name, pa.string()) for name in ("arm", "machine")),
        *((name, pa.float64()) for name in ("value", "low", "high")),
        ("n", pa.int64()),
        *((name, pa.string()) for name in ("state", "reason")),
    ]
)


def machines_section(page: Page, *, name: str) -> None:
    """Draw the section; nothing where no other campaign of the store shares the reference. ``name``: of its files."""
    with st.spinner("Reading the figures of other machines …"):
        found = machines_of(page)
    if found is None:
        return
    columns = (FLIP, page.columns.mean, page.columns.p95)
    st.subheader("On other machines", anchor=False)
    _say([*counted(page, found), ", whatever is chosen above."])
    for place in found.places:
        if place.arm.arm == here(page):
            _say(from_reference(page, found, place), "machine")
    for key, words in (("repeats", repeats(page, found)), ("between", between(page, found))):
        if words:
            _say(words, key)
    if found.unread:
        st.html(tag("div", "Left out, because it cannot be read: ", "; ".join(found.unread[:3]), cls="dr-notes"))
    st.html(_table(page, found, columns))
    csv_button(_csv_rows(page, found, columns), name=name, key="machines")
    _charts(page, found, (page.columns.mean, FLIP), name)


def _say(parts: Sequence[str], key: str | None = None) -> None:
    """A sentence; what it is about stands out."""
    st.html(
        tag("p", [tag("b", part) if isinstance(part, Name) else part for part in parts], cls="dr-say", data_say=key)
    )


def _table(page: Page, found: Machines, columns: tuple[Column, ...]) -> Html:
    """A row an arm and machine, arms together."""
    reasons = any(place.why for place in found.places)
    lead = ["arm", "hardware", "campaign", *(["why not"] if reasons else [])]
    lead += ["outliers"] if len(page.sets) > 1 else []
    head = [tag("th", words, scope="col") for words in lead]
    head += [header_cell(column) for column in columns]
    head += [tag("th", "n", scope="col", cls="dr-right"), tag("th", "engine build", scope="col")]
    body = []
    several = len(page.sets)
    for name, places in found.by_arm.items():
        for at, place in enumerate(places):
            span = several if several > 1 else None
            own = [_hardware(found, place, span), _campaign(page, place.campaign, span)]
            own += [_why(place, span)] if reasons else []
            for index, outliers in enumerate(page.sets):
                first = [_arm(page, place, len(places) * several)] if at == index == 0 else []
                mark = [tag("td", outliers)] if several > 1 else []
                cells = [
                    tag("td", figure_cell(place.figure(column, outliers), column), data_figure=column.key)
                    for column in columns
                ]
                cells.append(_n(page, place, outliers))
                last = [tag("td", place.arm.engine, cls="dr-small dr-wrap", rowspan=span)] if index == 0 else []
                body.append(
                    tag(
                        "tr",
                        [*first, *(own if index == 0 else []), *mark, *cells, *last],
                        data_arm=name,
                        data_campaign=place.campaign.run_id,
                        data_outliers=outliers,
                    )
                )
    caption = (
        f"Arm by arm; the machine that took the reference stands first. {here(page)} is the reference itself, run on "
        "another machine. Hardware and engine build are as observed. "
    )
    if reasons:
        caption += "What may not be set against the others of its arm stands last, with the reason, and is in no chart."
    return table(caption.strip(), head, body, label="On other machines", wide=True, compact=True)


def _arm(page: Page, place: Place, span: int) -> Html:
    arm = place.arm
    title = tag("span", arm.title, cls="dr-line dr-title dr-wrap") if arm.title and arm.title != arm.arm else None
    mark = chip("follow-up", "plain", "Outside the frozen protocol: not ranked with its candidates.")
    last = tag("span", mark, cls="dr-line") if arm.role == "follow-up" else None
    return tag("th", arm.arm, title, last, scope="row", rowspan=span if span > 1 else None)


def _hardware(found: Machines, place: Place, span: int | None) -> Html:
    words = found.hardware.get(place.arm.hardware, place.arm.hardware) or "not said"
    return tag("td", words, cls="dr-wrap dr-words", title=place.arm.hardware or None, rowspan=span)


def campaign_link(page: Page, campaign: CampaignRecord) -> Html:
    """The date of another campaign, which leads to its overview."""
    view = replace(state.View(), campaign=campaign.run_id, outliers=page.view.outliers)
    return tag("a", when(campaign), href=f"./?{urlencode(state.encode(view), doseq=True)}", target="_self")


def _campaign(page: Page, campaign: CampaignRecord, span: int | None) -> Html:
    took = "took the reference" if not campaign.reference_run else ""
    lines = [campaign.run_id[:RUN_ID_DIGITS], took, "shown above" if campaign.run_id == page.campaign.run_id else ""]
    small = [tag("span", words, cls="dr-line dr-small dr-wrap") for words in lines if words]
    return tag("td", campaign_link(page, campaign), small, rowspan=span)


def _why(place: Place, span: int | None) -> Html:
    words = [tag("span", reason, cls="dr-line dr-wrap") for reason in place.why]
    return tag("td", words, cls="dr-reasons dr-small", rowspan=span)


def _n(page: Page, place: Place, outliers: str) -> Html:
    figure = place.figure(page.columns.mean, outliers)
    counts = outliers == "with" and any(
        differs_by_outliers(place.figure(column, "with"), place.figure(column, "without"))
        for column in (FLIP, page.columns.mean)
    )
    mark = chip("incl. outlier", "outlier", "Figures in this row count a window declared as an outlier.")
    words = ["" if figure is None else f"{figure.n:,}", tag("span", mark, cls="dr-line") if counts else None]
    return tag("td", words, cls="dr-num dr-right", data_figure="n")


def _csv_rows(page: Page, found: Machines, columns: tuple[Column, ...]) -> list[dict[str, object]]:
    """All figures of the table, at full precision."""
    return [
        {
            **found.facts_of(place),
            "role": place.arm.role,
            **figure_fields(figure),
        }
        for place in found.places
        for outliers in page.sets
        for column in columns
        if (figure := place.figure(column, outliers)) is not None
    ]


def _charts(page: Page, found: Machines, columns: tuple[Column, ...], name: str) -> None:
    machines = list(found.names.values())
    drawn = [place for place in found.places if not place.why]
    for column in columns:
        for outliers in page.sets:
            rows = [
                {
                    "arm": place.arm.arm,
                    "machine": found.names[place.campaign.run_id],
                    **{field: getattr(figure, field) for field in ("low", "high", "n", "state", "reason")},
                    "value": None if is_withheld(figure) else figure.value,
                }
                for place in drawn
                if (figure := place.figure(column, outliers)) is not None
            ]
            if not rows:
                continue
            label = short_name(column.spec) + " mean" if column is not FLIP else FLIP.header
            title = f"{label} ({column.spec}), {UNIT_WORDS[column.unit]}"
            title += f", {OUTLIER_LABELS[outliers]}" if len(page.sets) > 1 else ""
            shown_chart(
                machines_by_arm(
                    pa.Table.from_pylist(rows, schema=_CHART),
                    machines=machines,
                    axis_title=title,
                    number_format=FORMATS[column.unit],
                ),
                name=f"{name}-{column.key}-{outliers}",
                alt=f"{title} by machine, a panel an arm",
                key=f"machines-{column.key}-{outliers}",
            )
    words = "A panel an arm, a mark a machine, with its interval. Each panel has an axis of its own, from zero."
    st.html(tag("p", words, cls="dr-key"))
