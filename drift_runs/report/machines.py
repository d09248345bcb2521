"""Campaigns that share one reference: which machines they ran on, and what each arm is there, side by side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from drift_runs.measure.comparability import key_from_tags, ranked_groups
from drift_runs.measure.figures import Figure
from drift_runs.protocol.model import HERE
from drift_runs.report.figures import FLIP, Column, Columns
from drift_runs.report.hardware import hardware_words
from drift_runs.tracking.summary_rows import DETERMINISM, OF_FIGURE, ROWS_SHARE

if TYPE_CHECKING:
    from drift_runs.protocol.model import Protocol as ProtocolFile
    from drift_runs.tracking.facts import RunFacts
    from drift_runs.tracking.index import Index
    from drift_runs.tracking.records import ArmRecord, CampaignRecord

ROLES = ("candidate", "follow-up")
RUN_ID_DIGITS = 8
_Key = tuple[str, str, str]
"""Spec, statistic, set of windows."""


class Shown(Protocol):
    """A page or a report: the campaign that it is of, and which figures lead there."""

    @property
    def campaign(self) -> CampaignRecord: ...

    @property
    def protocol(self) -> ProtocolFile: ...

    @property
    def columns(self) -> Columns: ...

    @property
    def sets(self) -> tuple[str, ...]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One arm on one machine."""

    campaign: CampaignRecord
    arm: ArmRecord
    figures: Mapping[_Key, Figure]
    """As the index has them, over all scored positions."""
    why: tuple[str, ...] = ()
    """Why it may not be set against the arm on the first machine; empty when it may."""

    def figure(self, column: Column, outliers: str) -> Figure | None:
        return self.figures.get((column.spec, column.statistic, outliers))

    def identical(self, outliers: str) -> Figure | None:
        """The share of rows that are those of the reference to the byte."""
        return self.figures.get((DETERMINISM, ROWS_SHARE, outliers))


@dataclass(frozen=True, slots=True, kw_only=True)
class Machines:
    """Campaigns of one protocol and one reference, the one that took it first."""

    campaigns: tuple[CampaignRecord, ...]
    names: Mapping[str, str]
    """What the machine of each campaign is called, by its run id: no two alike."""
    hardware: Mapping[str, str]
    """Hardware as it was observed -> as a person reads it."""
    places: tuple[Place, ...]
    """Arm by arm, the reference's own first; within an arm in the order of the campaigns, what may not be set against
    the others last."""
    floors: tuple[Place, ...]
    """Repeats of the reference, and of its own arm on another machine."""
    unread: tuple[str, ...]
    """Why figures of some comparison cannot be read."""

    @property
    def by_arm(self) -> dict[str, list[Place]]:
        found: dict[str, list[Place]] = {}
        for place in self.places:
            found.setdefault(place.arm.arm, []).append(place)
        return found

    def facts_of(self, place: Place) -> dict[str, object]:
        """What goes into a file beside each figure of a place: the figure's own fields come behind it."""
        return {
            "arm": place.arm.arm,
            "machine": self.names[place.campaign.run_id],
            "hardware": place.arm.hardware,
            "engine": place.arm.engine,
            "campaign": place.campaign.run_id,
            "run": place.arm.run_id,
            "reference_run": place.campaign.reference_run,
            "not_comparable": "; ".join(place.why),
        }

    def origin(self, campaign: CampaignRecord) -> CampaignRecord | None:
        """The campaign that took the reference of another one; None where it is not in this store."""
        return next((found for found in self.campaigns if found.run_id == campaign.reference_run), None)


def here(shown: Shown) -> str:
    """Name of the arm that is the reference itself on another machine."""
    return f"{shown.campaign.reference}{HERE}"


def machines_of(
    shown: Shown,
    index: Index,
    facts_of: Callable[[CampaignRecord], RunFacts],
    *,
    passes: Callable[[ArmRecord], bool] = lambda arm: True,
    least: int = 2,
) -> Machines | None:
    """The campaigns of a store that compare with the reference of ``shown``; None when there are fewer than ``least``.

    ``passes``: arms of ``shown`` that do not are left out, on every machine.
    """
    shared = index.sharing(shown.campaign)
    if shown.columns.free_running or len(shared) < least:
        return None
    campaigns = tuple(sorted(shared, key=lambda found: (bool(found.reference_run), found.started_ms, found.run_id)))
    summary = index.summary(shown.campaign.protocol_name)
    figures = _figures(summary.table, campaigns, shown)
    everyone = [
        Place(campaign=campaign, arm=arm, figures=figures.get(arm.run_id, {}))
        for campaign in campaigns
        for arm in campaign.arms
        if arm.complete and arm.run_id not in summary.unread
    ]
    places = [place for place in everyone if place.arm.role in ROLES]
    hardware = hardware_words(place.arm.hardware for place in places)
    facts = {campaign.run_id: facts_of(campaign) for campaign in campaigns}
    runs = {arm.run_id for campaign in campaigns for arm in campaign.arms}
    return Machines(
        campaigns=campaigns,
        names=_names(campaigns, places, hardware),
        hardware=hardware,
        places=tuple(_compared(_in_order(shown, places, passes), facts)),
        floors=tuple(place for place in everyone if _of_reference(place)),
        unread=tuple(why for run_id, why in summary.unread.items() if run_id in runs),
    )


