"""The real MLflow: a sqlite store in a temporary folder, and a server on the loopback."""

from __future__ import annotations

import math
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tracking_tables import (
    SHA256,
    campaign_facts,
    comparison,
    comparison_facts,
    determinism,
    figure,
    figures,
    rows_files,
)

from drift_runs import schema
from drift_runs.errors import StoreBusy, StoreError
from drift_runs.tracking import mlflow_store, reader, tags, uris
from drift_runs.tracking.mlflow_store import Tracker

PROTOCOL = {"protocol_text": 'name = "tiny"\r\n# ü\n', "protocol_json": '{"name":"tiny"}', "lock_text": "{}"}


@pytest.fixture(scope="module")
def fresh_store(tmp_path_factory) -> Path:
    """A store whose schema exists; made once, because the migrations take seconds."""
    folder = tmp_path_factory.mktemp("fresh")
    mlflow_store.initialise(uris.sqlite_uri(folder / "mlflow.db"))
    return folder


@pytest.fixture
def uri(fresh_store, tmp_path) -> str:
    """A store of the test's own, in a folder whose name needs quoting."""
    folder = tmp_path / "a store, 50%"
    folder.mkdir()
    (folder / "mlflow.db").write_bytes((fresh_store / "mlflow.db").read_bytes())
    return uris.sqlite_uri(folder / "mlflow.db")


@pytest.fixture
def tracker(uri) -> Tracker:
    return Tracker(uri)


def run_of(uri: str, run_id: str):
    from mlflow import MlflowClient

    return MlflowClient(tracking_uri=uri).get_run(run_id)


def log_one(tracker: Tracker, parent: str, folder: Path, **changes) -> str:
    started = tracker.start_comparison(parent, comparison_facts(**changes))
    tracker.log_figures(started.run_id, figures(figure()), rows_files(folder, w1=3, w2=5), determinism())
    tracker.complete(started.run_id)
    return started.run_id


