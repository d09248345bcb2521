"""Volatile and confident positions."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from drift_runs.measure.marks import confident_mask, known_mask, volatile_mask
from drift_runs.measure.positions import positions_of
from drift_runs.protocol.model import Marks

NLLS = st.lists(
    st.tuples(*[st.one_of(st.floats(0, 40), st.sampled_from([0.0, 1.0, 2.0, math.nan]))] * 2), min_size=1, max_size=30
)


def _positions(make_protocol, make_table, reference, candidate):
    protocol = make_protocol({"w": ("A", "d", [(1, 1 + len(reference))])})
    return positions_of(
        make_table(protocol, reference_nll_nats=np.array(reference), candidate_nll_nats=np.array(candidate))
    )


def test_known_answers(make_protocol, make_table):
    sure, at_limit = -math.log(0.95), 2.0
    found = _positions(
        make_protocol, make_table, [1, 1, 3, 1, math.nan, sure, 2], [2, 2.01, 1, math.nan, sure, at_limit, 2]
    )
    assert known_mask(found).tolist() == [True, True, True, False, False, True, True]
    assert volatile_mask(found, Marks()).tolist() == [False, True, True, False, False, True, False]
    assert confident_mask(found, Marks()).tolist() == [False, False, False, False, True, True, False]


def test_the_limits_are_the_protocols(make_protocol, make_table):
    found = _positions(make_protocol, make_table, [1, 1], [1.3, 1.1])
    marks = Marks(volatile_above_nats=0.2, confident_above=0.35)
    assert volatile_mask(found, marks).tolist() == [True, False]
    assert confident_mask(found, marks).tolist() == [True, True]  # exp(-1) is above 0.35


def test_no_positions(make_protocol, make_table):
    found = positions_of(make_table(make_protocol({"w": ("A", "d", [(5, 13)])}), windows=()))
    assert [
        len(mask) for mask in (known_mask(found), volatile_mask(found, Marks()), confident_mask(found, Marks()))
    ] == [0] * 3


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])  # both are plain factories
@given(nlls=NLLS, above=st.floats(0.1, 5), sure=st.floats(0.01, 0.99))
def test_each_position_is_judged_alone(make_protocol, make_table, nlls, above, sure):
    marks = Marks(volatile_above_nats=above, confident_above=sure)
    found = _positions(make_protocol, make_table, *map(list, zip(*nlls, strict=True)))
    volatile, confident, known = volatile_mask(found, marks), confident_mask(found, marks), known_mask(found)
    for at, (reference, candidate) in enumerate(nlls):
        sides = [side for side in (reference, candidate) if not math.isnan(side)]
        assert known[at] == (len(sides) == 2)
        assert volatile[at] == (len(sides) == 2 and abs(candidate - reference) > above)
        assert confident[at] == any(np.exp(-side) > sure for side in sides)
