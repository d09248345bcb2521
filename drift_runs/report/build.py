"""The sections of a report, in the order in which a review asks."""

from __future__ import annotations

from drift_runs.report import identity, overview, sound, where, written
from drift_runs.report.content import Content
from drift_runs.report.grid import Section


def sections(content: Content) -> tuple[Section, ...]:
    """Every section; one without a figure says why there is none."""
    return (
        identity.question(content),
        sound.decisions(content),
        overview.overview(content),
        overview.not_comparable(content),
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
