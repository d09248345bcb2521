"""A reference's rows leave one machine as artifacts, and another compares with them: two stores, two processes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from drift_runs.campaign.facts import undeclared_settings
from drift_runs.campaign.travelled import take_reference
from drift_runs.capture.planning import StoredReference
from drift_runs.cli.main import main
from drift_runs.engines.probe.task import probe_task
from drift_runs.errors import StoreError
from drift_runs.lanes.bounds import Bounds
from drift_runs.protocol.load import load_protocol
from drift_runs.store import content_id
from drift_runs.tracking import artifacts
from drift_runs.tracking.mlflow_store import Tracker, artifact
from drift_runs.tracking.reader import (
    list_campaigns,
    load_figures,
    load_outcomes,
    load_rollouts,
    load_sampled,
    load_tasks,
)
from drift_runs.tracking.reference_reader import load_identity
from tests.campaigns import SOUND, Campaign, new_campaign
from tests.test_campaign_generation import CHAT, write_prompts

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
    identity = dict(load_identity(first.uri, run_of(first)))
    capture = content_id(identity)
    for threads, found in ((1, {}), (7, {"threads": 1})):
        taken = {**identity, "settings": {**identity["settings"], "threads": threads}}
        stored = StoredReference(run_id=run_of(first), capture_id=capture, identity=taken)
        planned = first.executions(reference=stored)
        assert planned["f16"].settings.threads == threads
        assert undeclared_settings(planned["q4_0"], planned["f16"]) == found


def test_its_own_arm_here_is_asked_for_the_ids_that_it_is_compared_with(first: Campaign) -> None:
    identity = dict(load_identity(first.uri, run_of(first)))
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


def test_what_was_measured_of_its_server_travels_with_its_rows(
    tmp_path: Path, tiny_arms: Path, empty_database: Path, first: Campaign
) -> None:
    run, measured = run_of(first), {"log_mass_mean_nats": 1.25e-4, "log_mass_rows": 4}
    capture = content_id(load_identity(first.uri, run))
    other = new_campaign(tmp_path / "other", tiny_arms, empty_database, LISTED)
    other.store.open(create=True)
    loaded = load_protocol(other.protocol)
    take_reference(other.store, loaded, first.uri, run)
    assert other.store.measured(capture) == {}, "of an engine of a process nothing is"
    uri, tracker = first.uri, Tracker(first.uri)
    tracker.log_files(run, {artifacts.REFERENCE_MEASURED_FILE: json.dumps(measured).encode()})
    try:
        for _ in range(2):
            take_reference(other.store, loaded, uri, run)
            assert other.store.measured(capture) == measured
        other.store.note_measured(capture, {**measured, "log_mass_mean_nats": 2e-4})
        with pytest.raises(StoreError, match="were made here with another measured number"):
            take_reference(other.store, loaded, uri, run)
        tracker.log_files(run, {artifacts.REFERENCE_MEASURED_FILE: b'{"log_mass_rows": "4"}'})
        with pytest.raises(StoreError, match="is no table of numbers"):
            take_reference(other.store, loaded, uri, run)
    finally:
        with artifact(uri, run, artifacts.REFERENCE_MEASURED_FILE) as path:
            path.unlink()


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


WRITING = {
    **LISTED,
    "arms": lambda arms: [arm for arm in arms if arm["name"] in ("f16", "q4_0")],
    "floors": [],
    "chat": CHAT,
    "branches": {"cap": 6, "per_range": 3, "horizon_tokens": 20},
    "rollouts": {"prompts": "prompts.toml", "ids": "prompt-ids.json", "tokens": 8},
    "sampled": {"temperatures": [0.5], "draws": 2, "prompts": "quick", "tokens": 6},
    "tasks": [
        {"name": "a-word", "window": "beta", "at": 6, "check": "pattern", "expected": ["[a-z]"], "horizon_tokens": 12},
        {"name": "again", "window": "odd", "at": 5, "check": "pattern", "expected": ["[a-z]"], "horizon_tokens": 8},
    ],
}


@pytest.fixture(scope="module")
def writer(tmp_path_factory: pytest.TempPathFactory, tiny_arms: Path, empty_database: Path) -> Campaign:
    """A campaign that writes freely, bounded to one of its two tasks."""
    folder = tmp_path_factory.mktemp("writer") / "campaign"
    (folder / "protocol").mkdir(parents=True)
    write_prompts(folder / "protocol")
    campaign = new_campaign(folder, tiny_arms, empty_database, WRITING)
    assert campaign.run(bounds=Bounds(tasks=1)).failed_generation == ()
    return campaign


def copy_of(writer: Campaign, folder: Path, arms: Path, database: Path) -> Campaign:
    (folder / "protocol").mkdir(parents=True)
    write_prompts(folder / "protocol")
    return new_campaign(folder, arms, database, WRITING)


def test_what_the_reference_wrote_travels_too(
    writer: Campaign, tmp_path: Path, tiny_arms: Path, empty_database: Path
) -> None:
    """The same arm beside the same reference: the same outcomes, rollouts, draws and tasks, with no engine of it."""
    other = copy_of(writer, tmp_path / "other", tiny_arms, empty_database)
    run = drift_run(other, "--reference", run_of(writer), "--reference-uri", writer.uri)
    assert run.returncode == 0, run.stderr
    assert "12 futures, 3 of 3 rollouts, 1 of 2 answers to tasks" in run.stderr
    said = {report["arm"]: report for report in json.loads(run.stdout)["generation"]}
    assert {report["error"] for report in said.values()} == {None}
    (before,), (after,) = list_campaigns(writer.uri), list_campaigns(other.uri)
    runs = [next(arm.run_id for arm in record.arms if arm.arm == "q4_0") for record in (before, after)]
    for load in (load_outcomes, load_rollouts, load_tasks):
        one, two = load(writer.uri, runs[0]), load(other.uri, runs[1])
        if "pair" in one.column_names:  # the reference goes on from no other token: its engine is not here
            one = one.filter(pc.equal(one["pair"], "branch"))
        assert one.num_rows and two.equals(one)
    for one, two in (
        (load_rollouts(writer.uri, before.run_id), load_rollouts(other.uri, after.run_id)),
        (load_sampled(writer.uri, runs[0], "0.5"), load_sampled(other.uri, runs[1], "0.5")),
    ):
        assert one.num_rows and two.equals(one)
    here = said["f16-here"]
    assert here["outcomes"] == [] and {task["passed"] for task in here["tasks"]} <= {True, False}
    exact = [row for row in here["figures"] if (row["spec"], row["statistic"]) == ("rollout.exact", "share")]
    assert {row["value"] for row in exact} == {1.0}, "the very same machine"
    assert main(["measure", str(other.protocol), "--store", str(other.store.root), "--check"]) == 0
    again = drift_run(other, "--reference", run_of(writer), "--reference-uri", writer.uri)
    assert again.returncode == 0 and json.loads(again.stdout)["already_complete"]


def test_other_bounds_are_no_others_writing(
    writer: Campaign, tmp_path: Path, tiny_arms: Path, empty_database: Path
) -> None:
    """A future of another horizon is another future: none of them is taken, and what does not depend on it is."""
    other = copy_of(writer, tmp_path / "short", tiny_arms, empty_database)
    run = drift_run(other, "--reference", run_of(writer), "--reference-uri", writer.uri, "--horizon", "16")
    assert run.returncode == 0 and "0 futures, 3 of 3 rollouts, 1 of 2 answers" in run.stderr, run.stderr
    said = {report["arm"]: report for report in json.loads(run.stdout)["generation"]}
    assert said["q4_0"]["outcomes"] == [] and said["q4_0"]["flips"] > 0


def test_a_future_of_another_place_is_refused(
    writer: Campaign, tmp_path: Path, tiny_arms: Path, empty_database: Path
) -> None:
    from drift_runs.tracking.mlflow_store import artifact

    other = copy_of(writer, tmp_path / "lying", tiny_arms, empty_database)
    with (
        artifact(writer.uri, run_of(writer), artifacts.FUTURES_FILE) as path,
        artifact(writer.uri, run_of(writer), artifacts.REFERENCE_LANES_FILE) as lanes,
    ):
        kept, noted = path.read_bytes(), lanes.read_text("utf-8")
        try:
            table = pq.read_table(path)
            names = pa.array(["../../escaped"] * table.num_rows)
            at = table.schema.get_field_index("window")
            pq.write_table(table.set_column(at, table.schema.field("window"), names), path)
            run = drift_run(other, "--reference", run_of(writer), "--reference-uri", writer.uri)
            assert run.returncode == 2 and "what the reference wrote (futures) is not what was noted" in run.stderr
            before, after = (content_id([found.to_pylist()]) for found in (table, pq.read_table(path)))
            lanes.write_text(noted.replace(before, after), "utf-8")
            run = drift_run(other, "--reference", run_of(writer), "--reference-uri", writer.uri)
            assert run.returncode == 2 and "expected a scored position of the protocol" in run.stderr, run.stderr
        finally:
            path.write_bytes(kept)
            lanes.write_text(noted, "utf-8")
    assert not list(tmp_path.rglob("escaped"))
