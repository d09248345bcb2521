"""Row and window hashes against a construction with struct, and the determinism table."""

from __future__ import annotations

import hashlib
import struct

import numpy as np
import pyarrow as pa
import pytest

from drift_runs.measure.determinism import (
    determinism_table,
    row_full_hash,
    row_full_hashes,
    row_top_hash,
    row_top_hashes,
    rows_identical,
    summarise_determinism,
    window_hash,
    window_hashes,
)
from drift_runs.schema import COMPARISON, DETERMINISM


def by_hand(entries: list[tuple[int, float]], position: int, top_k: int) -> bytes:
    message = b"drift.row.top/1" + struct.pack("<I", top_k) + struct.pack("<I", position)
    message += struct.pack("<I", len(entries))
    for token, logprob in entries:
        message += struct.pack("<I", token) + struct.pack("<f", logprob)
    return hashlib.sha256(message).digest()


def test_top_hash_sorts_and_drops_the_edge():
    # K = 4, and ids 7 and 2 share the 4th value: both go, because which of them is returned is arbitrary.
    found = row_top_hash(np.array([7, 9, 3, 2]), np.array([-3.0, -0.5, -2.0, -3.0]), 17, 4)
    assert found == by_hand([(9, -0.5), (3, -2.0)], 17, 4)


def test_top_hash_golden_value():
    found = row_top_hash(np.array([1, 0]), np.array([-1.0, -0.25]), 5, 3)
    assert found == by_hand([(0, -0.25), (1, -1.0)], 5, 3)
    assert found.hex() == GOLDEN_TOP


def test_full_hash_golden_value():
    logits = np.array([0.5, -1.25, 3.0, 99.0], dtype=np.float32)
    message = b"drift.row.full/1" + struct.pack("<II", 12, 3) + struct.pack("<fff", 0.5, -1.25, 3.0)
    assert row_full_hash(logits, 12, 3) == hashlib.sha256(message).digest()
    assert row_full_hash(logits, 12, 3).hex() == GOLDEN_FULL


GOLDEN_TOP = "a97ab40fe53bd110a3028574a7e5d4582eba5b47b1d501182bddd40fe6f00d5a"
GOLDEN_FULL = "e1c4b9c918c8a75308c1c3ec621cd03f8db27203384209524cd88ab4831e69c6"
GOLDEN_WINDOW = "53da482d873dbdce8bcde5b9f91d16918b94888ee6fc7d98c9171149c99633e2"


def test_window_hash_golden_value():
    hashes = [bytes(range(32)), bytes(32)]
    assert window_hash(hashes) == hashlib.sha256(struct.pack("<I", 2) + hashes[0] + hashes[1]).digest()
    assert window_hash(hashes).hex() == GOLDEN_WINDOW
    assert window_hash(hashes) != window_hash(hashes[::-1])
    assert window_hash([]) == hashlib.sha256(struct.pack("<I", 0)).digest()
    assert window_hash([bytes(32), None]) is None


def test_a_short_row_keeps_every_entry():
    found = row_top_hash(np.array([4, 8]), np.array([-1.0, -1.0]), 1, 5)
    assert found == by_hand([(4, -1.0), (8, -1.0)], 1, 5)


def test_minus_zero_becomes_zero_and_float64_is_rounded_to_nearest_even():
    assert row_top_hash(np.array([4]), np.array([-0.0]), 1, 2) == by_hand([(4, 0.0)], 1, 2)
    between = -1.0 - 2.0**-24  # half way between two float32 values; the even one is -1
    assert row_top_hash(np.array([4]), np.array([between]), 1, 2) == by_hand([(4, -1.0)], 1, 2)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_row_that_is_not_finite_has_no_hash(bad: float):
    assert row_top_hash(np.array([1, 2]), np.array([-0.5, bad]), 1, 2) is None
    assert row_full_hash(np.array([1.0, bad], dtype=np.float32), 1, 2) is None
    assert row_full_hash(np.array([1.0, 2.0, bad], dtype=np.float32), 1, 2) is not None  # padding only


def test_fast_forms_agree_with_the_row_by_row_ones():
    rng = np.random.default_rng(3)
    logits = rng.standard_normal((6, 20)).astype(np.float32)
    logits[4, 1] = np.nan
    positions = np.arange(3, 9)
    full = row_full_hashes(logits, positions, 18)
    assert full == [row_full_hash(row, int(at), 18) for row, at in zip(logits, positions, strict=True)]
    assert full[4] is None and len(set(full)) == 6
    values = -np.sort(rng.integers(1, 9, (6, 5)), axis=1).astype(np.float32)
    ids = np.tile(np.arange(5, dtype=np.int32), (6, 1))
    for top_k in (5, 6):
        fast = row_top_hashes(ids, values, positions, top_k)
        assert fast == [row_top_hash(ids[row], values[row], int(positions[row]), top_k) for row in range(6)]
    fortran = np.asfortranarray(logits)
    assert row_full_hashes(fortran, positions, 18) == full
    assert row_full_hashes(logits[:0], positions[:0], 18) == []


