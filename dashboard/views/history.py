"""History: figures over time and over versions of engine and driver."""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from dashboard import data
from dashboard.components.campaign_list import campaign_labels
from dashboard.components.export import csv_button, shown_chart
from dashboard.components.history_points import History, Sorted, figure_names, no_drift, sort_campaigns, when
from dashboard.components.history_table import TRAVELLED, apart_table, history_csv, history_table
from dashboard.components.markup import tag
from dashboard.components.measures import unit_of
from dashboard.figures import write_number
from dashboard.frame import Page, choose, control, open_page
from drift_runs.charts.history_lines import history_lines
from drift_runs.charts.palette import OUTLIER_LABELS
from drift_runs.measure.changes import RULE

if TYPE_CHECKING:
    from drift_runs.tracking.records import CampaignRecord

ON_A_PAGE = 40  # campaigns: more points than that stand on each other
AXES = {"share": ("%", ".3~%"), "nats": ("nats", ".3~g"), "count": ("count", ",d"), "tokens": ("tokens", ".3~g")}


def show() -> None:
    page = open_page("History")
    index = data.index(page.uri)
    counts = index.protocols()
    own = page.campaign.protocol_name
    protocol = choose("history", [own, *(name for name in counts if name != own)])
    row = st.container(horizontal=True)
    row.selectbox(
        f"Protocol ({len(counts):,} in this store)",
        list(counts),
        format_func=lambda name: f"{name} ({counts[name]:,})",
        width=300,
        **control("history", protocol),
    )
    campaigns = index.campaigns(protocol)
    found = sort_campaigns(campaigns, _digest(page, campaigns))
    _say(_counted(page, protocol, found, len(campaigns)))
    _travelled(found.kept)
    if found.kept:
        with st.spinner("Reading the figures of all campaigns …"):
            summary = index.summary(protocol)
        if summary.unread:
            words = f"{len(summary.unread):,} comparisons cannot be read and are left out: "
            st.html(tag("div", words, "; ".join(sorted(set(summary.unread.values()))[:3]), cls="dr-notes"))
        names = figure_names(summary.table)
        if names:
            _lines(page, row, found, summary.table, names)
        else:
            _say("No arm of these campaigns has a figure.")
    _apart(found)


def _say(*parts: object) -> None:
    st.html(tag("p", parts, cls="dr-say"))


def _digest(page: Page, campaigns: tuple[CampaignRecord, ...]) -> str:
    """Which content of the protocol the lines are of: that of the chosen campaign, else of the newest frozen one."""
    shown = [record for record in campaigns if record.run_id == page.campaign.run_id]
    frozen = [record for record in campaigns if record.complete and not record.draft]
    return next((record.protocol_sha256 for record in (*shown, *frozen, *campaigns)), "")


def _counted(page: Page, protocol: str, found: Sorted, total: int) -> list[object]:
    words = f"{len(found.kept):,} of {total:,} campaigns of "
    parts: list[object] = [words, tag("b", protocol), " are comparable: complete, frozen, and of the same digest. "]
    if not found.kept:
        parts.append(
            "So there is nothing to draw. A history begins with two campaigns of a frozen protocol: freeze it with "
        )
        parts += [tag("code", f"drift freeze {protocol}.toml"), " and run it with "]
        parts += [tag("code", f"drift run {protocol}.toml"), "."]
    elif len(found.kept) == 1:
        parts.append("A second one of the same protocol makes a history: run it again with another build or driver, ")
        parts += [tag("code", f"drift run {protocol}.toml"), ". Until then each arm has one point."]
    return parts


def _travelled(kept: tuple[CampaignRecord, ...]) -> None:
    travelled = [campaign for campaign in kept if campaign.reference_run]
    if travelled:
        many = "1 of them is" if len(travelled) == 1 else f"{len(travelled):,} of them are"
        st.html(
            tag(
                "p",
                many,
                " marked ",
                tag("b", "reference travelled"),
                ". ",
                TRAVELLED,
                cls="dr-say",
                data_say="travelled",
            )
        )


