"""One reference, several machines: who took it, who compared with it, and what each arm is on which of them."""

from __future__ import annotations

from dataclasses import asdict

from drift_runs.report.content import Content
from drift_runs.report.figures import FLIP
from drift_runs.report.grid import Cell, Grid, Row, Section, count, figure_cell, words
from drift_runs.report.machine_words import between, counted, from_reference, plain, repeats
from drift_runs.report.machines import RUN_ID_DIGITS, Machines, Place, here
from drift_runs.report.rows import SET_WORDS

UNREAD_SHOWN = 3


def elsewhere(content: Content) -> Section | None:
    """The machines of one reference; None for a campaign whose reference nobody else has compared with."""
    found = content.machines
    if found is None:
        return None
    shared = {name: places for name, places in found.by_arm.items() if len(places) > 1 or name == here(content)}
    says = [plain(counted(content, found)) + "."]
    says += [plain(from_reference(content, found, place)) for place in shared.get(here(content), ())]
    says += [plain(parts) for parts in (repeats(content, found), between(content, found)) if parts]
    if alone := [name for name in found.by_arm if name not in shared]:
        says.append(f"On one machine only, and so not in the table: {', '.join(alone)}.")
    if found.unread:
        says.append(f"Left out, because it cannot be read: {'; '.join(found.unread[:UNREAD_SHOWN])}.")
    places = [place for members in shared.values() for place in members]
    grids = (_grid(content, found, places),) if places else ()
    return Section(key="machines", title="On other machines", says=tuple(says), grids=grids)


def _grid(content: Content, found: Machines, places: list[Place]) -> Grid:
    """A row an arm, machine and set of windows, arms together."""
    several = len(content.sets) > 1
    reasons = any(place.why for place in places)
    columns = (FLIP, content.columns.mean)
    head = ["arm", "hardware", "campaign", "engine build", *(["why not"] if reasons else [])]
    head += [*(["outlier windows"] if several else []), *(f"{column.header} ({column.spec})" for column in columns)]
    rows, fields = [], []
    before = ""
    for place in places:
        for at, outliers in enumerate(content.sets):
            cells = [
                words("" if place.arm.arm == before else place.arm.arm),
                *(_of_place(content, found, place, reasons) if at == 0 else [words("")] * (3 + reasons)),
            ]
            before = place.arm.arm
            if several:
                cells.append(words(SET_WORDS[outliers]))
            figures = [place.figure(column, outliers) for column in columns]
            n = None if place.why else next((figure.n for figure in figures if figure is not None), None)
            cells += [
                Cell(text="not comparable", figure=column.key, grey=True) if place.why else figure_cell(figure, column)
                for figure, column in zip(figures, columns, strict=True)
            ]
            rows.append(
                Row(cells=(*cells, count(n), _rows(content, place, outliers)), arm=place.arm.arm, outliers=outliers)
            )
            fields += [
                {
                    **found.facts_of(place),
                    **{name: value for name, value in asdict(figure).items() if name != "arm"},
                }
                for figure in (*figures, place.identical(outliers) if _is_here(content, place) else None)
                if figure is not None
            ]
    says = (
        "Arm by arm; the machine that took the reference stands first. Hardware and engine build are as observed. "
        f"{here(content)} is the reference itself, run on another machine: where all of its rows are those of the "
        "reference to the byte, nothing that a row holds tells the two machines apart."
    )
    return Grid(
        name="machines",
        title="The machines of this reference",
        head=(*head, "n", "rows equal to the reference's"),
        rows=tuple(rows),
        says=says,
        fields=tuple(fields),
    )


def _of_place(content: Content, found: Machines, place: Place, reasons: bool) -> list[Cell]:
    campaign = place.campaign
    took = "took the reference"
    if campaign.reference_run:
        took = f"compared with it: --reference {campaign.reference_run[:RUN_ID_DIGITS]}"
    own = "this report's" if campaign.run_id == content.campaign.run_id else ""
    cells = [
        words(found.hardware.get(place.arm.hardware) or place.arm.hardware or "not said"),
        words(campaign.run_id[:RUN_ID_DIGITS], took, own),
        words(place.arm.engine or "not said"),
    ]
    return [*cells, words("; ".join(place.why))] if reasons else cells


def _is_here(content: Content, place: Place) -> bool:
    return place.arm.arm == here(content)


def _rows(content: Content, place: Place, outliers: str) -> Cell:
    """Of the reference's own arm: how many of its rows are the reference's to the byte."""
    if not _is_here(content, place):
        return words("-", grey=True)
    same = place.identical(outliers)
    if same is None or same.value is None:
        return words("not known", same.reason if same is not None else "", grey=True)
    equal = round(same.value * same.n)
    left_out = f"{same.excluded:,} without a hash" if same.excluded else ""
    told = "all" if equal == same.n else "none" if equal == 0 else "some"
    return Cell(
        text=f"{equal:,} of {same.n:,}", small=tuple(filter(None, (told, left_out))), figure="rows_equal", number=True
    )
