"""The plain format: the example of the documentation, every refusal, and captures of our own as Parquet."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drift_runs.errors import ImportFileError
from drift_runs.importers import plain_rows
from drift_runs.importers.comparable import reasons_between
from drift_runs.measure.divergence import summarise_rows
from drift_runs.schema import COMPARISON, ROWS, VERSION_KEY, RowFlag

ROOT = Path(__file__).resolve().parents[2]
HEADER = {"schema": "drift.import.rows/1", "top_k": 2, "normalised": True}
HALF, QUARTER = math.log(0.5), math.log(0.25)


def position(**changed: Any) -> dict[str, Any]:
    return {"window": "w", "position": 3, "token": 7, "top": [[7, HALF], [9, QUARTER]]} | changed


def write(path: Path, rows: list[Any], **header: Any) -> Path:
    lines = [HEADER | header, *rows]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def refused(path: Path) -> str:
    with pytest.raises(ImportFileError) as caught:
        plain_rows.read(path)
    message = str(caught.value)
    assert "\n" not in message and str(path) in message
    return message


def test_the_example_of_the_documentation(tmp_path: Path):
    text = (ROOT / "docs" / "formats.md").read_text(encoding="utf-8")
    block = re.search(r"```jsonl\n(.*?)```", text, re.DOTALL)
    assert block is not None
    path = tmp_path / "example.jsonl"
    path.write_text(block[1], encoding="utf-8")
    found = plain_rows.read(path)
    assert found.table.num_rows >= 2 and found.cluster == "document"
    keys = {key for line in block[1].splitlines() for key in json.loads(line)}
    # The example shows every key that there is.
    assert keys == {
        field.alias or name
        for model in (plain_rows.Header, plain_rows.Position)
        for name, field in model.model_fields.items()
    }


def test_every_key_has_its_place(tmp_path: Path):
    row = position(
        role="generated",
        document="d",
        group="g",
        top=[[9, QUARTER], [7, HALF]],
        logprob=HALF,
        wanted=[[4, math.log(0.125)]],
        tail_logprob=QUARTER,
    )
    found = plain_rows.read(write(tmp_path / "a.jsonl", [row], dictionary_size=10, facts={"engine": "x", "seed": 1}))
    assert found.table.schema.equals(ROWS, check_metadata=True)
    (read,) = found.table.to_pylist()
    assert (read["window"], read["position"], read["role"], read["token"]) == ("w", 3, "generated", 7)
    assert read["top_ids"] == [7, 9] and read["top_logprobs"] == pytest.approx([HALF, QUARTER])
    assert (read["rank"], read["tie_count"]) == (1, 1) and read["p1"] == pytest.approx(0.5)
    assert (read["wanted_ids"], read["wanted_logprobs"]) == ([4], pytest.approx([math.log(0.125)]))
    assert read["tail_logprob"] == QUARTER and read["logprob"] == pytest.approx(HALF)
    assert read["entropy_nats"] is None and read["row_full"] is None and len(read["row_top"]) == 32
    (window,) = found.windows
    assert (window.document, window.group, window.role, window.scored) == ("d", "g", "generated", ((3, 4),))
    assert (found.kind, found.top_k, found.cluster, found.divergence) == ("rows", 2, "document", "kl.topk-shared")
    assert found.facts == {"engine": "x", "seed": "1", "normalised": "yes", "dictionary size": "10"}


def test_without_a_document_windows_are_clusters(tmp_path: Path):
    found = plain_rows.read(write(tmp_path / "a.jsonl", [position()]))
    assert found.cluster == "window" and found.windows[0].document == "w"
    assert any("which document" in note for note in found.notes)


def test_what_a_row_does_not_say_is_null(tmp_path: Path):
    rows = [
        position(token=5),
        position(position=4, token=5, logprob=math.log(0.1)),
        position(position=5, top=[[7, HALF]]),
    ]
    found = plain_rows.read(write(tmp_path / "a.jsonl", rows))
    first, second, third = found.table.to_pylist()
    assert (first["logprob"], first["rank"], first["tail_logprob"], first["wanted_ids"]) == (None, None, None, None)
    assert second["logprob"] == pytest.approx(math.log(0.1)) and second["rank"] is None
    assert third["flags"] & RowFlag.SHORT and not first["flags"] & RowFlag.SHORT
    assert any("1 rows have fewer than 2 entries" in note for note in found.notes)


@pytest.mark.parametrize("sentinel", [-9999.0, -100.0, -1e30])
def test_a_sentinel_is_no_log_probability(tmp_path: Path, sentinel: float):
    rows = [position(top=[[7, HALF], [9, sentinel]]), position(position=4, token=5, logprob=sentinel)]
    found = plain_rows.read(write(tmp_path / "a.jsonl", rows))
    first, second = found.table.to_pylist()
    assert first["top_ids"] == [7] and first["flags"] == RowFlag.SENTINEL | RowFlag.SHORT
    assert second["logprob"] is None and second["flags"] == RowFlag.SENTINEL
    assert any(note.startswith("2 log-probabilities stand for") for note in found.notes)


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"top": [[7, HALF], [7, QUARTER]]}, "token 7 stands twice"),
        ({"top": [[7, HALF], [9, QUARTER], [4, QUARTER]]}, "3 entries in 'top'"),
        ({"top": []}, "does not fit"),
        ({"top": [[7, 0.5], [9, QUARTER]]}, "token 7 in 'top' has 0.5"),
        ({"top": [[7, math.log(0.8)], [9, math.log(0.3)]]}, "sum to a probability of 1.1"),
        ({"top": [[7, -(10**400)], [9, QUARTER]]}, "token 7 in 'top' has a very large number"),
        ({"wanted": [[4, 10**400]]}, "token 4 in 'wanted' has a very large number"),
        ({"top": [[7.5, HALF], [9, QUARTER]]}, "no token id"),
        ({"top": [[-1, HALF], [9, QUARTER]]}, "no token id"),
        ({"top": [[50, HALF], [9, QUARTER]]}, "ids below dictionary_size = 50"),
        ({"top": [[7, HALF, 1], [9, QUARTER]]}, "does not fit"),
        ({"top": [[7, None], [9, QUARTER]]}, "does not fit"),
        ({"top": [["7", HALF], [9, QUARTER]]}, "does not fit"),
        ({"top": {"7": HALF}}, "does not fit"),
        ({"token": 50}, "token id 50"),
        ({"token": -1}, "does not fit"),
        ({"position": 0}, "does not fit"),
        ({"position": 2.0}, "does not fit"),
        ({"role": "assistant"}, "'prompt' or 'generated'"),
        ({"window": ""}, "window ''"),
        ({"window": "a\u202eb"}, "1 to 200 letters"),
        ({"logprob": QUARTER}, "differ"),
        ({"token": 4, "logprob": math.log(0.3)}, "is not among the best"),
        ({"token": 4, "logprob": 0.1}, "logprob has 0.1"),
        ({"wanted": [[4, -2.0], [4, -2.0]]}, "token 4 stands twice in 'wanted'"),
        ({"wanted": [[9, -2.0]]}, "another statement of token 9"),
        ({"wanted": [[4, -1.5], [5, -1.5]]}, "sum to a probability"),
        ({"tail_logprob": math.log(0.5)}, "sum to a probability of 1.25"),
        ({"tail_logprob": math.log(0.1)}, "sum to a probability of 0.85"),
        ({"tail_logprob": -9999.0}, "the log of a mass"),
        ({"doc": "x"}, "unknown key 'doc'"),
    ],
)
def test_what_cannot_be_trusted_is_refused_with_its_line(tmp_path: Path, changed: dict[str, Any], named: str):
    message = refused(write(tmp_path / "a.jsonl", [position(position=1), position(**changed)], dictionary_size=50))
    assert named in message and "line 3" in message


@pytest.mark.parametrize(
    ("rows", "named"),
    [
        ([position(), position()], "position 3 of window 'w' stands twice"),
        ([position(document="a"), position(position=4, document="b")], "in another document or group"),
        ([position(group="a"), position(position=4)], "in another document or group"),
        ([position(), 5], "no object"),
    ],
)
def test_rows_that_contradict_each_other_are_refused(tmp_path: Path, rows: list[Any], named: str):
    assert named in refused(write(tmp_path / "a.jsonl", rows))


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("{}\n", "no schema is named"),
        ('{"schema": "drift.import.rows/2", "top_k": 2, "normalised": true}\n', "schema 'drift.import.rows/2'"),
        ('{"schema": "drift.import.rows/1", "normalised": true}\n', "missing key 'top_k'"),
        ('{"schema": "drift.import.rows/1", "top_k": 2}\n', "missing key 'normalised'"),
        ('{"schema": "drift.import.rows/1", "top_k": 0, "normalised": true}\n', "does not fit"),
        ('{"schema": "drift.import.rows/1", "top_k": 2, "normalized": true}\n', "did you mean 'normalised'?"),
        ('{"schema": "drift.import.rows/1", "top_k": 2, "normalised": true}\n', "no positions"),
        ('{"schema": "drift.import.rows/1", "top_k": 2, "normalised": true}\n{"window": NaN}\n', "NaN is no number"),
        ('{"schema": "drift.import.rows/1", "top_k": 2, "normalised": true}\n{"win', "line 2: not valid JSON"),
        ('{"schema": "drift.import.rows/1", "top_k": 2, "normalised": true}\n{"a": 1, "a": 2}', "given twice"),
        ("[1]\n", "no schema is named"),
        ("\n\n", "no schema is named"),
        ("", "the file is empty"),
    ],
)
def test_another_structure_is_refused(tmp_path: Path, text: str, named: str):
    path = tmp_path / "a.jsonl"
    path.write_text(text, encoding="utf-8")
    assert named in refused(path)


def test_rows_that_are_not_normalised_give_no_bound(tmp_path: Path):
    offset = 0.004
    rows = [position(top=[[7, HALF + offset], [9, HALF + offset]])]
    assert "sum to a probability" in refused(write(tmp_path / "bad.jsonl", rows))
    loose = plain_rows.read(write(tmp_path / "a.jsonl", rows, normalised=False))
    other = plain_rows.read(write(tmp_path / "b.jsonl", [position(top=[[7, HALF], [9, QUARTER]])], normalised=False))
    assert any("not normalised" in note for note in loose.notes)
    table = plain_rows.compare_files(loose, other)
    assert table.schema.equals(COMPARISON, check_metadata=True)
    (row,) = table.to_pylist()
    assert all(row[name] is None for name in plain_rows.NEED_NORMALISED)
    # Both sides over the two shared tokens: (1/2, 1/2) against (2/3, 1/3).
    assert row["kl_topk_shared_nats"] == pytest.approx(0.5 * math.log(0.75) + 0.5 * math.log(1.5), abs=1e-6)
    strict = plain_rows.read(write(tmp_path / "c.jsonl", [position()]))
    assert "another normalised (no and yes)" in reasons_between(loose, strict)
    assert "tail_logprob in a file" in refused(
        write(tmp_path / "d.jsonl", [position(tail_logprob=QUARTER)], normalised=False)
    )


def test_a_known_comparison(tmp_path: Path):
    left = plain_rows.read(write(tmp_path / "a.jsonl", [position(tail_logprob=QUARTER)]))
    right = plain_rows.read(
        write(tmp_path / "b.jsonl", [position(top=[[9, HALF], [7, QUARTER]], tail_logprob=QUARTER)])
    )
    assert reasons_between(left, right) == ()
    (row,) = plain_rows.compare_files(left, right).to_pylist()
    expected = 0.25 * math.log(2)  # 1/2 ln 2 - 1/4 ln 2, and equal tails
    assert row["kl_topk_tail_nats"] == pytest.approx(expected, rel=1e-6)
    assert row["kl_topk_lower_nats"] == pytest.approx(expected, rel=1e-6)
    assert row["kl_topk_shared_nats"] == pytest.approx(expected / 0.75, rel=1e-6)
    assert (row["flip"], row["swap"], row["shared_support"]) == (True, True, 2)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_the_order_of_lines_and_entries_changes_nothing(tmp_path_factory, seed: int):
    rng = np.random.default_rng(seed)
    folder = tmp_path_factory.mktemp("rows")
    rows = []
    for at in range(1, 6):
        weights = rng.dirichlet(np.ones(4))[:2]
        rows.append(
            position(position=at, top=[[int(token), math.log(p)] for token, p in zip((7, 9), weights, strict=True)])
        )
    shuffled = [row | {"top": row["top"][::-1]} for row in rng.permutation(rows)]
    one, other = (plain_rows.read(write(folder / name, part)) for name, part in (("a", rows), ("b", shuffled)))
    assert one.table.sort_by("position").equals(other.table.sort_by("position"))
    assert one.windows == other.windows


# Parquet


def captured(*, top_k: int = 4, seed: int = 0, windows: int = 2, count: int = 3) -> pa.Table:
    """Rows as a capture holds them: made by the code that makes captures."""
    rng = np.random.default_rng(seed)
    parts = []
    for window in range(windows):
        positions = np.arange(1, count + 1, dtype=np.int32)
        tokens = rng.integers(0, 20, count).astype(np.int32)
        logits = rng.standard_normal((count, 20)).astype(np.float32) * 3
        columns = summarise_rows(logits, tokens, top_k=top_k, dictionary_size=20, positions=positions).arrays()
        columns |= {
            "window": pa.array([f"w{window}"] * count),
            "role": pa.array(["generated"] * count),
            "position": pa.array(positions),
            "token": pa.array(tokens),
        }
        arrays = [
            columns[field.name].cast(field.type) if field.name in columns else pa.nulls(count, field.type)
            for field in ROWS
        ]
        parts.append(pa.Table.from_arrays(arrays, schema=ROWS))
    return pa.concat_tables(parts).unify_dictionaries().combine_chunks()


def write_parquet(path: Path, table: pa.Table, **metadata: str) -> Path:
    named = {f"drift.{key}": value for key, value in metadata.items()}
    pq.write_table(table.replace_schema_metadata({**(table.schema.metadata or {}), **named}), path)
    return path


def replaced(table: pa.Table, name: str, values: list[Any]) -> pa.Table:
    index = table.column_names.index(name)
    return table.set_column(index, table.field(name), pa.array(values, table.field(name).type))


def test_a_capture_is_read_as_it_stands(tmp_path: Path):
    table = captured()
    found = plain_rows.read(write_parquet(tmp_path / "a.parquet", table))
    assert found.table.equals(table)
    assert (found.top_k, found.cluster) == (4, "window")
    assert [(window.name, window.role, window.scored) for window in found.windows] == [
        ("w0", "generated", ((1, 4),)),
        ("w1", "generated", ((1, 4),)),
    ]
    compared = plain_rows.compare_files(found, found)
    assert compared["kl_topk_tail_nats"].to_pylist() == pytest.approx([0] * 6, abs=1e-12)


def test_metadata_describes_the_windows(tmp_path: Path):
    windows = json.dumps([{"name": "w0", "document": "d", "group": "g"}, {"name": "w1", "document": "d"}])
    found = plain_rows.read(
        write_parquet(tmp_path / "a.parquet", captured(), windows=windows, top_k="9", dictionary_size="20")
    )
    assert [(window.document, window.group) for window in found.windows] == [("d", "g"), ("d", "")]
    assert (found.cluster, found.top_k, found.facts["dictionary size"]) == ("document", 9, "20")
    assert all(flags & RowFlag.SHORT for flags in found.table["flags"].to_pylist())


def test_json_lines_and_parquet_say_the_same(tmp_path: Path):
    table = captured()
    rows = [
        {
            "window": row["window"],
            "position": row["position"],
            "token": row["token"],
            "role": row["role"],
            "top": [list(pair) for pair in zip(row["top_ids"], row["top_logprobs"], strict=True)],
            "logprob": row["logprob"],
            "tail_logprob": row["tail_logprob"],
        }
        for row in table.to_pylist()
    ]
    lines = plain_rows.read(write(tmp_path / "a.jsonl", rows, top_k=4))
    parquet = plain_rows.read(write_parquet(tmp_path / "a.parquet", table))
    assert reasons_between(lines, parquet) == ()
    for name in ("top_ids", "top_logprobs", "row_top", "tie_count", "token", "flags"):
        assert lines.table[name].to_pylist() == parquet.table[name].to_pylist()


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda t: replaced(t, "position", [1, 2, 2, 1, 2, 3]), "row 2: the position stands twice"),
        (lambda t: replaced(t, "position", [0, 2, 3, 1, 2, 3]), "row 0: position below 1"),
        (lambda t: replaced(t, "token", [-1, 0, 0, 0, 0, 0]), "row 0: a token id below 0"),
        (lambda t: replaced(t, "top_ids", [[1, 1, 2, 3]] * 6), "row 0: a token stands twice"),
        (lambda t: replaced(t, "top_ids", [[1, 2, 3]] * 6), "3 ids and 4 log-probabilities"),
        (lambda t: replaced(t, "top_ids", [[1, 2, 3, -4]] * 6), "outside the dictionary"),
        (lambda t: replaced(t, "top_logprobs", [[-1.0, -1.5, math.nan, -9]] * 6), "NaN or infinity"),
        (lambda t: replaced(t, "top_logprobs", [[-1.0, -1.5, -9, -9999]] * 6), "stands for 'not known'"),
        (lambda t: replaced(t, "top_logprobs", [[-3.0, -1.5, -4, -5]] * 6), "not ordered"),
        (lambda t: replaced(t, "top_logprobs", [[-0.1, -0.2, -0.3, -0.4]] * 6), "sum to a probability"),
        (lambda t: replaced(t, "top_logprobs", [[0.5, -9, -10, -11]] * 6), "above 0"),
        (lambda t: replaced(t, "tail_logprob", [-0.01] * 6), "entries and tail sum"),
        (lambda t: replaced(t, "role", ["assistant"] * 6), "role 'assistant'"),
        (lambda t: t.drop_columns(["flags"]), "columns differ at flags"),
        (lambda t: t.replace_schema_metadata({VERSION_KEY: b"drift.rows/9"}), "schema 'drift.rows/9'"),
        (lambda t: t.replace_schema_metadata({}), "no drift.schema"),
        (lambda t: t.slice(0, 0), "no rows"),
    ],
)
def test_a_parquet_file_that_cannot_be_trusted_is_refused(tmp_path: Path, change, named: str):
    assert named in refused(write_parquet(tmp_path / "a.parquet", change(captured())))


@pytest.mark.parametrize(
    ("metadata", "named"),
    [
        ({"top_k": "3"}, "4 entries in a row"),
        ({"top_k": "many"}, "drift.top_k 'many'"),
        ({"normalised": "maybe"}, "drift.normalised 'maybe'"),
        ({"normalised": "no"}, "a tail in a file that is not normalised"),
        ({"dictionary_size": "5"}, "outside the dictionary"),
        ({"windows": "["}, "not valid JSON"),
        ({"windows": '[{"name": "x"}]'}, "window 'x' has no row"),
        ({"windows": '[{"name": "w0"}, {"name": "w0"}]'}, "described twice"),
        ({"windows": '[{"name": "w0", "cluster": "d"}]'}, "unknown key 'cluster'"),
    ],
)
def test_metadata_that_contradicts_the_rows_is_refused(tmp_path: Path, metadata: dict[str, str], named: str):
    assert named in refused(write_parquet(tmp_path / "a.parquet", captured(), **metadata))


def test_half_a_parquet_file_is_refused(tmp_path: Path):
    path = write_parquet(tmp_path / "a.parquet", captured())
    path.write_bytes(path.read_bytes()[:-20])
    assert "not readable as Parquet" in refused(path)
