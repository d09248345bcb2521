"""The index holds what a search of the store shows, whatever happened to the store since it was last looked at."""

from __future__ import annotations

import multiprocessing
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from drift_runs.errors import StoreError
from drift_runs.tracking import index_files, index_search, index_sqlite, locations, tags
from drift_runs.tracking.index import Index, open_index
from drift_runs.tracking.mlflow_store import Tracker, connect
from drift_runs.tracking.reader import list_campaigns
from drift_runs.tracking.uris import local_path, sqlite_uri
from tests.tracking import tracking_tables as tables

ARMS = ("q8_0", "q4_0", "kv")
Opened = Callable[[], Index]


def add_campaign(
    tracker: Tracker, folder: Path, key: str, *, protocol: str = "tiny", finish: bool = True, reference_run: str = ""
) -> str:
    facts = tables.campaign_facts(campaign_key=key, protocol_name=protocol, reference_run=reference_run)
    campaign = tracker.start_campaign(facts, protocol_text="", protocol_json="{}").run_id
    for arm in ARMS:
        run_id = tracker.start_comparison(campaign, tables.comparison_facts(arm=arm, comparison_id=f"cmp-{arm}")).run_id
        figures = tables.figures(
            tables.figure(arm=arm, value=0.25, low=0.125, high=0.5, floor="launch", floor_value=0.0),
            tables.figure(arm=arm, statistic="tail_share", value=0.75),
            tables.figure(arm=arm, spec="flip", statistic="rate", value=None, state="withheld", reason="too few"),
            tables.figure(arm=arm, scope_kind="panel", scope="P-A", value=9.0),
            tables.figure(arm=arm, spec="nll", statistic="mean", value=3.0),
        )
        tracker.log_figures(run_id, figures, tables.rows_files(folder / key / arm, w1=3), tables.determinism())
        tracker.complete(run_id)
    if finish:
        tracker.complete(campaign)
    return campaign


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of two campaigns, of which each test takes a copy of its own."""
    folder = tmp_path_factory.mktemp("template")
    tracker = Tracker(sqlite_uri(folder / "mlflow.db"))
    first = add_campaign(tracker, folder / "made", "first")
    add_campaign(tracker, folder / "made", "second", protocol="other", reference_run=first)
    return folder


@pytest.fixture
def uri(template: Path, tmp_path: Path) -> str:
    shutil.copy(template / "mlflow.db", tmp_path / "mlflow.db")
    return sqlite_uri(tmp_path / "mlflow.db")


@pytest.fixture(params=["database", "search"])
def opened(request: pytest.FixtureRequest, uri: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Opened]:
    """Opens the index of the test's store, which is read from its database, or searched like one that is elsewhere."""
    if request.param == "search":
        monkeypatch.setattr(index_sqlite, "read", lambda uri, known: None)
        monkeypatch.setattr(index_sqlite, "probe", lambda uri: "")
    yield lambda: open_index(uri)


def holds_what_a_search_shows(index: Index, uri: str) -> None:
    index.refresh()
    wanted = tuple(list_campaigns(uri))
    assert index.campaigns() == wanted
    assert open_index(uri, index.folder).campaigns() == wanted, "as another process reads it from its file"
    rebuilt = open_index(uri, index.folder.with_name("rebuilt"))
    rebuilt.refresh(rebuild=True)
    assert rebuilt.campaigns() == wanted


def test_it_holds_every_field_of_every_campaign(opened: Opened, uri: str) -> None:
    index = opened()
    assert index.refresh() and not index.refresh()
    holds_what_a_search_shows(index, uri)
    assert index.protocols() == {"other": 1, "tiny": 1}
    assert (index.total(), index.total("tiny"), index.total("none")) == (2, 1, 0)
    first = index.campaigns("tiny")[0]
    assert first.outliers and first.notes and first.arms[0].key["spec"] == "kl.full"
    assert index.campaign(first.run_id) == first and index.campaign("nobody") is None
    other = index.campaigns("other")[0]
    assert (first.reference_run, other.reference_run) == ("", first.run_id)


def test_a_page_of_campaigns_is_cut_from_the_newest_on(opened: Opened) -> None:
    index = opened()
    everyone = index.campaigns()
    assert index.campaigns(offset=1, limit=1) == everyone[1:2] and index.campaigns(offset=2) == ()
    assert index.newest() == everyone[0]
    assert index.campaigns(matching="OTH") == index.campaigns("other")
    assert index.total(matching=everyone[1].run_id[:12]) == 1 and index.total("tiny", matching="other") == 0


