"""What a hardware comparison says in words, computed from its figures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from drift_runs.charts.palette import OUTLIER_LABELS
from drift_runs.report.figures import FLIP, Column, is_withheld, write_interval, write_number, write_value
from drift_runs.report.machines import RUN_ID_DIGITS, Machines, Place, Shown

if TYPE_CHECKING:
    from drift_runs.measure.figures import Figure


class Name(str):
    """What a sentence is about: a machine or an arm. A page may set it apart; elsewhere it is text as any other."""

    __slots__ = ()


def plain(parts: Sequence[str]) -> str:
    """A sentence as text."""
    return "".join(parts)


def counted(shown: Shown, found: Machines) -> list[str]:
    """How many campaigns share the reference, and what else than the hardware differs."""
    took = [campaign for campaign in found.campaigns if not campaign.reference_run]
    campaigns = len(found.campaigns)
    many = (
        "1 campaign of this protocol compares" if campaigns == 1 else f"{campaigns} campaigns of this protocol compare"
    )
    many += " with the very same rows of "
    where = [" that were taken on ", Name(found.names[took[0].run_id]), ". "] if took else [". "]
    said: list[str] = [many, Name(shown.campaign.reference), *where]
    # Of each arm by itself: one protocol may have arms on several engines.
    builds = [{place.arm.engine for place in places if not place.why} for places in found.by_arm.values()]
    if any(len(of_arm) > 1 for of_arm in builds):
        said.append("Their engines or builds differ too, so what lies between them is not the hardware alone. ")
    if campaigns > 1 and len({place.arm.hardware for place in found.places}) == 1:
        said.append("What is observed of their hardware reads alike: campaigns tell them apart. ")
    said.append("Figures are over all scored positions")
    return said


def from_reference(shown: Shown, found: Machines, place: Place) -> list[str]:
    """How far the other machine lies from the rows that were taken on the first."""
    outliers = shown.sets[0]
    origin = found.origin(place.campaign)
    there = Name(found.names[origin.run_id]) if origin else f"by run {place.campaign.reference_run[:RUN_ID_DIGITS]}"
    said: list[str] = ["On ", Name(found.names[place.campaign.run_id]), f" {shown.campaign.reference} lies, "]
    said.append(f"by {shown.columns.headline} mean, ")
    mean, flip = place.figure(shown.columns.mean, outliers), place.figure(FLIP, outliers)
    said += [_words(mean, shown.columns.mean), f" from its rows taken {'on ' if origin else ''}", there]
    if not origin:
        said.append(", which is not in this store")
    said.append(f", with a flip rate of {_words(flip, FLIP)}")
    said.append(f", over {mean.n:,} positions" if mean is not None else "")
    same = place.identical(outliers)
    if same is not None and same.value is not None:
        count = round(same.value * same.n)
        said.append(f"; {count:,} of {same.n:,} rows are the same to the byte")
    said.append(f" ({OUTLIER_LABELS[outliers]})." if len(shown.sets) > 1 else ".")
    return said


def _words(figure: Figure | None, column: Column) -> str:
    if figure is None:
        return "not measured"
    if is_withheld(figure):
        return f"withheld ({figure.reason})" if figure.reason else "withheld"
    unit = " nats" if column.unit == "nats" else ""
    interval = write_interval(figure, column.unit)
    return f"{write_value(figure, column.unit)}{unit}{' ' + interval if interval else ''}"


def repeats(shown: Shown, found: Machines) -> list[str]:
    """How far the model lies from itself on one machine: the size that the other machine's distance is read against."""
    column, outliers = shown.columns.mean, shown.sets[0]
    said: list[str] = []
    for campaign in found.campaigns:
        own = [place for place in found.floors if place.campaign.run_id == campaign.run_id]
        known = [(place.arm.arm, place.figure(column, outliers)) for place in own]
        words = [
            f"{name} {write_number(figure.value, 'nats', digits=2)}"
            for name, figure in known
            if figure is not None and figure.value is not None
        ]
        if words:
            said += ["; " if said else "", Name(found.names[campaign.run_id]), f": {', '.join(words)}"]
    if not said:
        return []
    return [f"Run again on one machine it lies from itself, by {column.spec} mean in nats: ", *said, "."]


def between(shown: Shown, found: Machines) -> list[str]:
    """The arm that two machines differ most in."""
    column, outliers = shown.columns.mean, shown.sets[0]
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
    said: list[str] = [f"Of {arms} on two machines or more, ", Name(name), " differs most by "]
    said.append(f"{column.spec} mean: {write_number(difference, 'nats', digits=2)} nats, from ")
    for place, joint in ((least, " to "), (most, ".")):
        figure = place.figure(column, outliers)
        said += [_words(figure, column), " on ", Name(found.names[place.campaign.run_id]), joint]
    return said
