"""Everything that a campaign's comparisons give, one after the other: for a run, an import, and a second measuring.

Order matters: a floor stands beside what comes after it, further launches of an arm come before it. So whoever measures
hands the comparisons over in the order of the campaign's plan.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from drift_runs import schema
from drift_runs.measure.agreement import agreement_table
from drift_runs.measure.answer_figures import answer_figures
from drift_runs.measure.answers import answers_table
from drift_runs.measure.context_pairs import context_pairs
from drift_runs.measure.determinism import DeterminismSummary, determinism_table, summarise_determinism
from drift_runs.measure.distribution import distribution_table
from drift_runs.measure.figures import figures_table
from drift_runs.measure.launches import launch_figures
from drift_runs.measure.listed import Texts, listed_rows
from drift_runs.measure.outliers import proposals_table
from drift_runs.measure.paired import pairs_table
from drift_runs.measure.resampler import Resampler
from drift_runs.measure.shards import LIMIT_POSITIONS, summarise_shards
from drift_runs.measure.summary import summarise
from drift_runs.protocol.model import Protocol
from drift_runs.schema import PAIRS

Kind = Literal["floor", "candidate", "follow-up", "launch"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmResult:
    """What one comparison gives."""

    figures: pa.Table
    """Schema ``FIGURES``."""
    determinism: pa.Table
    """Schema ``DETERMINISM``."""
    listed: pa.Table
    """Schema ``LISTED``."""
    answers: pa.Table
    """Schema ``ANSWERS``; no row where the protocol expects no answers in these windows."""
    distribution: pa.Table
    """Schema ``DISTRIBUTION``."""

    @property
    def agreement(self) -> DeterminismSummary:
        """Whether the two executions agree to the byte."""
        return summarise_determinism(self.determinism)


@dataclass(frozen=True, slots=True, kw_only=True)
class Across:
    """What the comparisons of a campaign say of each other."""

    pairs: pa.Table
    """Schema ``PAIRS``."""
    agreement: pa.Table
    """Schema ``AGREEMENT``."""
    proposals: pa.Table
    """Schema ``PROPOSALS``."""


class Results:
    """Measures comparisons in the order of a plan, and keeps what later ones stand beside."""

    def __init__(self, protocol: Protocol, texts: Texts | None = None) -> None:
        self.protocol = protocol
        self.texts = texts
        self._floors: dict[str, dict[str, pa.Table]] = {}
        self._launches: dict[str, list[pa.Table]] = {}
        self._comparisons: dict[str, pa.Table] = {}
        self._contexts: dict[str, pa.Table] = {}
        self._figures: dict[str, pa.Table] = {}
        self._answers: dict[str, pa.Table] = {}
        self._unscored: set[str] = set()

    def floors_of(self, reference: str) -> Mapping[str, pa.Table]:
        """Comparisons of the floors of that arm so far, by name."""
        return self._floors.get(reference, {})

    def measure(
        self,
        comparison: pa.Table,
        *,
        arm: str,
        kind: Kind,
        against: str = "",
        of: str = "",
        ranked: bool = True,
        window_hashes: Mapping[str, bytes | None] | None = None,
    ) -> ArmResult:
        """Everything that one comparison gives.

        Parameters
        ----------
        arm
            name of the candidate, floor or launch.
        against
            name of what it is compared with; empty means the protocol's reference. Floors of another arm are shown
            beside it as borrowed, without a verdict.
        of
            for a further launch, the arm that it repeats.
        ranked
            False keeps the arm out of pairs and orders, because more differs in it than the protocol varies.
        window_hashes
            of the arm's own rows, where these are at hand.
        """
        against = against or self.protocol.reference.name
        whole = comparison.num_rows <= LIMIT_POSITIONS
        beside = kind != "floor" and whole
        own = self.floors_of(against) if beside else {}
        others = {} if own or not beside else self._borrowed(against)
        if whole:
            figures = summarise(comparison, self.protocol, arm=arm, floors=own, borrowed=others)
        else:
            figures = summarise_shards([comparison], self.protocol, arm=arm)
        answers = answers_table(comparison, self.protocol, arm=arm, texts=self.texts)
        if answers.num_rows:
            found = answer_figures(
                answers, self.protocol, floors=self._answers_of(own), borrowed=self._answers_of(others)
            )
            figures = pa.concat_tables([figures, figures_table(found)])
        if kind in ("candidate", "follow-up") and arm in self._launches:
            launches = launch_figures([figures, *self._launches[arm]], arm=arm)
            figures = pa.concat_tables([figures, figures_table(launches)])
        result = ArmResult(
            figures=figures,
            determinism=determinism_table(comparison, arm=arm, against=against, window_hashes=window_hashes),
            listed=listed_rows(comparison, self.protocol, arm=arm, texts=self.texts),
            answers=answers,
            distribution=distribution_table(comparison, self.protocol, arm=arm),
        )
        self.keep(comparison, figures, arm=arm, kind=kind, against=against, of=of, ranked=ranked)
        return result

    def keep(
        self,
        comparison: pa.Table,
        figures: pa.Table,
        *,
        arm: str,
        kind: Kind,
        against: str = "",
        of: str = "",
        ranked: bool = True,
    ) -> None:
        """Note a comparison that was measured before: later ones stand beside it all the same."""
        against = against or self.protocol.reference.name
        match kind:
            case "floor":
                self._floors.setdefault(against, {})[arm] = comparison
            case "launch":
                self._launches.setdefault(of, []).append(figures)
            case _ if against == self.protocol.reference.name and ranked:
                self._figures[arm] = figures
                if comparison.num_rows <= LIMIT_POSITIONS:
                    self._comparisons[arm] = comparison

    def keep_without_positions(self, table: pa.Table, figures: pa.Table, *, arm: str, kind: Kind, against: str) -> None:
        """Note an arm of which only means by context (schema ``CONTEXTS``) or continuations are known."""
        if kind == "candidate" and against in ("", self.protocol.reference.name):
            self._figures[arm] = figures
            if schema.version_of(table.schema) == schema.version_of(schema.CONTEXTS):
                self._contexts[arm] = table

    def keep_unscored(self, *, arm: str, kind: Kind, against: str) -> None:
        """Note an arm that is followed and asked and has no rows: what it writes joins by :meth:`add_figures`."""
        if kind in ("candidate", "follow-up") and against in ("", self.protocol.reference.name):
            self._figures[arm] = schema.FIGURES.empty_table()
            self._unscored.add(arm)

    def _pairs(self) -> pa.Table:
        if len(self._contexts) > 1:
            return context_pairs(self._contexts, Resampler.of(self.protocol))
        return pairs_table(self._comparisons, self.protocol) if len(self._comparisons) > 1 else PAIRS.empty_table()

    def add_figures(self, arm: str, figures: pa.Table) -> None:
        """Note further figures of an arm that is ranked: what it writes freely joins the orders.

        Rows of another name are left out: a decode of the arm that is held to a grammar is not the arm. So are roots of
        an arm without rows: it was asked where other arms had left the reference, and its own flips are others.
        """
        if arm in self._figures:
            own = figures.filter(pc.equal(figures["arm"], arm))
            if arm in self._unscored:
                own = own.filter(pc.invert(pc.starts_with(own["spec"].cast(pa.string()), "branches")))
            self._figures[arm] = pa.concat_tables([self._figures[arm], own])

    def across(self) -> Across:
        """The candidates and follow-ups of the protocol's reference against each other, and proposed outliers."""
        return Across(
            pairs=self._pairs(),
            agreement=agreement_table(self._figures),
            proposals=proposals_table(self.floors_of(self.protocol.reference.name), self.protocol),
        )

    def _answers_of(self, floors: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
        """Answers of floors, made when the first arm is set beside them."""
        for name, comparison in floors.items():
            if name not in self._answers:
                self._answers[name] = answers_table(comparison, self.protocol, arm=name)
        return {name: self._answers[name] for name in floors}

    def _borrowed(self, against: str) -> dict[str, pa.Table]:
        references = {arm.name for arm in self.protocol.arms if arm.role == "reference"} - {against}
        return {name: table for arm in sorted(references) for name, table in self.floors_of(arm).items()}
