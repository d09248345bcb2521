"""The button that hands out the whole campaign as one HTML file."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import streamlit as st

from drift_runs.report import build
from drift_runs.report.files import report_name

if TYPE_CHECKING:
    from dashboard.frame import Page


def report_button(page: Page, *, key: str = "report") -> None:
    """Draw the button. The file is made when it is pressed, and not before: it takes some seconds.

    Its figures are those of the outlier switch where that chooses one set, both where the page shows them side by side.
    """
    uri, campaign, outliers = page.uri, page.campaign, page.view.outliers
    st.download_button(
        "Report (HTML)",
        lambda: build.report_html(uri, campaign, outliers=outliers, now_ms=int(time.time() * 1000)),
        file_name=f"{report_name(campaign)}.html",
        mime="text/html",
        key=f"{key}.html",
        on_click="ignore",
        icon=":material/description:",
        help="One file with every table and chart. It needs no network and prints to A4. It takes some seconds; "
        "it follows the switch of declared outlier windows.",
    )
