"""The sections of a report, in the order in which a review asks, and the whole of a report from a store."""

from __future__ import annotations

from drift_runs import __version__
from drift_runs.report import elsewhere, html, identity, overview, sound, where, written
from drift_runs.report.content import Content, load_content
from drift_runs.report.decided import when
from drift_runs.report.grid import Section
from drift_runs.tracking.records import CampaignRecord


def sections(content: Content) -> tuple[Section, ...]:
    """Every section; one without a figure says why there is none. That of other machines stands where one compared."""
    machines = elsewhere.elsewhere(content)
    return (
        identity.question(content),
        sound.decisions(content),
        overview.overview(content),
        overview.not_comparable(content),
        *((machines,) if machines is not None else ()),
        identity.arms(content),
        where.panels(content),
        where.ranges(content),
        where.tails(content),
        sound.determinism(content),
        written.branches(content),
        written.rollouts_and_tasks(content),
        sound.proposals(content),
        sound.withheld(content),
    )


def made_by(content: Content, now_ms: int) -> str:
    """What stands below a report: by what and when it was made, and of which windows its figures are."""
    sets = " and ".join(content.sets)
    which = f"Figures {sets} declared outlier windows" if content.campaign.outliers else "No window is declared"
    return (
        f"{which}. Made by drift {__version__} at {when(now_ms)} from run {content.campaign.run_id}. Figures are "
        "rounded to what their interval knows; the CSV files have all digits."
    )


def report_html(uri: str, campaign: CampaignRecord, *, outliers: str, now_ms: int) -> str:
    """The HTML file of a complete campaign. ``outliers``: ``with``, ``without`` or ``both``."""
    content = load_content(uri, campaign, outliers=outliers)
    return html.document(content, sections(content), made=made_by(content, now_ms))
