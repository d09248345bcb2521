"""Everything of a campaign that a report tells, read from the store once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from drift_runs import schema
from drift_runs.errors import NotMeasured, StoreError
from drift_runs.measure.determinism import DeterminismSummary, summarise_determinism
from drift_runs.measure.figures import Figure
from drift_runs.protocol.model import Protocol
from drift_runs.report.figures import Book, Column, Columns, columns_of
from drift_runs.report.machines import Machines, machines_of
from drift_runs.report.ranking import Ranking, ranking_of
from drift_runs.tracking import reader
from drift_runs.tracking.decisions import History, load_decisions
from drift_runs.tracking.facts import RunFacts, load_facts
from drift_runs.tracking.index import open_index
from drift_runs.tracking.records import ArmRecord, CampaignRecord

OUTLIER_CHOICES = ("with", "without", "both")
LEAST_RUN_ID = 4
"""Characters of a run id that name a campaign."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """A campaign as a report sees it."""

    campaign: CampaignRecord
    protocol: Protocol
    facts: RunFacts
    sets: tuple[str, ...]
    """Sets of windows that figures are given over: ``with``, ``without``, or both."""
    book: Book
    columns: Columns
    written: Book
    """Figures of free generation."""
    ranking: Ranking
    decisions: History
    bounds: tuple[str, ...]
    """What generation was bounded to below the protocol."""
    tables: Mapping[str, pa.Table] = field(repr=False)
    """Long tables of all arms by name, for the CSV files."""
    machines: Machines | None = None
    """Campaigns that compare with the very same rows of a reference, where one of them did not take it itself."""

    def arms(self, *roles: str) -> list[ArmRecord]:
        """Complete arms of some roles, in the order of the store."""
        return [arm for role in roles for arm in self.campaign.arms if arm.role == role and arm.complete]

    @property
    def judged(self) -> list[ArmRecord]:
        """Candidates and follow-ups."""
        return self.arms("candidate", "follow-up")

    def figure(self, arm: str, column: Column, outliers: str) -> Figure | None:
        """A figure over all positions, or of free generation."""
        return self.book.by_arm(column, "all", outliers).get(arm)

    def determinism(self, arm: str, outliers: str) -> DeterminismSummary:
        """Whether an arm's rows are those of what it was set against, over a set of windows."""
        table = self.tables["determinism"]
        mine = table.filter(pc.equal(table["arm"], arm))
        if outliers == "without":
            declared = pa.array([window for window, _ in self.campaign.outliers], pa.string())
            mine = mine.filter(pc.invert(pc.is_in(mine["window"], value_set=declared)))
        return summarise_determinism(mine)


def find_campaign(uri: str, wanted: str) -> CampaignRecord:
    """A campaign by ``latest``, the beginning of its run id, or the name of its protocol (the newest of that name).

    ``NotMeasured`` where there is none, or none is complete.
    """
    index = open_index(uri)
    names = index.protocols()
    if not names:
        raise NotMeasured("the store holds no campaign", where=uri_shown(uri), todo="run a protocol first: drift demo")
    if wanted == "latest" or wanted in names:
        found = index.newest(None if wanted == "latest" else wanted)
    else:
        found = index.beginning(wanted) if len(wanted) >= LEAST_RUN_ID else None
    if found is None:
        raise NotMeasured(
            f"no campaign {wanted!r}",
            where=uri_shown(uri),
            expected=f"latest, a run id, or one of {', '.join(names)}",
        )
    if not found.complete:
        raise NotMeasured(
            f"campaign {found.run_id[:8]} of {found.protocol_name} is not complete",
            where=uri_shown(uri),
            todo="start its command again: it goes on where it stopped",
        )
    return found


def load_content(uri: str, campaign: CampaignRecord, *, outliers: str = "both") -> Content:
    """Read a complete campaign. ``outliers`` is one of :data:`OUTLIER_CHOICES`; without a declared window the figures
    with and without are the same, and are given once."""
    chosen = ("with", "without") if outliers == "both" else (outliers,)
    sets = chosen if campaign.outliers else ("with",)
    protocol = Protocol.model_validate_json(reader.load_protocol_json(uri, campaign.run_id))
    arms = [arm for arm in campaign.arms if arm.complete]
    book = Book(
        [reader.load_figures(uri, arm.run_id) for arm in arms],
        [reader.load_generation_figures(uri, arm.run_id) for arm in arms],
    )
    written = Book([book.generated])
    bounds = dict.fromkeys(reader.load_bounds(uri, campaign.run_id))
    for arm in arms:
        bounds |= dict.fromkeys(reader.load_bounds(uri, arm.run_id))

    def joined(read, wanted: pa.Schema) -> pa.Table:
        tables = [read(uri, arm.run_id) for arm in arms]
        return pa.concat_tables([wanted.empty_table(), *tables])

    tables = {
        "figures": book.table,
        "generation-figures": written.table,
        "determinism": joined(_determinism, schema.DETERMINISM),
        "listed": joined(reader.load_listed, schema.LISTED),
        "answers": joined(reader.load_answers, schema.ANSWERS),
        "outcomes": joined(reader.load_outcomes, schema.OUTCOMES),
        "tasks": joined(reader.load_tasks, schema.TASKS),
        "pairs": reader.load_pairs(uri, campaign.run_id),
        "agreement": reader.load_agreement(uri, campaign.run_id),
        "proposals": reader.load_proposals(uri, campaign.run_id),
        "task-drift": reader.load_task_drift(uri, campaign.run_id),
        "task-order": reader.load_task_order(uri, campaign.run_id),
    }
    content = Content(
        campaign=campaign,
        protocol=protocol,
        facts=load_facts(uri, campaign),
        sets=sets,
        book=book,
        columns=columns_of(protocol, book),
        written=written,
        ranking=ranking_of([arm for arm in arms if arm.role in ("candidate", "follow-up")]),
        decisions=load_decisions(uri, campaign),
        bounds=tuple(bounds),
        tables=tables,
    )
    # One alone too: the run that took its reference may be in another store.
    machines = machines_of(content, open_index(uri), lambda other: load_facts(uri, other), least=1)
    return replace(content, machines=machines)


def _determinism(uri: str, run_id: str) -> pa.Table:
    try:
        return reader.load_determinism(uri, run_id)
    except StoreError:  # an import of files of figures records none
        return schema.DETERMINISM.empty_table()


def uri_shown(uri: str) -> str:
    """The store's address without a password."""
    from drift_runs.tracking.uris import redacted

    return redacted(uri)
