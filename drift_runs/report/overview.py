"""Which arm is worse, by how much, and is it noise: the sections that a report begins with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from drift_runs.charts.flip_by_arm import flip_by_arm
from drift_runs.charts.kl_by_arm import kl_by_arm
from drift_runs.charts.palette import OUTLIER_LABELS, VERDICT_LABELS
from drift_runs.report.arm_rows import chart_rows
from drift_runs.report.content import Content
from drift_runs.report.figures import FLIP, FLIP_STRICT, write_value
from drift_runs.report.grid import Picture, Section
from drift_runs.report.rows import by_arm, ordered
from drift_runs.tracking.records import ArmRecord


def overview(content: Content) -> Section:
    """Candidates, follow-ups, what may not be ranked with them, and the floors."""
    columns = content.columns
    ranked = content.ranking.ranked
    candidates = ordered(content, [arm for arm in content.arms("candidate") if arm.arm in ranked], columns.first)
    follow_ups = ordered(content, content.arms("follow-up"), columns.first)
    shown = columns.overview
    grids = []
    if candidates:
        grids.append(by_arm(content, candidates, shown, name="candidates", title="Candidates", says=_reading(content)))
    if follow_ups:
        grids.append(
            by_arm(
                content,
                follow_ups,
                shown,
                name="follow-ups",
                title="Follow-ups",
                says="Measured outside the frozen protocol: shown apart, not ranked with it.",
                reasons={name: why for name, why in content.ranking.reasons.items()},
            )
        )
    floors = content.arms("floor")
    if floors:
        grids.append(
            by_arm(
                content,
                floors,
                (FLIP, FLIP_STRICT, columns.mean) if not columns.free_running else columns.overview,
                name="floors",
                title="Floors",
                says="An arm against itself: what measuring alone does. Never subtracted from a candidate's figure.",
            )
        )
    charted = [*candidates, *(arm for arm in follow_ups if arm.arm in ranked)]
    return Section(
        key="overview",
        title="Which arm, and is it noise",
        says=(sentence(content, candidates),),
        pictures=tuple(_pictures(content, charted)) if charted and not columns.free_running else (),
        grids=tuple(grids),
    )


def not_comparable(content: Content) -> Section:
    """Candidates that may not stand in the ranking, each with the reasons; they are never ranked."""
    apart = sorted(
        (arm for arm in content.arms("candidate") if arm.arm not in content.ranking.ranked), key=lambda arm: arm.arm
    )
    if not apart:
        says = "Every complete candidate may be set against every other: their comparability keys are equal."
        return Section(key="not-comparable", title="What is not comparable", says=(says,))
    says = "Something other than the arm itself differs from the ranked ones, or is not known, so no order is given."
    grid = by_arm(
        content,
        apart,
        content.columns.overview,
        name="not-comparable",
        title="Not ranked",
        reasons=content.ranking.reasons,
    )
    return Section(key="not-comparable", title="What is not comparable", says=(says,), grids=(grid,))


def sentence(content: Content, arms: Sequence[ArmRecord]) -> str:
    """What is seen, in words, from the figures themselves."""
    if not arms:
        return "No candidate is ranked: none is complete, or not all is known that must be equal."
    outliers = content.sets[0]
    column = content.columns.first
    figures = {arm.arm: content.figure(arm.arm, column, outliers) for arm in arms}
    counts = Counter(figure.verdict for figure in figures.values() if figure and figure.verdict)
    many = "1 candidate" if len(arms) == 1 else f"{len(arms)} candidates"
    parts = []
    if counts:
        words = [f"{counts[verdict]} {VERDICT_LABELS[verdict]}" for verdict in VERDICT_LABELS if counts[verdict]]
        parts.append(f"By {content.columns.headline} mean, of {many}: {', '.join(words)}.")
    there = {name: figure for name, figure in figures.items() if figure and figure.value is not None}
    if there:
        free = content.columns.free_running
        worst = (min if free else max)(there, key=lambda name: there[name].value)
        unit = " nats" if column.unit == "nats" else " of the continuations equal in full"
        lead = "The least equal is" if free else "The largest is"
        parts.append(
            f"{lead} {worst} with {write_value(there[worst], column.unit)}{unit} ({OUTLIER_LABELS[outliers]})."
        )
    return " ".join(parts)


def _reading(content: Content) -> str:
    column = content.columns.first
    arms = {arm.arm for arm in content.arms("candidate")}
    figures = [figure for name, figure in content.book.by_arm(column, "all", content.sets[0]).items() if name in arms]
    floors = sorted({figure.floor for figure in figures if figure.floor})
    intervals = sorted({figure.interval for figure in figures if figure.interval})
    notes = sorted({figure.reason for figure in figures if figure.reason})
    text = (
        "A cell: value, [interval], floor, verdict; incl. outlier: it counts a window that is declared as an outlier."
    )
    if not content.columns.free_running:
        text += f" The verdict is decided on the paired difference of {content.columns.headline} mean."
    if floors:
        text += f" Floor: {', '.join(floors)}."
    if intervals:
        text += f" Interval: {'; '.join(intervals)}."
    if len(notes) == 1:
        text += f" {notes[0]}."
    panels = [panel.name for panel in content.protocol.panels]
    if len(panels) > 1:
        text += f" The figures pool the panels {', '.join(panels)}."
    return text


def _pictures(content: Content, arms: Sequence[ArmRecord]) -> list[Picture]:
    headline = content.columns.headline
    sets = ", ".join(OUTLIER_LABELS[outliers] for outliers in content.sets)
    return [
        Picture(
            name="divergence-by-arm",
            says=f"{headline} mean by arm, {sets}; points with their intervals, the dashed line is the floor and the "
            "grey band its own interval.",
            chart=kl_by_arm(chart_rows(content, content.columns.mean, arms), spec=headline),
            half=True,
        ),
        Picture(
            name="flips-by-arm",
            says=f"Flip rate by arm, {sets}.",
            chart=flip_by_arm(chart_rows(content, FLIP, arms)),
            half=True,
        ),
    ]
