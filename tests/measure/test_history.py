"""Buckets of history and depth."""

from __future__ import annotations

import numpy as np

from drift_runs.measure.history import bucket_index, bucket_labels, depth_index, depth_label, quarter_index
from drift_runs.measure.positions import positions_of
from drift_runs.protocol.model import History


def test_default_buckets_have_the_labels_of_the_definition():
    assert bucket_labels(History().buckets) == (
        "1-256",
        "257-1,024",
        "1,025-2,047",
        "2,048-8,191",
        "8,192-16,383",
        "16,384-65,535",
        "65,536+",
    )


def test_upper_ends_are_inclusive():
    positions = np.array([1, 256, 257, 1024, 1025, 2047, 2048, 65535, 65536, 10**6])
    assert bucket_index(positions, History().buckets).tolist() == [0, 0, 1, 1, 2, 2, 3, 5, 6, 6]


def test_depth_buckets():
    assert depth_index(np.array([1, 8192, 8193]), 8192).tolist() == [0, 0, 1]
    assert (depth_label(0, 8192), depth_label(1, 8192)) == ("1-8,192", "8,193-16,384")


def test_no_positions_and_no_buckets():
    assert len(bucket_index(np.array([], dtype=np.int32), (256,))) == 0
    assert bucket_labels(()) == ("1+",)
    assert bucket_index(np.array([1, 9]), ()).tolist() == [0, 0]


def test_quarters_are_of_the_stream_up_to_its_last_scored_position(make_protocol, make_table):
    protocol = make_protocol({"a": ("A", "d", [(1, 3), (60, 80)]), "b": ("A", "e", [(30, 40)])})
    positions = positions_of(make_table(protocol))
    found = dict(zip(positions.keys().tolist(), quarter_index(positions, protocol).tolist(), strict=True))
    # Window a is cut at 20, 40 and 60, window b at 10, 20 and 30: what lies before the first scored span counts too.
    assert [found[at] for at in (1, 2, 60, 79)] == [0, 0, 3, 3]
    assert {found[(1 << 32) | at] for at in range(30, 40)} == {3}
    assert len(quarter_index(positions.take(np.array([], dtype=np.intp)), protocol)) == 0
