"""What stands below a figure of free generation: what it counts, and what the reference did on the same tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dashboard import data
from dashboard.figures import GAINED, INVALID, LOST, PASSED, REFERENCE_PASSED, Column, is_withheld

if TYPE_CHECKING:
    from dashboard.frame import Page
    from drift_runs.measure.figures import Figure


def shown_columns(page: Page) -> tuple[Column, ...]:
    """The generated columns that any arm has a figure of over the chosen positions."""
    names = {arm.arm for arm in page.campaign.arms if arm.complete}
    return tuple(
        column
        for column in page.columns.generated
        if any(names & page.book.by_arm(column, page.view.scope, outliers).keys() for outliers in page.sets)
    )


def not_over_these(page: Page) -> str:
    """What a choice of positions takes away, in words; empty when nothing."""
    shown = shown_columns(page)
    lost = [column.header for column in page.columns.generated if column not in shown]
    if not lost:
        return ""
    return f"Not over these positions, because prompts belong to no panel: {' and '.join(lost)}."


def counted_words(page: Page, arm: str, column: Column, outliers: str) -> list[str]:
    """Short lines: of how many roots, prompts or tasks, and which tasks one of arm and reference alone passed."""
    figure = page.figure(arm, column, outliers)
    if figure is None or is_withheld(figure) or column not in page.columns.generated:
        return []
    if column == INVALID:
        return [f"{_count(figure):,} of {_many(figure.n, 'root')}"]
    if column == PASSED:
        return _tasks(page, arm, figure, outliers)
    if column.statistic == "share" and column.spec.endswith("exact"):
        return [f"{_count(figure):,} of {_many(figure.n, 'prompt')}"]
    return [_many(figure.n, "prompt")]


def _tasks(page: Page, arm: str, figure: Figure, outliers: str) -> list[str]:
    lines = [f"{figure.excluded:,} not decided"] if figure.excluded else []
    reference, lost, gained = (page.figure(arm, column, outliers) for column in (REFERENCE_PASSED, LOST, GAINED))
    if reference is None or lost is None or gained is None:
        return lines
    if reference.value is None or lost.value is None or gained.value is None:
        return [*lines, lost.reason]
    return [
        *lines,
        f"reference {reference.value:.0f}/{reference.n}",
        f"lost {lost.value:.0f}, gained {gained.value:.0f}",
    ]


def bounds(page: Page) -> tuple[str, ...]:
    """What the arms' generation was bounded to below the protocol."""
    if not page.columns.generated:
        return ()
    runs = [(page.campaign.run_id, page.campaign.complete)]
    runs += [(arm.run_id, True) for arm in page.campaign.arms if arm.complete]
    return tuple(dict.fromkeys(words for run_id, done in runs for words in data.bounds(page.uri, run_id, done)))


def generation_sentences(page: Page, arms: list[str]) -> list[str]:
    """What is seen of free generation, from the figures; none where the campaign has none."""
    outliers = page.sets[0]
    said = []
    for column in shown_columns(page):
        figures = {arm: page.figure(arm, column, outliers) for arm in arms}
        known = {arm: found for arm, found in figures.items() if found is not None and not is_withheld(found)}
        if not known:
            continue
        if column == INVALID:
            # Roots of an arm without rows are places of others: they stand in no order.
            scored = {arm.arm for arm in page.campaign.arms if arm.scored}
            if known := {arm: found for arm, found in known.items() if arm in scored}:
                said.append(_invalid(known))
        elif column == PASSED:
            said.append(_passed(page, known, outliers))
        elif column.spec.endswith("exact"):
            least = min(known, key=lambda arm: known[arm].value or 0.0)
            figure = known[least]
            said.append(f"Fewest rollouts equal in full: {least} with {_count(figure)} of {_many(figure.n, 'prompt')}.")
    return said


def _invalid(known: dict[str, Figure]) -> str:
    spoilt = {arm: figure for arm, figure in known.items() if figure.value}
    if not spoilt:
        roots = sum(figure.n for figure in known.values())
        return f"No future of an arm is malformed where the reference's is not, of {_many(roots, 'explored root')}."
    worst = max(spoilt, key=lambda arm: spoilt[arm].value or 0.0)
    figure = spoilt[worst]
    floor = "" if figure.floor_value is None else f"; the floor has {figure.floor_value:.0%}"
    return (
        f"Invalid futures: {len(spoilt)} of {_many(len(known), 'arm')} have some, most {worst} with "
        f"{_count(figure)} of {_many(figure.n, 'explored root')}{floor}."
    )


def _passed(page: Page, known: dict[str, Figure], outliers: str) -> str:
    least = min(known, key=lambda arm: known[arm].value or 0.0)
    figure = known[least]
    reference = page.figure(least, REFERENCE_PASSED, outliers)
    beside = "" if reference is None or reference.value is None else f", the reference {reference.value:.0f}"
    return f"Fewest tasks passed: {least} with {_count(figure)} of {_many(figure.n, 'task')}{beside}."


def _count(figure: Figure) -> int:
    """A share is one over n, so the count is whole again."""
    return round((figure.value or 0.0) * figure.n)


def _many(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
