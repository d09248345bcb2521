"""The button that hands out the whole campaign as one HTML file."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import streamlit as st

from drift_runs.report.fields import report_name

if TYPE_CHECKING:
    from drift_runs.tracking.records import CampaignRecord


def report_button(uri: str, campaign: CampaignRecord, outliers: str) -> None:
    """Draw the button. The file is made when it is pressed, and not before: it takes some seconds.

    ``outliers``: the choice of the outlier switch. The figures are those of one set where that chooses one, both where
    the page shows them side by side.
    """

    def made() -> str:
        from drift_runs.report import build  # with it come libraries that no page needs before

        return build.report_html(uri, campaign, outliers=outliers, now_ms=int(time.time() * 1000))

    st.download_button(
        "Report (HTML)",
        made,
        file_name=f"{report_name(campaign)}.html",
        mime="text/html",
        key="report.html",
        on_click="ignore",
        icon=":material/description:",
        width="stretch",
        help="The whole campaign in one file with every table and chart. It needs no network and prints to A4. It "
        "takes some seconds; it follows the switch of declared outlier windows.",
    )
