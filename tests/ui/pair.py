"""A hardware comparison, for real: the second campaign runs in a process of its own against the reference of the first,
and logs to its tracking store, while its rows lie in a store of their own."""

from __future__ import annotations

import shutil
import sqlite3
from dataclasses import dataclass
from pathlib import Path

import pytest

from drift_runs.tracking.index import open_index
from drift_runs.tracking.records import CampaignRecord
from tests.campaigns import Campaign, copied, new_campaign
from tests.test_reference_travels import LISTED, drift_run, run_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Travelled:
    """Two campaigns in one tracking store, as its index has them."""

    campaign: Campaign
    """The folder of the first."""
    first: CampaignRecord
    second: CampaignRecord

    @property
    def root(self) -> Path:
        return self.campaign.root

    def summary(self, record: CampaignRecord, arm: str, spec: str, statistic: str, outliers: str = "with") -> dict:
        """One row of the index's summary."""
        wanted = {"campaign": record.run_id, "arm": arm, "spec": spec, "statistic": statistic, "outliers": outliers}
        rows = open_index(self.campaign.uri).summaries(record.protocol_name).to_pylist()
        (found,) = [row for row in rows if all(row[name] == value for name, value in wanted.items())]
        return found

    def changed(self, folder: Path, *changes: tuple[CampaignRecord, str, str, str]) -> Travelled:
        """A copy in which tags of comparisons say something else: (campaign, arm or ``*``, tag, value)."""
        campaign = copied(self.campaign, folder)
        shutil.rmtree(campaign.root / "index", ignore_errors=True)
        with sqlite3.connect(campaign.root / "mlflow.db") as database:
            for record, name, tag, value in changes:
                runs = [arm.run_id for arm in record.arms if name in ("*", arm.arm)]
                assert runs
                database.executemany(
                    "UPDATE tags SET value = ? WHERE key = ? AND run_uuid = ?", [(value, tag, run) for run in runs]
                )
        database.close()
        return pair_of(campaign)


def pair_of(campaign: Campaign) -> Travelled:
    first, second = sorted(open_index(campaign.uri).campaigns(), key=lambda record: record.started_ms)
    return Travelled(campaign=campaign, first=first, second=second)


def shared_pair(factory: pytest.TempPathFactory, arms: Path, database: Path) -> Travelled:
    """The pair, made once a test run: nobody writes to it."""
    if "pair" not in _SHARED:
        _SHARED["pair"] = travelled_pair(factory.mktemp("travelled"), arms, database)
    return _SHARED["pair"]


_SHARED: dict[str, Travelled] = {}


def travelled_pair(folder: Path, arms: Path, database: Path) -> Travelled:
    campaign = new_campaign(folder / "first", arms, database, LISTED)
    assert campaign.run().failed == ()
    other = new_campaign(folder / "second", arms, None, LISTED)
    run = drift_run(other, "--reference", run_of(campaign)[:8], "--tracking-uri", campaign.uri)
    assert run.returncode == 0, run.stderr
    return pair_of(campaign)