def _figures(summary: pa.Table, campaigns: Sequence[CampaignRecord], shown: Shown) -> dict[str, dict[_Key, Figure]]:
    """By run id of the comparison: the figures that the table shows."""
    wanted = {
        "campaign": [found.run_id for found in campaigns],
        "spec": [FLIP.spec, shown.columns.headline, DETERMINISM],
    }
    mask: Any = None
    for name, values in wanted.items():
        hit = pc.is_in(summary[name].cast(pa.string()), value_set=pa.array(values, pa.string()))
        mask = hit if mask is None else pc.and_(mask, hit)
    found: dict[str, dict[_Key, Figure]] = {}
    for row in summary.filter(mask).to_pylist():
        figure = Figure(arm=row["arm"], scope_kind="all", scope="all", **{name: row[name] for name in OF_FIGURE})
        found.setdefault(row["run"], {})[figure.spec, figure.statistic, figure.outliers] = figure
    return found


def _names(campaigns: Sequence[CampaignRecord], places: Sequence[Place], hardware: Mapping[str, str]) -> dict[str, str]:
    """Its hardware in words; with the campaign's id where another one reads alike, or nothing is said of it."""
    own = {
        campaign.run_id: " and ".join(
            dict.fromkeys(
                hardware[place.arm.hardware]
                for place in places
                if place.campaign.run_id == campaign.run_id and place.arm.hardware
            )
        )
        for campaign in campaigns
    }
    often = Counter(own.values())
    return {
        run_id: words if words and often[words] == 1 else f"{words or 'not said'} (campaign {run_id[:RUN_ID_DIGITS]})"
        for run_id, words in own.items()
    }


def _in_order(shown: Shown, places: Sequence[Place], passes: Callable[[ArmRecord], bool]) -> list[Place]:
    """Arms that pass, the reference's own first, then as the protocol names them, then follow-ups."""
    hidden = {arm.arm for arm in shown.campaign.arms if arm.role in ROLES and not passes(arm)}
    order = [here(shown), *(arm.name for arm in shown.protocol.arms)]

    def at(place: Place) -> tuple[int, str]:
        name = place.arm.arm
        return (order.index(name), "") if name in order else (len(order), name)

    return sorted((place for place in places if place.arm.arm not in hidden), key=at)


def _compared(places: Sequence[Place], facts: Mapping[str, RunFacts]) -> list[Place]:
    """The places with why some may not be set against the first of their arm, these last."""
    found: list[Place] = []
    for name in dict.fromkeys(place.arm.arm for place in places):
        members = [place for place in places if place.arm.arm == name]
        groups = ranked_groups({place.arm.run_id: key_from_tags(place.arm.key) for place in members})
        reasons = {run_id: why for group in groups for run_id, why in group.reasons.items()}
        first = next(place for place in members if place.arm.run_id == groups[0].arms[0])
        judged = [
            replace(place, why=(*reasons.get(place.arm.run_id, ()), *_other_files(first, place, facts)))
            for place in members
        ]
        found += sorted(judged, key=lambda place: bool(place.why))
    return found


def _other_files(first: Place, other: Place, facts: Mapping[str, RunFacts]) -> list[str]:
    """A protocol names types of weights and no digest: two machines may have two files under one name."""
    found = []
    for what, known in (("weight file", "weights_sha256"), ("adapter", "adapter_sha256")):
        one, two = (getattr(facts[place.campaign.run_id], known).get(place.arm.run_id, "") for place in (first, other))
        if one and two and one != two:
            found.append(f"another {what} ({one[:12]} and {two[:12]})")
    return found


def _of_reference(place: Place) -> bool:
    """Whether it is a repeat of the reference where that was taken, or of its own arm elsewhere."""
    of = place.arm.reference or place.campaign.reference
    own = f"{place.campaign.reference}{HERE if place.campaign.reference_run else ''}"
    return place.arm.role == "floor" and of == own
