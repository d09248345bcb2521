"""Every version of every stored table stays readable: one file of each, written by the version that introduced it."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from drift_runs import schema
from drift_runs.errors import StoreError
from drift_runs.store import read_table
from drift_runs.tracking import artifacts

FILES = sorted((Path(__file__).parent / "data" / "stored").glob("*.parquet"))
SCHEMAS = {
    found.metadata[schema.VERSION_KEY].decode(): found
    for found in vars(schema).values()
    if isinstance(found, pa.Schema) and schema.version_of(found)
}
ROWS = {
    "agreement-1": 306,
    "answers-1": 5,
    "comparison-1": 21,
    "comparison-2": 21,
    "contexts-1": 4,
    "determinism-1": 4,
    "determinism-2": 4,
    "dictionary-1": 3,
    "distribution-1": 102,
    "listed-1": 52,
    "pairs-1": 72,
    "proposals-1": 1,
    "rollouts-1": 6,
    "rows-1": 21,
    "rows-2": 21,
    "subsample-1": 1,
}


def newest(name: str) -> pa.Schema:
    """The schema that a reader wants for files of this kind."""
    (found,) = (found for version, found in SCHEMAS.items() if re.fullmatch(rf"drift\.{name}/\d+", version))
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_it_reads_as_the_newest_version(path: Path) -> None:
    wanted = newest(path.stem.rpartition("-")[0])
    for read in (lambda: read_table(path, wanted), lambda: artifacts.read_table(path, wanted, "run")):
        table = read()
        assert table.schema.equals(wanted) and schema.version_of(table.schema) == schema.version_of(wanted)
        assert table.num_rows == ROWS.get(path.stem, table.num_rows) > 0
        for field in wanted:
            assert field.nullable or table[field.name].null_count == 0, field.name


def test_every_version_that_is_written_has_a_file() -> None:
    names = {path.stem for path in FILES}
    assert {version.removeprefix("drift.").replace("/", "-") for version in SCHEMAS} <= names


def test_what_an_older_file_never_had_is_null_and_the_rest_is_as_it_was() -> None:
    old = read_table(FILES[0].with_name("comparison-1.parquet"), schema.COMPARISON)
    new = read_table(FILES[0].with_name("comparison-2.parquet"), schema.COMPARISON)
    # The same window of the same model: what both versions hold is the same to the last bit.
    for name in ("position", "kl_full_nats", "flip", "reference_p1", "candidate_nll_nats", "row_identical", "flags"):
        assert old[name].equals(new[name]), name
    assert old["js_full_nats"].null_count == old.num_rows and new["js_full_nats"].null_count == 0
    assert pc.min(new["js_full_nats"]).as_py() >= 0


def test_older_figures_say_that_no_floor_was_borrowed() -> None:
    old = read_table(FILES[0].with_name("figures-1.parquet"), schema.FIGURES)
    assert not any(old["borrowed"].to_pylist()) and old["standard_error"].null_count == old.num_rows
    determinism = read_table(FILES[0].with_name("determinism-1.parquet"), schema.DETERMINISM)
    assert set(determinism["row_hash"].to_pylist()) == {"row.full"}


def test_a_file_that_lacks_a_column_of_its_version_is_one_line(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    table = read_table(FILES[0].with_name("listed-1.parquet"), schema.LISTED)
    for damaged, words in (
        (table.drop_columns(["dnll_nats"]), "drift.listed/1 with the column dnll_nats missing"),
        (table.set_column(0, "arm", pa.array([1] * table.num_rows)), "column arm of type int64, not string"),
    ):
        pq.write_table(damaged.replace_schema_metadata(schema.LISTED.metadata), tmp_path / "listed.parquet")
        for read in (read_table, lambda path, wanted: artifacts.read_table(path, wanted, "run")):
            with pytest.raises(StoreError, match=re.escape(words)):
                read(tmp_path / "listed.parquet", schema.LISTED)
