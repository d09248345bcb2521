"""What the arms write: outcomes of roots beside the null, rollouts, sampled drift, tasks."""

from __future__ import annotations

from collections.abc import Sequence

from drift_runs.generate.outcomes import OUTCOMES
from drift_runs.measure.figures import Figure
from drift_runs.report.content import Content
from drift_runs.report.figures import (
    GAINED,
    INVALID,
    LOST,
    PASSED,
    REFERENCE_PASSED,
    ROLLOUTS,
    Column,
    is_withheld,
)
from drift_runs.report.grid import Cell, Grid, Row, Section, count, figure_cell, words
from drift_runs.report.rows import by_arm, figure_fields, present
from drift_runs.tracking.records import ArmRecord

BRANCHES = "branches"
INVALID_ANY = Column(
    key="invalid_any", header="invalid, both sides' too", spec=BRANCHES, statistic="invalid_any", unit="share"
)
RESOLVED = Column(key="resolved", header="resolved", spec=BRANCHES, statistic="resolved", unit="share")
EXPLORED = Column(key="explored", header="explored", spec=BRANCHES, statistic="explored", unit="count")
ROLLOUT_COLUMNS = (
    *ROLLOUTS,
    Column(
        key="early_stop", header="early stops", spec="rollout.early_stop", statistic="candidate.count", unit="count"
    ),
    Column(
        key="early_stop_reference",
        header="early stops, reference",
        spec="rollout.early_stop",
        statistic="reference.count",
        unit="count",
    ),
    Column(key="loop", header="loops", spec="rollout.loop", statistic="candidate.count", unit="count"),
    Column(
        key="loop_reference", header="loops, reference", spec="rollout.loop", statistic="reference.count", unit="count"
    ),
)
TASK_COLUMNS = (
    PASSED,
    REFERENCE_PASSED,
    LOST,
    GAINED,
    Column(key="unknown", header="not decided", spec="task.passed", statistic="unknown", unit="count"),
)
NOTHING = (
    "Nothing was written freely in this campaign, so it says nothing of futures, rollouts and tasks. A protocol with "
    "[branches], [rollouts] or [[tasks]] does, when it is run without bounds."
)


def branches(content: Content) -> Section:
    """What became of the explored flips of each arm, and of the floors': the null."""
    arms = [*content.judged, *content.arms("floor")]
    explored = [arm for arm in arms if content.figure(arm.arm, EXPLORED, content.sets[0])]
    if not explored:
        return Section(key="branches", title="What became of the flips", says=(NOTHING,))
    says = [
        "Each root is a flip that was followed on both sides, and nobody was pulled back. The shares are of the roots "
        "that were explored, not of all flips, and no rate of failing tools.",
        "A floor's rows are the null: the engine against itself at places that candidates were followed from.",
    ]
    return Section(
        key="branches",
        title="What became of the flips",
        says=(*says, *_bounded(content)),
        grids=(_invalid(content, explored), _outcomes(content, explored)),
    )


def _bounded(content: Content) -> list[str]:
    if not content.bounds:
        return []
    return [f"Generation was bounded below the protocol: {'; '.join(content.bounds)}."]


def _names(content: Content, arms: Sequence[ArmRecord]) -> list[tuple[str, str]]:
    """(name, role) of arms and of the decodes that a grammar held, each behind the arm that it holds."""
    found = []
    for arm in arms:
        found.append((arm.arm, "the null" if arm.role == "floor" else arm.role))
        found += [
            (item.name, f"{arm.arm} held to the grammar {item.grammar}")
            for item in content.protocol.constrained
            if item.arm == arm.arm and content.figure(item.name, EXPLORED, content.sets[0])
        ]
    return found


def _invalid(content: Content, arms: Sequence[ArmRecord]) -> Grid:
    columns = (INVALID, INVALID_ANY, RESOLVED)
    rows, figures = [], []
    several = len(content.sets) > 1
    for name, role in _names(content, arms):
        for outliers in content.sets:
            found = [content.figure(name, column, outliers) for column in columns]
            explored = content.figure(name, EXPLORED, outliers)
            cells = [words(name, role) if outliers == content.sets[0] else words("")] + (
                [words(outliers)] if several else []
            )
            cells += [figure_cell(figure, column) for figure, column in zip(found, columns, strict=True)]
            cells.append(_explored(content, name, outliers, explored))
            rows.append(Row(cells=tuple(cells), arm=name, outliers=outliers))
            figures += [figure for figure in (*found, explored) if figure is not None]
    head = ["arm", *(["outlier windows"] if several else []), *(f"{column.header}" for column in columns)]
    return Grid(
        name="invalid-futures",
        title="Invalid futures",
        head=(*head, "explored of existing"),
        rows=tuple(rows),
        says="Invalid: the arm's structure does not parse or fits no schema, and the reference's does.",
        fields=figure_fields(figures),
    )


