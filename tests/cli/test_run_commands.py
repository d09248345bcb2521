"""``drift run``, ``plan`` and ``measure`` on a finished campaign, and the exit code of each way to fail."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from drift_runs import schema
from drift_runs.cli.main import main
from drift_runs.measure.figures import Figure, figures_table
from drift_runs.remeasure import differences
from drift_runs.store import read_table, write_table
from tests.campaigns import Campaign, copied, new_campaign, tree
from tests.conftest import change_toml
from tests.tiny_model import write_tiny_model


def drift(*arguments: object, **options) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "drift_runs.cli.main", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, **options)


class Said:
    """What a command in this process printed."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self.out = self.err = ""

    def __call__(self, *arguments: object) -> int:
        self._capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        self.out, self.err = self._capsys.readouterr()
        return code


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Said:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.delenv("DRIFT_STORE", raising=False)
    return Said(capsys)


def rows_of(table: str) -> dict[str, str]:
    return {line.split()[0]: line for line in table.splitlines() if line and not line.startswith("-")}


class TestRun:
    def test_a_finished_campaign_prints_the_same_table(self, finished: Campaign, tmp_path: Path, say: Said) -> None:
        campaign = copied(finished, tmp_path / "copy")
        before = tree(campaign.root)
        assert say(*campaign.arguments()) == 0
        first, notes = say.out, say.err
        assert list(rows_of(first))[:6] == ["arm", "f16-launch", "f16-decode", "q8_0", "q4_0", "kv-q4_0"]
        assert rows_of(first)["f16-launch"].endswith("rows same 21/21")
        assert rows_of(first)["f16-decode"].endswith("rows same 0/76")
        assert rows_of(first)["q4_0"].endswith(("above", "within", "inconclusive", "no verdict"))
        assert "n = 76 scored positions in 3 clusters; 61 without the declared outlier windows." in first
        assert "Coverage 0.974: 76 of 78 positions are scored." in first
        assert "Note: The weights are made up." in first
        assert "all rows are there already" in notes and "\r" not in notes, "no progress line without a terminal"
        assert say(*campaign.arguments()) == 0 and say.out == first
        assert tree(campaign.root) == before

    def test_json(self, finished: Campaign, tmp_path: Path, say: Said) -> None:
        campaign = copied(finished, tmp_path / "copy")
        assert say(*campaign.arguments(), "--json") == 0
        content = json.loads(say.out)
        assert content["already_complete"] is True
        assert [arm["arm"] for arm in content["arms"]] == ["f16-launch", "f16-decode", "q8_0", "q4_0", "kv-q4_0"]
        decode = content["arms"][1]
        assert (decode["kind"], decode["rows"], decode["rows_identical"], decode["error"]) == ("floor", 76, 0, None)
        assert {figure["spec"] for figure in decode["figures"]} >= {"kl.full", "flip"}

    def test_a_subset_says_that_the_campaign_stays_incomplete(
        self, tmp_path: Path, tiny_arms: Path, empty_database: Path, say: Said
    ) -> None:
        changes = {"intervals.resamples": 100, "floors": []}
        campaign = new_campaign(tmp_path / "one", tiny_arms, empty_database, changes)
        assert say(*campaign.arguments(), "--arms", "q4_0") == 0
        assert list(rows_of(say.out))[:2] == ["arm", "q4_0"]
        assert "the campaign stays incomplete: only q4_0 were asked for" in say.err

    def test_a_failed_arm_has_its_row_and_exit_code_5(
        self, tmp_path: Path, tiny_arms: Path, empty_database: Path, say: Said
    ) -> None:
        """Poisoned weights through the real command: named, nothing averaged, the other arm complete."""
        bad = write_tiny_model(tmp_path / "bad.gguf", poison="blk.0.ffn_up.weight")
        machine = tmp_path / "drift.toml"
        machine.write_text(
            'schema = "drift.machine/1"\n[defaults]\nthreads = 1\n'
            + "".join(
                f'[arms."{arm}"]\nmodel = "{path}"\n'
                for arm, path in (
                    ("f16", tiny_arms.parent / "f16.gguf"),
                    ("q8_0", bad),
                    ("q4_0", tiny_arms.parent / "q4_0.gguf"),
                )
            )
        )
        changes = {
            "intervals.resamples": 100,
            "floors": [],
            "arms": lambda arms: arms[:3],
            "arms[1].weights": "f16",
        }
        campaign = new_campaign(tmp_path / "nan", machine, empty_database, changes)
        assert say(*campaign.arguments()) == 5
        lines = rows_of(say.out)
        assert lines["q8_0"].startswith(
            "q8_0          failed: arm q8_0, window alpha-1, position 1: NaN or infinity in 21 of 21 rows"
        )
        assert "nothing was averaged around it" in lines["q8_0"]
        assert lines["q4_0"].split()[1].endswith("%")
        assert say.err.splitlines()[-1] == "drift: failed arms: q8_0"
        (record,) = campaign.records()
        assert {arm.arm: arm.complete for arm in record.arms} == {"q8_0": False, "q4_0": True}
        # The next run meets the same weights, and says the same.
        assert say(*campaign.arguments()) == 5 and rows_of(say.out) == lines


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--arms", "q9"], "unknown arm 'q9'"),
        (["--spill-gb", "0"], "--spill-gb: 0.0 GB; expected a positive number"),
        (["--spill-gb", "nan"], "--spill-gb: nan GB; expected a positive number"),
        (["--spill-gb", "inf"], "--spill-gb: inf GB; expected a positive number"),
        (["--state-gb", "-1"], "--state-gb: -1.0 GB; expected 0 or more"),
        (["--state-gb", "nan"], "--state-gb: nan GB; expected 0 or more"),
        (["--machine", "none.toml"], "none.toml: no such file"),
        (["--followups", "none.toml"], "none.toml"),
        (["--tracking-uri", "file:///tmp/x"], "file store"),
        (["--arm", "q4_0"], "unknown argument '--arm'; did you mean '--arms'?"),
    ],
)
def test_wrong_options_of_run(finished: Campaign, say: Said, options: list[str], message: str) -> None:
    assert say(*finished.arguments(), *options) == 2
    (line,) = [line for line in say.err.splitlines() if line.startswith("drift: error: ")]
    assert message in line and say.out == ""