def test_position_k_and_size_are_part_of_a_hash():
    ids, values = np.array([1, 2]), np.array([-0.5, -1.0])
    assert len({row_top_hash(ids, values, 1, 3), row_top_hash(ids, values, 2, 3), row_top_hash(ids, values, 1, 4)}) == 3


def comparison(windows: list[str], positions: list[int], identical: list[bool | None], dlogit: list) -> pa.Table:
    count = len(windows)
    columns = {
        "window": pa.array(windows, type=pa.string()).dictionary_encode().cast(COMPARISON.field("window").type),
        "position": pa.array(positions, type=pa.int32()),
        "role": pa.array(["prompt"] * count).dictionary_encode().cast(COMPARISON.field("role").type),
        "row_identical": pa.array(identical, type=pa.bool_()),
        "max_abs_dlogit": pa.array(dlogit, type=pa.float32()),
    }
    for field in COMPARISON:
        if field.name not in columns:
            filler = [None] * count if field.nullable else [0] * count
            columns[field.name] = pa.array(filler, type=field.type)
    return pa.table(columns, schema=COMPARISON)


def test_determinism_table_names_the_first_difference():
    table = determinism_table(
        comparison(["w", "w", "v", "v", "v"], [4, 5, 9, 8, 7], [True, True, False, None, True], [0, 0, 0.5, None, 0]),
        arm="launch-2",
        against="f16",
        window_hashes={"w": b"h" * 32, "v": None},
    )
    assert table.schema.equals(DETERMINISM)
    first, second = table.to_pylist()
    assert first == {
        "arm": "launch-2",
        "against": "f16",
        "window": "w",
        "rows": 2,
        "rows_identical": 2,
        "rows_unhashable": 0,
        "window_identical": True,
        "row_hash": "",
        "max_abs_dlogit": 0.0,
        "max_abs_dlogprob": None,
        "first_difference": None,
        "window_hash": b"h" * 32,
    }
    assert (second["rows_identical"], second["rows_unhashable"], second["first_difference"]) == (1, 1, 8)
    assert second["window_hash"] is None
    summary = summarise_determinism(table)
    assert (summary.windows_identical, summary.windows) == (1, 2)
    assert (summary.rows_identical, summary.rows, summary.rows_unhashable) == (3, 5, 1)
    assert summary.max_abs_dlogit == 0.5 and summary.first_difference == ("v", 8)
    assert not summary.identical


def test_windows_whose_rows_are_mixed_stay_apart_in_the_order_of_their_first_rows():
    table = determinism_table(
        comparison(
            ["w", "v", "w", "u", "v", "w"],
            [9, 3, 7, 1, 2, 8],
            [False, True, False, None, False, True],
            [0.25, 0, 0.5, None, 2.0, 0],
        ),
        arm="a",
        against="b",
    )
    names = ("window", "rows", "rows_identical", "rows_unhashable", "first_difference", "max_abs_dlogit")
    assert [tuple(row[name] for name in names) for row in table.to_pylist()] == [
        ("w", 3, 1, 0, 7, 0.5),
        ("v", 2, 1, 0, 2, 2.0),
        ("u", 1, 0, 1, 1, None),
    ]


def test_window_hashes_take_rows_by_position_and_the_full_hash_where_there_is_one():
    one, two, three = (bytes([value]) * 32 for value in (1, 2, 3))
    rows = pa.table(
        {
            "window": pa.array(["w", "v", "w"]).dictionary_encode(),
            "position": [5, 1, 4],
            "row_top": pa.array([one, two, three], pa.binary(32)),
            "row_full": pa.array([None, None, None], pa.binary(32)),
        }
    )
    assert window_hashes(rows) == {"w": window_hash([three, one]), "v": window_hash([two])}
    full = rows.set_column(3, "row_full", pa.array([two, None, one], pa.binary(32)))
    assert window_hashes(full) == {"w": window_hash([one, two]), "v": None}
    assert window_hashes(rows.slice(0, 0)) == {}


def test_no_rows_are_not_called_identical():
    table = determinism_table(comparison([], [], [], []), arm="a", against="b")
    assert table.num_rows == 0 and table.schema.equals(DETERMINISM)
    assert not summarise_determinism(table).identical


def test_rows_identical_is_null_where_a_row_has_no_hash():
    one, two = bytes(32), bytes([1] * 32)
    assert rows_identical([one, one, None], [one, two, one]).to_pylist() == [True, False, None]
