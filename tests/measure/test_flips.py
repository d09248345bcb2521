"""Bands of the reference's confidence, and strong overturns."""

from __future__ import annotations

import numpy as np

from drift_runs.measure.flips import band_index, strong_overturn_mask
from drift_runs.measure.positions import positions_of
from drift_runs.protocol.model import Bands


def test_an_overturn_is_a_flip_where_the_reference_was_sure(make_protocol, make_table):
    protocol = make_protocol({"w": ("A", "d", [(5, 13)])})
    table = make_table(
        protocol,
        flip=np.array([1, 1, 0, 1, 1, 0, np.nan, 1]),
        reference_p1=np.array([0.49, 0.5, 0.89, 0.9, 0.99, 0.95, 0.97, np.nan]),
    )
    found = strong_overturn_mask(positions_of(table), protocol.bands)
    assert found.tolist() == [False, False, False, True, True, False, False, False]
    assert strong_overturn_mask(positions_of(table), Bands(strong_from=0.95)).sum() == 1


def test_the_limits_are_the_protocols():
    p1 = np.array([0.1, 0.3, 0.7, np.nan])
    assert band_index(p1, Bands(uncertain_below=0.2, strong_from=0.7)).tolist() == [0, 1, 2, -1]


def test_no_positions(make_protocol, make_table):
    protocol = make_protocol({"w": ("A", "d", [(5, 13)])})
    assert strong_overturn_mask(positions_of(make_table(protocol, windows=())), protocol.bands).shape == (0,)
