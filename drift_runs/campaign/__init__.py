"""One execution of a protocol: what is asked (request), how it goes (run), and what is logged (logbook)."""

from drift_runs.campaign.facts import campaign_key
from drift_runs.campaign.request import GenerationReport, Outcome, Reporter, Request, Result, Timing
from drift_runs.campaign.run import run_campaign

__all__ = [
    "GenerationReport",
    "Outcome",
    "Reporter",
    "Request",
    "Result",
    "Timing",
    "campaign_key",
    "run_campaign",
]