def _lines(
    page: Page, row: st.delta_generator.DeltaGenerator, found: Sorted, summary: object, names: list[str]
) -> None:
    # The field is another page's too, with other figures: what is not one of these is left alone.
    figure = page.view.plot if page.view.plot in names else names[0]
    row.selectbox(f"Figure ({len(names):,})", names, width=300, **control("plot", figure))
    kept = _shown(page, row, found.kept)
    spec, _, statistic = figure.partition("/")
    unit = unit_of(spec, statistic)
    words, number_format = AXES.get(unit, ("", ".3~g"))
    histories = []
    for outliers in page.sets:
        history = History(summary, kept, figure, outliers)
        if not history.arms:
            _say(f"No candidate of these campaigns has {figure}, {OUTLIER_LABELS[outliers]}.")
            continue
        histories.append(history)
        if len(page.sets) > 1:
            st.html(tag("p", tag("b", OUTLIER_LABELS[outliers]), cls="dr-key"))
        _say(_sentence(history, unit))
        marks = [at + 1 for at in range(1, len(kept)) if history.around(at)]
        shown_chart(
            history_lines(
                history.chart_rows(),
                marks,
                axis_title=f"{figure}{', ' + words if words else ''}",
                number_format=number_format,
                colours=page.colours,
                no_drift=no_drift(spec),
            ),
            name=f"{page.campaign.protocol_name}-history-{figure}-{outliers}",
            alt=f"{figure} over campaigns, one line an arm; the band is the largest floor",
            key=f"history-{outliers}",
        )
    if not histories:
        return
    key = "One line an arm, points with their intervals; the band is the largest floor of each campaign; a dashed line "
    key += "stands where something around the figures changed: see the table. "
    if any(campaign.reference_run for campaign in kept):
        key += "Hollow marks and dotted lines are of references that travelled. "
    key += f"{RULE} It is a rule of display and no test."
    st.html(tag("p", key, cls="dr-key"))
    for history in histories:
        caption = f"{figure}, {OUTLIER_LABELS[history.outliers]}, newest first. What is recorded of engine build, "
        caption += "backend and driver, hardware, system and version is compared with the campaign before"
        caption += " of the same reference." if any(campaign.reference_run for campaign in kept) else "."
        st.html(history_table(history, unit, caption))
    csv_button(
        history_csv(histories),
        name=f"{page.campaign.protocol_name}-history-{figure}-{page.view.outliers}",
        key="history",
    )


def _shown(
    page: Page, row: st.delta_generator.DeltaGenerator, kept: tuple[CampaignRecord, ...]
) -> tuple[CampaignRecord, ...]:
    """The campaigns of the chosen page, the newest on the first."""
    if len(kept) <= ON_A_PAGE:
        return kept
    pages = -(-len(kept) // ON_A_PAGE)
    numbers = [str(number) for number in range(1, pages + 1)]
    chosen = page.view.shown if page.view.shown in numbers else numbers[0]
    row.selectbox(f"Page ({pages:,}, the newest first)", numbers, width=180, **control("shown", chosen))
    last = len(kept) - ON_A_PAGE * (int(chosen) - 1)
    first = max(last - ON_A_PAGE, 0)
    _say(f"Shown are campaigns {first + 1:,} to {last:,} of {len(kept):,}, by time.")
    return kept[first:last]


def _sentence(history: History, unit: str) -> list[object]:
    """What moved between the last two campaigns, and how often anything did."""
    if len(history.campaigns) < 2:
        return [f"One campaign, {when(history.campaigns[0])}: there is no change to look at."]
    before = history.before(len(history.campaigns) - 1)
    if before is None:
        words = (
            " is the first shown with the rows of its reference"
            if history.campaigns[-1].reference_run
            else (" is the first shown that took its own reference")
        )
        return ["The newest campaign, ", when(history.campaigns[-1]), words, ": there is no change to look at."]
    last = history.campaigns[-1].run_id
    moved = [step for step in history.steps.values() if step.change.kind == "above"]
    now = [step for step in moved if step.campaign == last]
    here = [step for step in history.steps.values() if step.campaign == last]
    undecided = sum(step.change.kind == "undecided" for step in here)
    of = "" if before == len(history.campaigns) - 2 else "of the same reference "
    parts: list[object] = [f"Between the last two campaigns {of}"]
    if now:
        for at, step in enumerate(now):
            by = write_number(abs(step.change.difference or 0.0), unit, digits=2).replace(" %", " percentage points")
            side = "up" if (step.change.difference or 0.0) > 0 else "down"
            parts += [", " if at else "", tag("b", step.arm), f" went {side} by {by}"]
        parts.append(f", above the floor; of {len(here):,} arms {len(now):,} moved so. ")
    else:
        parts.append(f"none of {len(here):,} arms changed above the floor. ")
    if undecided:
        parts.append(f"{undecided:,} could not be decided. ")
    earlier = len(moved) - len(now)
    if len(history.campaigns) > 2:
        parts.append(f"Before that, {earlier:,} changes of an arm were above the floor. ")
    around = history.around(len(history.campaigns) - 1)
    parts.append(
        f"What changed around them: {'; '.join(around)}." if around else "Nothing recorded changed around them."
    )
    return parts


def _apart(found: Sorted) -> None:
    if not found.apart:
        return
    st.subheader("Not comparable", anchor=False)
    _say(f"{len(found.apart):,} more campaigns stand apart and are in no line.")
    shown = found.apart[-ON_A_PAGE:]
    titles = campaign_labels([item.campaign for item in shown])
    if len(shown) < len(found.apart):
        _say(f"The newest {len(shown):,} of {len(found.apart):,}; the CSV has all.")
    st.html(apart_table(shown, titles))
    rows = [
        {
            "campaign": item.campaign.run_id,
            "started_ms": item.campaign.started_ms,
            "version": item.campaign.protocol_version,
            "digest": item.campaign.protocol_sha256,
            "why": item.why,
        }
        for item in found.apart
    ]
    csv_button(rows, name="campaigns-apart", key="apart")


show()
