"""Further launches of an arm, floors of a candidate, and arms that are secretly the same: on the real engine."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from drift_runs.cli import main as cli
from drift_runs.errors import SameRows
from drift_runs.machine import machine_text
from drift_runs.store import plans
from drift_runs.tracking.reader import load_agreement, load_determinism, load_figures, load_listed, load_pairs
from tests.campaigns import SOUND, Campaign, figures_of, new_campaign

LAUNCHES = {
    **SOUND,
    "arms": lambda arms: [arm for arm in arms if arm["name"] in ("f16", "q4_0", "kv-q4_0")],
    "floors": [
        {"name": "f16-launch", "arm": "f16", "kind": "launch", "rows": "identical"},
        {"name": "q4-launch", "arm": "q4_0", "kind": "launch", "rows": "identical"},
        {
            "name": "kv-decode",
            "arm": "kv-q4_0",
            "kind": "geometry",
            "rows": "differ",
            "settings": {"path_shape": "decode"},
        },
    ],
    "arms[1].launches": 2,
}


@pytest.fixture(scope="module")
def launched(tmp_path_factory: pytest.TempPathFactory, tiny_arms: Path, empty_database: Path) -> Campaign:
    campaign = new_campaign(tmp_path_factory.mktemp("launches"), tiny_arms, empty_database, LAUNCHES)
    result = campaign.run()
    assert result.failed == ()
    return campaign


def test_every_launch_and_floor_has_a_run_of_its_own(launched: Campaign) -> None:
    (record,) = launched.records()
    assert record.complete
    assert [(arm.arm, arm.role, arm.reference, arm.launch) for arm in record.arms] == [
        ("f16-launch", "floor", "", 2),
        ("q4_0#2", "launch", "", 2),
        ("q4_0", "candidate", "", 1),
        ("q4-launch", "floor", "q4_0", 3),
        ("kv-q4_0", "candidate", "", 1),
        ("kv-decode", "floor", "kv-q4_0", 1),
    ]
    assert len({arm.capture_id for arm in record.arms}) == 6


def test_an_arm_gives_its_mean_over_launches_and_their_difference(launched: Campaign) -> None:
    rows = {
        (row["spec"], row["statistic"]): row
        for row in figures_of(launched)["q4_0"]
        if row["scope_kind"] == "all" and row["outliers"] == "with"
    }
    mean = rows["kl.full", "mean"]
    # The engine is deterministic: launches agree to the last bit.
    assert rows["kl.full", "mean.launches_mean"]["value"] == mean["value"]
    assert rows["kl.full", "mean.launches_difference"]["value"] == 0
    assert "2 launches" in rows["kl.full", "mean.launches_mean"]["reason"]
    assert not any("launches" in row["statistic"] for row in figures_of(launched)["q4_0#2"])


def test_a_floor_of_a_candidate_is_compared_with_the_candidate(launched: Campaign) -> None:
    (record,) = launched.records()
    runs = {arm.arm: arm.run_id for arm in record.arms}
    again = load_determinism(launched.uri, runs["q4-launch"]).to_pylist()
    assert {row["against"] for row in again} == {"q4_0"} and {row["row_hash"] for row in again} == {"row.full"}
    assert all(row["rows_identical"] == row["rows"] > 0 for row in again)
    decoded = load_figures(launched.uri, runs["kv-decode"]).to_pylist()
    lower = next(
        row
        for row in decoded
        if row["spec"].startswith("kl.topk-lower@") and row["statistic"] == "mean" and row["scope_kind"] == "all"
    )
    assert lower["value"] > 0 and lower["n"] == 76
    # Full rows of a candidate are never kept, so this figure is absent, not 0.
    full = [row for row in decoded if row["spec"] == "kl.full" and row["value"] is not None and row["value"] != 0]
    assert [row for row in full if row["statistic"] not in ("excluded", "infinite")] == []


def test_a_floor_of_a_candidate_stands_beside_no_figure_of_the_reference(launched: Campaign) -> None:
    for name in ("q4_0", "q4_0#2"):
        assert {row["floor"] for row in figures_of(launched)[name]} <= {"", "f16-launch"}


def test_a_second_measuring_gives_every_logged_figure(launched: Campaign, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([*launched.arguments("measure"), "--check"]) == 0
    said = capsys.readouterr()
    found = re.search(r"([\d,]+) of ([\d,]+) figures equal", said.err)
    assert found and found[1] == found[2] and int(found[1].replace(",", "")) > 500


def test_by_the_id_of_its_run_and_without_the_protocols_file(
    launched: Campaign, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (record,) = launched.records()
    command = ["measure", "--check", "--store", str(launched.root)]
    assert cli.main([*command, record.run_id[:8]]) == 0
    assert cli.main([*command, "ffffffff"]) == 4
    assert "no campaign 'ffffffff'" in capsys.readouterr().err
    (plan,) = plans(launched.store)
    assert plan.run_id == record.run_id and plan.name == "tiny"


def test_from_the_tracking_store_alone(launched: Campaign, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (record,) = launched.records()
    options = ["--tracking-uri", launched.uri, "--store", str(tmp_path / "none")]
    assert cli.main(["measure", "--check", record.run_id, *options]) == 0
    assert "figures equal what was logged" in capsys.readouterr().err


def test_a_changed_row_fails_the_check(launched: Campaign, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from drift_runs import schema
    from drift_runs.store import Store, read_table, write_table

    shutil.copytree(launched.root, tmp_path / "store")
    store = Store(tmp_path / "store")
    entry = next(found for found in plans(store)[0].captures if found.name == "q4_0")
    path = store.comparison_file(entry.comparison, entry.windows[0])
    table = read_table(path, schema.COMPARISON)
    at = table.schema.get_field_index("flip")
    flipped = [not value for value in table["flip"].to_pylist()]
    write_table(path, table.set_column(at, table.schema.field(at), [flipped]), schema.COMPARISON)
    command = ["measure", str(launched.protocol), "--store", str(store.root), "--tracking-uri", launched.uri]
    assert cli.main(command) == 0, "without --check a difference is said and no more"
    assert cli.main([*command, "--check"]) == 1
    assert "differs: q4_0 all/all/with/flip/rate" in capsys.readouterr().err


def test_what_the_arms_say_of_each_other_is_logged(finished: Campaign) -> None:
    (record,) = finished.records()
    pairs = load_pairs(finished.uri, record.run_id).to_pylist()
    assert {(row["left"], row["right"]) for row in pairs} == {
        ("q8_0", "q4_0"),
        ("q8_0", "kv-q4_0"),
        ("q4_0", "kv-q4_0"),
    }
    overall = next(
        row
        for row in pairs
        if (row["left"], row["right"], row["scope_kind"], row["outliers"], row["spec"])
        == ("q8_0", "q4_0", "all", "with", "kl.full")
    )
    assert overall["n"] == 76 and overall["difference"] == pytest.approx(
        overall["left_value"] - overall["right_value"], rel=1e-12
    )
    assert load_agreement(finished.uri, record.run_id).num_rows > 0
    arm = next(arm for arm in record.arms if arm.arm == "q4_0")
    listed = load_listed(finished.uri, arm.run_id).to_pylist()
    assert listed and all(row["token_text"] for row in listed), "the dictionary was at hand"


def test_two_candidates_with_the_same_rows_are_an_error(tmp_path: Path, tiny_arms: Path, empty_database: Path) -> None:
    """One copied weight file under two names: the second arm is the first."""
    other = tmp_path / "other.gguf"
    shutil.copyfile(tiny_arms.parent / "q4_0.gguf", other)
    with other.open("ab") as file:
        file.write(b"\0")  # another digest, so that they are two executions
    models = {name: tiny_arms.parent / f"{name}.gguf" for name in ("f16", "q4_0")}
    machine = tmp_path / "drift.toml"
    machine.write_text(machine_text({**models, "q8_0": other}, same_model={"kv-q4_0": "f16"}, threads=1))
    campaign = new_campaign(
        tmp_path / "twins", machine, empty_database, {**SOUND, "floors": [], "arms[1].weights": "q4_0"}
    )
    result = campaign.run()
    (failed,) = result.failed
    assert isinstance(failed.error, SameRows) and "byte-identical to those of arm q8_0" in str(failed.error)
    assert failed.execution.name == "q4_0"


def test_an_arm_that_differs_in_more_than_was_declared_is_in_no_pair(
    tmp_path: Path, tiny_arms: Path, empty_database: Path
) -> None:
    """Another thread count in the machine's file: what differs may be the arm or the threads."""
    models = {name: tiny_arms.parent / f"{name}.gguf" for name in ("f16", "q8_0", "q4_0")}
    machine = tmp_path / "drift.toml"
    text = machine_text(models, same_model={"kv-q4_0": "f16"}, threads=1)
    machine.write_text(re.sub(r'(\[arms\."?q8_0"?\]\n)', r"\1threads = 2\n", text))
    campaign = new_campaign(tmp_path / "threads", machine, empty_database, {**SOUND, "floors": []})
    assert campaign.run().failed == ()
    (record,) = campaign.records()
    pairs = load_pairs(campaign.uri, record.run_id).to_pylist()
    assert {(row["left"], row["right"]) for row in pairs} == {("q4_0", "kv-q4_0")}
    assert "threads" in next(arm for arm in record.arms if arm.arm == "q8_0").key["undeclared"]
    assert cli.main([*campaign.arguments("measure"), "--check"]) == 0
