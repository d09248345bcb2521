"""Rows: the positions of one arm that a person should read, with the text around them."""

from __future__ import annotations

from typing import Any

import streamlit as st

from dashboard import data, state
from dashboard.components.compared_arms import without_rows
from dashboard.components.export import csv_button
from dashboard.components.listed_rows import listed_table
from dashboard.components.markup import tag
from dashboard.frame import SHOWN_ROLES, Page, control, open_page

LIST_LABELS = {
    "strong_overturn": "strong overturns",
    "dnll": "largest |dNLL|",
    "kl": "largest divergence",
    "support_collapse": "support collapse",
}
SHOWN_ROWS = 200  # more are in the CSV: a page of thousands of texts is not read


def show() -> None:
    page = open_page("Rows")
    names = [arm.arm for role in SHOWN_ROLES for arm in page.arms(role, scored=True)]
    without_rows(page)
    if not names:
        st.html(tag("p", "No arm passes the filters.", cls="dr-say"))
        return
    chosen = page.view.arm if page.view.arm in names else names[0]
    page.row.selectbox("Arm", names, width=215, **control("arm", chosen))
    page.row.segmented_control(
        "List", state.LISTS, format_func=LIST_LABELS.__getitem__, required=True, **control("listed", page.view.listed)
    )
    arm = next(arm for arm in page.campaign.arms if arm.arm == chosen and arm.complete)
    everything = data.listed(page.uri, arm.run_id, arm.complete).to_pylist()
    st.subheader(f"{LIST_LABELS[page.view.listed].capitalize()} of {chosen}", anchor=False)
    st.html(tag("p", _says(page), cls="dr-say"))
    if not everything:
        st.html(tag("p", _why_none(page), cls="dr-say"))
        return
    in_list = [row for row in everything if row["list"] == page.view.listed]
    kept = [row for row in in_list if page.sets != ("without",) or not row["outlier"]]
    if not kept:
        st.html(tag("p", _why_empty(bool(in_list)), cls="dr-say"))
        return
    shown = kept[:SHOWN_ROWS]
    st.html(listed_table(shown, _count(shown, kept), label="Rows"))
    csv_button(kept, name=f"{page.campaign.protocol_name}-{chosen}-{page.view.listed}-{page.view.outliers}", key="rows")


def _says(page: Page) -> str:
    marks, bands = page.protocol.marks, page.protocol.bands
    return {
        "strong_overturn": f"Flips where the reference gave its best token {bands.strong_from:g} or more, the surest "
        "first: the reference had no doubt, and the candidate would have gone another way.",
        "dnll": "Positions whose text became much more or less likely. Confident: either side gave the text's token "
        f"more than {marks.confident_above:g}.",
        "kl": f"Positions with the largest {page.columns.headline}.",
        "support_collapse": "Positions where both lists of best tokens share fewer than two: the divergence over "
        "shared tokens is not defined there, and left out of its means.",
    }[page.view.listed]


def _why_none(page: Page) -> str:
    if not page.has_positions:
        return "No rows: the source gives no positions."
    return "No rows were listed for this arm. A campaign of an older version has none: drift measure --add lists them."


def _why_empty(there: bool) -> str:
    return "Every row of this list lies in a declared outlier window." if there else "No position is in this list."


def _count(shown: list[dict[str, Any]], kept: list[dict[str, Any]]) -> str:
    of = max(row["of"] for row in kept)
    words = f"{len(kept):,} of {of:,} such positions are listed, worst first."
    return f"{words} The first {len(shown):,} are shown, the CSV has all." if len(shown) < len(kept) else words


show()
