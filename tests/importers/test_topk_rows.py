"""Best-K rows of a server: what becomes of an entry, and which contradictions are refused."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from drift_runs.errors import ImportFileError
from drift_runs.importers import topk_rows
from drift_runs.measure.determinism import row_top_hash
from drift_runs.schema import ROWS, RowFlag
from tests.importers.files import changed, invented


def second(content: dict) -> dict:
    """Row 1, position 0 of the file: history 16, entries of 1/2, 1/4 and 1/8, token 10 forced."""
    return content["rows"][1]["positions"][0]


def read(folder: Path, change) -> tuple:
    file = topk_rows.read(changed(folder, "topk-rows", change))
    return file, file.table.to_pylist()


def test_every_column_of_a_row():
    file = topk_rows.read(invented("topk-rows"))
    assert file.table.schema == ROWS and file.top_k == 3
    row = file.table.to_pylist()[1]
    assert (row["window"], row["position"], row["role"], row["token"], row["rank"]) == (
        "short-0",
        17,
        "generated",
        11,
        2,
    )
    assert row["top_ids"] == [10, 11, 12]
    assert row["top_logprobs"] == [float(np.float32(math.log(p))) for p in (0.5, 0.25, 0.125)]
    assert row["logprob"] == row["top_logprobs"][1]
    assert row["p1"] == pytest.approx(0.5, rel=1e-7)
    assert (row["tie_count"], row["flags"]) == (1, 0)
    expected = row_top_hash(np.array([10, 11, 12]), np.array(row["top_logprobs"]), 17, 3)
    assert row["row_top"] == expected is not None
    absent = ("tail_logprob", "entropy_nats", "padding_mass", "row_full", "wanted_ids")
    assert [row[name] for name in absent] == [None] * len(absent)


def test_windows_and_facts():
    file = topk_rows.read(invented("topk-rows"))
    assert file.cluster == "window"
    assert [(w.name, w.document, w.group, w.role, w.scored) for w in file.windows] == [
        ("short-0", "short-0", "16", "generated", ((16, 18),)),
        ("short-1", "short-1", "16", "generated", ((16, 18),)),
        ("long-0", "long-0", "32", "generated", ((32, 34),)),
    ]
    assert file.windows[0].tokens_sha256 == "10" * 32
    assert file.facts["arm"] == "INVENTED" and file.facts["model root"] == "invented/model"


def test_a_forced_token_beyond_the_best_is_kept_apart():
    row = topk_rows.read(invented("topk-rows")).table.to_pylist()[3]
    assert row["token"] == 9 and row["top_ids"] == [10, 11, 12]
    assert row["logprob"] == float(np.float32(math.log(0.001))) and row["rank"] is None


def test_equal_entries_are_ordered_by_id():
    row = topk_rows.read(invented("topk-rows")).table.to_pylist()[4]
    assert row["top_ids"] == [10, 11, 12] and row["tie_count"] == 2


def test_the_order_of_entries_in_the_file_does_not_matter(tmp_path):
    def turned(content):
        second(content)["dist"] = dict(reversed(second(content)["dist"].items()))

    assert read(tmp_path, turned)[1] == topk_rows.read(invented("topk-rows")).table.to_pylist()


@pytest.mark.parametrize("sentinel", [-9999.0, -100.0, -1e30, -9999])
def test_a_sentinel_is_left_out_and_counted(tmp_path, sentinel):
    file, rows = read(tmp_path, lambda content: second(content)["dist"].update({"12": sentinel}))
    assert rows[2]["top_ids"] == [10, 11]
    assert rows[2]["flags"] == RowFlag.SENTINEL | RowFlag.SHORT
    assert any("left out: 1 in 1 row" in note for note in file.notes)


def test_a_row_of_sentinels_alone_has_nothing(tmp_path):
    def all_unknown(content):
        second(content)["dist"] = dict.fromkeys(second(content)["dist"], -9999.0)

    row = read(tmp_path, all_unknown)[1][2]
    assert (row["top_ids"], row["p1"], row["logprob"], row["row_top"]) == ([], None, None, None)
    assert row["flags"] & RowFlag.UNHASHABLE and row["flags"] & RowFlag.SENTINEL


def test_fewer_entries_are_flagged(tmp_path):
    def short(content):
        del second(content)["dist"]["12"]
        content["positions_with_fewer_than_topk_entries"] = 1

    file, rows = read(tmp_path, short)
    assert rows[2]["flags"] == RowFlag.SHORT and "rows with fewer than 3 entries: 1" in file.notes


def test_mass_beyond_one_is_noted(tmp_path):
    def lifted(content):
        second(content)["dist"] = {"10": math.log(0.6), "11": math.log(0.4005), "12": math.log(1e-4)}

    file, _ = read(tmp_path, lifted)
    assert any("sum to more than 1" in note and "0.0006" in note for note in file.notes)


def test_values_of_64_bits_are_rounded_and_noted(tmp_path):
    file, rows = read(tmp_path, lambda content: second(content)["dist"].update({"12": -2.1}))
    assert rows[2]["top_logprobs"][2] == float(np.float32(-2.1))
    assert "log-probabilities that were rounded to 32 bits: 1" in file.notes


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda p: p.update(argmax_id=11), "argmax_id 11 is not the best entry; expected 10"),
        (lambda p: p.update(forced_next_id=11), "forced_next_id 11 is not token 0"),
        (lambda p: p.update(context_len=40), "16 tokens"),
        (lambda p: p.update(context_len=0), "context_len"),
        (lambda p: p.update(context_len=2**40), "context_len"),
        (lambda p: p.update(j="0"), ".j: '0' does not fit"),
        (lambda p: p.update(j=True), ".j: true does not fit"),
        (lambda p: p["dist"].update({"12": "-2"}), "dist.12: '-2' does not fit"),
        (lambda p: p["dist"].update({"12": None}), "dist.12"),
        (lambda p: p["dist"].update({"12": -(10**400)}), "dist.12: a very large number"),
        (lambda p: p["dist"].update({"12": 0.1}), "log-probability of 0.1"),
        (lambda p: p["dist"].update({"012": -3.0}), "'012' is no token id"),
        (lambda p: p["dist"].update({"-1": -3.0}), "'-1' is no token id"),
        (lambda p: p["dist"].update({"x": -3.0}), "'x' is no token id"),
        (lambda p: p["dist"].update({"9999999999": -3.0}), "token id 9999999999 is too large"),
        (lambda p: p["dist"].update({"11": 0.0, "12": 0.0}), "is not the best entry"),
        (lambda p: p["dist"].update({"10": 0.0, "11": -0.1}), "sum to a probability of"),
        (lambda p: p.pop("dist"), "missing key 'dist'"),
        (lambda p: p["dist"].pop("12"), "says that 0 positions have fewer than 3 entries, and 1 have"),
    ],
)
def test_a_position_that_cannot_be_trusted(tmp_path, change, words):
    with pytest.raises(ImportFileError) as caught:
        read(tmp_path, lambda content: change(second(content)))
    line = caught.value.line()
    assert words in line and "changed-a.json" in line
    assert "rows[1]" in line or "positions_with" in line


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda c: c["rows"].append(c["rows"][0]), "rows[3] 'short-0': the id is given to two rows"),
        (lambda c: c["rows"][0].update(id=""), "the id is empty"),
        (lambda c: c["rows"][0].update(positions=[]), "no positions"),
        (lambda c: c.update(rows=[]), "0 rows"),
        (lambda c: c["rows"][0]["positions"].reverse(), "j is 0"),
        (lambda c: c["rows"][0].update(ids_sha256="short"), "ids_sha256"),
        (lambda c: c.update(topk_requested=0), "topk_requested"),
        (lambda c: c.update(rows={}), "rows: an object does not fit"),
    ],
)
def test_rows_that_cannot_be_trusted(tmp_path, change, words):
    with pytest.raises(ImportFileError) as caught:
        read(tmp_path, change)
    assert words in caught.value.line()
