"""Campaigns that run, go on, join, and fail: the tiny protocol on the real engine."""

from __future__ import annotations

import hashlib
import re
import shutil
import struct
import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from drift_runs import schema
from drift_runs.campaign import campaign_key
from drift_runs.campaign import run as campaign_module
from drift_runs.errors import (
    EngineDied,
    ModelFileError,
    NonFiniteLogits,
    ProtocolError,
    SameRows,
    StoreBusy,
    StoreError,
)
from drift_runs.machine import machine_text
from drift_runs.protocol.load import load_protocol
from drift_runs.protocol.model import Arm
from drift_runs.store import read_table, write_table
from drift_runs.tracking.reader import load_determinism, load_streams
from tests.campaigns import SOUND, TWO_ARMS, Campaign, Reporter, copied, figures_of, new_campaign, tree
from tests.tiny_model import write_tiny_model

FOLLOW_UP = Arm(name="kv-bf16", role="follow-up", derivative="stock", weights="f16", kv="bf16")


@pytest.fixture
def machine(tmp_path: Path, tiny_arms: Path) -> Path:
    """A machine file of one's own: the tiny arms and ``kv-bf16``."""
    models = {name: tiny_arms.parent / f"{name}.gguf" for name in ("f16", "q8_0", "q4_0")}
    path = tmp_path / "drift.toml"
    path.write_text(machine_text(models, same_model={"kv-q4_0": "f16", "kv-bf16": "f16"}, threads=1))
    return path


def outcome(result, name: str):
    return next(found for found in result.outcomes if found.execution.name == name)


def test_a_campaign_is_complete_with_every_arm(finished: Campaign) -> None:
    (record,) = finished.records()
    assert record.complete and record.status == "FINISHED" and record.draft
    assert [(arm.arm, arm.role, arm.complete) for arm in record.arms] == [
        ("f16-launch", "floor", True),
        ("f16-decode", "floor", True),
        ("q8_0", "candidate", True),
        ("q4_0", "candidate", True),
        ("kv-q4_0", "candidate", True),
    ]
    assert len({arm.capture_id for arm in record.arms}) == 5
    assert record.reference_capture_id not in {arm.capture_id for arm in record.arms}


def test_the_text_of_every_window_is_logged_whole(finished: Campaign) -> None:
    (record,) = finished.records()
    logged = load_streams(finished.uri, record.run_id).to_pylist()
    loaded = load_protocol(finished.protocol)
    assert [row["window"] for row in logged] == [window.name for window in loaded.protocol.windows]
    assert all(tuple(row["tokens"]) == loaded.tokens(row["window"]) for row in logged)


def test_a_windows_hash_is_that_of_its_rows_and_equal_where_a_launch_repeats_them(finished: Campaign) -> None:
    (record,) = finished.records()
    reference = finished.store.read_rows(record.reference_capture_id, ["alpha-1"])["row_full"].to_pylist()
    wanted = hashlib.sha256(struct.pack("<I", len(reference)) + b"".join(reference)).digest()
    found = {}
    for arm in record.arms:
        rows = load_determinism(finished.uri, arm.run_id).to_pylist()
        found[arm.arm] = next((row["window_hash"] for row in rows if row["window"] == "alpha-1"), None)
    assert found["f16-launch"] == wanted
    assert len(found["q4_0"]) == 32 and found["q4_0"] != wanted


def test_figures_of_a_campaign_have_floors_and_verdicts(finished: Campaign) -> None:
    figures = figures_of(finished)["q4_0"]
    mean = next(
        row
        for row in figures
        if (row["spec"], row["statistic"], row["scope_kind"], row["outliers"]) == ("kl.full", "mean", "all", "with")
    )
    assert mean["floor"] == "f16-decode" and mean["floor_value"] > 0
    assert mean["n"] == 76 and mean["value"] > mean["floor_value"]


def test_a_complete_campaign_run_again_does_nothing(finished: Campaign, tmp_path: Path) -> None:
    campaign = copied(finished, tmp_path / "copy")
    before, logged = tree(campaign.root), figures_of(campaign)
    result = campaign.run()
    assert result.already_complete and campaign.reporter.tokens_left == 0
    assert campaign.reporter.opened == []
    assert tree(campaign.root) == before
    assert figures_of(campaign) == logged
    (record,) = campaign.records()
    assert record.complete and len(record.arms) == 5
    assert not campaign.store.spill_folder.exists()


