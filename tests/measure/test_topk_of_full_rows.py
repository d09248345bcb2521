"""The top-K figures, swaps, ranks and entropies that full rows give: a slow reading, bounds and properties."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from drift_runs.measure.columns import PositionColumns
from drift_runs.measure.divergence import compare_rows
from drift_runs.schema import COMPARISON, RowFlag

TOPK = ("kl_topk_tail_nats", "kl_topk_shared_nats", "kl_topk_lower_nats", "kl_topk_floor_nats")
NONE = -np.inf


def rows(*values: list[float]) -> np.ndarray:
    return np.array(values, dtype=np.float32)


def compared(reference: np.ndarray, candidate: np.ndarray, top_k: int, token: int = 0) -> PositionColumns:
    tokens = np.full(len(reference), token, dtype=np.int32)
    return compare_rows(reference, candidate, tokens, dictionary_size=reference.shape[1], top_k=top_k)


def softmax(logits: np.ndarray) -> list[float]:
    weights = [math.exp(float(value) - float(max(logits))) for value in logits]
    total = math.fsum(weights)
    return [weight / total for weight in weights]


def term(p: float, q: float) -> float:
    return p * math.log(p / q) if p > 0 else 0.0


def kl(p: list[float], q: list[float]) -> float:
    return math.fsum(term(a, b) for a, b in zip(p, q, strict=True))


def normalised(values: list[float]) -> list[float]:
    total = math.fsum(values)
    return [value / total for value in values]


def slow(reference: np.ndarray, candidate: np.ndarray, top_k: int) -> dict[str, float]:
    """One row, from the words of the definition. Without ties at the K-th place."""
    p, q = softmax(reference), softmax(candidate)
    each = range(len(p))
    best = sorted(each, key=lambda token: (-reference[token], token))[:top_k]
    own = sorted(each, key=lambda token: (-candidate[token], token))[:top_k]
    shared = [token for token in best if token in own]
    rest = [token for token in each if token not in best]
    outside = [token for token in each if token not in shared]
    found = {
        "kl_topk_tail_nats": kl(
            [*(p[t] for t in best), math.fsum(p[t] for t in rest)],
            [*(q[t] for t in best), math.fsum(q[t] for t in rest)],
        ),
        "kl_topk_lower_nats": kl(
            [*(p[t] for t in shared), math.fsum(p[t] for t in outside)],
            [*(q[t] for t in shared), math.fsum(q[t] for t in outside)],
        ),
        "kl_topk_shared_nats": math.nan,
        "kl_topk_floor_nats": kl(
            normalised([p[t] for t in best]), normalised([q[t] if t in own else q[own[-1]] for t in best])
        ),
        "shared_support": len(shared),
        "missed": len(best) - len(shared),
        "reference_mass_outside": math.fsum(p[t] for t in outside),
        "reference_mass_dropped": math.fsum(p[t] for t in best if t not in shared),
    }
    if len(shared) > 1:
        found["kl_topk_shared_nats"] = kl(normalised([p[t] for t in shared]), normalised([q[t] for t in shared]))
    for side, mass, entries in (("reference", p, best), ("candidate", q, own)):
        tail = math.fsum(mass[t] for t in each if t not in entries)
        found[f"{side}_entropy_topk_nats"] = -math.fsum(
            value * math.log(value) for value in [*(mass[t] for t in entries), tail] if value > 0
        )
    return found


@pytest.mark.parametrize("top_k", [1, 2, 7, 64, 203])
def test_every_figure_against_a_slow_reading(top_k: int):
    generator = np.random.default_rng(1)
    reference = (generator.standard_normal((7, 203)) * 3).astype(np.float32)
    candidate = reference + (generator.standard_normal((7, 203)) * 1.5).astype(np.float32)
    found = compared(reference, candidate, top_k)
    assert found.top_k.tolist() == [top_k] * 7
    for row in range(7):
        for name, value in slow(reference[row], candidate[row], top_k).items():
            assert getattr(found, name)[row] == pytest.approx(value, rel=1e-10, abs=1e-13, nan_ok=True), name
        collapsed = bool(found.flags[row] & RowFlag.SUPPORT_COLLAPSE)
        assert collapsed == (found.shared_support[row] < 2) == bool(np.isnan(found.kl_topk_shared_nats[row]))


@pytest.mark.parametrize("top_k", [40, 64])
def test_k_of_the_whole_dictionary_gives_the_figure_over_the_dictionary(top_k: int):
    generator = np.random.default_rng(2)
    reference = (generator.standard_normal((5, 40)) * 3).astype(np.float32)
    candidate = reference + (generator.standard_normal((5, 40)) * 0.3).astype(np.float32)
    found = compared(reference, candidate, top_k)
    for name in TOPK:
        assert getattr(found, name) == pytest.approx(found.kl_full_nats, rel=1e-12, abs=1e-14), name
    assert found.top_k.tolist() == [top_k] * 5 and found.missed.tolist() == [0] * 5
    assert found.shared_support.tolist() == [40] * 5 and found.reference_mass_outside.tolist() == [0.0] * 5
    assert found.reference_entropy_topk_nats == pytest.approx(found.reference_entropy_nats, rel=1e-12)
    assert found.candidate_entropy_topk_nats == pytest.approx(found.candidate_entropy_nats, rel=1e-12)
    again = compared(reference, reference.copy(), top_k)
    for name in TOPK:
        assert getattr(again, name).tolist() == [0.0] * 5


def test_lists_without_a_common_token_collapse():
    found = compared(rows([9, 8, 0, 0]), rows([0, 0, 9, 8]), 2)
    assert found.shared_support.tolist() == [0] and found.missed.tolist() == [2]
    assert np.isnan(found.kl_topk_shared_nats[0]) and found.flags[0] & RowFlag.SUPPORT_COLLAPSE
    assert found.kl_topk_lower_nats[0] == pytest.approx(0, abs=1e-15)
    assert found.reference_mass_outside[0] == pytest.approx(1)
    # Both take the candidate's least probability, so after renormalising they are even.
    p = 1 / (1 + math.exp(-1))
    assert found.kl_topk_floor_nats[0] == pytest.approx(term(p, 0.5) + term(1 - p, 0.5), rel=1e-9)


def test_ties_at_the_edge_are_decided_by_the_lowest_id():
    reference = rows([5, 1, 1, 1, 1])
    candidate = rows([5, 0, 1, 1, 1])
    found = compared(reference, candidate, 2)
    # The reference keeps 0 and 1, the candidate 0 and 2.
    assert (found.shared_support[0], found.missed[0]) == (1, 1)
    assert found.reference_mass_dropped[0] == pytest.approx(softmax(reference[0])[1])


def test_the_two_best_change_places():
    reference = rows([5, 4, 0], [5, 4, 0], [5, 4, 4], [5, 4, 4], [5, 5, 0], [5, NONE, NONE])
    candidate = rows([4, 5, 0], [0, 5, 4], [4, 5, 0], [4, 0, 5], [4, 5, 0], [NONE, 5, NONE])
    found = compared(reference, candidate, 2)
    # Third and fourth: the reference's second place is shared by 1 and 2, and 1 has it.
    assert found.swap.tolist() == [True, False, True, False, True, False]
    assert compared(reference, candidate, 1).swap.tolist() == found.swap.tolist()
    assert compared(candidate, reference, 3).swap[:2].tolist() == [True, False]
    assert not compared(rows([3]), rows([4]), 1).swap[0]


def test_the_text_decides_the_flip_that_is_measured_against_it_and_the_ranks():
    reference = rows([1, 3, 3, 0])
    candidate = rows([4, 3, 3, 5])
    found = compared(reference, candidate, 2, token=1)
    assert found.flip_text.tolist() == [True] and not compared(reference, candidate, 2, token=3).flip_text[0]
    assert (found.reference_rank[0], found.candidate_rank[0]) == (1, 3)


def test_padding_of_each_side_is_recorded():
    reference = np.concatenate([rows([0, 1, 2]), rows([1.5])], axis=1)
    tokens = np.zeros(1, dtype=np.int32)
    found = compare_rows(reference, rows([0, 1, 2]), tokens, dictionary_size=3, top_k=2)
    assert found.reference_padding_mass[0] == pytest.approx(softmax(reference[0])[3])
    assert found.candidate_padding_mass.tolist() == [0.0]
    assert found.kl_topk_tail_nats.tolist() == [0.0]


def test_a_candidate_that_excludes_a_token_makes_what_needs_it_null():
    reference = rows([0, 0, 0, -9], [0, 0, 0, -9])
    candidate = rows([NONE, 0, 0, -9], [0, 0, 0, NONE])
    found = compared(reference, candidate, 3)
    assert [bool(flag & RowFlag.INFINITE_KL) for flag in found.flags] == [True, True]
    assert np.isnan(found.kl_full_nats).all()
    # The first lacks a token of the reference's list, the second everything outside it.
    assert np.isnan(found.kl_topk_tail_nats).all()
    assert np.isfinite(found.kl_topk_shared_nats).all()
    assert np.isfinite(found.kl_topk_lower_nats[0]) and np.isnan(found.kl_topk_lower_nats[1])


def test_a_reference_that_excludes_tokens_counts_nothing_for_them():
    reference = rows([0, 1, NONE, NONE])
    candidate = rows([0, 1, -3, -4])
    found = compared(reference, candidate, 3)
    p, q = softmax(rows([0, 1])[0]), softmax(candidate[0])
    assert found.kl_topk_tail_nats[0] == pytest.approx(kl(p, q[:2]), rel=1e-9)
    assert found.kl_topk_shared_nats[0] == pytest.approx(kl(p, normalised(q[:3])[:2]), rel=1e-9)


def test_a_tail_too_small_for_a_float64_still_counts():
    reference = rows([0, -800, -800])
    candidate = rows([0, -900, -900])
    found = compared(reference, candidate, 1)
    assert found.kl_topk_tail_nats.tolist() == [0.0] and np.isfinite(found.kl_topk_lower_nats[0])
    assert found.kl_full_nats.tolist() == [0.0]


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_an_unusable_row_has_no_figure(bad: float):
    reference = np.random.default_rng(3).standard_normal((3, 30)).astype(np.float32)
    candidate = reference + np.float32(0.25) * np.random.default_rng(4).standard_normal((3, 30)).astype(np.float32)
    candidate[1, 4] = bad
    found = compared(reference, candidate, 5)
    columns = found.arrays()
    names = ("js_full_nats", *TOPK, "shared_support", "missed", "reference_mass_outside", "reference_mass_dropped")
    for name in (*names, "swap", "flip_text", "candidate_rank", "candidate_top", "candidate_entropy_topk_nats"):
        assert [value is None for value in columns[name].to_pylist()] == [False, True, False], name
    for name in ("reference_rank", "reference_top", "reference_entropy_topk_nats", "top_k"):
        assert columns[name].null_count == 0, name
    clean = compared(reference[[0, 2]], candidate[[0, 2]], 5)
    for name in names:
        assert getattr(found, name)[[0, 2]].tolist() == getattr(clean, name).tolist(), name


def test_finite_rows_leave_no_column_empty_that_they_can_fill():
    generator = np.random.default_rng(5)
    reference = (generator.standard_normal((4, 50)) * 2).astype(np.float32)
    columns = compared(reference, reference + np.float32(0.1) * reference[::-1], 10).arrays()
    given_elsewhere = {"window", "position", "role", "token", "copy", "literal", "row_identical", "row_hash"}
    # Raw logits are known, so their difference is measured and that of log-probabilities is not.
    assert set(columns) == set(COMPARISON.names) - given_elsewhere
    assert [name for name, values in columns.items() if values.null_count] == ["max_abs_dlogprob"]


FINITE = st.floats(-40, 40, width=32)
PAIRS = st.tuples(arrays(np.float32, (2, 9), elements=FINITE), arrays(np.float32, (2, 9), elements=FINITE))


@settings(max_examples=100, deadline=None)
@given(pair=PAIRS)
def test_bounds_hold_and_rise_with_k(pair):
    reference, candidate = pair
    by_k = [compared(reference, candidate, top_k) for top_k in range(1, 10)]
    full = by_k[0].kl_full_nats
    room = 1e-12 * np.maximum(1.0, np.abs(full))
    for lower, higher in pairwise(by_k):
        assert (lower.kl_topk_tail_nats <= higher.kl_topk_tail_nats + room).all()
    for found in by_k:
        assert (found.kl_topk_tail_nats <= full + room).all()
        assert (found.kl_topk_lower_nats <= full + room).all()
        assert np.array_equal(found.kl_full_nats, full)
        assert (found.missed + found.shared_support == np.minimum(found.top_k, 9)).all()
    assert by_k[-1].kl_topk_tail_nats == pytest.approx(full, rel=1e-12, abs=1e-12)
    assert by_k[-1].kl_topk_lower_nats == pytest.approx(full, rel=1e-12, abs=1e-12)


@settings(max_examples=60, deadline=None)
@given(
    reference=st.permutations(range(9)),
    candidate=st.permutations(range(9)),
    order=st.permutations(range(9)),
    top_k=st.integers(1, 9),
)
def test_the_order_of_the_dictionary_changes_nothing_without_ties(reference, candidate, order, top_k):
    reference, candidate = rows(reference), rows(candidate)
    plain = compared(reference, candidate, top_k, token=4)
    moved = compared(reference[:, order], candidate[:, order], top_k, token=order.index(4))
    for name in (*TOPK, "reference_mass_outside", "reference_mass_dropped", "reference_entropy_topk_nats"):
        assert getattr(moved, name) == pytest.approx(getattr(plain, name), rel=1e-9, abs=1e-12, nan_ok=True), name
    for name in ("swap", "flip_text", "shared_support", "missed", "reference_rank", "candidate_rank", "flags"):
        assert getattr(moved, name).tolist() == getattr(plain, name).tolist(), name


@settings(max_examples=60, deadline=None)
@given(
    logits=arrays(np.float32, (2, 12), elements=st.integers(-2, 2).map(float)),
    other=arrays(np.float32, (2, 12), elements=st.integers(-2, 2).map(float)),
    top_k=st.integers(1, 14),
)
def test_many_ties_are_read_as_by_sorting(logits, other, top_k):
    found = compared(logits, other, top_k, token=3)
    for row in range(2):
        best, own = (sorted(range(12), key=lambda k: (-values[row, k], k)) for values in (logits, other))
        assert found.shared_support[row] == len(set(best[:top_k]) & set(own[:top_k]))
        assert found.swap[row] == (best[:2] == own[:2][::-1])
        assert found.flip_text[row] == (own[0] != 3)
        assert found.reference_margin[row] == pytest.approx(
            softmax(logits[row])[best[0]] - softmax(logits[row])[best[1]], abs=1e-12
        )


def test_equal_rows_have_no_divergence_at_any_k():
    logits = (np.random.default_rng(6).standard_normal((3, 300)) * 3).astype(np.float32)
    for top_k in (2, 20, 300):
        found = compared(logits, logits.copy(), top_k)
        for name in TOPK:
            assert getattr(found, name).tolist() == [0.0] * 3, name
        assert found.missed.tolist() == [0] * 3 and not found.swap.any()
