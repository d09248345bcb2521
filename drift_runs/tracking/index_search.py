"""Runs of any store, read through MLflow's search: all of them once, then what is new or may have changed.

A search knows the start and the end of runs, their tags and which are deleted, and no time of a change. So what is read
again is: what began or ended since the last look, what was not complete then, what says by a tag that it was touched
later, and every experiment that was not there. What was deleted is listed on its own.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from drift_runs.tracking import reach, tags
from drift_runs.tracking.index_rows import Changes, RunRow
from drift_runs.tracking.mlflow_store import connect, deleted_of, experiments, runs_of, tag_is

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

SLACK_MS = 3_600_000
"""Clocks of machines that write to one store may differ by so much."""
_AT_ONCE = 100
_MOST_DAYS = 31
"""After a longer pause everything is read again."""
_KINDS = f"tags.`{tags.KIND_TAG}` LIKE 'c%'"


def read(uri: str, known: Mapping[str, str], unfinished: Collection[str], seen: Mapping[str, Any]) -> Changes:
    """How the store differs from the ``known`` states of runs, given what the last look noted (``seen``).

    Without ``seen`` everything is read. ``StoreError`` when the store cannot be asked.
    """
    client = connect(uri, create=False)
    with reach.asked(uri, "look for changes"):
        return _Look(client, known, unfinished, seen).changes()


class _Look:
    def __init__(
        self, client: MlflowClient, known: Mapping[str, str], unfinished: Collection[str], seen: Mapping[str, Any]
    ) -> None:
        self.client = client
        self.known = known
        self.unfinished = unfinished
        self.seen = seen
        self.names: dict[str, str] = {}
        self.made: dict[str, int] = {}
        for found in experiments(client):
            self.names[found.experiment_id] = found.name
            self.made[found.experiment_id] = found.creation_time or 0
        self.now_ms = int(time.time() * 1000)

    def changes(self) -> Changes:
        days = days_since(self.seen.get("day", ""), self.now_ms)
        if not self.seen or days is None:
            return self._everything()
        before: Mapping[str, Any] = self.seen["experiments"]
        same = [found for found, made in self.made.items() if before.get(found) == made]
        runs = {run.run_id: run for run in self._search([found for found in self.made if found not in same], _KINDS)}
        since = self.seen["at_ms"] - SLACK_MS
        questions = [f"attributes.start_time >= {since}", f"attributes.end_time >= {since}"]
        questions += [tag_is(tags.TOUCHED_TAG, day) for day in days]
        for question in questions:
            runs.update((run.run_id, run) for run in self._search(same, _KINDS, question))
        deleted = {run.info.run_id for run in deleted_of(self.client, list(self.made), _KINDS)}
        restored = frozenset(self.seen["deleted"]) - deleted
        runs.update((run.run_id, run) for run in self._by_id(same, {*self.unfinished, *restored}))
        back = [run.run_id for run in runs.values() if run.kind == tags.CAMPAIGN and run.run_id not in self.known]
        for run_id in back:  # its comparisons were left out when it was not there
            runs.update((run.run_id, run) for run in self._search(same, tag_is(tags.PARENT_TAG, run_id)))
        gone = (deleted | self._lost(before, same) | (frozenset(self.unfinished) - runs.keys())) - runs.keys()
        changed = [run for run in runs.values() if self.known.get(run.run_id) != run.state]
        return Changes(changed, frozenset(gone & self.known.keys()), self._noted(deleted))

    def _everything(self) -> Changes:
        deleted = {run.info.run_id for run in deleted_of(self.client, list(self.made), _KINDS)}
        runs = {run.run_id: run for run in self._search(list(self.made), _KINDS)}
        changed = [run for run in runs.values() if self.known.get(run.run_id) != run.state]
        return Changes(changed, frozenset(self.known) - runs.keys(), self._noted(deleted))

    def _lost(self, before: Mapping[str, Any], same: Collection[str]) -> frozenset[str]:
        """Runs of experiments that are not there any more, or are others under the same id."""
        lost = frozenset(before) - frozenset(same)
        return frozenset(run_id for run_id, state in self.known.items() if state.partition("|")[0] in lost)

    def _noted(self, deleted: Iterable[str]) -> dict[str, Any]:
        return {
            "at_ms": self.now_ms,
            "day": tags.day_of(self.now_ms),
            "experiments": self.made,
            "deleted": sorted(deleted),
        }

    def _search(self, experiment_ids: Sequence[str], *filters: str) -> Iterator[RunRow]:
        for run in runs_of(self.client, list(experiment_ids), *filters):
            yield self._row(run)

    def _by_id(self, experiment_ids: Sequence[str], run_ids: Collection[str]) -> Iterator[RunRow]:
        wanted = sorted(tags.checked_identifier(run_id, "run id") for run_id in run_ids)
        for start in range(0, len(wanted), _AT_ONCE):
            names = ", ".join(f"'{run_id}'" for run_id in wanted[start : start + _AT_ONCE])
            yield from self._search(experiment_ids, f"attributes.run_id IN ({names})")

    def _row(self, run: Run) -> RunRow:
        info = run.info
        return RunRow(
            info.run_id,
            run.data.tags[tags.KIND_TAG],
            info.experiment_id,
            self.names[info.experiment_id],
            info.status,
            info.start_time,
            info.end_time,
            info.artifact_uri,
            run.data.tags,
        )


def days_since(day: str, now_ms: int) -> list[str] | None:
    """The days from that one to this, both included; None when there are too many, or the text is no day."""
    try:
        first = datetime.strptime(day, tags.DAY_FORM).replace(tzinfo=UTC)
    except ValueError:
        return None
    count = (datetime.fromtimestamp(now_ms / 1000, UTC) - first).days
    # A day more on either side, for clocks that differ.
    if not 0 <= count <= _MOST_DAYS:
        return None
    return [(first + timedelta(days=number)).strftime(tags.DAY_FORM) for number in range(-1, count + 2)]
