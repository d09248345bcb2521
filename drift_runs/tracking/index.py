"""The index: what a store holds of all its campaigns, in columns, so that a page need not search MLflow for it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa

from drift_runs.errors import StoreError
from drift_runs.schema import DETERMINISM, SUMMARY
from drift_runs.tracking import reader, summary_rows
from drift_runs.tracking.records import CampaignRecord


def open_index(uri: str, folder: Path | None = None) -> Index:
    """The index of a store. ``folder``: where its files lie; by default beside a local store, else in the cache."""
    return Index(uri, folder)


class Index:
    """All campaigns of a store, as of the last :meth:`refresh`."""

    def __init__(self, uri: str, folder: Path | None = None) -> None:
        self.uri = uri
        self.folder = folder
        self._records: tuple[CampaignRecord, ...] | None = None

    def refresh(self, *, rebuild: bool = False) -> None:
        """Take in what is new or has changed in the store. ``rebuild``: read everything again."""
        self._records = tuple(reader.list_campaigns(self.uri))

    def campaigns(
        self, protocol: str | None = None, offset: int = 0, limit: int | None = None
    ) -> tuple[CampaignRecord, ...]:
        """Campaigns of a protocol or of all, newest first, ``limit`` of them from the ``offset``-th on."""
        found = [record for record in self._all() if protocol is None or record.protocol_name == protocol]
        return tuple(found[offset : None if limit is None else offset + limit])

    def campaign(self, run_id: str) -> CampaignRecord | None:
        """One campaign by its run id."""
        return next((record for record in self._all() if record.run_id == run_id), None)

    def total(self, protocol: str | None = None) -> int:
        """How many campaigns there are, of a protocol or in all."""
        return len(self.campaigns(protocol))

    def protocols(self) -> dict[str, int]:
        """Number of campaigns by the name of their protocol, by name."""
        return dict(sorted(Counter(record.protocol_name for record in self._all()).items()))

    def summaries(self, protocol: str) -> pa.Table:
        """Headline figures of every complete comparison of a protocol (schema ``SUMMARY``), newest campaign first.

        What the index has not yet is read from the runs' own tables, once.
        """
        parts = []
        for campaign in self.campaigns(protocol):
            for arm in campaign.arms:
                if not arm.complete:
                    continue
                figures = [
                    reader.load_figures(self.uri, arm.run_id),
                    reader.load_generation_figures(self.uri, arm.run_id),
                ]
                rows = summary_rows.figure_rows(figures, arm.arm)
                rows += summary_rows.determinism_rows(
                    self._determinism(arm.run_id), [window for window, _ in campaign.outliers]
                )
                parts.append(summary_rows.summary_table(campaign, arm, rows))
        return pa.concat_tables(parts).unify_dictionaries() if parts else SUMMARY.empty_table()

    def _all(self) -> tuple[CampaignRecord, ...]:
        if self._records is None:
            self.refresh()
        return self._records or ()

    def _determinism(self, run_id: str) -> pa.Table:
        try:
            return reader.load_determinism(self.uri, run_id)
        except StoreError:
            return DETERMINISM.empty_table()