def test_a_new_campaign_is_taken_in_and_the_others_stay(opened: Opened, uri: str, tmp_path: Path) -> None:
    index = opened()
    index.refresh()
    added = add_campaign(Tracker(uri), tmp_path / "made", "third")
    assert index.refresh()
    assert index.campaigns()[0].run_id == added and index.total() == 3
    holds_what_a_search_shows(index, uri)


def test_a_running_campaign_becomes_complete(opened: Opened, uri: str, tmp_path: Path) -> None:
    tracker = Tracker(uri)
    running = add_campaign(tracker, tmp_path / "made", "running", finish=False)
    index = opened()
    assert index.newest() != index.campaigns()[0], "the newest complete one comes before one that runs"
    assert not index.campaigns()[0].complete
    late = tracker.start_comparison(running, tables.comparison_facts(arm="late", comparison_id="cmp-late")).run_id
    index.refresh()
    assert [(arm.arm, arm.complete) for arm in index.campaigns()[0].arms][-1] == ("late", False)
    tracker.complete(late)
    tracker.complete(running)
    index.refresh()
    assert index.campaigns()[0].complete and all(arm.complete for arm in index.campaigns()[0].arms)
    holds_what_a_search_shows(index, uri)


def test_what_was_deleted_goes_and_comes_back_with_what_belongs_to_it(opened: Opened, uri: str) -> None:
    index = opened()
    campaign = index.campaigns("tiny")[0]
    client = connect(uri, create=False)
    client.delete_run(campaign.arms[1].run_id)
    index.refresh()
    assert [arm.arm for arm in index.campaigns("tiny")[0].arms] == ["q8_0", "kv"]
    holds_what_a_search_shows(index, uri)
    client.restore_run(campaign.arms[1].run_id)
    client.delete_run(campaign.run_id)
    index.refresh()
    assert index.total() == 1
    holds_what_a_search_shows(index, uri)
    client.restore_run(campaign.run_id)
    index.refresh()
    assert index.campaigns("tiny") == (campaign,)
    holds_what_a_search_shows(index, uri)


def test_a_deleted_experiment_goes_and_comes_back(opened: Opened, uri: str) -> None:
    index = opened()
    before = index.campaigns()
    client = connect(uri, create=False)
    experiment = client.get_experiment_by_name("other").experiment_id
    client.delete_experiment(experiment)
    index.refresh()
    assert index.campaigns() == tuple(found for found in before if found.protocol_name == "tiny")
    client.restore_experiment(experiment)
    index.refresh()
    assert index.campaigns() == before


def test_a_comparison_that_is_measured_again_takes_the_place_of_the_former(opened: Opened, uri: str) -> None:
    index = opened()
    campaign = index.campaigns("tiny")[0]
    tracker = Tracker(uri)
    other_key = {"protocol": tables.SHA256, "spec": "js.full"}
    tracker.start_comparison(
        campaign.run_id, tables.comparison_facts(comparison_id="cmp-q4_0", comparability=other_key)
    )
    holds_what_a_search_shows(index, uri)
    assert [(arm.arm, arm.key["spec"]) for arm in index.campaigns("tiny")[0].arms][-1] == ("q4_0", "js.full")


@pytest.mark.parametrize("damage", ["cut", "bit", "empty", "older", "another store's"])
def test_a_file_that_cannot_be_trusted_is_made_again(
    damage: str, opened: Opened, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = opened()
    index.refresh()
    whole = index.path.read_bytes()
    if damage == "older":
        monkeypatch.setattr(index_files, "NOTES_KEY", b"drift.index.former")
        index_files.write(index.path, index._current().table, index._current().table.schema, {"store": "mlflow.db"})
        monkeypatch.undo()
    elif damage == "another store's":
        table = index._current().table.slice(0, 1)
        index_files.write(index.path, table, table.schema, {"store": "else.db", "seen": {}, "stamp": ""})
    else:
        middle = len(whole) // 3
        flipped = whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :]
        index.path.write_bytes({"cut": whole[:-40], "bit": flipped, "empty": b""}[damage])
    assert open_index(uri).campaigns() == tuple(list_campaigns(uri))
    assert open_index(uri).campaigns() == tuple(list_campaigns(uri))


