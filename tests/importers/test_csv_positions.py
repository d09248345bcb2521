"""Positions in CSV: which columns are read, how positions are counted, what is refused."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drift_runs.errors import ImportFileError
from drift_runs.importers import csv_positions
from drift_runs.importers.base import ImportedFile
from drift_runs.importers.csv_positions import spans
from drift_runs.schema import COMPARISON, RowFlag
from tests.importers.files import invented


def read(folder: Path, text: str | bytes) -> ImportedFile:
    path = folder / "positions.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return csv_positions.read(path)


def test_every_column_of_the_invented_file():
    file = csv_positions.read(invented("csv"))
    assert file.table.schema == COMPARISON
    assert (file.divergence, file.top_k, file.cluster, file.facts["spec"]) == ("kl.full", None, "document", "kl.full")
    row = file.table.to_pylist()[1]
    known = {name: value for name, value in row.items() if value is not None}
    assert known == {
        "window": "w1",
        "position": 2,
        "role": "prompt",
        "token": 6,
        "kl_full_nats": 0.3,
        "flip": True,
        "candidate_nll_nats": 2.0,
        "reference_nll_nats": 2.0,
        "flags": 0,
    }
    assert [(w.name, w.document, w.group, w.role, w.scored) for w in file.windows] == [
        ("w1", "d1", "prose", "prompt", ((1, 3),)),
        ("w2", "d2", "code", "generated", ((1, 3),)),
    ]


@pytest.mark.parametrize("written", ["", "nan", "NaN", "inf", "-inf", "Infinity", "null", "1e999"])
def test_what_is_no_number_is_null_and_counted(tmp_path, written):
    file = read(tmp_path, f"window,position,kl\nw,1,{written}\nw,2,0.5\n")
    assert file.table["kl_full_nats"].to_pylist() == [None, 0.5]
    assert "values of kl that are empty, NaN or infinite, left out: 1" in file.notes
    infinite = written.lower() in ("inf", "infinity")
    assert file.table["flags"].to_pylist() == [RowFlag.INFINITE_KL if infinite else 0, 0]


@pytest.mark.parametrize("written", ["100", "1000", "9999", "1e308"])
def test_the_reverse_of_a_sentinel_is_no_surprise(tmp_path, written):
    file = read(tmp_path, f"window,position,kl,nll,ref_nll\nw,1,0.1,{written},2\nw,2,0.2,99.5,{written}\n")
    assert file.table["candidate_nll_nats"].to_pylist() == [None, 99.5]
    assert file.table["reference_nll_nats"].to_pylist() == [2.0, None]
    assert file.table["flags"].to_pylist() == [RowFlag.SENTINEL] * 2
    assert any("stand for 'not known'" in note and note.endswith(": 2") for note in file.notes)


def test_rows_are_counted_from_the_row_that_predicts(tmp_path):
    by_row = read(tmp_path, "window,row,kl\nw,0,0.1\nw,4,0.2\n")
    by_position = read(tmp_path, "window,position,kl\nw,1,0.1\nw,5,0.2\n")
    assert by_row.table.equals(by_position.table)
    assert by_row.convention != by_position.convention and "row + 1" in by_row.convention


def test_a_file_of_a_spreadsheet(tmp_path):
    text = "\ufeffContext;Pos".replace(";", ",") + ',KLD,Bucket\r\n"a, b",1,0.5,x\r\n\r\n'
    file = read(tmp_path, text)
    assert file.table["window"].to_pylist() == ["a, b"] and file.windows[0].group == "x"


def test_a_spec_of_its_own_column(tmp_path):
    file = read(tmp_path, "window,position,kl,kl_spec\nw,1,0.5,kl.topk-shared@20\n")
    assert file.table["kl_topk_shared_nats"].to_pylist() == [0.5] and file.table["top_k"].to_pylist() == [20]
    assert file.table["kl_full_nats"].to_pylist() == [None]
    assert (file.divergence, file.top_k) == ("kl.topk-shared", 20)
    assert not any("does not say" in note for note in file.notes)


def test_without_a_spec_it_says_what_was_taken(tmp_path):
    file = read(tmp_path, "window,position,kl\nw,1,0.5\n")
    assert any("does not say which divergence" in note for note in file.notes)
    assert file.cluster == "window" and any("cluster of its own" in note for note in file.notes)


@pytest.mark.parametrize(
    ("header", "words"),
    [
        ("window,position,row,kl", "both 'position' and 'row'"),
        ("window,kl", "no column 'position' or 'row'"),
        ("position,kl", "no column 'window'"),
        ("window,position", "no column 'kl'"),
        ("window,position,kl,kld", "two columns are read as 'kl'"),
        ("window,position,kl,perplexity", "unknown column 'perplexity'"),
        ("", "unknown column 'x'"),
    ],
)
def test_a_header_that_is_not_sure(tmp_path, header, words):
    with pytest.raises(ImportFileError) as caught:
        read(tmp_path, f"{header}\n" + "x," * header.count(",") + "x\n")
    assert words in caught.value.line()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("w,1,0.5\nw,1,0.5", "line 3: position 1 of window 'w' stands twice"),
        ("w,0,0.5", "the first token of a stream has no prediction"),
        ("w,-1,0.5", "position '-1'"),
        ("w,1.0,0.5", "position '1.0'"),
        ("w,1_0,0.5", "position '1_0'"),
        ("w,٣,0.5", "position"),
        ("w,9999999999,0.5", "position '9999999999'"),
        ("w," + "9" * 5000 + ",0.5", "position '999"),
        ("w,1,-0.5", "kl is -0.5"),
        ("w,1,1e308", "kl is 1e+308; expected a divergence of at most 1,000,000 nats"),
        ("w,1,0x1p3", "kl '0x1p3'"),
        ("w,1,5e-1e", "kl '5e-1e'"),
        ('w,1,"0,5"', "kl '0,5'"),
        ("w,1,0,5", "4 fields; expected 3"),
        ("w,1", "2 fields; expected 3"),
        (",1,0.5", "window ''"),
        ("a\x1b[2J,1,0.5", "window"),
        ('"a,1,0.5', "not valid CSV"),
        ("a" * 11_000 + ",1,0.5", "the line has 11,007 characters"),
        ("a\x00,1,0.5", "null byte"),
        ("", "no positions below the header"),
    ],
)
def test_a_line_that_cannot_be_trusted(tmp_path, line, words):
    with pytest.raises(ImportFileError) as caught:
        read(tmp_path, f"window,position,kl\n{line}\n")
    assert words in caught.value.line() and "positions.csv" in caught.value.line()
    assert len(caught.value.line()) < 400


@pytest.mark.parametrize(
    ("columns", "line", "words"),
    [
        ("kl_spec", "KL20", "kl_spec 'KL20'"),
        ("kl_spec", "kl.topk-shared", "kl_spec 'kl.topk-shared'"),
        ("kl_spec", "kl.full@20", "kl_spec 'kl.full@20'"),
        ("kl_spec", "kl.topk-shared@0", "kl_spec"),
        ("role", "user", "role 'user'"),
        ("flip", "2", "flip '2'"),
        ("nll", "-3", "nll is -3"),
        ("token", "x", "token 'x'"),
    ],
)
def test_a_column_that_cannot_be_trusted(tmp_path, columns, line, words):
    with pytest.raises(ImportFileError) as caught:
        read(tmp_path, f"window,position,kl,{columns}\nw,1,0.5,{line}\n")
    assert words in caught.value.line()


def test_one_spec_and_one_document_a_window(tmp_path):
    with pytest.raises(ImportFileError, match=r"line 3: kl_spec is 'js\.full', and was 'kl\.full'"):
        read(tmp_path, "window,position,kl,kl_spec\nw,1,0,kl.full\nw,2,0,js.full\n")
    with pytest.raises(ImportFileError, match="line 3: window 'w' is in another document"):
        read(tmp_path, "window,position,kl,document\nw,1,0,a\nw,2,0,b\n")


@given(st.sets(st.integers(1, 60)))
def test_spans_hold_the_same_positions(positions: set[int]):
    found = spans(list(positions))
    assert {position for start, end in found for position in range(start, end)} == positions
    assert all(end < start for (_, end), (start, _) in pairwise(found))
