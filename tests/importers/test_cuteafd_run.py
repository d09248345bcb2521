"""Records of a CuteAFD fidelity run, invented from its list of fields: no file of the format is public."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest

from drift_runs.errors import ImportFileError
from drift_runs.importers import cuteafd_run
from drift_runs.importers.comparable import reasons_between
from drift_runs.schema import COMPARISON, RowFlag

HEADER = {"schema": "cuteafd.fidelity.run/2"}


def record(**changed: Any) -> dict[str, Any]:
    return {
        "window": "w1",
        "block": "doc-a",
        "bucket": "2k",
        "role": "prompt",
        "position": 5,
        "agree": True,
        "confident": False,
        "kl": 0.25,
        "nll": 1.5,
        "ref_nll": 1.0,
        "argmax": 7,
        "reference_argmax": 7,
    } | changed


RECORDS = [
    record(),
    record(position=6, agree=False, argmax=8, kl=0.5, confident=True),
    record(window="w2", block="doc-b", bucket="8k", role="generated", kl=0.0, nll=0.125, ref_nll=0.0),
]


def write(path: Path, records: list[Any], header: dict[str, Any] | None = None) -> Path:
    path.write_text(json.dumps((header or HEADER) | {"records": records}), encoding="utf-8")
    return path


def write_lines(path: Path, records: list[Any], header: Any = HEADER) -> Path:
    path.write_text("".join(json.dumps(item) + "\n" for item in [header, *records]), encoding="utf-8")
    return path


@pytest.fixture(params=[write, write_lines], ids=["json", "lines"])
def written(request: pytest.FixtureRequest, tmp_path: Path):
    return lambda records: request.param(tmp_path / "run.json", records)


def test_every_field_has_its_place(written):
    found = cuteafd_run.read(written(RECORDS))
    assert found.table.schema.equals(COMPARISON, check_metadata=True)
    first, second, third = found.table.to_pylist()
    assert (first["window"], first["position"], first["role"], first["token"]) == ("w1", 5, "prompt", None)
    assert (first["kl_full_nats"], first["candidate_nll_nats"], first["reference_nll_nats"]) == (0.25, 1.5, 1.0)
    assert first["dp"] == pytest.approx(math.exp(-1.5) - math.exp(-1.0))
    assert (first["flip"], first["reference_top"], first["candidate_top"]) == (False, 7, 7)
    assert (second["flip"], second["reference_top"], second["candidate_top"]) == (True, 7, 8)
    assert second["flip_strict"] is None and second["kl_topk_shared_nats"] is None
    assert third["role"] == "generated"
    assert [(w.name, w.document, w.group, w.scored) for w in found.windows] == [
        ("w1", "doc-a", "2k", ((5, 7),)),
        ("w2", "doc-b", "8k", ((5, 6),)),
    ]
    assert (found.kind, found.cluster, found.divergence, found.top_k) == ("comparison", "document", "kl.full", None)
    assert "assumption" in found.convention
    assert any("confident is set in 1 of 3" in note for note in found.notes)
    assert reasons_between(found, found) == ()


def test_an_object_on_several_lines_is_an_object(tmp_path: Path):
    path = tmp_path / "run.json"
    path.write_text(json.dumps(HEADER | {"records": RECORDS}, indent=1), encoding="utf-8")
    assert cuteafd_run.read(path).table.num_rows == 3


def test_what_the_file_says_of_itself_is_kept(tmp_path: Path):
    found = cuteafd_run.read(write(tmp_path / "a.json", RECORDS, HEADER | {"engine": "x", "seed": 3, "more": {"a": 1}}))
    assert found.facts == {"schema": "cuteafd.fidelity.run/2", "engine": "x", "seed": "3"}


def test_unknown_keys_are_kept_out_and_counted(tmp_path: Path):
    found = cuteafd_run.read(write(tmp_path / "a.json", [record(extra=1), record(position=6, extra=2)]))
    assert any("key 'extra' of 2 records was not read" in note for note in found.notes)


def test_what_is_not_known_is_null_and_counted(tmp_path: Path):
    records = [record(kl=None), record(position=6, nll=9999.0), record(position=7, ref_nll=None)]
    found = cuteafd_run.read(write(tmp_path / "a.json", records))
    assert found.table["kl_full_nats"].to_pylist() == [None, 0.25, 0.25]
    assert found.table["candidate_nll_nats"].to_pylist() == [1.5, None, 1.5]
    assert [bool(flags & RowFlag.SENTINEL) for flags in found.table["flags"].to_pylist()] == [False, True, False]
    assert pc.sum(pc.is_null(found.table["dp"])).as_py() == 2
    text = " ".join(found.notes)
    assert "values of kl that are null, left out: 1" in text and "stand for 'not known'" in text


def test_parts_of_a_window_are_no_documents(tmp_path: Path):
    records = [record(block=0, bucket="1-256"), record(position=6, block=1, bucket="257-1024")]
    found = cuteafd_run.read(write(tmp_path / "a.json", records))
    assert found.cluster == "window"
    assert [(window.document, window.group) for window in found.windows] == [("w1", "")]
    assert any("block changes inside a window" in note for note in found.notes)
    assert any("bucket changes inside a window" in note for note in found.notes)


def test_one_block_gives_no_interval_and_says_so(tmp_path: Path):
    found = cuteafd_run.read(write(tmp_path / "a.json", [record(), record(window="w2")]))
    assert any("one block" in note for note in found.notes)


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"agree": False}, "expected agree where the two are equal"),
        ({"argmax": 8}, "agree is true, argmax 8, reference_argmax 7"),
        ({"position": 0}, "counts otherwise"),
        ({"position": -3}, "counts otherwise"),
        ({"position": 5.0}, "5.0 does not fit"),
        ({"role": "assistant"}, "'prompt' or 'generated'"),
        ({"agree": 1}, "does not fit"),
        ({"confident": None}, "does not fit"),
        ({"kl": -0.5}, "kl is -0.5"),
        ({"kl": 1e308}, "kl is 1e+308"),
        ({"nll": -0.5}, "nll is -0.5"),
        ({"kl": "0.1"}, "does not fit"),
        ({"argmax": -1}, "does not fit"),
        ({"window": ""}, "window ''"),
        ({"window": "a\x1b[2J"}, "expected 1 to 200 letters"),
    ],
)
def test_what_contradicts_the_names_is_refused(written, changed: dict[str, Any], named: str):
    with pytest.raises(ImportFileError) as caught:
        cuteafd_run.read(written([record(position=2), record(**changed)]))
    message = str(caught.value)
    assert named in message and ("records[1]" in message or "line 3" in message) and "\n" not in message


@pytest.mark.parametrize("name", cuteafd_run.FIELDS)
def test_a_missing_field_is_named(written, name: str):
    broken = record()
    del broken[name]
    with pytest.raises(ImportFileError, match=f"missing key '{name}'"):
        cuteafd_run.read(written([broken]))


def test_a_position_stands_once(written):
    with pytest.raises(ImportFileError, match="stands twice"):
        cuteafd_run.read(written([record(), record()]))


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ("[]", "no schema is named"),
        ('{"schema": "cuteafd.fidelity.run/1", "records": []}', "schema 'cuteafd.fidelity.run/1'"),
        ('{"records": []}', "no schema is named"),
        ('{"schema": "cuteafd.fidelity.run/2"}', "no key 'records'"),
        ('{"schema": "cuteafd.fidelity.run/2", "records": {}}', "'records' is no array"),
        ('{"schema": "cuteafd.fidelity.run/2", "records": []}', "no records"),
        ('{"schema": "cuteafd.fidelity.run/2", "records": [1]}', "the record is no object"),
        ('{"schema": "cuteafd.fidelity.run/2"}\n\n[1]\n', "the record is no object"),
        ('{"schema": "cuteafd.fidelity.run/3"}\n{}\n', "schema 'cuteafd.fidelity.run/3'"),
        ('{"schema": "cuteafd.fidelity.run/2"}\n{"window": 1', "line 2"),
        ('{"schema": "cuteafd.fidelity.run/2"}\n{"window": NaN}', "NaN is no number"),
        ("", "the file is empty"),
        ("\n \n", "not valid JSON"),
    ],
)
def test_another_structure_is_refused_with_what_was_expected(tmp_path: Path, content: str, named: str):
    path = tmp_path / "run.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(ImportFileError) as caught:
        cuteafd_run.read(path)
    assert named in str(caught.value) and "\n" not in str(caught.value)