def test_a_copy_of_a_store_brings_its_index_along(uri: str, tmp_path: Path) -> None:
    index = open_index(uri)
    index.refresh()
    (tmp_path / "moved").mkdir()
    shutil.copy(tmp_path / "mlflow.db", tmp_path / "moved" / "mlflow.db")
    shutil.copytree(tmp_path / "index", tmp_path / "moved" / "index")
    moved = open_index(sqlite_uri(tmp_path / "moved" / "mlflow.db"))
    assert not moved.refresh(), "nothing had to be read again"
    assert moved.campaigns() == index.campaigns()


def test_without_a_place_to_write_it_works_in_memory(uri: str, tmp_path: Path) -> None:
    (tmp_path / "blocked").write_text("a file where the folder would be")
    index = open_index(uri, tmp_path / "blocked" / "index")
    assert index.refresh() and not index.refresh()
    assert index.campaigns() == tuple(list_campaigns(uri))
    assert index.summaries("tiny").num_rows > 0
    assert (tmp_path / "blocked").is_file()


def test_an_unchanged_store_is_not_read_again(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    index = open_index(uri)
    index.refresh()
    monkeypatch.setattr(index_sqlite, "read", lambda *_: pytest.fail("the database was read"))
    monkeypatch.setattr(index_search, "read", lambda *_: pytest.fail("the store was searched"))
    assert not index.refresh()
    assert not open_index(uri).refresh(), "nor by another process"
    Tracker(uri).beat(index.campaigns()[0].run_id)
    monkeypatch.undo()
    before = index._current().stamp
    assert not index.refresh() and index._current().stamp != before, "it was looked at, and nothing shown had changed"


def test_what_changed_nothing_is_compared_once_and_not_by_every_process(
    uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = open_index(uri).campaigns()
    Tracker(uri).beat(wanted[0].run_id)
    assert open_index(uri).campaigns() == wanted
    monkeypatch.setattr(index_sqlite, "read", lambda *_: pytest.fail("compared again"))
    assert open_index(uri).campaigns() == wanted


def test_a_summary_is_looked_up_again_only_after_a_change(uri: str, tmp_path: Path) -> None:
    index = open_index(uri)
    first = index.summary("tiny")
    assert index.summary("tiny") is first
    add_campaign(Tracker(uri), tmp_path / "made", "third")
    index.refresh()
    assert index.summary("tiny").table.num_rows > first.table.num_rows


def test_only_what_is_new_is_read(uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = open_index(uri)
    index.refresh()
    add_campaign(Tracker(uri), tmp_path / "made", "third")
    read = []
    real = index_sqlite.read

    def watched(uri: str, known: dict[str, str]) -> object:
        changes = real(uri, known)
        read.extend(run.run_id for run in changes.runs)
        return changes

    monkeypatch.setattr(index_sqlite, "read", watched)
    index.refresh()
    newest = index.campaigns()[0]
    assert sorted(read) == sorted([newest.run_id, *(arm.run_id for arm in newest.arms)])


def test_a_damaged_tag_is_an_error_and_what_was_shown_stays(opened: Opened, uri: str) -> None:
    index = opened()
    before = index.campaigns()
    client = connect(uri, create=False)
    client.delete_tag(before[0].run_id, tags.COMPLETE_TAG)
    client.set_tag(before[0].run_id, "drift.notes", "{no json")
    client.set_terminated(before[0].run_id, "FAILED")
    with pytest.raises(StoreError, match="tag cannot be read"):
        index.refresh()
    assert index.campaigns() == before


def test_a_summary_has_the_headline_figures_as_they_are_stored(uri: str) -> None:
    index = open_index(uri)
    index.refresh()
    told: list[tuple[int, int]] = []
    found = index.summary("tiny", lambda done, of: told.append((done, of)))
    assert not found.unread and told == [(0, 3), (1, 3), (2, 3)]
    rows = [row for row in found.table.to_pylist() if row["arm"] == "q4_0"]
    by_name = {(row["spec"], row["statistic"], row["outliers"]): row for row in rows}
    mean = by_name["kl.full", "mean", "with"]
    assert (mean["value"], mean["low"], mean["high"], mean["floor"], mean["floor_value"]) == (
        0.25,
        0.125,
        0.5,
        "launch",
        0,
    )
    assert (mean["protocol"], mean["weights"], mean["engine"], mean["weight_bytes"]) == (
        "tiny",
        "q4_0",
        "llama_cpp",
        91_000_000,
    )
    withheld = by_name["flip", "rate", "with"]
    assert withheld["value"] is None and withheld["reason"] == "too few"
    assert by_name["determinism", "rows.share", "with"]["value"] == 1.0
    assert ("nll", "mean", "with") not in by_name and len([row for row in rows if row["value"] == 9.0]) == 0
    assert index.summary("tiny").table is found.table
    kept = open_index(uri).summary("tiny", lambda *_: pytest.fail("read again"))
    assert kept.table.equals(found.table)


def test_a_summary_takes_in_a_new_campaign_and_drops_a_deleted_one(uri: str, tmp_path: Path) -> None:
    index = open_index(uri)
    index.refresh()
    old = index.campaigns("tiny")[0]
    index.summary("tiny")
    added = add_campaign(Tracker(uri), tmp_path / "made", "third")
    index.refresh()
    told: list[tuple[int, int]] = []
    both = index.summary("tiny", lambda done, of: told.append((done, of))).table
    assert told[-1] == (2, 3), "only the new one's three comparisons are read"
    assert list(dict.fromkeys(both["campaign"].to_pylist())) == [added, old.run_id], "newest first"
    connect(uri, create=False).delete_run(old.run_id)
    index.refresh()
    assert set(index.summaries("tiny")["campaign"].to_pylist()) == {added}
    assert index.summaries("nothing").num_rows == 0


def test_a_comparison_whose_tables_are_lost_is_named(uri: str, tmp_path: Path) -> None:
    index = open_index(uri)
    campaign = add_campaign(Tracker(uri), tmp_path / "made", "third")
    index.refresh()
    lost = index.campaign(campaign).arms[0].run_id
    Path(local_path(str(locations.known(uri, lost))), "summary", "figures.parquet").unlink()
    found = index.summary("tiny")
    assert list(found.unread) == [lost] and "figures.parquet" in found.unread[lost]
    assert lost not in found.table["run"].to_pylist() and found.table.num_rows > 0


def _refresh_often(uri: str, seconds: float, results: multiprocessing.Queue) -> None:
    index = open_index(uri)
    until = time.monotonic() + seconds
    seen = set()
    while time.monotonic() < until:
        index.refresh()
        seen.add(index.total())
    results.put((sorted(seen), [record.run_id for record in index.campaigns()]))


def test_two_processes_refresh_while_a_third_writes(uri: str, tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    workers = [context.Process(target=_refresh_often, args=(uri, 6.0, results)) for _ in range(2)]
    for worker in workers:
        worker.start()
    tracker = Tracker(uri)
    add_campaign(tracker, tmp_path / "made", "third")
    add_campaign(tracker, tmp_path / "made", "fourth")
    found = [results.get(timeout=60) for _ in workers]
    for worker in workers:
        worker.join(timeout=60)
        assert worker.exitcode == 0
    for seen, _ in found:
        assert set(seen) <= {2, 3, 4}
    wanted = tuple(list_campaigns(uri))
    index = open_index(uri)
    index.refresh()
    assert index.campaigns() == wanted and len(wanted) == 4


def test_days_since_a_look_are_asked_for_with_one_to_spare() -> None:
    noon_ms = 1_800_000_000_000  # 2027-01-15
    assert index_search.days_since("2027-01-14", noon_ms) == ["2027-01-13", "2027-01-14", "2027-01-15", "2027-01-16"]
    assert index_search.days_since("2026-11-01", noon_ms) is None
    assert index_search.days_since("", noon_ms) is None


def test_a_campaign_is_found_by_the_beginning_of_its_run_id(uri: str) -> None:
    index = open_index(uri)
    for record in list_campaigns(uri):
        assert index.beginning(record.run_id[:8]) == record
    assert index.beginning("z") is None
    assert index.beginning("") == list_campaigns(uri)[0], "every run id begins so, and the newest comes first"


def test_a_store_that_is_not_there_is_refused_and_nothing_is_made(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="there is no tracking store"):
        open_index(sqlite_uri(tmp_path / "none" / "mlflow.db")).total()
    assert list(tmp_path.iterdir()) == []


def test_a_store_elsewhere_has_its_index_in_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRIFT_CACHE", str(tmp_path))
    places = {index_files.default_folder(f"http://user:{word}@host:5000/a") for word in ("one", "two")}
    assert len(places) == 1, "a password is no part of the name"
    assert places != {index_files.default_folder("http://host:5000/b")}
    assert places.pop().parent == tmp_path / "index"
