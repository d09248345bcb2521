"""Flip counts, bands and strong overturns."""

from __future__ import annotations

import numpy as np

from drift_runs.measure.flips import band_index, count_flips, strong_overturns
from drift_runs.measure.positions import positions_of
from drift_runs.protocol.model import Bands


def test_counts_by_band_and_the_list_of_overturns(make_protocol, make_table):
    protocol = make_protocol({"w": ("A", "d", [(5, 13)])})
    table = make_table(
        protocol,
        flip=np.array([1, 1, 0, 1, 1, 0, np.nan, 1]),
        flip_strict=np.array([1, 0, 0, 1, 1, 0, np.nan, 1]),
        reference_p1=np.array([0.49, 0.5, 0.89, 0.9, 0.99, 0.95, 0.97, np.nan]),
    )
    positions = positions_of(table)
    found = count_flips(positions, protocol.bands)
    assert (found.scored, found.excluded, found.flips, found.strict) == (7, 1, 5, 4)
    assert found.rate == 5 / 7 and found.strict_rate == 4 / 7
    assert found.by_band == (("uncertain", 1, 1), ("leaning", 2, 1), ("strong", 3, 2))
    assert found.strong_rate == 2 / 3
    assert strong_overturns(positions, protocol.bands) == (("w", 9, 0.99), ("w", 8, 0.9))


def test_the_limits_are_the_protocols():
    p1 = np.array([0.1, 0.3, 0.7, np.nan])
    assert band_index(p1, Bands(uncertain_below=0.2, strong_from=0.7)).tolist() == [0, 1, 2, -1]


def test_no_positions_have_no_rate(make_protocol, make_table):
    protocol = make_protocol({"w": ("A", "d", [(5, 13)])})
    found = count_flips(positions_of(make_table(protocol, windows=())), protocol.bands)
    assert found.scored == 0 and found.rate is None and found.strict_rate is None and found.strong_rate is None
    assert strong_overturns(positions_of(make_table(protocol, windows=())), protocol.bands) == ()
