"""Do the figures order the arms alike? Kendall's tau of any two of them, over all arms of one reference."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import streamlit as st

from dashboard import data
from dashboard.components.cells import table
from dashboard.components.export import csv_button, shown_chart
from dashboard.components.markup import Html, tag
from drift_runs.charts.palette import OUTLIER_LABELS
from drift_runs.charts.tau_heatmap import tau_heatmap

if TYPE_CHECKING:
    from dashboard.frame import Page


def agreement_section(page: Page) -> None:
    """Draw the section: a heat map, and its numbers as a table."""
    st.subheader("Do the figures agree?", anchor=False)
    table_ = data.agreement(page.uri, page.campaign.run_id, page.run_ids)
    if table_.num_rows == table_["tau"].null_count:
        st.html(tag("p", "No order of arms was compared: it takes three arms with the same figures.", cls="dr-say"))
        return
    turned = " More exact answers are nearer to the reference, so their order is turned round first."
    st.html(
        tag(
            "p",
            "Kendall's tau-b of the arms' order by two figures: 1 is the same order, -1 the opposite one. Few arms say "
            f"little: the number of arms is in every row.{turned if page.columns.answers else ''}{_also_ordered(page)}",
            cls="dr-say",
        )
    )
    for outliers in page.sets:
        rows = [row for row in table_.to_pylist() if row["outliers"] == outliers]
        if not rows:
            continue
        kept = table_.filter([row["outliers"] == outliers for row in table_.to_pylist()])
        if len(page.sets) > 1:
            st.html(tag("p", tag("b", OUTLIER_LABELS[outliers]), cls="dr-key"))
        shown_chart(
            tau_heatmap(kept),
            name=f"{page.campaign.protocol_name}-agreement-{outliers}",
            alt=f"Kendall's tau between figures, {OUTLIER_LABELS[outliers]}",
        )
    shown = [row for row in table_.to_pylist() if row["outliers"] in page.sets]
    with st.expander(f"As a table ({len(shown)} rows)"):
        st.html(_agreement_table(page, shown))
    csv_button(shown, name=f"{page.campaign.protocol_name}-agreement-{page.view.outliers}", key="agreement")


def _also_ordered(page: Page) -> str:
    """Arms that these orders hold although the overview ranks them with no other: all that have the one reference."""
    reasons = page.ranking().reasons
    arms = [arm for role in ("candidate", "follow-up") for arm in page.arms(role, filtered=False)]
    names = [arm.arm for arm in arms if arm.arm in reasons and not arm.reference]
    return f" In the orders though not ranked elsewhere: {', '.join(names)}." if names else ""


def _agreement_table(page: Page, rows: list[dict[str, Any]]) -> Html:
    several = len(page.sets) > 1
    head = [tag("th", word, scope="col") for word in ("figure", "and")]
    head += [tag("th", "outliers", scope="col")] if several else []
    words = ("tau", "arms", "pairs in the same order", "in the opposite order", "tied")
    head += [tag("th", word, scope="col", cls="dr-right") for word in words] + [tag("th", "note", scope="col")]
    body = []
    for row in sorted(rows, key=lambda row: (row["tau"] is None, row["tau"] or 0.0)):
        tau = "none" if row["tau"] is None else f"{row['tau']:.2f}"
        numbers = (tau, row["arms"], row["concordant"], row["discordant"], row["tied"])
        body.append(
            tag(
                "tr",
                tag("th", row["left"].replace("/", " "), scope="row"),
                tag("th", row["right"].replace("/", " "), scope="row"),
                [tag("td", row["outliers"])] if several else [],
                [tag("td", number, cls="dr-num dr-right") for number in numbers],
                tag("td", row["reason"], cls="dr-wrap dr-small"),
            )
        )
    return table("The least agreement first.", head, body, label="Agreement of figures")
