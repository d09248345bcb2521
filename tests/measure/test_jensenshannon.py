"""``js.full`` against a slow reading in extended precision, and its properties."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from drift_runs.measure.divergence import compare_rows
from drift_runs.schema import RowFlag

NONE = -np.inf


def js(reference: np.ndarray, candidate: np.ndarray) -> np.ndarray:
    tokens = np.zeros(len(reference), dtype=np.int32)
    found = compare_rows(reference, candidate, tokens, dictionary_size=reference.shape[1], top_k=3)
    return found.js_full_nats


def rows(*values: list[float]) -> np.ndarray:
    return np.array(values, dtype=np.float32)


def slow(reference: np.ndarray, candidate: np.ndarray) -> float:
    """The definition, entry by entry, in the longest float of the machine."""
    p, q = (np.exp(row.astype(np.longdouble) - row.max()) for row in (reference, candidate))
    p, q = p / p.sum(), q / q.sum()
    total = np.longdouble(0)
    for a, b in zip(p, q, strict=True):
        middle = (a + b) / 2
        total += sum((x * np.log(x / middle) for x in (a, b) if x > 0), np.longdouble(0)) / 2
    return float(total)


def test_known_answers():
    assert js(np.log(rows([0.5, 0.5])), rows([0, NONE]))[0] == pytest.approx(0.75 * math.log(4 / 3), rel=1e-12)
    assert js(rows([0, NONE, NONE]), rows([NONE, 3, NONE])).tolist() == [math.log(2)]
    equal = np.random.default_rng(1).standard_normal((3, 700)).astype(np.float32)
    assert js(equal, equal.copy()).tolist() == [0.0] * 3
    assert js(equal, equal + np.float32(0)).tolist() == [0.0] * 3


@pytest.mark.parametrize("scale", [1e-3, 0.03, 1.0, 30.0])
def test_the_slow_reading_gives_the_same(scale: float):
    generator = np.random.default_rng(2)
    reference = (generator.standard_normal((6, 400)) * 4).astype(np.float32)
    candidate = reference + (generator.standard_normal((6, 400)) * scale).astype(np.float32)
    found = js(reference, candidate)
    for row in range(6):
        assert found[row] == pytest.approx(slow(reference[row], candidate[row]), rel=1e-9, abs=1e-15)


def test_zeros_and_weights_that_vanish_count_as_much_as_they_weigh():
    """Logits further apart than a float64 reaches, and minus infinity on either side or on both."""
    reference = rows([0, 1, NONE, 2, NONE], [0, -900, 0, 5, 1], [0, -500, -300, 1, -640], [0, 0, 0, 0, 0])
    candidate = rows([0, NONE, 3, 2, NONE], [1, 0, -900, 5, 1], [-640, -700, 0, -300, 1], [-900, 900, 0, 0, 0])
    found = js(reference, candidate)
    for row in range(len(reference)):
        assert found[row] == pytest.approx(slow(reference[row], candidate[row]), rel=1e-12)


def test_it_is_finite_where_kl_is_infinite_and_null_where_a_row_is_unusable():
    reference = rows([0, 0, 0], [0, 0, 0], [0, np.nan, 0])
    candidate = rows([0, 0, NONE], [0, np.inf, 0], [0, 0, 0])
    found = compare_rows(reference, candidate, np.zeros(3, dtype=np.int32), dictionary_size=3)
    assert np.isnan(found.kl_full_nats).all() and found.flags[0] & RowFlag.INFINITE_KL
    assert found.js_full_nats[0] == pytest.approx(slow(reference[0], candidate[0]), rel=1e-12)
    assert np.isnan(found.js_full_nats[1:]).all()
    assert found.arrays()["js_full_nats"].null_count == 2


LOGITS = st.one_of(st.floats(-800, 800, width=32), st.just(NONE), st.integers(-2, 2).map(float))


@settings(max_examples=80, deadline=None)
@given(
    reference=arrays(np.float32, (3, 8), elements=LOGITS),
    candidate=arrays(np.float32, (3, 8), elements=LOGITS),
    order=st.permutations(range(8)),
)
def test_symmetric_between_0_and_ln_2_whatever_the_order_of_the_dictionary(reference, candidate, order):
    found = js(reference, candidate)
    usable = np.isfinite(reference.max(axis=1)) & np.isfinite(candidate.max(axis=1))
    assert np.array_equal(np.isnan(found), ~usable)
    good = found[usable]
    assert (good >= 0).all() and (good <= math.log(2)).all()
    assert js(candidate, reference)[usable] == pytest.approx(good, rel=1e-9, abs=1e-14)
    assert js(reference[:, order], candidate[:, order])[usable] == pytest.approx(good, rel=1e-9, abs=1e-14)
    for row in np.flatnonzero(usable):
        assert found[row] == pytest.approx(slow(reference[row], candidate[row]), rel=1e-9, abs=1e-14)
    itself = js(reference, reference.copy())
    assert (itself[~np.isnan(itself)] == 0).all()


def test_no_row():
    nothing = np.empty((0, 5), dtype=np.float32)
    assert len(js(nothing, nothing)) == 0
