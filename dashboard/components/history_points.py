"""One figure over the campaigns of a protocol: which campaigns are comparable, and how each arm moved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from drift_runs.measure.changes import FIRST, UNDECIDED, Change, Point, change_of
from drift_runs.measure.comparability import compare_keys, key_from_tags
from drift_runs.tracking.records import ArmRecord, CampaignRecord

ARM_ROLES = ("candidate", "follow-up")
AROUND = {
    "engine": "engine",
    "hardware": "hardware",
    "system": "system",
    "tool": "drift",
    "version": "protocol version",
}
"""Columns of ``SUMMARY`` that say what a campaign ran on, and what they are called."""
LEADING = ("flip/rate", "kl.full/mean", "kl.full/p95", "kl.full/worst_range.p95", "strong_overturn/rate")
_SCHEMA = pa.schema(
    [
        ("order", pa.int64()),
        *((name, pa.string()) for name in ("when", "arm", "role")),
        *((name, pa.float64()) for name in ("value", "low", "high")),
        ("n", pa.int64()),
        ("change", pa.string()),
        ("floor_value", pa.float64()),
        ("reference", pa.string()),
    ]
)


class Apart(NamedTuple):
    """A campaign of the protocol that is not drawn."""

    campaign: CampaignRecord
    why: str


class Sorted(NamedTuple):
    """The campaigns of a protocol, oldest first."""

    kept: tuple[CampaignRecord, ...]
    apart: tuple[Apart, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One arm in one campaign."""

    campaign: str
    arm: str
    role: str
    row: Mapping[str, Any]
    """Of ``SUMMARY``."""
    floor: float | None
    """Value of the floor that lies farthest from no drift."""
    change: Change


def sort_campaigns(campaigns: Sequence[CampaignRecord], digest: str) -> Sorted:
    """Which campaigns may stand in one line: whole ones of a frozen protocol with this digest."""
    kept, apart = [], []
    for campaign in sorted(campaigns, key=lambda record: (record.started_ms, record.run_id)):
        if not campaign.complete:
            apart.append(Apart(campaign, "incomplete"))
        elif campaign.imported:
            apart.append(Apart(campaign, "imported: its files were made by another tool, and nothing was frozen"))
        elif campaign.draft:
            apart.append(Apart(campaign, "draft: its protocol was not frozen"))
        elif campaign.protocol_sha256 != digest:
            words = f"another digest: version {campaign.protocol_version}, {campaign.protocol_sha256[:12]}"
            apart.append(Apart(campaign, words))
        else:
            kept.append(campaign)
    return Sorted(tuple(kept), tuple(apart))


def figure_names(summary: pa.Table) -> list[str]:
    """``spec/statistic`` of every figure that candidates have, those that lead a review first."""
    kept = summary.filter(pc.is_in(_words(summary, "role"), value_set=pa.array(ARM_ROLES)))
    pairs = kept.select(["spec", "statistic"]).group_by(["spec", "statistic"]).aggregate([]).to_pylist()
    names = sorted(f"{row['spec']}/{row['statistic']}" for row in pairs)
    lead = [name for name in LEADING if name in names]
    return lead + [name for name in names if name not in lead]


def no_drift(spec: str) -> float:
    """The value of a figure without any drift: 1 for shares of what is alike or passed, else 0."""
    return 1.0 if spec.startswith(("rollout.", "sampled.", "task.", "answer.", "determinism")) else 0.0


