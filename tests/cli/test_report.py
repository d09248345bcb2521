"""``drift report`` as it is called: its files, what it prints, and what it refuses."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import pytest

from drift_runs.cli.main import main
from tests.ui.synthetic import InventedStore, build_store, shared_store


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> InventedStore:
    return shared_store(tmp_path_factory)


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("DRIFT_STORE", "MLFLOW_TRACKING_URI"):
        monkeypatch.delenv(name, raising=False)


def test_html_is_written_under_a_name_of_its_own(store: InventedStore, tmp_path: Path, capsys) -> None:
    assert main(["report", "--store", str(store.folder)]) == 0
    (written,) = tmp_path.iterdir()
    assert written.name == f"drift-invented-v2-{store.campaign[:8]}.html"
    assert capsys.readouterr().out == f"html: {written.name}\n"
    assert written.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_csv_and_markdown_and_what_was_written_as_json(store: InventedStore, tmp_path: Path, capsys) -> None:
    arguments = ["report", "invented", "--store", str(store.folder), "--csv", "tables", "--markdown", "s.md", "--json"]
    assert main([*arguments, "--outliers", "without"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["campaign"] == store.campaign and said["outliers"] == ["without"] and "html" not in said
    assert not list(tmp_path.glob("*.html"))
    assert {Path(name) for name in said["csv"]} == {
        path.relative_to(tmp_path) for path in tmp_path.glob("tables/**/*.csv")
    }
    with open("tables/candidates.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert {row["outliers"] for row in rows} == {"without"}
    (mean,) = [row for row in rows if (row["arm"], row["spec"], row["statistic"]) == ("q4_0", "kl.full", "mean")]
    assert float(mean["value"]) == store.figure("q4_0", "kl.full", "mean", "without")["value"]
    with open("tables/stored/figures.csv", newline="", encoding="utf-8") as file:
        assert sum(1 for _ in csv.DictReader(file)) == sum(table.num_rows for table in store.figures.values())
    assert "# Invented campaign" in Path("s.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["nothing"], 4, "no campaign 'nothing'; expected latest, a run id, or one of invented"),
        (["--out", "none/x.html"], 2, "no folder"),
        (["--out", "."], 2, "is a folder"),
        (["--outliers", "some"], 2, "invalid choice: 'some'"),
    ],
)
def test_what_cannot_be_done_is_one_line(
    store: InventedStore, capsys, arguments: list[str], code: int, said: str
) -> None:
    assert main(["report", "--store", str(store.folder), *arguments]) == code
    out = capsys.readouterr()
    assert said in out.err and out.err.count("\n") == 1 and not out.out


def test_a_store_that_is_not_there_is_named_and_not_made(tmp_path: Path, capsys) -> None:
    assert main(["report", "--store", str(tmp_path / "no")]) == 2
    assert "there is no tracking store" in capsys.readouterr().err
    assert not (tmp_path / "no").exists()


def test_an_unfinished_campaign_is_not_reported(tmp_path: Path, capsys) -> None:
    unfinished = build_store(tmp_path / "unfinished", finish=False, arms=("q8_0", "micro-batch"))
    assert main(["report", "--store", str(unfinished.folder)]) == 4
    assert "is not complete" in capsys.readouterr().err


def test_a_decision_is_recorded_and_stands_in_the_report(tmp_path: Path, store: InventedStore, capsys) -> None:
    shutil.copy(store.folder / "mlflow.db", tmp_path / "mlflow.db")  # the files of its runs stay where they are
    where = ["--store", str(tmp_path)]
    reason = "loses | ports"
    arguments = ["decide", "q4_0", "needs-more", "--reason", reason, "--name", "R. Reader", *where]
    assert main(arguments) == 0
    assert capsys.readouterr().out == "q4_0 of invented is needs more (decision 1 about it)\n"
    assert main([*arguments, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["number"] == 2
    assert main(["report", *where, "--markdown", "s.md", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["decisions"] == {"q4_0": "needs more"}
    assert "loses \\| ports" in Path("s.md").read_text(encoding="utf-8")


def test_a_floor_is_not_to_decide_about(tmp_path: Path, store: InventedStore, capsys) -> None:
    arguments = ["decide", "launch", "accepted", "--reason", "r", "--name", "n", "--store", str(store.folder)]
    assert main(arguments) == 2
    assert "no arm 'launch' to decide about" in capsys.readouterr().err