def test_two_groups_give_the_bytes_of_one(finished: Campaign, tmp_path: Path, empty_database: Path) -> None:
    campaign = new_campaign(tmp_path / "groups", finished.machine, empty_database)
    result = campaign.run(only=["q4_0"], spill_bytes=40 * 32 * 4)  # 40 positions: two windows of the four
    assert result.failed == ()
    assert campaign.reporter.opened == ["f16", "f16-launch", "f16-decode", "q4_0", "f16", "f16-decode", "q4_0"]
    mine, whole = tree(campaign.root), tree(finished.root)
    assert len(mine) == 3 * 5 + 2 + 2 * 5 + 2 and mine == {name: whole[name] for name in mine}
    assert figures_of(campaign)["q4_0"] == figures_of(finished)["q4_0"]
    assert not campaign.store.spill_folder.exists()


def test_follow_ups_join_the_same_campaign(finished: Campaign, tmp_path: Path, machine: Path) -> None:
    campaign = copied(finished, tmp_path / "copy")
    campaign.machine = machine
    digest, before = load_protocol(campaign.protocol).protocol_sha256, campaign.records()[0].run_id
    result = campaign.run(follow_ups=[FOLLOW_UP])
    assert campaign.reporter.opened == ["f16", "kv-bf16"]
    (record,) = campaign.records()
    assert (result.run_id, record.run_id, record.protocol_sha256) == (before, before, digest)
    assert record.complete
    assert [(arm.arm, arm.role) for arm in record.arms if arm.role == "follow-up"] == [("kv-bf16", "follow-up")]


def test_a_subset_of_arms_leaves_the_campaign_incomplete(tmp_path: Path, tiny_arms: Path, empty_database: Path) -> None:
    campaign = new_campaign(tmp_path / "subset", tiny_arms, empty_database, {**SOUND, "floors": []})
    result = campaign.run(only=["q4_0"])
    assert [found.execution.name for found in result.outcomes] == ["q4_0"] and not result.failed
    (record,) = campaign.records()
    assert not record.complete and record.status == "FAILED"
    campaign.run()
    assert campaign.reporter.opened == ["f16", "q8_0", "kv-q4_0"], "rows that are there are not taken again"
    assert any(record.complete for record in campaign.records())


def test_an_unknown_arm_is_refused_before_any_work(finished: Campaign) -> None:
    with pytest.raises(ProtocolError, match=r"unknown arm 'q9'.*q8_0") as caught:
        finished.run(only=["q9"])
    assert "--arms" in caught.value.where