def die_while_writing(uri: str, body: str) -> str:
    """Run code in a process that is killed before it ends; gives back the line that it printed."""
    script = (
        "import os, signal, sys; sys.path.insert(0, sys.argv[2])\n"
        "from tracking_tables import *\n"
        "from drift_runs.tracking.mlflow_store import Tracker\n"
        "tracker = Tracker(sys.argv[1])\n"
        f"{body}\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    command = [sys.executable, "-c", script, uri, str(Path(__file__).parent)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == -signal.SIGKILL, done.stderr
    return done.stdout.strip()


def everything_works(uri: str, folder: Path, artifact_root: Path | None = None) -> None:
    """A whole campaign, written and read back."""
    tracker = Tracker(uri, artifact_root)
    parent = tracker.start_campaign(campaign_facts(), **PROTOCOL)
    child = log_one(tracker, parent.run_id, folder)
    floor = log_one(
        tracker,
        parent.run_id,
        folder,
        comparison_id="cmp-launch",
        arm="launch",
        role="floor",
        floor_kind="launch",
        weight_bytes=None,
    )
    tracker.complete(parent.run_id)

    (campaign,) = reader.list_campaigns(uri)
    facts = campaign_facts()
    for name in ("protocol_name", "protocol_version", "protocol_sha256", "draft", "title", "question", "notes"):
        assert getattr(campaign, name) == getattr(facts, name)
    assert campaign.outliers == facts.outliers
    assert (campaign.run_id, campaign.complete, campaign.status) == (parent.run_id, True, "FINISHED")
    assert [(arm.run_id, arm.arm, arm.role, arm.complete) for arm in campaign.arms] == [
        (child, "q4_0", "candidate", True),
        (floor, "launch", "floor", True),
    ]
    assert (campaign.arms[0].weight_bytes, campaign.arms[1].weight_bytes) == (91_000_000, None)

    assert reader.load_figures(uri, child).equals(figures(figure()))
    assert reader.load_determinism(uri, child).equals(determinism())
    assert reader.load_rows(uri, child, "w2").equals(comparison("w2", 5))
    rows = reader.load_rows(uri, child)
    assert rows.schema.equals(schema.COMPARISON, check_metadata=True)
    assert rows["window"].to_pylist() == ["w1"] * 3 + ["w2"] * 5
    assert reader.load_protocol_text(uri, parent.run_id) == PROTOCOL["protocol_text"]
    assert reader.load_protocol_json(uri, parent.run_id) == PROTOCOL["protocol_json"]
    assert reader.load_lock_text(uri, parent.run_id) == PROTOCOL["lock_text"]
    with pytest.raises(StoreError, match=r"no artifact rows/w3\.parquet"):
        reader.load_rows(uri, child, "w3")


def test_a_campaign_there_and_back_in_sqlite(uri, tmp_path):
    everything_works(uri, tmp_path / "rows")
    artifacts = uris.sqlite_path(uri).parent / "mlartifacts"
    assert len(list(artifacts.rglob("figures.parquet"))) == 2


def test_metrics_are_logged_by_name_and_never_non_finite(uri, tracker, tmp_path):
    parent = tracker.start_campaign(campaign_facts(), **PROTOCOL).run_id
    run_id = tracker.start_comparison(parent, comparison_facts()).run_id
    table = figures(
        figure(value=0.25),
        figure(statistic="p99", value=None, state="withheld"),
        figure(statistic="max", value=math.inf),
        figure(statistic="p95", value=math.nan),
        figure(scope_kind="history", scope="1-256", value=0.1),
        figure(scope_kind="history", scope="257+", value=0.2),
    )
    tracker.log_figures(run_id, table, {})
    run = run_of(uri, run_id)
    assert run.data.metrics == {
        "kl.full/all/mean": 0.25,
        "kl.full/all/mean.n": 100.0,
        "kl.full/all/mean.excluded": 0.0,
        "kl.full/all/history/mean": 0.2,
        "withheld": 1.0,
        "nonfinite": 2.0,
    }
    assert run.data.params["weights"] == "q4_0"
    assert run.data.tags["drift.key.spec"] == "kl.full"
    assert "kl.full mean, all positions" in run.data.tags[tags.METRIC_NAMES_TAG]


def test_complete_is_the_last_thing_written(uri, tracker, monkeypatch):
    run_id = tracker.start_campaign(campaign_facts(), **PROTOCOL).run_id
    calls = []
    for name in ("set_terminated", "set_tag"):
        real = getattr(tracker._client, name)
        monkeypatch.setattr(
            tracker._client, name, lambda *given, real=real, name=name: (calls.append((name, *given[1:])), real(*given))
        )
    tracker.complete(run_id)
    assert calls == [("set_terminated", "FINISHED"), ("set_tag", tags.COMPLETE_TAG, "true")]


def test_a_run_without_the_last_tag_is_incomplete_whatever_its_status(uri, tracker):
    run_id = tracker.start_campaign(campaign_facts(), **PROTOCOL).run_id
    tracker._client.set_terminated(run_id, "FINISHED")
    (campaign,) = reader.list_campaigns(uri)
    assert (campaign.status, campaign.complete) == ("FINISHED", False)


def test_a_failed_campaign_says_why_and_is_resumed(uri, tracker):
    first = tracker.start_campaign(campaign_facts(), **PROTOCOL)
    tracker.fail(first.run_id, "engine died\nat window w1 " + "x" * 9000)
    run = run_of(uri, first.run_id)
    assert run.info.status == "FAILED"
    assert run.data.tags[tags.FAILED_TAG].startswith("engine died at window w1 xxx")
    again = tracker.start_campaign(campaign_facts(), **PROTOCOL)
    assert (again.run_id, first.resumed, again.resumed) == (first.run_id, False, True)
    run = run_of(uri, first.run_id)
    assert run.info.status == "RUNNING" and tags.FAILED_TAG not in run.data.tags


def test_a_later_failure_does_not_touch_a_complete_run(uri, tracker):
    run_id = tracker.start_campaign(campaign_facts(), **PROTOCOL).run_id
    tracker.complete(run_id)
    tracker.fail(run_id, "another attempt failed")
    run = run_of(uri, run_id)
    assert run.info.status == "FINISHED" and tags.FAILED_TAG not in run.data.tags


def test_a_complete_campaign_is_found_and_not_written_again(tracker):
    first = tracker.start_campaign(campaign_facts(), **PROTOCOL).run_id
    assert tracker.find_campaign("tiny", SHA256, "key-1") == (first, False)
    tracker.complete(first)
    assert tracker.find_campaign("tiny", SHA256, "key-1") == (first, True)
    second = tracker.start_campaign(campaign_facts(), **PROTOCOL)
    assert second.run_id != first and not second.resumed


@pytest.mark.parametrize("change", [{"campaign_key": "key-2"}, {"protocol_sha256": "ef" * 32}])
def test_another_key_or_digest_is_another_campaign(tracker, change):
    first = tracker.start_campaign(campaign_facts(), **PROTOCOL).run_id
    assert tracker.start_campaign(campaign_facts(**change), **PROTOCOL).run_id != first


def test_a_complete_comparison_is_reused_and_an_unfinished_one_replaced(uri, tracker, tmp_path):
    parent = tracker.start_campaign(campaign_facts(), **PROTOCOL).run_id
    whole = log_one(tracker, parent, tmp_path)
    assert tracker.start_comparison(parent, comparison_facts()) == (whole, False, True)

    half = tracker.start_comparison(parent, comparison_facts(comparison_id="half", arm="q5_0")).run_id
    again = tracker.start_comparison(parent, comparison_facts(comparison_id="half", arm="q5_0"))
    assert again.run_id != half and not again.complete
    old = run_of(uri, half)
    assert (old.info.lifecycle_stage, old.info.status, old.data.tags[tags.SUPERSEDED_TAG]) == (
        "deleted",
        "KILLED",
        "true",
    )
    (campaign,) = reader.list_campaigns(uri)
    assert [(arm.run_id, arm.complete) for arm in campaign.arms] == [(whole, True), (again.run_id, False)]

    beside = {**comparison_facts().comparability, "floors": "launch"}
    anew = tracker.start_comparison(parent, comparison_facts(comparability=beside))
    assert not anew.complete and anew.run_id != whole, "figures beside other floors are other figures"
    assert run_of(uri, whole).info.lifecycle_stage == "deleted"


def test_what_a_killed_process_left_is_listed_and_taken_over(uri, tracker):
    left = die_while_writing(
        uri,
        'parent = tracker.start_campaign(campaign_facts(), protocol_text="", protocol_json="{}").run_id\n'
        "child = tracker.start_comparison(parent, comparison_facts()).run_id\n"
        "print(parent, child, flush=True)",
    )
    parent, child = left.split()
    found = reader.list_stale(uri)
    assert {(one.run.run_id, one.run.kind, one.state) for one in found} == {
        (parent, "campaign", "dead"),
        (child, "comparison", "dead"),
    }
    resumed = tracker.start_campaign(campaign_facts(), **PROTOCOL)
    assert (resumed.run_id, resumed.resumed) == (parent, True)
    assert tracker.start_comparison(parent, comparison_facts()).run_id != child
    assert reader.list_stale(uri) == []


def test_a_campaign_of_a_living_process_is_not_taken(tracker):
    run_id = tracker.start_campaign(campaign_facts(), **PROTOCOL).run_id
    import psutil

    other = psutil.Process(os.getppid())
    tracker._client.set_tag(run_id, "drift.owner.pid", str(other.pid))
    tracker._client.set_tag(run_id, "drift.owner.started_s", str(other.create_time()))
    with pytest.raises(StoreBusy, match="is being written"):
        tracker.start_campaign(campaign_facts(), **PROTOCOL)


@pytest.mark.parametrize(
    "change",
    [
        {"title": "x" * 8001},
        {"notes": ("y" * 9000,)},
        {"campaign_key": "a' or '1'='1"},
        {"question": "a\x00b"},
        {"host": {"bad name": "x"}},
    ],
)
def test_what_the_store_would_cut_or_misread_is_an_error_before_the_call(uri, tracker, change):
    with pytest.raises(StoreError):
        tracker.start_campaign(campaign_facts(**change), **PROTOCOL)
    assert reader.list_campaigns(uri) == []


@pytest.mark.parametrize("windows", [["../w"], ["a/b"], ["w", "W"], [""]])
def test_a_window_name_cannot_leave_the_folder_or_hide_another(tracker, tmp_path, windows):
    path = rows_files(tmp_path, w1=2)["w1"]
    parent = tracker.start_campaign(campaign_facts(), **PROTOCOL).run_id
    with pytest.raises(StoreError):
        tracker.log_figures(parent, figures(figure()), dict.fromkeys(windows, path))


def test_a_table_of_another_schema_is_refused_both_ways(uri, tracker, tmp_path):
    parent = tracker.start_campaign(campaign_facts(), **PROTOCOL).run_id
    with pytest.raises(StoreError, match=r"drift\.figures/2"):
        tracker.log_figures(parent, determinism(), {})
    newer = figures(figure()).replace_schema_metadata({schema.VERSION_KEY: b"drift.figures/3"})
    pq.write_table(newer, tmp_path / "figures.parquet")
    tracker.log_files(parent, {"summary/figures.parquet": tmp_path / "figures.parquet"})
    with pytest.raises(StoreError, match=r"drift\.figures/3.*expected drift\.figures/2"):
        reader.load_figures(uri, parent)


def test_a_figures_file_that_is_cut_short_is_one_line(uri, tracker):
    parent = tracker.start_campaign(campaign_facts(), **PROTOCOL).run_id
    tracker.log_files(parent, {"summary/figures.parquet": b"PAR1 cut"})
    with pytest.raises(StoreError, match=r"figures\.parquet cannot be read") as caught:
        reader.load_figures(uri, parent)
    assert "\n" not in str(caught.value)


def test_a_store_that_is_not_there_is_not_made_by_reading(tmp_path):
    with pytest.raises(StoreError, match="no tracking store"):
        reader.list_campaigns(uris.sqlite_uri(tmp_path / "mlflow.db"))
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_no_database_is_refused_at_once(tmp_path):
    path = tmp_path / "mlflow.db"
    path.write_text("not a database, but long enough to look at")
    with pytest.raises(StoreError, match="no sqlite database"):
        reader.list_campaigns(uris.sqlite_uri(path))


def test_a_server_that_nobody_started_is_one_line_at_once():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    before_s = time.monotonic()
    with pytest.raises(StoreError, match=f"nothing answers at 127.0.0.1 port {port}") as caught:
        reader.list_campaigns(f"http://user:secret@127.0.0.1:{port}")
    assert time.monotonic() - before_s < 10
    assert "secret" not in str(caught.value)


def test_a_run_that_does_not_exist_is_one_line(uri, tracker):
    with pytest.raises(StoreError, match="cannot find a run"):
        reader.load_figures(uri, "0" * 32)


def test_an_unrelated_experiment_is_no_campaign(uri, tracker):
    experiment = tracker._client.create_experiment("unrelated")
    tracker._client.create_run(experiment)
    assert reader.list_campaigns(uri) == []


def test_campaigns_are_listed_newest_first_over_every_page(uri, tracker, monkeypatch):
    monkeypatch.setattr(mlflow_store, "_PAGE", 2)
    made = []
    for number in range(5):
        facts = campaign_facts(campaign_key=f"key-{number}", protocol_name=f"tiny-{number % 3}")
        made.append(tracker.start_campaign(facts, **PROTOCOL).run_id)
    assert [campaign.run_id for campaign in reader.list_campaigns(uri)] == made[::-1]


def test_more_runs_than_one_search_of_mlflow_returns(uri, tracker):
    """1,100 comparisons, copied inside the database because writing each through the client takes a minute."""
    import sqlite3

    parent = tracker.start_campaign(campaign_facts(), **PROTOCOL).run_id
    child = tracker.start_comparison(parent, comparison_facts()).run_id
    with sqlite3.connect(uris.sqlite_path(uri)) as database:
        columns = [row[1] for row in database.execute("pragma table_info(runs)")]
        taken = ", ".join("? || run_uuid" if name == "run_uuid" else name for name in columns)
        for number in range(1100):
            database.execute(
                f"insert into runs ({', '.join(columns)}) select {taken} from runs where run_uuid = ?",
                (f"{number}-", child),
            )
            database.execute(
                "insert into tags (key, value, run_uuid) select key, value, ? || run_uuid from tags where run_uuid = ?",
                (f"{number}-", child),
            )
    (campaign,) = reader.list_campaigns(uri)
    assert len(campaign.arms) == 1101


FOUR_WRITERS = """
import multiprocessing, os, sys
sys.path.insert(0, sys.argv[2])
from tracking_tables import campaign_facts, comparison_facts
from drift_runs.tracking import mlflow_store, reader

assert "mlflow" not in sys.modules
mlflow_store._client_class()  # imported once, so that the four meet at the store and not at the import
print(os.environ["MLFLOW_DISABLE_TELEMETRY"], os.environ["MLFLOW_TRUNCATE_LONG_VALUES"])

def write(number):
    barrier.wait()
    tracker = mlflow_store.Tracker(sys.argv[1])
    facts = campaign_facts(campaign_key=f"key-{number}")
    parent = tracker.start_campaign(facts, protocol_text="", protocol_json="{}").run_id
    child = tracker.start_comparison(parent, comparison_facts()).run_id
    tracker.complete(child)
    tracker.complete(parent)

context = multiprocessing.get_context("fork")
barrier = context.Barrier(4)
workers = [context.Process(target=write, args=(number,)) for number in range(4)]
for worker in workers:
    worker.start()
for worker in workers:
    worker.join()
sys.exit(sum(worker.exitcode != 0 for worker in workers))
"""


def test_four_processes_on_a_fresh_store(tmp_path):
    """Each makes the schema, the experiment and a campaign, all at the same moment; the user's settings are kept."""
    uri = uris.sqlite_uri(tmp_path / "new" / "mlflow.db")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MLFLOW_")}
    done = subprocess.run(
        [sys.executable, "-c", FOUR_WRITERS, uri, str(Path(__file__).parent)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**environment, "MLFLOW_TRUNCATE_LONG_VALUES": "true"},
        timeout=200,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout.split() == ["true", "true"]
    campaigns = reader.list_campaigns(uri)
    assert len(campaigns) == 4
    assert all(campaign.complete and campaign.arms[0].complete for campaign in campaigns)
    assert {path.name for path in tmp_path.iterdir()} == {"new"}
    assert {path.name for path in (tmp_path / "new").iterdir()} == {"mlflow.db", "mlflow.db.lock", "mlartifacts"}


@pytest.mark.long
def test_a_campaign_there_and_back_over_http(tmp_path, fresh_store):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (tmp_path / "mlflow.db").write_bytes((fresh_store / "mlflow.db").read_bytes())
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    command += ["--backend-store-uri", uris.sqlite_uri(tmp_path / "mlflow.db")]
    command += ["--artifacts-destination", str(tmp_path / "served")]
    environment = {**os.environ, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "MLFLOW_DISABLE_TELEMETRY": "true"}
    with (tmp_path / "server.log").open("w") as log:
        server = subprocess.Popen(
            command, env=environment, stdout=log, stderr=log, cwd=tmp_path, start_new_session=True
        )
    try:
        _wait_until_healthy(server, f"http://127.0.0.1:{port}/health", tmp_path / "server.log")
        everything_works(f"http://127.0.0.1:{port}", tmp_path / "rows")
        assert len(list((tmp_path / "served").rglob("figures.parquet"))) == 2
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.wait(timeout=20)


def _wait_until_healthy(server: subprocess.Popen, address: str, log: Path) -> None:
    for _ in range(600):
        assert server.poll() is None, log.read_text()
        try:
            with urllib.request.urlopen(address, timeout=1):
                return
        except OSError:
            time.sleep(0.1)
    pytest.fail(f"the server did not start: {log.read_text()}")


def test_rows_without_a_window_are_an_empty_table(uri, tracker):
    parent = tracker.start_campaign(campaign_facts(), **PROTOCOL).run_id
    run_id = tracker.start_comparison(parent, comparison_facts()).run_id
    tracker.log_figures(run_id, figures(figure()), {})
    with pytest.raises(StoreError, match="no artifact rows"):
        reader.load_rows(uri, run_id)
    assert isinstance(reader.load_figures(uri, run_id), pa.Table)
