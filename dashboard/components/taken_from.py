"""Where a campaign's reference came from, when another run took it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from dashboard import data
from dashboard.components.machine_table import campaign_link
from dashboard.components.markup import tag
from drift_runs.report.hardware import hardware_words
from drift_runs.report.identity import taken_elsewhere

if TYPE_CHECKING:
    from dashboard.frame import Page


def taken_from(page: Page) -> None:
    """Draw from which run the reference came, and what follows; nothing where the campaign took its own."""
    campaign = page.campaign
    if not campaign.reference_run:
        return
    st.subheader("Where the reference came from", anchor=False)
    taken = data.index(page.uri).campaign(campaign.reference_run)
    said: list[object] = [taken_elsewhere(campaign), " "]
    if taken is None:
        said.append("That run is not in this store.")
    else:
        arms = tuple(arm.run_id for arm in taken.arms if arm.complete)
        host = data.facts(page.uri, taken.run_id, arms, taken).host
        if host.get("hardware"):
            host = {**host, "hardware": hardware_words([host["hardware"]])[host["hardware"]]}
        known = [f"{name} {host[name]}" for name in ("hardware", "engine", "system") if host.get(name)]
        said += ["It was begun ", campaign_link(page, taken), f" on: {'; '.join(known)}." if known else "."]
    st.html(tag("p", said, cls="dr-say", data_say="reference"))