def test_no_machine_file(finished: Campaign, tmp_path: Path) -> None:
    """A real process in an empty folder."""
    result = drift("run", finished.protocol, cwd=tmp_path)
    assert result.returncode == 2 and result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith("drift: error: drift.toml: no such file; expected a machine file that says where")
    assert list(tmp_path.iterdir()) == []


class TestMeasure:
    def test_it_equals_what_was_logged(self, finished: Campaign, tmp_path: Path, say: Said) -> None:
        campaign = copied(finished, tmp_path / "copy")
        assert say(*campaign.arguments("measure")) == 0
        arms = ["f16-launch", "f16-decode", "q8_0", "q4_0", "kv-q4_0"]
        assert list(rows_of(say.out)) == ["arm", *arms, "Orders:", "Note:"]
        assert "Note: This is a draft" in say.out and "Note: The weights are made up." in say.out
        words = say.err.split()
        assert words[0] == words[2] and int(words[0].replace(",", "")) > 500, say.err
        assert "differs" not in say.err

    def test_one_arm_as_json(self, finished: Campaign, tmp_path: Path, say: Said) -> None:
        campaign = copied(finished, tmp_path / "copy")
        assert say(*campaign.arguments("measure"), "--arm", "q4_0", "--json", "--no-check") == 0
        content = json.loads(say.out)
        assert list(content) == ["q4_0"] and say.err == ""
        mean = next(
            row
            for row in content["q4_0"]
            if (row["spec"], row["statistic"], row["scope_kind"]) == ("kl.full", "mean", "all")
        )
        assert mean["floor"] == "f16-decode", "a floor is read though it is not shown"

    def test_a_changed_row_is_found(self, finished: Campaign, tmp_path: Path, say: Said) -> None:
        campaign = copied(finished, tmp_path / "copy")
        executions = campaign.executions()
        path = campaign.store.comparison_file(executions["q4_0"].compared_with(executions["f16"]), "beta")
        table = read_table(path, schema.COMPARISON)
        values = np.array(table["kl_full_nats"].to_pylist())
        values[3] += 1e-3
        index = table.schema.get_field_index("kl_full_nats")
        write_table(path, table.set_column(index, table.field(index), pa.array(values)), schema.COMPARISON)
        assert say(*campaign.arguments("measure")) == 0
        assert "differs: q4_0 all/all/with/kl.full/mean: logged value 0." in say.err
        assert "differs: q8_0" not in say.err

    @pytest.mark.parametrize(
        ("column", "other"), [("high", 0.9), ("low", None), ("floor_value", 0.2), ("verdict", "within"), ("n", 7)]
    )
    def test_what_stands_beside_a_value_is_compared_too(self, column: str, other: object) -> None:
        figure = Figure(
            arm="q4_0",
            scope_kind="all",
            scope="all",
            outliers="with",
            spec="kl.full",
            statistic="mean",
            value=0.5,
            n=8,
            low=0.4,
            high=0.6,
            floor="f",
            floor_value=0.1,
            verdict="above",
        )
        logged, computed = figures_table([figure]), figures_table([replace(figure, **{column: other})])
        assert differences("figures", "q4_0", logged, logged) == (logged.num_rows, (), 0)
        (line,) = differences("figures", "q4_0", logged, computed).differing
        was = getattr(figure, column)
        assert line == f"q4_0 all/all/with/kl.full/mean: logged {column} {was}; now {column} {other}"

    def test_rows_that_agree_to_the_byte_are_compared_too(self) -> None:
        row = {
            "arm": "launch",
            "against": "f16",
            "window": "w1",
            "rows": 3,
            "rows_identical": 3,
            "rows_unhashable": 0,
            "window_identical": True,
            "row_hash": "row.full",
            "max_abs_dlogit": 0.0,
            "max_abs_dlogprob": None,
            "first_difference": None,
            "window_hash": bytes(32),
        }
        other = {**row, "rows_identical": 2, "window_identical": False, "first_difference": 7, "window_hash": None}
        logged, computed = (pa.Table.from_pylist([each], schema=schema.DETERMINISM) for each in (row, other))
        unhashed = pa.Table.from_pylist([{**row, "window_hash": None}], schema=schema.DETERMINISM)
        assert differences("determinism", "launch rows", logged, unhashed).differing == ()
        assert differences("determinism", "launch rows", logged, computed).differing == (
            "launch rows f16/w1: logged rows_identical 3, window_identical True; "
            "now rows_identical 2, window_identical False",
        )

    def test_figures_that_an_older_version_did_not_know_are_counted_and_no_difference(self) -> None:
        figure = Figure(
            arm="q4_0", scope_kind="all", scope="all", outliers="with", spec="flip", statistic="rate", value=0.5, n=8
        )
        newer = figures_table([replace(figure, standard_error=0.1), replace(figure, statistic="count", value=4.0)])
        assert differences("figures", "q4_0", figures_table([figure]), newer) == (1, (), 1)
        lost = differences("figures", "q4_0", newer, figures_table([replace(figure, standard_error=0.1)]))
        assert lost == (1, ("q4_0 all/all/with/flip/count: only logged",), 0)

    def test_a_damaged_table_is_named(self, finished: Campaign, tmp_path: Path, say: Said) -> None:
        campaign = copied(finished, tmp_path / "copy")
        executions = campaign.executions()
        path = campaign.store.comparison_file(executions["q4_0"].compared_with(executions["f16"]), "beta")
        path.write_bytes(b"PAR1 but no more")
        assert say(*campaign.arguments("measure")) == 2
        assert f"{path}: cannot be read" in say.err

    def test_windows_that_are_not_there_yet(self, finished: Campaign, tmp_path: Path, say: Said) -> None:
        campaign = copied(finished, tmp_path / "copy")
        executions = campaign.executions()
        campaign.store.remove_comparison(executions["q4_0"].compared_with(executions["f16"]), "beta")
        assert say(*campaign.arguments("measure"), "--no-check") == 0
        assert "q4_0: 1 of 4 windows are not there yet" in say.err and "q4_0 " not in rows_of(say.out)
        assert say(*campaign.arguments("measure"), "--no-check", "--arm", "q4_0") == 4
        assert "no arm is whole" in say.err and say.out == ""

    @pytest.mark.parametrize(
        ("options", "code", "message"),
        [
            (
                ["--arm", "q4_O"],
                4,
                r"no arm 'q4_O'; expected one of f16-launch, f16-decode, q8_0, q4_0, kv-q4_0; did you mean",
            ),
            (["--store", "none"], 2, "no store here"),
        ],
    )
    def test_what_is_not_there(
        self, finished: Campaign, say: Said, options: list[str], code: int, message: str
    ) -> None:
        assert say(*finished.arguments("measure"), *options) == code
        assert message in say.err

    def test_a_protocol_that_never_ran(self, finished: Campaign, tmp_path: Path, say: Said) -> None:
        other = new_campaign(tmp_path / "other", finished.machine, None, {"floors": []})
        assert say("measure", other.protocol, "--store", finished.root) == 4
        assert "tiny version 1 never ran here; run it first: drift run" in say.err


