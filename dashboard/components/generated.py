"""What the arms of a campaign wrote freely, as pages read it: figures, tables, and what bounded them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from dashboard import data
from dashboard.figures import Book
from dashboard.frame import BESIDE_ROLES
from drift_runs.generate.rollouts import up_to_end

if TYPE_CHECKING:
    from dashboard.frame import Page
    from drift_runs.measure.figures import Figure
    from drift_runs.protocol.model import Protocol
    from drift_runs.tracking.records import ArmRecord

SHARE = "share"


class Generated:
    """The generation of the page's campaign. What an arm has not is empty or None, and never zero."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.uri = page.uri
        # Imported continuations have no generation: their figures are those of the comparison.
        measured = page.book.table
        imported = measured.filter(pc.starts_with(measured["spec"], "rollout."))
        # The reference's own tasks stand with the campaign: a comparison it has not.
        own = data.generation_figures(page.uri, page.campaign.run_id, page.campaign.complete)
        self.book = Book([imported, page.book.generated, own])

    @property
    def reference(self) -> str:
        return self.page.campaign.reference

    def bounds(self) -> tuple[str, ...]:
        """What the campaign's generation was bounded to, in words: each once, whichever runs say it."""
        runs = [(self.page.campaign.run_id, self.page.campaign.complete)]
        runs += [(arm.run_id, True) for arm in self.page.campaign.arms if arm.complete]
        return tuple(dict.fromkeys(words for run, done in runs for words in data.bounds(self.uri, run, done)))

    def figure(
        self, arm: str, spec: str, statistic: str, outliers: str = "with", kind: str = "all", scope: str = "all"
    ) -> Figure | None:
        """One figure over all, or over the scope named; None where the arm has none."""
        found = self.book.rows(arm=arm, spec=spec, statistic=statistic, outliers=outliers, scope_kind=kind, scope=scope)
        return found[0] if found else None

    def arms(self, arms: list[ArmRecord], spec: str) -> list[ArmRecord]:
        """Those of ``arms`` that have a figure of a spec, floors and launches behind them."""
        there = {figure.arm for figure in self.book.rows(spec=spec, scope_kind="all")}
        beside = [arm for role in BESIDE_ROLES for arm in self.page.arms(role)]
        return [arm for arm in (*arms, *beside) if arm.arm in there]

    def temperatures(self) -> list[str]:
        """Temperatures that were decoded at, the lowest first, as spec ids write them."""
        marks = {spec.partition("@")[2] for spec in self.book.specs if spec.startswith("sampled.exact@")}
        return sorted(marks, key=float)

    def rollouts(self, arm: str) -> pa.Table:
        """Own rollouts (schema ``ROLLOUTS``) of an arm or of the reference; empty where none are stored."""
        run, done = self._run(arm)
        return data.rollouts(self.uri, run, done)

    def rollout_pair(self, arm: ArmRecord) -> tuple[pa.Table, pa.Table]:
        """The rollouts of what an arm is against, and its own, as they are compared."""
        return pair_of_rollouts(
            self.uri, self.run_of(self.against(arm)), self.run_of(arm.arm), ends_of(self.page.protocol, arm)
        )

    def tasks(self, arm: str) -> pa.Table:
        """Own answers to tasks (schema ``TASKS``)."""
        run, done = self._run(arm)
        return data.tasks(self.uri, run, done)

    def against(self, arm: ArmRecord) -> str:
        """What an arm's figures are against."""
        return arm.reference or self.reference

    def run_of(self, arm: str) -> str:
        """The run that holds an arm's own texts: the campaign's for its reference."""
        return self._run(arm)[0]

    def _run(self, arm: str) -> tuple[str, bool]:
        if arm == self.reference:
            return self.page.campaign.run_id, self.page.campaign.complete
        return next(
            ((found.run_id, True) for found in self.page.campaign.arms if found.arm == arm and found.complete),
            (self.page.campaign.run_id, self.page.campaign.complete),
        )


def ends_of(protocol: Protocol, arm: ArmRecord) -> tuple[str, ...]:
    """End tokens at which an arm's rollouts and those beside them are cut: a server of texts writes none behind one."""
    return () if arm.scored or protocol.chat is None else protocol.chat.ends


def pair_of_rollouts(uri: str, against: str, run: str, ends: tuple[str, ...]) -> tuple[pa.Table, pa.Table]:
    """Rollouts of two runs (schema ``ROLLOUTS``), cut at ``ends``."""
    theirs, mine = (data.rollouts(uri, one, True) for one in (against, run))
    return (up_to_end(theirs, ends), up_to_end(mine, ends)) if ends else (theirs, mine)
