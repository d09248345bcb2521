"""``drift measure --add``: tables that an older version did not make, beside figures that stay as they are."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from drift_runs import schema
from drift_runs.cli import main as cli
from drift_runs.store import Store, read_table, write_table
from drift_runs.tracking import artifacts
from drift_runs.tracking.mlflow_store import artifact
from drift_runs.tracking.reader import list_campaigns, load_distribution, load_figures
from drift_runs.tracking.uris import resolve_uri

FILES = Path(__file__).parents[1] / "data" / "imports"


@pytest.fixture
def store(tmp_path: Path, empty_database: Path) -> Path:
    """An import of two candidates, whose runs have lost their distributions."""
    folder = tmp_path / "store"
    Store(folder).open(create=True)
    shutil.copy(empty_database, folder / "mlflow.db")
    files = ["--candidate", f"a={FILES / 'positions-a.csv'}", "--candidate", f"b={FILES / 'positions-b.csv'}"]
    assert cli.main(["import", "csv", "--name", "mine", "--store", str(folder), "--reference", "bf16", *files]) == 0
    return folder


def runs(store: Path) -> dict[str, str]:
    (record,) = list_campaigns(resolve_uri(None, store))
    return {arm.arm: arm.run_id for arm in record.arms}


def forget(store: Path) -> dict[str, pa.Table]:
    """Take every distribution away, as an older version never stored one; gives back what they were."""
    uri, found = resolve_uri(None, store), {}
    for arm, run in runs(store).items():
        found[arm] = load_distribution(uri, run)
        with artifact(uri, run, artifacts.DISTRIBUTION_FILE) as path:
            path.unlink()
        assert load_distribution(uri, run).num_rows == 0
    return found


def test_what_is_lacking_is_added_and_nothing_else_changes(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = forget(store)
    uri = resolve_uri(None, store)
    figures = {arm: load_figures(uri, run) for arm, run in runs(store).items()}
    assert all(table.num_rows for table in before.values()) and set(before) == {"a", "b"}
    # Without the word for it nothing is stored, and an older campaign is no difference.
    assert cli.main(["measure", "mine", "--check", "--store", str(store)]) == 0
    assert load_distribution(uri, runs(store)["a"]).num_rows == 0
    capsys.readouterr()
    assert cli.main(["measure", "mine", "--add", "--arm", "a", "--store", str(store)]) == 0
    assert "a: distribution added" in capsys.readouterr().err
    assert load_distribution(uri, runs(store)["b"]).num_rows == 0
    assert cli.main(["measure", "mine", "--add", "--store", str(store)]) == 0
    said = capsys.readouterr().err
    assert "b: distribution added" in said and "a: distribution" not in said
    for arm, run in runs(store).items():
        assert load_distribution(uri, run).equals(before[arm])
        assert load_figures(uri, run).equals(figures[arm])
    assert cli.main(["measure", "mine", "--check", "--store", str(store)]) == 0


def change_a_row(store: Path) -> None:
    (path,) = (found for found in (store / "comparisons").rglob("w1.parquet") if _has(found, 0.3))
    table = read_table(path, schema.COMPARISON)
    index = table.schema.get_field_index("kl_full_nats")
    values = [0.9 if value == 0.3 else value for value in table["kl_full_nats"].to_pylist()]
    write_table(path, table.set_column(index, table.field(index), pa.array(values)), schema.COMPARISON)


def _has(path: Path, value: float) -> bool:
    return value in read_table(path, schema.COMPARISON)["kl_full_nats"].to_pylist()


def test_nothing_is_added_beside_figures_that_differ(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    forget(store)
    change_a_row(store)
    capsys.readouterr()
    assert cli.main(["measure", "mine", "--add", "--store", str(store)]) == 1
    said = capsys.readouterr().err
    assert "distribution not added, because its logged figures differ" in said and "distribution added" in said
    kept = [load_distribution(resolve_uri(None, store), run).num_rows > 0 for run in runs(store).values()]
    assert sorted(kept) == [False, True]


def test_a_stored_distribution_is_checked(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    uri, run = resolve_uri(None, store), runs(store)["a"]
    table = load_distribution(uri, run)
    index = table.schema.get_field_index("count")
    counts = pa.array([row + 1 for row in table["count"].to_pylist()])
    with artifact(uri, run, artifacts.DISTRIBUTION_FILE) as path:
        changed = table.set_column(index, table.field(index), counts)
        path.write_bytes(artifacts.parquet_bytes(changed, schema.DISTRIBUTION))
    capsys.readouterr()
    assert cli.main(["measure", "mine", "--check", "--store", str(store)]) == 1
    assert "differs: a bin all/all/with/kl.full/0.1: logged count 2; now count 1" in capsys.readouterr().err