class TestPlan:
    def test_text_of_what_is_to_come(self, tmp_path: Path, tiny_arms: Path, say: Said) -> None:
        campaign = new_campaign(tmp_path / "new", tiny_arms, None)
        assert say(*campaign.arguments("plan")) == 0
        assert "tiny version 1 (draft): Tiny" in say.out
        (odd,) = [line for line in say.out.splitlines() if line.startswith("odd ")]
        assert odd.split()[1:5] == ["P-B", "odd", "24", "15"] and odd.endswith("literal-copy  (declared outlier)")
        assert "arms     f16, q8_0, q4_0, kv-q4_0" in say.out
        assert "floors   f16-launch, f16-decode" in say.out
        assert "6 executions, 573 tokens to evaluate, 401 rows; 573 tokens not in the store yet" in say.out
        assert f"would take {401 * 32 * 2 / 1000:.0f} kB at 2 bytes an entry" in say.out
        assert "room while it runs: 9.7 kB for the reference's full rows, in 1 group of windows" in say.out
        assert "tokens/s, as the reference's model ran just now" in say.out
        assert not campaign.root.exists(), "a plan writes nothing"

    def test_json_with_a_probe(self, finished: Campaign, say: Said) -> None:
        assert say(*finished.arguments("plan"), "--json") == 0
        content = json.loads(say.out)
        estimate = content["estimate"]
        assert (estimate["executions"], estimate["tokens"], estimate["positions"]) == (6, 573, 401)
        assert estimate["tokens_left"] == 0 and estimate["seconds_left"] == 0
        assert estimate["full_bytes"] == 401 * 64 and estimate["spill_bytes"] == 76 * 128 and estimate["groups"] == 1
        assert content["probe"]["tokens_per_s"] > 10 and content["probe"]["row_bytes"] > 50
        assert content["no_probe_because"] is None and estimate["stored_bytes"] > 401 * 50

    def test_further_launches_count(self, tmp_path: Path, say: Said) -> None:
        counts = []
        for launches in (1, 3):
            other = new_campaign(tmp_path / str(launches), tmp_path, None, {"arms[1].launches": launches})
            assert say("plan", other.protocol, "--no-probe", "--json", "--store", tmp_path / "none") == 0
            counts.append(json.loads(say.out)["estimate"]["executions"])
        assert counts[1] == counts[0] + 2

    def test_without_a_probe(
        self, finished: Campaign, tmp_path: Path, say: Said, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert say(*finished.arguments("plan"), "--no-probe", "--json", "--spill-gb", str(40 * 128 / 1e9)) == 0
        content = json.loads(say.out)
        assert content["probe"] is None and content["no_probe_because"] == "--no-probe was given"
        assert content["estimate"]["seconds_left"] is None and content["estimate"]["groups"] == 2
        assert content["estimate"]["spill_bytes"] == 39 * 128
        assert content["estimate"]["tokens_left"] is None, "which rows are its own is not known without its files"
        monkeypatch.chdir(tmp_path)
        assert say("plan", finished.protocol, "--store", tmp_path / "none") == 0
        assert "time     not estimated: no drift.toml says where the models lie" in say.out

    def test_a_model_that_is_not_there(
        self, finished: Campaign, tmp_path: Path, say: Said, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Named with --machine it is an error; found by itself it only costs the estimate."""
        machine = tmp_path / "drift.toml"
        machine.write_text('schema = "drift.machine/1"\n[arms.f16]\nmodel = "none.gguf"\n')
        assert say("plan", finished.protocol, "--machine", machine) == 5
        assert "none.gguf: no such file" in say.err
        monkeypatch.chdir(tmp_path)
        assert say("plan", finished.protocol) == 0
        assert "not estimated" in say.out and "none.gguf: no such file" in say.out


def test_exit_codes_of_real_processes(finished: Campaign, tmp_path: Path) -> None:
    """One process each: 0, 2, 4, 5."""
    measured = drift(*finished.arguments("measure"), "--no-check", "--arm", "f16-decode")
    assert (measured.returncode, measured.stderr) == (0, "")
    with finished.store.locked():
        busy = drift(*finished.arguments())
    assert busy.returncode == 2 and "another campaign is running in it" in busy.stderr.splitlines()[-1]
    assert drift(*finished.arguments("measure"), "--no-check", "--arm", "none").returncode == 4
    change_toml(
        (campaign := new_campaign(tmp_path / "label", finished.machine, None)).protocol, {"arms[1].weights": "q4_0"}
    )
    wrong = drift(*campaign.arguments())
    assert wrong.returncode == 5
    assert "arm q8_0 declares weights q4_0, the file holds q8_0" in wrong.stderr.splitlines()[-1]
    assert "Traceback" not in wrong.stderr
