"""Results from stored rows: found by protocol, by name or by run, and computed again with no model and no server."""

from drift_runs.remeasure.compared import Measured, Remeasured
from drift_runs.remeasure.differences import Compared, differences, different_metrics
from drift_runs.remeasure.generation import Regenerated, judge_again
from drift_runs.remeasure.logged import Logged
from drift_runs.remeasure.stored import Rows, StoredCampaign, StoredRows, TrackedRows, find_campaign, tracked_campaign

__all__ = [
    "Compared",
    "Logged",
    "Measured",
    "Regenerated",
    "Remeasured",
    "Rows",
    "StoredCampaign",
    "StoredRows",
    "TrackedRows",
    "differences",
    "different_metrics",
    "find_campaign",
    "judge_again",
    "tracked_campaign",
]
