"""Reporting with, without and only the declared windows."""

from __future__ import annotations

import numpy as np
import pytest

from drift_runs.measure.outliers import choices, outlier_mask, split_table
from drift_runs.measure.positions import positions_of

SPANS = {"a": ("A", "d", [(1, 4)]), "b": ("A", "e", [(1, 3)])}


@pytest.mark.parametrize(
    ("choice", "windows", "n"), [("with", {"a", "b"}, 5), ("without", {"a"}, 3), ("only", {"b"}, 2)]
)
def test_the_three_choices(make_protocol, make_table, choice, windows, n):
    protocol = make_protocol(SPANS, outliers=("b",))
    table = make_table(protocol)
    kept = split_table(table, protocol, choice)
    assert set(kept["window"].to_pylist()) == windows and kept.num_rows == n
    assert kept.schema.equals(table.schema)
    assert int(outlier_mask(positions_of(table), protocol, choice).sum()) == n


def test_only_is_offered_when_windows_are_declared(make_protocol, make_table):
    assert choices(make_protocol(SPANS)) == ("with", "without")
    assert choices(make_protocol(SPANS, outliers=("b",))) == ("with", "without", "only")
    protocol = make_protocol(SPANS)
    assert split_table(make_table(protocol), protocol, "without").num_rows == 5


def test_an_empty_table_and_an_unknown_choice(make_protocol, make_table):
    protocol = make_protocol(SPANS, outliers=("b",))
    empty = make_table(protocol, windows=())
    for choice in choices(protocol):
        assert split_table(empty, protocol, choice).num_rows == 0
        assert np.array_equal(outlier_mask(positions_of(empty), protocol, choice), np.zeros(0, dtype=bool))
    with pytest.raises(ValueError, match="expected with, without or only"):
        split_table(empty, protocol, "some")
