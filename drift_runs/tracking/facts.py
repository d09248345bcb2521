"""What a campaign's runs say of themselves beyond their records: digests, machine, version of the tool."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from drift_runs.tracking import index_sqlite, reach, tags
from drift_runs.tracking.mlflow_store import connect, runs_of, tag_is
from drift_runs.tracking.records import CampaignRecord

_PREFIX = "drift."
_HOST_PREFIX = "drift.host."


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """Tags of a campaign and its comparisons that tell two executions apart."""

    tool_version: str
    """Empty where an older version did not write it."""
    host: Mapping[str, str]
    """``engine``, ``hardware``, ``python``, ``system`` of the machine that ran the campaign."""
    weights_sha256: Mapping[str, str]
    """By run id of the arm; only arms whose digest is known."""
    adapter_sha256: Mapping[str, str]
    """By run id of the arm; only arms that an adapter was applied to."""
    failed: Mapping[str, str]
    """By run id of the arm: why it failed; only arms that did."""


def load_facts(uri: str, campaign: CampaignRecord) -> RunFacts:
    """The facts of one campaign; one look at a local store's database, else one search."""
    found: dict[str, Mapping[str, str]] | None = index_sqlite.tags_of(
        uri, [campaign.run_id, *(arm.run_id for arm in campaign.arms)], _PREFIX
    )
    if found is None:
        found = _searched(uri, campaign)
    own = found.pop(campaign.run_id)

    def of_arms(tag: str) -> dict[str, str]:
        return {run_id: its[tag] for run_id, its in found.items() if its.get(tag)}

    return RunFacts(
        tool_version=own.get("drift.tool.version", ""),
        host={name.removeprefix(_HOST_PREFIX): value for name, value in own.items() if name.startswith(_HOST_PREFIX)},
        weights_sha256=of_arms("drift.weights_sha256"),
        adapter_sha256=of_arms("drift.adapter_sha256"),
        failed=of_arms(tags.FAILED_TAG),
    )


def _searched(uri: str, campaign: CampaignRecord) -> dict[str, Mapping[str, str]]:
    client = connect(uri, create=False)
    with reach.asked(uri, "read what a campaign says of itself", campaign.run_id):
        parent = client.get_run(campaign.run_id)
        arms = runs_of(client, [parent.info.experiment_id], tag_is(tags.PARENT_TAG, campaign.run_id))
        return {run.info.run_id: run.data.tags for run in (*arms, parent)}