def _explored(content: Content, name: str, outliers: str, explored: Figure | None) -> Cell:
    if explored is None or explored.value is None:
        return words("not explored", grey=True)
    existing = content.figure(
        name, Column(key="", header="", spec=BRANCHES, statistic="existing", unit="count"), outliers
    )
    if existing is None or existing.value is None:
        # Of an arm without rows its reason says at how many places it was asked.
        return Cell(text=f"{explored.value:,.0f} {explored.reason}".rstrip(), number=True, figure="explored")
    return Cell(text=f"{explored.value:,.0f} of {existing.value:,.0f} flips", number=True, figure="explored")


def _outcomes(content: Content, arms: Sequence[ArmRecord]) -> Grid:
    several = len(content.sets) > 1
    columns = [Column(key=name, header=name, spec=BRANCHES, statistic=name, unit="count") for name in OUTCOMES]
    rows, figures = [], []
    for name, role in _names(content, arms):
        for outliers in content.sets:
            found = [content.figure(name, column, outliers) for column in columns]
            figures += [figure for figure in found if figure is not None]
            explored = content.figure(name, EXPLORED, outliers)
            cells = [words(name, role) if outliers == content.sets[0] else words("")] + (
                [words(outliers)] if several else []
            )
            cells += [_counted(figure, column) for figure, column in zip(found, columns, strict=True)]
            roots = None if explored is None or explored.value is None else round(explored.value)
            rows.append(Row(cells=(*cells, count(roots)), arm=name, outliers=outliers))
    head = ["arm", *(["outlier windows"] if several else []), *OUTCOMES, "roots"]
    return Grid(
        name="outcomes",
        title="Outcomes",
        head=tuple(head),
        rows=tuple(rows),
        says="The first rule that applies decides, in the order of the columns.",
        fields=figure_fields(figures),
    )


def _counted(figure: Figure | None, column: Column) -> Cell:
    if figure is None or is_withheld(figure):
        return words("-", grey=True)
    return Cell(text=f"{figure.value:,.0f}", number=True, figure=column.key, grey=figure.value == 0)


def rollouts_and_tasks(content: Content) -> Section:
    """Greedy rollouts, sampled decoding with common noise, and tasks, each beside the floors."""
    arms = [*content.judged, *content.arms("floor")]
    grids = []
    rolled = present(content, arms, ROLLOUT_COLUMNS)
    if rolled:
        have = [arm for arm in arms if content.figure(arm.arm, rolled[0], content.sets[0])]
        grids.append(
            by_arm(
                content,
                have,
                rolled,
                name="rollouts",
                title="Rollouts",
                says="Greedy continuations of the protocol's prompts beside the reference's, every one as long. Floors "
                "are the null.",
                counted="prompts",
            )
        )
    sampled = [
        Column(key=spec, header=spec.partition(".")[2], spec=spec, statistic="share", unit="share")
        for spec in content.written.specs
        if spec.startswith(("sampled.exact", "sampled.prefix", "sampled.agree")) and "dlogprob" not in spec
    ]
    if sampled:
        have = [arm for arm in arms if content.figure(arm.arm, sampled[0], content.sets[0])]
        grids.append(
            by_arm(
                content,
                have,
                sampled,
                name="sampled",
                title="Sampled decoding with common noise",
                says="Both sides draw with the same noise: what differs is what the arm changes.",
                counted="pairs",
            )
        )
    passed = present(content, arms, TASK_COLUMNS)
    if passed:
        have = [arm for arm in arms if content.figure(arm.arm, passed[0], content.sets[0])]
        grids.append(
            by_arm(
                content,
                have,
                passed,
                name="task-passes",
                title="Tasks",
                says="Each arm's own answers, checked.",
                counted="tasks",
            )
        )
    says = _bounded(content) if grids else [NOTHING]
    return Section(key="rollouts", title="Rollouts and tasks", says=tuple(says), grids=tuple(grids))
