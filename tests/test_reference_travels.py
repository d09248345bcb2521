"""A reference's rows leave one machine as artifacts, and another compares with them: two stores, two processes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from drift_runs.campaign.facts import undeclared_settings
from drift_runs.capture.planning import StoredReference
from drift_runs.engines.probe.task import probe_task
from drift_runs.protocol.load import load_protocol
from drift_runs.store import content_id
from drift_runs.tracking import artifacts
from drift_runs.tracking.reader import list_campaigns, load_figures, load_reference
from tests.campaigns import SOUND, Campaign, new_campaign

LISTED = {**SOUND, "capture.full_vocabulary": "no", "capture.top_k": 8, "capture.divergence": "kl.topk-tail"}


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory, tiny_arms: Path, empty_database: Path) -> Campaign:
    campaign = new_campaign(tmp_path_factory.mktemp("first") / "campaign", tiny_arms, empty_database, LISTED)
    assert campaign.run().failed == ()
    return campaign


def drift_run(second: Campaign, *options: str) -> subprocess.CompletedProcess[str]:
    """``drift run`` of a campaign in a process of its own."""
    command = [
        sys.executable,
        "-m",
        "drift_runs.cli.main",
        "run",
        str(second.protocol),
        "--machine",
        str(second.machine),
    ]
    command += ["--store", str(second.root), "--json", *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


@pytest.fixture(scope="module")
def second(
    tmp_path_factory: pytest.TempPathFactory, tiny_arms: Path, empty_database: Path, first: Campaign
) -> Campaign:
    """The same protocol in another store, against the first one's reference."""
    campaign = new_campaign(tmp_path_factory.mktemp("second") / "campaign", tiny_arms, empty_database, LISTED)
    run = drift_run(campaign, "--reference", run_of(first)[:8], "--reference-uri", first.uri)
    assert run.returncode == 0, run.stderr
    (campaign.folder / "said.json").write_text(run.stdout, encoding="utf-8")
    return campaign


def run_of(campaign: Campaign) -> str:
    (record,) = list_campaigns(campaign.uri)
    return record.run_id


def figures(campaign: Campaign, arm: str) -> dict[tuple[str, ...], object]:
    (record,) = list_campaigns(campaign.uri)
    found = next(child for child in record.arms if child.arm == arm)
    names = ("scope_kind", "scope", "outliers", "spec", "statistic")
    return {
        tuple(row[name] for name in names): row["value"] for row in load_figures(campaign.uri, found.run_id).to_pylist()
    }


def test_an_arm_has_the_figures_that_it_has_beside_its_own_reference(first: Campaign, second: Campaign) -> None:
    one, other = figures(first, "q4_0"), figures(second, "q4_0")
    # In how many windows an arm lies above a floor takes a floor of the reference, which was not run here.
    left_out = one.keys() - other.keys()
    assert {key[-1] for key in left_out} == {"windows_above"}
    assert len(other) > 50 and {key: one[key] for key in one.keys() - left_out} == other


def test_the_reference_is_not_run_and_its_own_arm_is(first: Campaign, second: Campaign) -> None:
    said = json.loads((second.folder / "said.json").read_text("utf-8"))
    by_name = {arm["arm"]: arm for arm in said["arms"]}
    assert "f16" not in by_name and by_name["f16-here"]["rows"] == by_name["f16-here"]["rows_identical"] > 0
    assert by_name["f16-decode"]["rows_identical"] < by_name["f16-decode"]["rows"]
    (before,), (after,) = list_campaigns(first.uri), list_campaigns(second.uri)
    assert after.complete and after.reference_capture_id == before.reference_capture_id
    assert after.protocol_sha256 == before.protocol_sha256
    assert (before.reference_run, after.reference_run) == ("", before.run_id)
    assert not second.store.processes(after.reference_capture_id), "no process of this store took it"


def test_its_own_count_of_threads_is_what_arms_here_are_held_against(first: Campaign) -> None:
    identity = dict(load_reference(first.uri, run_of(first)))
    capture = content_id(identity)
    for threads, found in ((1, {}), (7, {"threads": 1})):
        taken = {**identity, "settings": {**identity["settings"], "threads": threads}}
        stored = StoredReference(run_id=run_of(first), capture_id=capture, identity=taken)
        planned = first.executions(reference=stored)
        assert planned["f16"].settings.threads == threads
        assert undeclared_settings(planned["q4_0"], planned["f16"]) == found


def test_its_own_arm_here_is_asked_for_the_ids_that_it_is_compared_with(first: Campaign) -> None:
    identity = dict(load_reference(first.uri, run_of(first)))
    stored = StoredReference(run_id=run_of(first), capture_id=content_id(identity), identity=identity)
    here = first.executions(reference=stored)["f16-here"]
    assert here.wanted_from and probe_task(load_protocol(first.protocol), here.arm, here.settings).needs.wanted


def test_it_goes_on_where_it_was(second: Campaign, first: Campaign) -> None:
    again = drift_run(second, "--reference", run_of(first), "--reference-uri", first.uri)
    assert again.returncode == 0 and json.loads(again.stdout)["already_complete"]


def test_a_reference_of_another_protocol_is_refused(
    first: Campaign, tmp_path: Path, tiny_arms: Path, empty_database: Path
) -> None:
    other = new_campaign(tmp_path / "other", tiny_arms, empty_database, {**LISTED, "capture.top_k": 6})
    run = drift_run(other, "--reference", run_of(first), "--reference-uri", first.uri)
    assert run.returncode == 2 and "run the very same protocol file on both machines" in run.stderr
    full = new_campaign(tmp_path / "full", tiny_arms, empty_database, SOUND)
    run = drift_run(full, "--reference", run_of(first), "--reference-uri", first.uri)
    assert run.returncode == 2 and "never leave the machine that made them" in run.stderr
    run = drift_run(other, "--reference", "ffffffff", "--reference-uri", first.uri)
    assert run.returncode == 2 and "no campaign 'ffffffff'" in run.stderr
    assert not list((tmp_path / "other").rglob("captures/*/*.parquet"))


def test_changed_rows_are_refused(tmp_path: Path, tiny_arms: Path, empty_database: Path, first: Campaign) -> None:
    from drift_runs.tracking.mlflow_store import artifact

    lying = new_campaign(tmp_path / "lying", tiny_arms, empty_database, LISTED)
    with artifact(first.uri, run_of(first), artifacts.REFERENCE_ROWS_FOLDER) as folder:
        names = sorted(path.name for path in folder.iterdir())
        one, other = (folder / name for name in names[:2])
        kept = one.read_bytes()
        try:
            one.write_bytes(other.read_bytes())
            run = drift_run(lying, "--reference", run_of(first), "--reference-uri", first.uri)
            assert run.returncode == 2 and "are not those of the protocol" in run.stderr
            one.write_bytes(kept[:100])
            run = drift_run(lying, "--reference", run_of(first), "--reference-uri", first.uri)
            assert run.returncode == 2 and "cannot be read" in run.stderr
        finally:
            one.write_bytes(kept)