class TestFailures:
    """A candidate that fails does not end the others."""

    def test_rows_that_must_differ_and_do_not(self, tmp_path: Path, machine: Path, empty_database: Path) -> None:
        """Another file with the reference's weights, and a micro-batch that is too large to matter."""
        same = tmp_path / "same.gguf"
        write_tiny_model(same, context=127)
        text = machine.read_text().replace(str(machine.parent / "q8_0.gguf"), str(same))
        machine.write_text(re.sub(r'(?<=\[arms."q8_0"\]\nmodel = ).*', f'"{same}"', text))
        floor = {**SOUND["floors[1]"], "name": "f16-micro-batch", "settings": {"micro_batch": 16}}
        changes = {**SOUND, "floors[1]": floor, "arms[1].weights": "f16"}
        campaign = new_campaign(tmp_path / "same", machine, empty_database, changes)
        result = campaign.run()
        assert [found.execution.name for found in result.failed] == ["f16-micro-batch", "q8_0"]
        assert all(isinstance(found.error, SameRows) for found in result.failed)
        assert "all 76 rows are byte-identical" in str(outcome(result, "q8_0").error)
        assert outcome(result, "q4_0").figures is not None
        (record,) = campaign.records()
        assert not record.complete
        assert {arm.arm: arm.complete for arm in record.arms} == {
            "f16-launch": True,
            "f16-micro-batch": False,
            "q8_0": False,
            "q4_0": True,
            "kv-q4_0": True,
        }
        floors = {row["floor"] for row in figures_of(campaign)["q4_0"]}
        assert "f16-micro-batch" not in floors, "a floor that failed stands beside no figure"

    def test_figures_made_while_a_floor_had_failed_are_made_again_beside_it(
        self, tmp_path: Path, machine: Path, empty_database: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        campaign = new_campaign(
            tmp_path / "floor", machine, empty_database, {**TWO_ARMS, "floors": [SOUND["floors[1]"]]}
        )
        launched = campaign_module.run_launch

        def killed_once(store, loaded, reference, steps, **room):
            if steps[0].execution.name == "f16-decode":
                raise EngineDied("killed by SIGKILL", where="arm f16-decode")
            yield from launched(store, loaded, reference, steps, **room)

        with monkeypatch.context() as patched:
            patched.setattr(campaign_module, "run_launch", killed_once)
            assert [found.execution.name for found in campaign.run().failed] == ["f16-decode"]
        assert {row["floor"] for row in figures_of(campaign)["q4_0"]} == {""}
        assert campaign.run().failed == ()
        (record,) = campaign.records()
        assert record.complete and [arm.arm for arm in record.arms] == ["f16-decode", "q4_0"]
        (mean,) = (
            row
            for row in figures_of(campaign)["q4_0"]
            if (row["scope_kind"], row["outliers"], row["spec"], row["statistic"]) == ("all", "with", "kl.full", "mean")
        )
        assert mean["floor"] == "f16-decode" and mean["verdict"]
        assert campaign.run().already_complete

    def test_weights_that_are_not_a_number(self, tmp_path: Path, machine: Path, empty_database: Path) -> None:
        bad = write_tiny_model(tmp_path / "bad.gguf", poison="blk.1.ffn_down.weight")
        machine.write_text(re.sub(r'(?<=\[arms."q8_0"\]\nmodel = ).*', f'"{bad}"', machine.read_text()))
        campaign = new_campaign(
            tmp_path / "nan", machine, empty_database, {**SOUND, "floors": [], "arms[1].weights": "f16"}
        )
        result = campaign.run()
        (failed,) = result.failed
        assert isinstance(failed.error, NonFiniteLogits) and failed.error.exit_code == 5
        assert "window alpha-1, position 1" in failed.error.where and "arm q8_0" in failed.error.where
        assert failed.figures is None
        assert list(campaign.store.capture_folder(failed.execution.capture_id).glob("*.parquet")) == []
        reference = campaign.executions()["f16"]
        assert not list(campaign.store.comparison_folder(failed.execution.compared_with(reference)).glob("*.parquet"))
        assert outcome(result, "q4_0").figures is not None and outcome(result, "kv-q4_0").figures is not None

    def test_a_reference_that_fails_ends_the_campaign(
        self, tmp_path: Path, machine: Path, empty_database: Path
    ) -> None:
        bad = write_tiny_model(tmp_path / "bad.gguf", poison="output.weight")
        text = re.sub(r'(?<=\[arms."f16"\]\nmodel = ).*', f'"{bad}"', machine.read_text())
        machine.write_text(text)
        campaign = new_campaign(tmp_path / "nan", machine, empty_database, TWO_ARMS)
        with pytest.raises(NonFiniteLogits, match="arm f16"):
            campaign.run()
        (record,) = campaign.records()
        assert (record.complete, record.status, record.arms) == (False, "FAILED", ())

    def test_the_same_file_twice_is_one_execution(self, tmp_path: Path, machine: Path) -> None:
        copy = shutil.copy(machine_model(machine, "f16"), tmp_path / "copy.gguf")
        machine.write_text(re.sub(r'(?<=\[arms."q8_0"\]\nmodel = ).*', f'"{copy}"', machine.read_text()))
        campaign = new_campaign(tmp_path / "twins", machine, None, {**SOUND, "arms[1].weights": "f16"})
        with pytest.raises(ModelFileError, match="q8_0 and f16 are the same execution"):
            campaign.run()

    def test_weights_of_another_type_than_declared(self, tmp_path: Path, tiny_arms: Path) -> None:
        campaign = new_campaign(tmp_path / "label", tiny_arms, None, {**SOUND, "arms[1].weights": "q4_0"})
        with pytest.raises(ModelFileError, match=r"arm q8_0 declares weights q4_0, the file holds q8_0 1?\d?\d%"):
            campaign.run()

    def test_a_dictionary_that_is_not_the_frozen_one(
        self, tmp_path: Path, tiny_arms: Path, empty_database: Path
    ) -> None:
        campaign = new_campaign(
            tmp_path / "words", tiny_arms, empty_database, {**TWO_ARMS, "dictionary.sha256": "0" * 64}
        )
        with pytest.raises(
            ModelFileError,
            match=r"32 entries with SHA-256 8193d98943e84a01…; no window .*; expected 32 entries with 0{16}…",
        ):
            campaign.run()


def machine_model(machine: Path, arm: str) -> Path:
    from drift_runs.machine import load_machine

    return load_machine(machine).model_file(arm)


def test_determinism_that_is_refuted_is_a_warning(tmp_path: Path, tiny_arms: Path, empty_database: Path) -> None:
    floor = {**SOUND["floors[1]"], "rows": "identical", "windows": ["beta"]}
    changes = {**TWO_ARMS, "floors": lambda floors: [floor]}
    del changes["floors[1]"]
    campaign = new_campaign(tmp_path / "refuted", tiny_arms, empty_database, changes)
    result = campaign.run()
    assert result.failed == ()
    assert outcome(result, "f16-decode").warnings == (
        "determinism refuted by f16-decode: 24 of 24 rows differ, first at beta:6",
    )


class TestGoingOn:
    """What an interruption left is used as it is."""

    def test_lost_windows_are_taken_again_at_the_same_bytes(self, finished: Campaign, tmp_path: Path) -> None:
        campaign = copied(finished, tmp_path / "copy")
        executions = campaign.executions()
        store = campaign.store
        store.remove_window(executions["q4_0"].capture_id, "beta")
        store.remove_comparison(executions["kv-q4_0"].compared_with(executions["f16"]), "odd")
        result = campaign.run()
        assert [(done.execution, done.window) for done in campaign.reporter.windows] == [
            ("f16", "beta"),
            ("f16", "odd"),
            ("q4_0", "beta"),
            ("kv-q4_0", "odd"),
        ]
        assert result.failed == () and tree(campaign.root) == tree(finished.root)
        assert len(set(store.processes(executions["q4_0"].capture_id).values())) == 2
        assert outcome(result, "q4_0").warnings == ("launch q4_0 is made of 2 processes",)
        assert outcome(result, "q8_0").warnings == ()
        assert len(set(store.processes(executions["f16"].capture_id).values())) == 1

    def test_a_weight_file_that_is_replaced_during_the_campaign_gives_no_rows(
        self, tmp_path: Path, finished: Campaign, empty_database: Path
    ) -> None:
        arms = tmp_path / "arms"
        shutil.copytree(finished.machine.parent, arms)
        campaign = new_campaign(tmp_path / "swapped", arms / finished.machine.name, empty_database, TWO_ARMS)

        class Swapping(Reporter):
            def planned(self, executions, tokens_left: int) -> None:
                other = (arms / "q4_0.gguf").read_bytes()[::-1][:64]
                with (arms / "q4_0.gguf").open("r+b") as file:
                    file.seek(-64, 2)
                    file.write(other)

        (failed,) = campaign.run(reporter=Swapping()).failed
        assert isinstance(failed.error, ModelFileError)
        assert "the weight file changed after its digest was taken" in failed.error.line()
        assert not campaign.store.rows_file(failed.execution.capture_id, "beta").exists()

    def test_a_store_that_fails_does_not_hide_what_came_first(
        self, tmp_path: Path, finished: Campaign, empty_database: Path
    ) -> None:
        campaign = new_campaign(tmp_path / "stopped", finished.machine, empty_database)

        class Destructive(Reporter):
            def opening(self, execution) -> None:
                (campaign.root / "mlflow.db").write_bytes(b"no database at all" * 1000)
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            campaign.run(reporter=Destructive())

    def test_ctrl_c_in_the_middle(self, tmp_path: Path, finished: Campaign, empty_database: Path) -> None:
        campaign = new_campaign(tmp_path / "stopped", finished.machine, empty_database)

        class Impatient(Reporter):
            def window(self, done) -> None:
                super().window(done)
                if (done.execution, done.window) == ("q4_0", "alpha-2"):
                    raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            campaign.run(reporter=Impatient())
        (record,) = campaign.records()
        assert (record.complete, record.status) == (False, "FAILED")
        assert [arm.arm for arm in record.arms if arm.complete] == ["f16-launch", "f16-decode", "q8_0"]
        campaign.run()
        assert campaign.reporter.opened == ["f16", "q4_0", "kv-q4_0"]
        (record,) = campaign.records()
        assert record.complete and [arm.complete for arm in record.arms] == [True] * 5
        assert tree(campaign.root) == tree(finished.root)
        assert figures_of(campaign) == figures_of(finished)

    def test_a_changed_reference_starts_its_group_again(self, finished: Campaign, tmp_path: Path) -> None:
        """Rows kept from another state of the machine: nothing that was compared with them may stay, logged or not."""
        campaign = copied(finished, tmp_path / "copy")
        executions = campaign.executions()
        reference = executions["f16"]
        # As a machine that gave other rows before the interruption would have left it.
        comparison = executions["q8_0"].compared_with(reference)
        for window in executions["q8_0"].windows:
            spoil_kl(campaign.store.comparison_file(comparison, window))
        relog(campaign, "q8_0", comparison)
        assert figures_of(campaign)["q8_0"] != figures_of(finished)["q8_0"]
        rows = campaign.store.rows_file(reference.capture_id, "beta")
        table = read_table(rows, schema.ROWS)
        index, field = table.schema.get_field_index("row_full"), table.schema.field("row_full")
        other = pa.array([bytes(32)] * table.num_rows, type=pa.binary(32))
        write_table(rows, table.set_column(index, field, other), schema.ROWS)
        campaign.store.remove_window(executions["q4_0"].capture_id, "alpha-1")
        campaign.store.remove_window(executions["q4_0"].capture_id, "beta")
        assert campaign.run().failed == ()
        assert [note for note in campaign.reporter.notes if "the reference's rows differ" in note]
        assert campaign.reporter.opened == ["f16", "f16", "f16-launch", "f16-decode", "q8_0", "q4_0", "kv-q4_0"]
        assert tree(campaign.root) == tree(finished.root)
        assert figures_of(campaign) == figures_of(finished)
        (record,) = campaign.records()
        assert record.complete
        assert sorted(arm.arm for arm in record.arms if arm.complete) == sorted(figures_of(finished))

    def test_a_damaged_table_is_named_with_what_to_do(self, finished: Campaign, tmp_path: Path) -> None:
        campaign = copied(finished, tmp_path / "copy")
        executions = campaign.executions()
        path = campaign.store.comparison_file(executions["q4_0"].compared_with(executions["f16"]), "beta")
        path.write_bytes(path.read_bytes()[:-100])
        with pytest.raises(StoreError, match="remove the file and run again") as caught:
            campaign.run()
        assert caught.value.where == str(path)
        path.unlink()
        assert campaign.run().failed == () and tree(campaign.root) == tree(finished.root)

    def test_a_second_campaign_on_the_store_is_refused(self, finished: Campaign) -> None:
        with finished.store.locked(), pytest.raises(StoreBusy, match="another campaign is running in it"):
            finished.run()

    def test_an_engine_that_is_killed_costs_its_arm_and_not_the_campaign(
        self, tmp_path: Path, finished: Campaign, empty_database: Path
    ) -> None:
        import psutil

        campaign = new_campaign(tmp_path / "killed", finished.machine, empty_database, {"floors": []})

        def kill_worker() -> None:
            found: list[psutil.Process] = []
            while not found:
                found = [kid for kid in psutil.Process().children() if "drift_runs.capture.worker" in kid.cmdline()]
            found[0].kill()  # long before it has opened its engine

        class Killer(Reporter):
            def opening(self, execution) -> None:
                super().opening(execution)
                if execution.name == "q8_0":
                    threading.Thread(target=kill_worker).start()

        result = campaign.run(reporter=Killer())
        (failed,) = result.failed
        assert failed.execution.name == "q8_0" and isinstance(failed.error, EngineDied)
        assert "killed by SIGKILL" in str(failed.error) and "run the same command to go on" in str(failed.error)
        assert outcome(result, "kv-q4_0").figures is not None
        assert campaign.run().failed == () and campaign.reporter.opened == ["f16", "q8_0"]
        mine, whole = tree(campaign.root), tree(finished.root)
        assert len(mine) == 4 * 5 + 3 * 5 and mine == {name: whole[name] for name in mine}
        assert campaign.records()[0].complete


def spoil_kl(path: Path) -> None:
    table = read_table(path, schema.COMPARISON)
    doubled = pa.array(np.asarray(table["kl_full_nats"]) * 2, type=pa.float64())
    index = table.schema.get_field_index("kl_full_nats")
    write_table(path, table.set_column(index, table.field(index), doubled), schema.COMPARISON)


def relog(campaign: Campaign, arm: str, comparison: str) -> None:
    """Make the logged figures of an arm those of the rows that lie in the store now."""
    from drift_runs.measure.summary import summarise
    from drift_runs.tracking import artifacts
    from drift_runs.tracking.reader import load_figures

    (record,) = campaign.records()
    run_id = next(found.run_id for found in record.arms if found.arm == arm)
    assert load_figures(campaign.uri, run_id).num_rows
    loaded = load_protocol(campaign.protocol)
    windows = [window.name for window in loaded.protocol.windows]
    figures = summarise(campaign.store.read_comparison(comparison, windows), loaded.protocol, arm=arm, floors={})
    (path,) = (campaign.root / "mlartifacts" / run_id).rglob(artifacts.FIGURES_FILE.rpartition("/")[2])
    pq.write_table(figures.cast(schema.FIGURES), path)


class TestIdentity:
    """What a capture id depends on."""

    def test_a_name_moves_no_data(self, finished: Campaign, tmp_path: Path, machine: Path) -> None:
        machine.write_text(machine.read_text().replace('[arms."q4_0"]', '[arms."four"]'))
        renamed = new_campaign(
            tmp_path / "renamed", machine, None, {**SOUND, "arms[2].name": "four", "arms[2].title": "Four"}
        )
        assert renamed.executions()["four"].capture_id == finished.executions()["q4_0"].capture_id
        assert campaign_key(tuple(renamed.executions().values())) == campaign_key(tuple(finished.executions().values()))

    def test_threads_processor_and_positions_are_in_it(self, finished: Campaign, tmp_path: Path, machine: Path) -> None:
        from dataclasses import replace

        from drift_runs.capture.planning import plan_executions
        from drift_runs.machine import load_machine
        from tests.campaigns import engine_identity

        loaded, plain = load_protocol(finished.protocol), finished.executions()["q4_0"].capture_id
        machine.write_text(machine.read_text().replace("threads = 1", "threads = 2"))
        ids = {plain}
        for threads, hardware in ((2, None), (1, "x86_64 another processor")):
            engine = engine_identity() if hardware is None else replace(engine_identity(), hardware=hardware)
            path = machine if threads == 2 else finished.machine
            planned = plan_executions(loaded, load_machine(path), engine)
            ids.add(next(execution.capture_id for execution in planned if execution.name == "q4_0"))
        shorter = new_campaign(
            tmp_path / "shorter", finished.machine, None, {**SOUND, "windows[3].scored": [[5, 19]], "ranges[4].to": 19}
        )
        ids.add(shorter.executions()["q4_0"].capture_id)
        assert len(ids) == 4

    def test_a_thread_floor_that_changes_nothing_is_named(self, tmp_path: Path, tiny_arms: Path) -> None:
        floor = {
            "name": "f16-threads",
            "arm": "f16",
            "kind": "geometry",
            "rows": "identical",
            "settings": {"threads": 1},
        }
        campaign = new_campaign(tmp_path / "threads", tiny_arms, None, {**SOUND, "floors[2]": floor})
        with pytest.raises(
            ModelFileError, match=r"f16-threads and f16 are the same execution.*already runs with 1 threads"
        ):
            campaign.executions()