class History:
    """One figure and set of windows over comparable campaigns, oldest first."""

    def __init__(self, summary: pa.Table, campaigns: Sequence[CampaignRecord], figure: str, outliers: str) -> None:
        self.campaigns = tuple(campaigns)
        self.spec, _, self.statistic = figure.partition("/")
        self.outliers = outliers
        wanted = {"spec": self.spec, "statistic": self.statistic, "outliers": outliers}
        mask = pc.is_in(_words(summary, "campaign"), value_set=pa.array([c.run_id for c in campaigns], pa.string()))
        around = summary.filter(mask)
        for column, value in wanted.items():
            mask = pc.and_(mask, pc.equal(_words(summary, column), value))
        self._rows: dict[str, dict[str, dict[str, Any]]] = {}
        for row in summary.filter(mask).to_pylist():
            self._rows.setdefault(row["campaign"], {})[row["arm"]] = row
        self._around = _around(around)
        self.arms = list(
            dict.fromkeys(
                arm.arm
                for campaign in self.campaigns
                for role in ARM_ROLES
                for arm in campaign.arms
                if arm.role == role and arm.arm in self._rows.get(campaign.run_id, {})
            )
        )
        self.steps: dict[tuple[str, str], Step] = {}
        for arm in self.arms:
            self._follow(arm)

    def _follow(self, arm: str) -> None:
        """The steps of one arm; a campaign that has not measured it is passed over."""
        last: dict[str, tuple[Point, ArmRecord]] = {}
        for campaign in self.campaigns:
            row = self._rows.get(campaign.run_id, {}).get(arm)
            record = next((found for found in campaign.arms if found.arm == arm and found.complete), None)
            if row is None or record is None:
                continue
            floor = self._floor(campaign.run_id, row)
            point = Point(
                value=row["value"],
                low=row["low"],
                high=row["high"],
                floor=None if floor is None else abs(floor - no_drift(self.spec)),
                reason=row["reason"],
            )
            before = last.get(series_of(campaign))
            if before is None:
                change = Change(FIRST, None, taken_words(campaign) if last else "")
            elif reasons := unlike(before[1], record):
                change = Change(UNDECIDED, None, "; ".join(reasons))
            else:
                change = change_of(before[0], point)
            self.steps[campaign.run_id, arm] = Step(
                campaign=campaign.run_id, arm=arm, role=row["role"], row=row, floor=floor, change=change
            )
            last[series_of(campaign)] = (point, record)

    def _floor(self, campaign: str, row: Mapping[str, Any]) -> float | None:
        """The value farthest from no drift among the floors of what the arm was compared with."""
        values = [
            other["value"]
            for other in self._rows.get(campaign, {}).values()
            if other["role"] == "floor" and other["reference"] == row["reference"] and other["value"] is not None
        ]
        values += [row["floor_value"]] if row["floor_value"] is not None else []
        return max(values, key=lambda value: abs(value - no_drift(self.spec))) if values else None

    def before(self, at: int) -> int | None:
        """Which campaign the ``at``-th is set against: the last one before it of its series; None for the first."""
        series = series_of(self.campaigns[at])
        return next((place for place in range(at - 1, -1, -1) if series_of(self.campaigns[place]) == series), None)

    def around(self, at: int) -> list[str]:
        """What changed around the figures since the campaign that the ``at``-th is set against, in words; empty for the
        first."""
        before = self.before(at)
        if before is None:
            return [taken_words(self.campaigns[at])] if at else []
        one, other = (self._around.get(self.campaigns[place].run_id, {}) for place in (before, at))
        return [
            f"{words}: {_change_words(one[column], other[column])}"
            for column, words in AROUND.items()
            if column in one and column in other and one[column] != other[column]
        ]

    def chart_rows(self) -> pa.Table:
        """Rows for the lines, arms in their order."""
        rows = []
        for arm in self.arms:
            for order, campaign in enumerate(self.campaigns, start=1):
                step = self.steps.get((campaign.run_id, arm))
                if step is not None:
                    rows.append(
                        {
                            "order": order,
                            "when": when(campaign),
                            "arm": arm,
                            "role": step.role,
                            **{name: step.row[name] for name in ("value", "low", "high", "n")},
                            "change": step.change.kind,
                            "floor_value": step.floor,
                            "reference": series_of(campaign),
                        }
                    )
        return pa.Table.from_pylist(rows, schema=_SCHEMA)


def series_of(campaign: CampaignRecord) -> str:
    """Which campaigns one line joins: empty where they took their own reference, else the capture of the one that
    travelled.

    A campaign's own reference ran on its own machine, so its figures are the arm's drift alone, whatever the machine.
    Against rows of another machine they hold what lies between the machines as well. A line through both would show
    that as a change of the arm, so each reference that travelled has a line of its own.
    """
    return campaign.reference_capture_id if campaign.reference_run else ""


def taken_words(campaign: CampaignRecord) -> str:
    """What the campaign is set against, where that is another thing than in the campaigns before it."""
    if not campaign.reference_run:
        return "reference: the first shown that took its own"
    return (
        f"reference: the first shown with the rows of run {campaign.reference_run[:8]}, so its figures hold what lies "
        "between the two machines too"
    )


def unlike(before: ArmRecord, after: ArmRecord) -> tuple[str, ...]:
    """Why two comparisons of one arm may not be set against each other over time.

    As :func:`compare_keys`, but for the reference's own rows: another engine makes another capture of the same
    reference, and that is what a history is about.
    """
    one, other = key_from_tags(before.key), key_from_tags(after.key)
    same = replace(other, reference_capture_id=one.reference_capture_id, reference_launch=one.reference_launch)
    return compare_keys(one, same).reasons


def when(campaign: CampaignRecord) -> str:
    """The date of a campaign, to the minute, in this machine's time."""
    return datetime.fromtimestamp(campaign.started_ms / 1000).strftime("%Y-%m-%d %H:%M")


def _around(summary: pa.Table) -> dict[str, dict[str, tuple[str, ...]]]:
    """Campaign -> column of ``AROUND`` -> what its arms say, each once."""
    found: dict[str, dict[str, set[str]]] = {}
    columns = list(AROUND)
    distinct = summary.select(["campaign", *columns]).group_by(["campaign", *columns]).aggregate([])
    for row in distinct.to_pylist():
        for column in columns:
            found.setdefault(row["campaign"], {}).setdefault(column, set()).add(str(row[column]))
    return {
        campaign: {column: tuple(sorted(values - {""})) for column, values in by.items()}
        for campaign, by in found.items()
    }


def _change_words(before: tuple[str, ...], after: tuple[str, ...]) -> str:
    """``a to b``; of long texts only the words that came or went."""
    one, other = " and ".join(before) or "not said", " and ".join(after) or "not said"
    if len(one) + len(other) <= 120:
        return f"{one} to {other}"
    gone = [word for word in one.split() if word not in other.split()]
    come = [word for word in other.split() if word not in one.split()]
    parts = [f"{words} {' '.join(found)}" for words, found in (("gone", gone), ("new", come)) if found]
    return "; ".join(parts) or "the same words in another order"


def _words(table: pa.Table, name: str) -> pa.ChunkedArray:
    column = table[name]
    return column.cast(pa.string()) if pa.types.is_dictionary(column.type) else column
