"""Every arm of a stored campaign again, from its positions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa

from drift_runs.importing import figures_without_positions
from drift_runs.measure.listed import Texts
from drift_runs.measure.results import Across, ArmResult, Results
from drift_runs.remeasure.stored import Rows, StoredCampaign
from drift_runs.schema import FIGURES
from drift_runs.store import PlannedCapture


class Measured(NamedTuple):
    """One arm, computed again."""

    entry: PlannedCapture
    result: ArmResult | None
    """None without positions: of some imports, and of an arm that only writes."""
    figures: pa.Table


class Remeasured:
    """Computes a stored campaign again, arm by arm in the order of its plan."""

    def __init__(self, campaign: StoredCampaign, rows: Rows, texts: Texts | None = None) -> None:
        self.campaign = campaign
        self.rows = rows
        self._results = Results(campaign.protocol, texts)

    def arms(self, only: Sequence[str] = ()) -> Iterator[Measured]:
        """Whole arms in order; ``only``: names of arms that are wanted (floors and launches are measured as needed)."""
        for entry in self.campaign.measured:
            if self.rows.missing(entry):
                continue
            if entry.table == "written":
                self._results.keep_unscored(arm=entry.name, kind=entry.kind, against=entry.against)
                if not only or entry.name in only:
                    yield Measured(entry, None, FIGURES.empty_table())
                continue
            if entry.table != "comparison":
                table, figures = self._without_positions(entry)
                self._results.keep_without_positions(
                    table, figures, arm=entry.name, kind=entry.kind, against=entry.against
                )
                if not only or entry.name in only:
                    yield Measured(entry, None, figures)
                continue
            comparison = self.rows.comparison(entry)
            result = self._results.measure(
                comparison, arm=entry.name, kind=entry.kind, against=entry.against, of=entry.of, ranked=entry.ranked
            )
            if not only or entry.name in only:
                yield Measured(entry, result, result.figures)

    def add_figures(self, arm: str, figures: pa.Table) -> None:
        """Note further figures of an arm, which are not made from its rows."""
        self._results.add_figures(arm, figures)

    def across(self) -> Across:
        """The arms against each other, once :meth:`arms` has gone through all of them."""
        return self._results.across()

    def _without_positions(self, entry: PlannedCapture) -> tuple[pa.Table, pa.Table]:
        """What is stored of an import without positions, and its figures."""
        reference = None
        if entry.table == "contexts":
            table = self.rows.contexts(entry)
        else:
            table = self.rows.rollouts(entry.capture)
            against = next((found for found in self.campaign.captures if found.name == entry.against), None)
            reference = self.rows.rollouts(against.capture if against else entry.against)
        figures = figures_without_positions(table, self.campaign.protocol, arm=entry.name, reference=reference)
        return table, figures
