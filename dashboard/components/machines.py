"""The campaigns of the page's store that share its reference: what a report says of them, read through the caches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dashboard import data
from drift_runs.report import machines

if TYPE_CHECKING:
    from dashboard.frame import Page
    from drift_runs.tracking.facts import RunFacts
    from drift_runs.tracking.records import CampaignRecord


def machines_of(page: Page) -> machines.Machines | None:
    """The campaigns of the store that share the page's reference on other machines; None when there is none."""

    def facts(campaign: CampaignRecord) -> RunFacts:
        arms = tuple(arm.run_id for arm in campaign.arms if arm.complete)
        return data.facts(page.uri, campaign.run_id, arms, campaign)

    return machines.machines_of(page, data.index(page.uri), facts, passes=page.passes)
