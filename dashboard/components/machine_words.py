"""What a hardware comparison says in words, computed from its figures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dashboard.components.machines import RUN_ID_DIGITS, Machines, Place
from dashboard.components.markup import Html, tag
from dashboard.figures import FLIP, Column, is_withheld, write_interval, write_number, write_value
from drift_runs.charts.palette import OUTLIER_LABELS
from drift_runs.protocol.model import HERE

if TYPE_CHECKING:
    from dashboard.frame import Page
    from drift_runs.measure.figures import Figure


def here(page: Page) -> str:
    """Name of the arm that is the reference itself on another machine."""
    return f"{page.campaign.reference}{HERE}"


def counted(page: Page, found: Machines) -> list[Html | str]:
    """How many campaigns share the reference, and what else than the hardware differs."""
    took = [campaign for campaign in found.campaigns if not campaign.reference_run]
    many = f"{len(found.campaigns)} campaigns of this protocol compare with the very same rows of "
    where = [" that were taken on ", tag("b", found.names[took[0].run_id]), ". "] if took else [". "]
    said: list[Html | str] = [many, tag("b", page.campaign.reference), *where]
    builds = {place.arm.engine for place in found.places if not place.why}
    if len(builds) > 1:
        said.append("Their engines or builds differ too, so what lies between them is not the hardware alone. ")
    if len({place.arm.hardware for place in found.places}) == 1:
        said.append("What is observed of their hardware reads alike: campaigns tell them apart. ")
    said.append("Figures are over all scored positions, whatever is chosen above.")
    return said


def from_reference(page: Page, found: Machines, place: Place) -> list[Html | str]:
    """How far the other machine lies from the rows that were taken on the first."""
    outliers = page.sets[0]
    origin = found.origin(place.campaign)
    there = tag("b", found.names[origin.run_id]) if origin else f"by run {place.campaign.reference_run[:RUN_ID_DIGITS]}"
    said: list[Html | str] = ["On ", tag("b", found.names[place.campaign.run_id]), f" {page.campaign.reference} lies, "]
    said.append(f"by {page.columns.headline} mean, ")
    mean, flip = place.figure(page.columns.mean, outliers), place.figure(FLIP, outliers)
    said += [_words(mean, page.columns.mean), f" from its rows taken {'on ' if origin else ''}", there]
    if not origin:
        said.append(", which is not in this store")
    said.append(f", with a flip rate of {_words(flip, FLIP)}")
    said.append(f", over {mean.n:,} positions" if mean is not None else "")
    same = place.identical(outliers)
    if same is not None and same.value is not None:
        count = round(same.value * same.n)
        said.append(f"; {count:,} of {same.n:,} rows are the same to the byte")
    said.append(f" ({OUTLIER_LABELS[outliers]})." if len(page.sets) > 1 else ".")
    return said


def _words(figure: Figure | None, column: Column) -> str:
    if figure is None:
        return "not measured"
    if is_withheld(figure):
        return f"withheld ({figure.reason})" if figure.reason else "withheld"
    unit = " nats" if column.unit == "nats" else ""
    interval = write_interval(figure, column.unit)
    return f"{write_value(figure, column.unit)}{unit}{' ' + interval if interval else ''}"


def repeats(page: Page, found: Machines) -> list[Html | str]:
    """How far the model lies from itself on one machine: the size that the other machine's distance is read against."""
    column, outliers = page.columns.mean, page.sets[0]
    said: list[Html | str] = []
    for campaign in found.campaigns:
        own = [place for place in found.floors if place.campaign.run_id == campaign.run_id]
        known = [(place.arm.arm, place.figure(column, outliers)) for place in own]
        words = [
            f"{name} {write_number(figure.value, 'nats', digits=2)}"
            for name, figure in known
            if figure is not None and figure.value is not None
        ]
        if words:
            said += ["; " if said else "", tag("b", found.names[campaign.run_id]), f": {', '.join(words)}"]
    if not said:
        return []
    return [f"Run again on one machine it lies from itself, by {column.spec} mean in nats: ", *said, "."]


def between(page: Page, found: Machines) -> list[Html | str]:
    """The arm that two machines differ most in."""
    column, outliers = page.columns.mean, page.sets[0]
    spans = {}
    for name, places in found.by_arm.items():
        known = [
            (figure.value, place)
            for place in places
            if not place.why and (figure := place.figure(column, outliers)) is not None and figure.value is not None
        ]
        if len(known) > 1:
            ends = min(known, key=lambda item: item[0]), max(known, key=lambda item: item[0])
            spans[name] = (ends[1][0] - ends[0][0], *ends)
    if not spans:
        return []
    arms = "1 arm" if len(spans) == 1 else f"{len(spans)} arms"
    name = max(spans, key=lambda arm: spans[arm][0])
    difference, (_, least), (_, most) = spans[name]
    if difference == 0:
        return [f"{column.spec} mean of each of {arms} is the same on every machine that may be set against another."]
    said: list[Html | str] = [f"Of {arms} on two machines or more, ", tag("b", name), " differs most by "]
    said.append(f"{column.spec} mean: {write_number(difference, 'nats', digits=2)} nats, from ")
    for place, joint in ((least, " to "), (most, ".")):
        figure = place.figure(column, outliers)
        said += [_words(figure, column), " on ", tag("b", found.names[place.campaign.run_id]), joint]
    return said
