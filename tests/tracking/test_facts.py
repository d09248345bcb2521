"""What runs say of themselves reads the same from a local database as through MLflow's search."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from drift_runs.tracking import facts, index_sqlite
from drift_runs.tracking.index import open_index
from drift_runs.tracking.mlflow_store import Tracker
from drift_runs.tracking.uris import sqlite_uri
from tests.tracking import tracking_tables as tables


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """A campaign with an arm of an adapter, one that failed, and one beside it in the same experiment."""
    uri = sqlite_uri(tmp_path / "mlflow.db")
    tracker = Tracker(uri)
    for key in ("key-1", "key-2"):
        campaign = tracker.start_campaign(
            tables.campaign_facts(campaign_key=key), protocol_text="", protocol_json="{}"
        ).run_id
        for arm, adapter in (("q8_0", ""), ("tuned", "ef" * 32), ("broken", "")):
            compared = tables.comparison_facts(arm=arm, comparison_id=f"{key}-{arm}", adapter_sha256=adapter)
            run_id = tracker.start_comparison(campaign, compared).run_id
            if arm == "broken":
                tracker.fail(run_id, "its file is damaged")
    return uri


def test_a_local_store_needs_no_search_and_gives_the_same(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    campaign = open_index(uri).campaigns()[0]
    ids = {arm.arm: arm.run_id for arm in campaign.arms}
    with monkeypatch.context() as patch:
        patch.setattr(index_sqlite, "tags_of", lambda *_: None)
        searched = facts.load_facts(uri, campaign)
    with monkeypatch.context() as patch:
        patch.setattr(facts, "connect", lambda *_, **__: pytest.fail("MLflow was asked"))
        read = facts.load_facts(uri, campaign)
    assert read == searched
    assert read.host == {"cpu": "a CPU", "gpu": "none"}
    assert read.weights_sha256 == {run_id: "cd" * 32 for run_id in ids.values()}
    assert read.adapter_sha256 == {ids["tuned"]: "ef" * 32}
    assert read.failed == {ids["broken"]: "its file is damaged"}


def test_reading_them_does_not_import_mlflow(uri: str) -> None:
    script = """import sys
from drift_runs.tracking.facts import load_facts
from drift_runs.tracking.index import open_index
load_facts(sys.argv[1], open_index(sys.argv[1]).campaigns()[0])
print("mlflow" in sys.modules)"""
    done = subprocess.run([sys.executable, "-c", script, uri], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "False"
