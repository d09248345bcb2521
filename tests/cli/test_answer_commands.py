"""A protocol that expects answers, through the real commands: run, run again, measure, check."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from drift_runs import schema
from drift_runs.cli.main import main
from drift_runs.tracking import artifacts
from drift_runs.tracking.mlflow_store import artifact
from drift_runs.tracking.reader import load_answers, load_metrics
from tests.campaigns import SOUND, Campaign, copied, figures_of, new_campaign

ANSWERS = [
    {"name": "right", "window": "alpha-1", "from": 6, "to": 7},
    {"name": "wrong", "window": "alpha-1", "from": 8, "to": 11},
    {"name": "late", "window": "alpha-2", "from": 26, "to": 28},
    {"name": "odd", "window": "odd", "from": 6, "to": 9},
]


@pytest.fixture(scope="module")
def answered(tmp_path_factory: pytest.TempPathFactory, tiny_arms: Path, empty_database: Path) -> Campaign:
    changes = {**SOUND, "answers": ANSWERS, "floors": lambda floors: floors[:1]}
    campaign = new_campaign(tmp_path_factory.mktemp("answered") / "campaign", tiny_arms, empty_database, changes)
    assert campaign.run().failed == ()
    return campaign


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)


def test_every_arm_has_its_answers_beside_it(answered: Campaign) -> None:
    (record,) = answered.records()
    tables = {arm.arm: load_answers(answered.uri, arm.run_id) for arm in record.arms}
    assert {name: table.num_rows for name, table in tables.items()} == {
        "f16-launch": 2,  # it has the one window of these two alone
        "q8_0": 4,
        "q4_0": 4,
        "kv-q4_0": 4,
    }
    right, wrong, late, odd = tables["q4_0"].to_pylist()
    assert (right["exact"], right["reference_exact"], right["text"]) == (True, True, "a")
    assert (wrong["exact"], wrong["wrong"], wrong["first_wrong"], wrong["token_text"]) == (False, 3, 8, " ")
    assert wrong["text"][wrong["wrong_from"] : wrong["wrong_to"]] == " "
    assert (late["kind"], odd["outlier"], odd["unknown"]) == ("prose", True, 0)
    rows = {
        (row["outliers"], row["statistic"]): row
        for row in figures_of(answered)["q4_0"]
        if (row["spec"], row["scope_kind"]) == ("answer.exact", "all")
    }
    assert (rows["with", "rate"]["value"], rows["with", "rate"]["n"]) == (1 / 4, 4)
    assert rows["without", "rate"]["value"] == pytest.approx(1 / 3) and rows["only", "count"]["value"] == 0
    metrics = load_metrics(answered.uri, next(arm.run_id for arm in record.arms if arm.arm == "q4_0"))
    assert (metrics["answer.exact/all/rate"], metrics["answer.exact/all/count"]) == (1 / 4, 1)


def test_the_table_shows_them(answered: Campaign, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(answered.arguments()) == 0
    ran = capsys.readouterr().out.splitlines()
    at = ran[0].index("exact answers")
    assert {line.split()[0]: line[at:].split()[0] for line in ran[2:6]} == {
        "f16-launch": "1/2",
        "q8_0": "1/4",
        "q4_0": "1/4",
        "kv-q4_0": "1/4",
    }
    legend = (
        "exact answers: of the expected ones that were judged, those that the arm would write to the letter; "
        "the reference 1/4."
    )
    assert legend in ran and [line for line in ran if line.startswith("Orders: ")]
    assert main(answered.arguments("measure")) == 0
    measured = capsys.readouterr().out.splitlines()
    assert measured[:6] == ran[:6] and legend in measured
    assert [line for line in measured if line.startswith("Orders: ")] == [
        line for line in ran if line.startswith("Orders: ")
    ]


def test_json_has_their_figures_and_nothing_else_is_new(answered: Campaign, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*answered.arguments(), "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert content.keys() == {"run_id", "already_complete", "timing", "arms"}
    arm = content["arms"][-1]
    expected = {"arm", "kind", "capture", "run_id", "error", "warnings", "rows", "rows_identical", "figures"}
    assert arm.keys() == expected
    assert "answer.exact" in {row["spec"] for row in arm["figures"]}


def test_check_computes_them_again(answered: Campaign, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    campaign = copied(answered, tmp_path / "copy")
    assert main([*campaign.arguments("measure"), "--check"]) == 0
    capsys.readouterr()
    run_id = next(arm.run_id for arm in campaign.records()[0].arms if arm.arm == "q4_0")
    with artifact(campaign.uri, run_id, artifacts.ANSWERS_FILE) as path:
        table = load_answers(campaign.uri, run_id)
        flipped = pa.array([False, *table["exact"].to_pylist()[1:]])
        at = table.schema.get_field_index("exact")
        path.write_bytes(
            artifacts.parquet_bytes(table.set_column(at, schema.ANSWERS.field(at), flipped), schema.ANSWERS)
        )
    assert main([*campaign.arguments("measure"), "--check"]) == 1
    said = capsys.readouterr().err
    assert "differs: q4_0 answer right: logged exact False; now exact True" in said
