"""Tails: how far the largest divergences reach, and whether they come with history, depth or the end of a text."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import streamlit as st

from dashboard.components.arm_table import figure_fields
from dashboard.components.bucket_table import by_bucket
from dashboard.components.cells import figure_cell, header_cell, table
from dashboard.components.compared_arms import Compared, arm_cell, compared_arms, without_rows
from dashboard.components.export import csv_button, shown_chart
from dashboard.components.markup import tag
from dashboard.components.metric import metric_control
from dashboard.components.tail_lines import read_tails, tail_words
from dashboard.figures import Column, short_name
from dashboard.frame import Page, chip, open_page, positions_control
from drift_runs.charts.palette import OUTLIER_LABELS
from drift_runs.charts.tail_distribution import drawn_rows, nats_domain, tail_distribution

if TYPE_CHECKING:
    from drift_runs.tracking.records import ArmRecord

QUANTILES = ("p50", "p90", "p95", "p99", "p99.9", "max")
BUCKETS = (
    (
        "history",
        "By history",
        "tokens of history",
        "Points are joined only where every one of them has an interval; a hollow point is indicative.",
    ),
    (
        "depth",
        "By depth of the stream",
        "depth, tokens",
        "Where a stream was sampled the share of scored positions stands with each figure, and without an interval "
        "there is no line.",
    ),
    (
        "quarter",
        "By quarter of the window",
        "quarter of the window",
        "Quarters of what the model had read of each window, whatever its length.",
    ),
)


def show() -> None:
    page = open_page("Tails")
    positions_control(page)
    metric_control(page)
    arms = compared_arms(page)
    without_rows(page)
    if not arms.listed:
        st.html(tag("p", "No arm passes the filters.", cls="dr-say"))
        return
    if not page.has_positions:
        st.html(tag("p", "The source gives no positions, so there is no tail to show.", cls="dr-say"))
        return
    floors = page.arms("floor")
    _lines(page, arms, floors)
    _quantiles(page, arms, floors)
    column = page.columns.of_metric(page.view.metric)
    for kind, title, first, says in BUCKETS:
        by_bucket(page, arms, column, kind, title=title, first=first, says=says)


def _columns(page: Page) -> tuple[Column, ...]:
    spec, name = page.columns.headline, short_name(page.columns.headline)
    quantiles = [
        Column(key=item, header=f"{name} {item}, nats", spec=spec, statistic=item, unit="nats") for item in QUANTILES
    ]
    return (
        *quantiles,
        Column(key="tail_share", header="share of the top 5 %", spec=spec, statistic="tail_share", unit="share"),
    )


def _lines(page: Page, arms: Compared, floors: list[ArmRecord]) -> None:
    spec = page.columns.headline
    st.subheader("How much lies at or above", anchor=False)
    columns = {column.statistic: column for column in _columns(page)}
    said = tail_words(page, arms.drawn, tuple(columns[name] for name in ("p99.9", "p99", "p95")), page.sets[0])
    if said and len(page.sets) > 1:
        said.append(f"This is {OUTLIER_LABELS[page.sets[0]]}.")
    st.html(tag("p", " ".join(said) or "No quantile of the tail is known: too few positions.", cls="dr-say"))
    found = {outliers: read_tails(page, [*arms.drawn, *floors], outliers) for outliers in page.sets}
    missing = found[page.sets[0]].without
    if missing:
        words = (
            f"No distribution was stored of {', '.join(missing)}: an older version measured "
            f"{'it' if len(missing) == 1 else 'them'}. This command computes and adds it from the stored rows: "
        )
        command = tag("code", f"drift measure --add {page.campaign.run_id[:8]}")
        st.html(tag("div", tag("p", words, command), cls="dr-notes", data_missing="distribution"))
    drawn = [row for tails in found.values() for row in drawn_rows(tails.steps)]
    if not drawn:
        if len(missing) < len(arms.drawn) + len(floors):
            st.html(tag("p", "No line can be drawn: nowhere do 10 positions lie above 0.", cls="dr-say"))
        return
    domain, least = nats_domain(drawn), min(row["share"] for row in drawn)
    for outliers, tails in found.items():
        marks = [chip("incl. outlier", "outlier")] if outliers == "with" and page.campaign.outliers else []
        st.html(tag("p", tag("b", OUTLIER_LABELS[outliers]), " ", marks, cls="dr-key"))
        chart = tail_distribution(tails.steps, spec=spec, colours=dict(page.colours), domain=domain, share_from=least)
        shown_chart(
            chart,
            name=f"{page.campaign.protocol_name}-tails-{outliers}",
            alt=f"Share of positions at or above each {spec}, one line an arm, {OUTLIER_LABELS[outliers]}",
        )
        if tails.silent:
            words = "; ".join(f"{name}: {why}" for name, why in tails.silent.items())
            st.html(tag("p", f"Without a line: {words}.", cls="dr-key"))
    st.html(
        tag(
            "p",
            "Coloured: arms. Grey and dashed: floors. Thin where fewer than 100 positions lie at or above; a line ends "
            "where fewer than 10 do. Counted in bins, 40 a decade, exact at their edges. Arms past the eighth share "
            "one grey: point at a line for its name. ",
            arms.apart,
            cls="dr-key",
        )
    )
    csv_button(
        [row for tails in found.values() for row in tails.bins],
        name=f"{page.campaign.protocol_name}-distribution-{page.view.outliers}",
        key="distribution",
    )


def _quantiles(page: Page, arms: Compared, floors: list[ArmRecord]) -> None:
    st.subheader("Quantiles and the share of the tail", anchor=False)
    columns = _columns(page)
    several = len(page.sets) > 1
    head = [tag("th", "arm", scope="col")]
    head += [tag("th", "outliers", scope="col")] if several else []
    head += [header_cell(column) for column in columns] + [tag("th", "n", scope="col", cls="dr-right")]
    body, rows = [], []
    for arm in [*arms.listed, *floors]:
        for at, outliers in enumerate(page.sets):
            name = [arm_cell(arm, colour=page.colours.get(arm.arm, ""), rowspan=len(page.sets))] if not at else []
            cells, n, differs = [], 0, False
            for column in columns:
                figure = page.figure(arm.arm, column, outliers)
                if figure is None:
                    cells.append(tag("td", figure_cell(None, column), data_figure=column.key))
                    continue
                n = max(n, figure.n)
                differs = differs or (outliers == "with" and page.includes_outliers(arm.arm, column))
                rows.append({"arm": arm.arm, "role": arm.role, **figure_fields(figure)})
                beyond = []
                if figure.beyond and figure.state == "firm" and column.statistic != "p50":
                    beyond = [tag("span", f"{figure.beyond:,} beyond", cls="dr-line dr-small")]
                # The maximum's reason is the same in every row: the caption says it once.
                shown = replace(figure, reason="") if column.statistic == "max" and figure.value is not None else figure
                cells.append(tag("td", figure_cell(shown, column), beyond, data_figure=column.key))
            mark = [tag("td", outliers)] if several else []
            badge = tag("span", chip("incl. outlier", "outlier"), cls="dr-line") if differs else None
            count = tag("td", f"{n:,}", badge, cls="dr-num dr-right", data_figure="n")
            body.append(tag("tr", name, mark, cells, count, data_arm=arm.arm, data_outliers=outliers))
    caption = (
        "Firm from 100 values beyond a quantile, indicative (greyed) from 10, withheld below. A maximum grows with n "
        "and has no interval. Floors stand last: an arm against itself."
    )
    st.html(table(caption, head, body, label="Quantiles"))
    csv_button(rows, name=f"{page.campaign.protocol_name}-quantiles-{page.view.outliers}", key="quantiles")


show()
