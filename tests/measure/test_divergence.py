"""One position's figures: known answers, a slow independent reading, and properties."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from drift_runs.errors import NotComparable, ProtocolError
from drift_runs.measure.divergence import compare_and_summarise, compare_rows, summarise_rows
from drift_runs.schema import COMPARISON, ROWS, RowFlag


def rows(values: list[list[float]]) -> np.ndarray:
    return np.array(values, dtype=np.float32)


def ids(values: list[int]) -> np.ndarray:
    return np.array(values, dtype=np.int32)


def plain_softmax(logits: np.ndarray) -> list[float]:
    shifted = [float(value) - float(max(logits)) for value in logits]
    total = math.fsum(math.exp(value) for value in shifted)
    return [math.exp(value) / total for value in shifted]


def random_rows(seed: int, count: int, columns: int, scale: float = 3.0) -> np.ndarray:
    return (np.random.default_rng(seed).standard_normal((count, columns)) * scale).astype(np.float32)


def test_a_distribution_with_known_probabilities():
    reference = np.log(rows([[0.5, 0.25, 0.25]]))
    candidate = np.log(rows([[0.25, 0.5, 0.25]]))
    found = compare_rows(reference, candidate, ids([0]), dictionary_size=3)
    assert found.kl_full_nats[0] == pytest.approx(0.25 * math.log(2), abs=1e-7)
    assert found.flip.tolist() == [True] and found.flip_strict.tolist() == [True]
    assert (found.reference_top[0], found.candidate_top[0]) == (0, 1)
    assert found.reference_p1[0] == pytest.approx(0.5, abs=1e-7)
    assert found.reference_margin[0] == pytest.approx(0.25, abs=1e-7)
    assert found.candidate_p1[0] == pytest.approx(0.5, abs=1e-7)
    assert found.p_of_candidate_top[0] == pytest.approx(0.25, abs=1e-7)
    assert found.q_of_reference_top[0] == pytest.approx(0.25, abs=1e-7)
    assert found.reference_nll_nats[0] == pytest.approx(math.log(2), abs=1e-7)
    assert found.candidate_nll_nats[0] == pytest.approx(math.log(4), abs=1e-7)
    assert found.dp[0] == pytest.approx(-0.25, abs=1e-7)
    assert found.reference_entropy_nats[0] == pytest.approx(1.5 * math.log(2), abs=1e-7)
    assert found.candidate_entropy_nats[0] == pytest.approx(1.5 * math.log(2), abs=1e-7)
    assert found.max_abs_dlogit[0] == pytest.approx(math.log(2), abs=1e-6)
    assert found.flags[0] & RowFlag.CANDIDATE_TIED == 0
    # The reference's second place is shared, its best is not.
    assert found.flags[0] & RowFlag.REFERENCE_TIED == 0


def test_every_column_against_a_slow_reading():
    reference = random_rows(1, 5, 203)
    candidate = reference + random_rows(2, 5, 203, 0.5)
    tokens = ids([0, 17, 202, 5, 90])
    found = compare_and_summarise(
        reference, candidate, tokens, top_k=7, dictionary_size=203, positions=np.arange(5, dtype=np.int32)
    )
    for row in range(5):
        p, q = plain_softmax(reference[row]), plain_softmax(candidate[row])
        kl = math.fsum(a * (math.log(a) - math.log(b)) for a, b in zip(p, q, strict=True))
        assert found.comparison.kl_full_nats[row] == pytest.approx(kl, abs=1e-12)
        assert found.comparison.dp[row] == pytest.approx(q[tokens[row]] - p[tokens[row]], abs=1e-12)
        assert found.comparison.reference_margin[row] == pytest.approx(max(p) - sorted(p)[-2], abs=1e-12)
        order = sorted(range(203), key=lambda k: (-np.float32(math.log(q[k])), k))[:7]
        assert found.rows.top_ids[row].tolist() == order
        assert found.rows.top_logprobs[row] == pytest.approx([math.log(q[k]) for k in order], abs=1e-5)
        outside = math.log(math.fsum(q[k] for k in range(203) if k not in order))
        assert found.rows.tail_logprob[row] == pytest.approx(outside, abs=1e-12)
        assert found.rows.rank[row] == 1 + sum(value > candidate[row, tokens[row]] for value in candidate[row])
        assert found.rows.logprob[row] == pytest.approx(math.log(q[tokens[row]]), abs=1e-12)
        entropy = -math.fsum(value * math.log(value) for value in q)
        assert found.rows.entropy_nats[row] == pytest.approx(entropy, abs=1e-12)
        assert found.rows.p1[row] == pytest.approx(max(q), abs=1e-12)


def test_equal_rows_differ_by_exactly_nothing():
    logits = random_rows(3, 4, 500)
    found = compare_rows(logits, logits.copy(), ids([1, 2, 3, 4]), dictionary_size=500)
    assert found.kl_full_nats.tolist() == [0.0] * 4
    assert found.max_abs_dlogit.tolist() == [0.0] * 4
    assert not found.flip.any() and not found.flip_strict.any()
    assert found.dp.tolist() == [0.0] * 4


@pytest.mark.parametrize("block_rows", [1, 3, 8, 64])
def test_result_does_not_depend_on_the_block(block_rows: int):
    reference = random_rows(4, 11, 1300)
    candidate = reference + random_rows(5, 11, 1300, 0.2)
    reference[2, 5] = np.nan
    candidate[7, 9] = -np.inf
    tokens = np.arange(11, dtype=np.int32)
    arguments = {"top_k": 20, "dictionary_size": 1250, "positions": tokens}
    whole = compare_and_summarise(reference, candidate, tokens, **arguments)
    split = compare_and_summarise(reference, candidate, tokens, **arguments, block_rows=block_rows)
    for left, right in zip(whole, split, strict=True):
        for name in left.__slots__:
            assert np.array_equal(
                np.asarray(getattr(left, name)),
                np.asarray(getattr(right, name)),
                equal_nan=name not in ("row_top", "row_full"),
            ), name
    assert whole.rows.row_full == summarise_rows(candidate, tokens, **arguments, block_rows=block_rows).row_full
    alone = compare_rows(reference, candidate, tokens, dictionary_size=1250, block_rows=block_rows)
    assert np.array_equal(alone.kl_full_nats, whole.comparison.kl_full_nats, equal_nan=True)


def test_the_lowest_id_wins_a_tie_and_strict_flips_ask_for_disjoint_sets():
    reference = rows([[1, 1, 0, 0], [1, 1, 0, 0], [2, 0, 0, 0]])
    candidate = rows([[0, 1, 1, 0], [0, 0, 1, 1], [2, 0, 2, 0]])
    found = compare_rows(reference, candidate, ids([0, 0, 0]), dictionary_size=4)
    assert found.reference_top.tolist() == [0, 0, 0]
    assert found.candidate_top.tolist() == [1, 2, 0]
    assert found.flip.tolist() == [True, True, False]
    assert found.flip_strict.tolist() == [False, True, False]
    assert found.reference_margin[0] == 0
    tied = [bool(flag & RowFlag.REFERENCE_TIED) for flag in found.flags]
    assert tied == [True, True, False]
    assert [bool(flag & RowFlag.CANDIDATE_TIED) for flag in found.flags] == [True, True, True]


def test_ties_at_the_edge_of_the_top_entries_go_to_the_lowest_ids():
    logits = np.zeros((1, 4000), dtype=np.float32)
    logits[0, 3999] = 1
    found = summarise_rows(logits, ids([5]), top_k=4, dictionary_size=4000, positions=ids([9]))
    assert found.top_ids[0].tolist() == [3999, 0, 1, 2]
    assert found.rank[0] == 2  # 3,999 tokens share second place, and ties do not raise a rank
    assert found.tie_count[0] == 1


def test_logits_that_round_to_one_logprob_are_ordered_by_id():
    low = np.float32(1.0)
    high = np.nextafter(low, np.float32(2))
    logits = rows([[low, high, 60.0]])
    found = summarise_rows(logits, ids([0]), top_k=2, dictionary_size=3, positions=ids([1]))
    assert found.top_logprobs[0, 1] == np.float32(float(high) - 60.0)
    assert found.top_ids[0].tolist() == [2, 0]


def test_padding_is_dropped_before_the_softmax_and_its_mass_is_recorded():
    inside = random_rows(6, 3, 40)
    wide = np.concatenate([inside, np.full((3, 8), 2.0, dtype=np.float32)], axis=1)
    padded = summarise_rows(wide, ids([1, 2, 3]), top_k=5, dictionary_size=40, positions=ids([1, 2, 3]))
    plain = summarise_rows(inside, ids([1, 2, 3]), top_k=5, dictionary_size=40, positions=ids([1, 2, 3]))
    assert np.array_equal(padded.logprob, plain.logprob)
    assert padded.row_full == plain.row_full
    for row in range(3):
        assert padded.padding_mass[row] == pytest.approx(sum(plain_softmax(wide[row])[40:]), rel=1e-9)
    assert all(flag & RowFlag.PADDING for flag in padded.flags)
    assert plain.padding_mass.tolist() == [0.0] * 3 and plain.flags.tolist() == [0] * 3


def test_padding_above_the_dictionary_does_not_overflow():
    wide = rows([[0.0, 0.0, 3000.0]])
    found = summarise_rows(wide, ids([0]), top_k=1, dictionary_size=2, positions=ids([1]))
    assert found.padding_mass[0] == 1.0
    assert found.p1[0] == 0.5


def test_a_reference_zero_contributes_nothing_and_a_candidate_zero_is_infinite():
    none = -np.inf
    reference = rows([[0, 0, none], [0, 0, 0], [none, 0, 0]])
    candidate = rows([[0, 0, 5], [0, 0, none], [none, 0, 1]])
    found = compare_rows(reference, candidate, ids([2, 2, 1]), dictionary_size=3)
    assert found.kl_full_nats[0] == pytest.approx(math.log((2 + math.exp(5)) / 2), rel=1e-12)
    assert np.isnan(found.kl_full_nats[1])
    assert found.flags[1] & RowFlag.INFINITE_KL and not found.flags[0] & RowFlag.INFINITE_KL
    p, q = 0.5, 1 / (1 + math.e)
    assert found.kl_full_nats[2] == pytest.approx(p * math.log(p / q) + p * math.log(p / (1 - q)), rel=1e-12)
    assert np.isnan(found.reference_nll_nats[0]) and np.isnan(found.candidate_nll_nats[1])
    assert found.dp[1] == pytest.approx(-1 / 3)
    assert not any(flag & RowFlag.NONFINITE for flag in found.flags)
    assert all(flag & RowFlag.UNHASHABLE for flag in found.flags)
    assert np.isnan(found.max_abs_dlogit[0]) and found.max_abs_dlogit[2] == 1.0
    assert found.valid.all()


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_an_unusable_row_is_flagged_and_null_and_leaves_its_neighbours_alone(bad: float):
    reference = random_rows(7, 3, 30)
    candidate = random_rows(8, 3, 30)
    candidate[1, 4] = bad
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = compare_and_summarise(
            reference, candidate, ids([1, 1, 1]), top_k=4, dictionary_size=30, positions=ids([1, 2, 3])
        )
    clean = compare_rows(reference[[0, 2]], candidate[[0, 2]], ids([1, 1]), dictionary_size=30)
    assert np.isnan(found.comparison.kl_full_nats[1])
    assert found.comparison.kl_full_nats[[0, 2]].tolist() == clean.kl_full_nats.tolist()
    assert found.comparison.flags[1] & RowFlag.NONFINITE and found.comparison.flags[1] & RowFlag.UNHASHABLE
    assert found.rows.row_top[1] is None and found.rows.row_full[1] is None
    assert found.comparison.candidate_top[1] == -1 and not found.comparison.valid[1]
    columns = found.comparison.arrays()
    assert columns["flip"][1].as_py() is None and columns["kl_full_nats"][1].as_py() is None
    assert columns["reference_p1"][1].as_py() is not None
    stored = found.rows.arrays()
    assert stored["top_ids"][1].as_py() == [] and stored["rank"][1].as_py() is None
    assert len(stored["top_ids"][0].as_py()) == 4


def test_a_row_of_minus_infinities_only_is_unusable():
    found = summarise_rows(
        np.full((1, 5), -np.inf, dtype=np.float32), ids([0]), top_k=2, dictionary_size=5, positions=ids([1])
    )
    assert found.flags[0] & RowFlag.NONFINITE and np.isnan(found.logprob[0])


def test_a_tail_too_small_for_a_sum_is_still_a_number():
    logits = np.full((1, 6), -1000.0, dtype=np.float32)
    logits[0, 0] = 0
    found = summarise_rows(logits, ids([0]), top_k=1, dictionary_size=6, positions=ids([1]))
    assert found.tail_logprob[0] == pytest.approx(-1000 + math.log(5))


def test_no_tail_is_null_and_a_short_row_is_flagged():
    found = summarise_rows(rows([[0, 1]]), ids([0]), top_k=4, dictionary_size=2, positions=ids([1]))
    assert np.isnan(found.tail_logprob[0]) and found.flags[0] & RowFlag.SHORT
    assert found.arrays()["tail_logprob"].null_count == 1
    assert found.top_ids.shape == (1, 2)


def test_no_rows_give_columns_of_no_rows_in_the_schema_types():
    nothing = np.empty((0, 12), dtype=np.float32)
    found = compare_and_summarise(nothing, nothing, ids([]), top_k=3, dictionary_size=10, positions=ids([]))
    for name, values in {**found.rows.arrays(), **found.comparison.arrays()}.items():
        assert len(values) == 0
        where = ROWS if name in ROWS.names else COMPARISON
        assert values.type.equals(where.field(name).type), name


def test_the_columns_fill_the_schemas():
    logits = random_rows(9, 2, 30)
    found = compare_and_summarise(logits, logits, ids([1, 2]), top_k=3, dictionary_size=30, positions=ids([1, 2]))
    given_by_capture = {"window", "position", "role", "token"}
    assert set(found.rows.arrays()) <= set(ROWS.names) - given_by_capture
    assert set(found.comparison.arrays()) <= set(COMPARISON.names) - given_by_capture - {"row_identical"}
    for name, values in found.comparison.arrays().items():
        assert values.type.equals(COMPARISON.field(name).type), name
    for name, values in found.rows.arrays().items():
        assert values.type == ROWS.field(name).type or pa.types.is_list(values.type), name


def test_rows_narrower_than_the_dictionary_and_foreign_tokens_are_refused():
    logits = random_rows(10, 1, 30)
    with pytest.raises(NotComparable, match="30 columns for a dictionary of 31"):
        compare_rows(logits, logits, ids([0]), dictionary_size=31)
    with pytest.raises(ProtocolError, match="outside 0 to 29"):
        compare_rows(logits, logits, ids([30]), dictionary_size=30)
    with pytest.raises(NotComparable, match="float64"):
        compare_rows(logits.astype(np.float64), logits, ids([0]), dictionary_size=30)
    with pytest.raises(NotComparable, match="for 2 tokens"):
        compare_rows(logits, logits, ids([0, 1]), dictionary_size=30)


FINITE = st.floats(-60, 60, width=32)


@settings(max_examples=60, deadline=None)
@given(
    reference=arrays(np.float32, (3, 9), elements=FINITE),
    candidate=arrays(np.float32, (3, 9), elements=FINITE),
    order=st.permutations(range(9)),
)
def test_divergence_is_never_negative_and_ignores_the_order_of_the_dictionary(reference, candidate, order):
    tokens = ids([0, 4, 8])
    plain = compare_rows(reference, candidate, tokens, dictionary_size=9)
    assert (plain.kl_full_nats >= -1e-9).all()
    assert (plain.reference_entropy_nats >= -1e-9).all() and (plain.reference_margin >= 0).all()
    moved = ids([order.index(token) for token in tokens])
    permuted = compare_rows(reference[:, order], candidate[:, order], moved, dictionary_size=9)
    assert permuted.kl_full_nats == pytest.approx(plain.kl_full_nats, rel=1e-9, abs=1e-12)
    assert permuted.dp == pytest.approx(plain.dp, abs=1e-12)
    assert permuted.flip_strict.tolist() == plain.flip_strict.tolist()
    # A strict flip is always a flip; the reverse fails on ties.
    assert not (plain.flip_strict & ~plain.flip).any()


@settings(max_examples=60, deadline=None)
@given(
    reference=arrays(np.float32, (2, 7), elements=st.integers(-40, 40).map(float)),
    candidate=arrays(np.float32, (2, 7), elements=st.integers(-40, 40).map(float)),
    shift=st.integers(-1000, 1000),
)
def test_adding_a_constant_to_a_row_changes_nothing_but_the_logit_difference(reference, candidate, shift):
    tokens = ids([0, 6])
    plain = compare_rows(reference, candidate, tokens, dictionary_size=7)
    shifted = compare_rows(reference, candidate + np.float32(shift), tokens, dictionary_size=7)
    for name in ("kl_full_nats", "flip", "flip_strict", "dp", "candidate_nll_nats", "candidate_entropy_nats", "flags"):
        assert np.array_equal(getattr(plain, name), getattr(shifted, name)), name


@settings(max_examples=60, deadline=None)
@given(logits=arrays(np.float32, (2, 40), elements=st.integers(-3, 3).map(float)), top_k=st.integers(1, 40))
def test_top_entries_with_many_ties_are_the_sorted_head(logits, top_k):
    found = summarise_rows(logits, ids([0, 1]), top_k=top_k, dictionary_size=40, positions=ids([1, 2]))
    for row in range(2):
        order = sorted(range(40), key=lambda k: (-logits[row, k], k))[:top_k]
        assert found.top_ids[row].tolist() == order
        tail = 0.0 if top_k == 40 else np.exp(found.tail_logprob[row])
        mass = np.exp(found.top_logprobs[row].astype(float)).sum() + tail
        assert mass == pytest.approx(1, abs=1e-5)


def test_stripes_find_the_same_entries_as_a_full_sort():
    logits = random_rows(11, 4, 20_011)
    found = summarise_rows(logits, ids([0] * 4), top_k=64, dictionary_size=20_011, positions=ids([1, 2, 3, 4]))
    for row in range(4):
        assert found.top_ids[row].tolist() == np.lexsort((np.arange(20_011), -logits[row]))[:64].tolist()


def test_the_largest_difference_of_equal_rows_is_plus_zero() -> None:
    logits = np.random.default_rng(3).standard_normal((2, 12)).astype(np.float32)
    found = compare_rows(logits, logits.copy(), np.array([1, 2], dtype=np.int32), dictionary_size=12)
    assert found.max_abs_dlogit.tolist() == [0, 0] and not np.signbit(found.max_abs_dlogit).any()
