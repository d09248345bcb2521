"""Tables of K best entries against each other: known answers, published figures, and what full rows say."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drift_runs.errors import NotComparable
from drift_runs.measure.determinism import row_top_hash
from drift_runs.measure.divergence import compare_rows, summarise_rows
from drift_runs.measure.topk import compare_topk
from drift_runs.schema import COMPARISON, ROWS, RowFlag

FOLDER = Path(os.environ.get("DRIFT_PUBLISHED_DATA", Path(__file__).parents[3] / "shared" / "data"))
RECEIPTS = FOLDER / "qwen38-exl3"

Entries = dict[int, float]
"""Probability by token id."""


def table(entries: list[Entries], **columns: list) -> pa.Table:
    """Rows of one window from position 1 on, entries in the order given, the text's token 7 unless told."""
    count = len(entries)
    filled: dict[str, list] = {
        "window": ["w"] * count,
        "position": list(range(1, count + 1)),
        "role": ["prompt"] * count,
        "token": [7] * count,
        "top_ids": [list(row) for row in entries],
        "top_logprobs": [[math.log(value) if value > 0 else value for value in row.values()] for row in entries],
        "tie_count": [1] * count,
        "flags": [0] * count,
        **columns,
    }
    return pa.table({field.name: filled.get(field.name, [None] * count) for field in ROWS}, schema=ROWS)


def compared(reference: list[Entries], candidate: list[Entries], **settings_: object) -> dict[str, list]:
    found = compare_topk(table(reference), table(candidate), **settings_)
    assert found.schema.equals(COMPARISON, check_metadata=True)
    return found.to_pydict()


def near(value: float) -> object:
    """Entries are stored in 32 bits."""
    return pytest.approx(value, rel=2e-6, abs=1e-7)


def term(p: float, q: float) -> float:
    return p * math.log(p / q)


def test_known_masses():
    found = compared([{3: 0.5, 5: 0.25, 8: 0.125}], [{5: 0.4, 3: 0.3, 9: 0.2}])
    # Shared are 3 and 5; 0.25 of P and 0.3 of Q lie outside them.
    assert found["kl_topk_lower_nats"] == [near(term(0.5, 0.3) + term(0.25, 0.4) + term(0.25, 0.3))]
    assert found["kl_topk_shared_nats"] == [near(term(2 / 3, 3 / 7) + term(1 / 3, 4 / 7))]
    # 8 takes 0.2, the candidate's least, and both sides are divided by their sums 0.875 and 0.9.
    p, q = [value / 0.875 for value in (0.5, 0.25, 0.125)], [value / 0.9 for value in (0.3, 0.4, 0.2)]
    assert found["kl_topk_floor_nats"] == [near(sum(map(term, p, q)))]
    assert found["kl_topk_tail_nats"] == [None]  # nobody said Q(8)
    assert (found["shared_support"], found["missed"], found["top_k"]) == ([2], [1], [3])
    assert found["reference_mass_outside"] == [near(0.25)] and found["reference_mass_dropped"] == [near(0.125)]
    assert (found["flip"], found["flip_strict"], found["flip_text"], found["swap"]) == ([True], [True], [True], [True])
    assert (found["reference_top"], found["candidate_top"]) == ([3], [5])
    assert found["reference_p1"] == [near(0.5)] and found["reference_margin"] == [near(0.25)]
    assert found["p_of_candidate_top"] == [near(0.25)] and found["q_of_reference_top"] == [near(0.3)]
    assert found["max_abs_dlogprob"] == [near(math.log(0.5 / 0.3))]
    bits = [*(value * math.log(value) for value in (0.5, 0.25, 0.125, 0.125))]
    assert found["reference_entropy_topk_nats"] == [near(-sum(bits))]
    for name in ("kl_full_nats", "js_full_nats", "reference_entropy_nats", "max_abs_dlogit", "copy", "literal"):
        assert found[name] == [None], name
    for name in ("reference_nll_nats", "candidate_nll_nats", "dp", "reference_rank", "candidate_rank"):
        assert found[name] == [None], name  # token 7 is in no list
    assert found["row_identical"] == [False] and found["row_hash"] == ["row.top@3"] and found["flags"] == [0]


def test_wanted_ids_and_the_actual_token_complete_the_tail():
    reference = table([{3: 0.5, 5: 0.25, 8: 0.125}], token=[8], logprob=[math.log(0.125)], rank=[3])
    candidate = {5: 0.4, 3: 0.3, 9: 0.2}
    expected = term(0.5, 0.3) + term(0.25, 0.4) + term(0.125, 0.05) + term(0.125, 0.25)
    wanted = table([candidate], token=[8], wanted_ids=[[8, 11]], wanted_logprobs=[[math.log(0.05), -20.0]])
    actual = table([candidate], token=[8], logprob=[math.log(0.05)], rank=[6])
    for rows in (wanted, actual):
        found = compare_topk(reference, rows).to_pydict()
        assert found["kl_topk_tail_nats"] == [near(expected)]
        assert found["missed"] == [1] and found["flags"] == [0]
    assert found["candidate_nll_nats"] == [near(-math.log(0.05))] and found["dp"] == [near(0.05 - 0.125)]
    assert (found["reference_rank"], found["candidate_rank"]) == ([3], [6])
    # What is known beside the list does not make a token one of the K best.
    assert (
        found["kl_topk_floor_nats"]
        == compare_topk(reference, table([candidate], token=[8]))["kl_topk_floor_nats"].to_pylist()
    )


def test_the_actual_token_is_looked_up_in_the_list():
    found = compare_topk(table([{3: 0.5, 7: 0.25, 8: 0.25}]), table([{7: 0.5, 3: 0.25, 8: 0.1}])).to_pydict()
    assert found["reference_nll_nats"] == [near(math.log(4))] and found["candidate_nll_nats"] == [near(math.log(2))]
    # 7 and 8 tie, and a tie does not raise a rank.
    assert (found["reference_rank"], found["candidate_rank"]) == ([2], [1])
    assert found["flip_text"] == [False]


def test_a_tail_of_nothing_counts_nothing_for_the_reference_and_is_floored_for_the_candidate():
    whole = {3: 0.75, 5: 0.25 + 1e-5}
    found = compared([whole, {3: 0.7, 5: 0.2}], [{3: 0.6, 5: 0.3}, whole])
    assert found["kl_topk_tail_nats"] == [
        near(term(0.75, 0.6) + term(0.25 + 1e-5, 0.3)),
        near(term(0.7, 0.75) + term(0.2, 0.25 + 1e-5) + term(0.1, 1e-12)),
    ]
    assert [bool(flag & RowFlag.TAIL_FLOORED) for flag in found["flags"]] == [False, True]


def test_a_measured_tail_is_believed():
    small = math.log(1e-15)
    reference, candidate = [{3: 0.75, 5: 0.25}], [{3: 0.6, 5: 0.4}]
    found = compare_topk(table(reference, tail_logprob=[small]), table(candidate, tail_logprob=[small - 1])).to_pydict()
    plain = term(0.75, 0.6) + term(0.25, 0.4)
    assert found["kl_topk_tail_nats"] == [near(plain)] and found["flags"] == [0]
    assert found["reference_mass_outside"] == [pytest.approx(1e-15)]


def test_fewer_than_two_shared_tokens_collapse():
    found = compared([{3: 0.5, 5: 0.25}, {3: 0.5, 5: 0.25}], [{3: 0.5, 9: 0.25}, {8: 0.5, 9: 0.25}])
    assert found["kl_topk_shared_nats"] == [None, None] and found["shared_support"] == [1, 0]
    assert all(flag & RowFlag.SUPPORT_COLLAPSE for flag in found["flags"])
    assert found["kl_topk_lower_nats"] == [near(0), near(0)] and found["max_abs_dlogprob"] == [near(0), None]
    assert found["kl_topk_floor_nats"][1] == near(term(2 / 3, 0.5) + term(1 / 3, 0.5))


def test_ties_of_the_best_place():
    tied = {3: 0.4, 5: 0.4, 8: 0.1}
    found = compared([tied, tied, {3: 0.6, 5: 0.2, 8: 0.1}], [{5: 0.5, 3: 0.3, 8: 0.1}, {8: 0.5, 3: 0.3, 5: 0.1}, tied])
    assert found["flip"] == [True, True, False] and found["flip_strict"] == [False, True, False]
    assert [bool(flag & RowFlag.REFERENCE_TIED) for flag in found["flags"]] == [True, True, False]
    assert [bool(flag & RowFlag.CANDIDATE_TIED) for flag in found["flags"]] == [False, False, True]
    assert found["reference_margin"][:2] == [0.0, 0.0] and found["swap"] == [True, False, False]


def test_identical_rows_are_those_with_equal_hashes():
    left = [{3: 0.5, 5: 0.2, 8: 0.1}, {3: 0.5, 5: 0.2, 8: 0.1}, {3: 0.5, 5: 0.2, 8: 0.1}, {3: 0.5}]
    # The second differs only among those that tie with the K-th entry, the third by one bit of a log-probability.
    right = [left[0], {3: 0.5, 5: 0.2, 9: 0.1}, {3: 0.5, 5: 0.2 * (1 + 2e-7), 8: 0.1}, {3: 0.5, 5: 0.2, 8: 0.1}]
    found = compared(left, right)
    hashes = [
        [
            row_top_hash(np.array([*row]), np.log(np.array([*row.values()])), position, 3)
            for position, row in enumerate(side)
        ]
        for side in (left, right)
    ]
    assert found["row_identical"] == [a == b for a, b in zip(*hashes, strict=True)]
    assert found["row_identical"] == [True, True, False, False]
    assert [bool(flag & RowFlag.SHORT) for flag in found["flags"]] == [False, False, False, True]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_row_with_an_entry_that_is_no_number_is_null_and_its_neighbours_are_not(bad: float):
    good = {3: 0.5, 5: 0.25}
    candidate = table([good, good, good])
    broken = pa.array([[math.log(0.5), -1.0], [-0.5, bad], [-1.0, -1.5]], type=ROWS.field("top_logprobs").type)
    candidate = candidate.set_column(
        candidate.schema.get_field_index("top_logprobs"), ROWS.field("top_logprobs"), broken
    )
    found = compare_topk(table([good, good, good]), candidate).to_pydict()
    nullable = ("kl_topk_shared_nats", "kl_topk_tail_nats", "kl_topk_lower_nats", "kl_topk_floor_nats", "flip", "swap")
    for name in (*nullable, "shared_support", "missed", "row_identical", "candidate_top", "candidate_p1", "dp"):
        values = [value is None for value in found[name]]
        assert values == ([True] * 3 if name == "dp" else [False, True, False]), name
    assert found["reference_p1"][1] == near(0.5)
    assert found["flags"] == [0, RowFlag.NONFINITE | RowFlag.UNHASHABLE, 0]


def test_a_row_without_entries_is_null():
    found = compared([{3: 0.5, 5: 0.25}, {}], [{}, {}], top_k=None)
    assert found["flip"] == [None, None] and found["row_identical"] == [None, None]
    assert all(flag & RowFlag.SHORT and flag & RowFlag.UNHASHABLE for flag in found["flags"])
    assert found["reference_p1"] == [near(0.5), None]


def test_entries_in_another_order_and_positions_in_another_order():
    left = table([{3: 0.5, 5: 0.3, 8: 0.1}, {4: 0.9, 2: 0.05, 1: 0.01}])
    right = table([{8: 0.1, 5: 0.4, 3: 0.4}, {1: 0.02, 4: 0.8, 2: 0.1}])
    plain = compare_topk(left, right)
    assert plain["candidate_top"].to_pylist() == [3, 4]
    turned = compare_topk(left, right.take([1, 0]))
    assert turned.equals(plain)
    assert compare_topk(left.take([1, 0]), right)["position"].to_pylist() == [2, 1]


def test_more_rows_than_are_compared_at_once():
    count = 9_000
    left = table([{3: 0.5, 5: 0.25}] * count)
    right = table([{3: 0.5, 5: 0.25}] * (count - 1) + [{5: 0.5, 3: 0.25}])
    found = compare_topk(left, right)
    assert found["position"].to_pylist() == list(range(1, count + 1))
    assert found["flip"].to_pylist() == [False] * (count - 1) + [True]
    assert found["row_identical"].to_pylist() == [True] * (count - 1) + [False]


def test_longer_lists_are_cut_to_k():
    long = {3: 0.5, 5: 0.2, 8: 0.1, 9: 0.05}
    other = {3: 0.4, 8: 0.3, 5: 0.1, 9: 0.05}
    with pytest.raises(NotComparable, match=r"K = 4 of the reference and 2 of the candidate; .* K = 2"):
        compared([long], [{3: 0.4, 8: 0.3}])
    found = compare_topk(table([long]), table([other]), top_k=2).to_pydict()
    assert found["top_k"] == [2] and found["row_hash"] == ["row.top@2"]
    assert (found["shared_support"], found["missed"]) == ([1], [1])
    # Q(5) was cut from the list and is still known, so the tail needs nothing else.
    assert found["kl_topk_tail_nats"] == [near(term(0.5, 0.4) + term(0.2, 0.1) + term(0.3, 0.5))]
    measured = compare_topk(
        table([long], tail_logprob=[math.log(0.15)]), table([other], tail_logprob=[math.log(0.15)]), top_k=2
    ).to_pydict()
    assert measured["kl_topk_tail_nats"] == [near(found["kl_topk_tail_nats"][0])]
    assert measured["kl_topk_lower_nats"] == [near(found["kl_topk_lower_nats"][0])]
    with pytest.raises(NotComparable, match="K = 5 of rows with 4 entries"):
        compare_topk(table([long]), table([other]), top_k=5)
    short = table([long], flags=[RowFlag.SHORT])
    assert compare_topk(short, short, top_k=5)["top_k"].to_pylist() == [5]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"position": [1, 3]}, "window w, position 2: 1 of 2 positions stand there alone; expected the same positions"),
        ({"window": ["w", "v"]}, "reference's rows, window w, position 2: 1 of 2 positions"),
        ({"position": [1, 1]}, "candidate's rows, window w, position 1: the position stands twice"),
        ({"token": [7, 8]}, "position 2: the text's token is 8 and in the reference's rows 7; 1 of 2 positions differ"),
        ({"top_ids": [[3, 5], [4, 4]]}, "token 4 stands twice in row 1; expected distinct ids"),
        ({"top_ids": [[3, 5], [4]]}, "1 top_ids and 2 top_logprobs in row 1"),
    ],
)
def test_rows_that_do_not_fit_are_refused_in_one_line(changed: dict, message: str):
    entries = [{3: 0.5, 5: 0.25}, {4: 0.5, 2: 0.25}]
    with pytest.raises(NotComparable, match=message) as caught:
        compare_topk(table(entries), table(entries, **changed))
    assert "\n" not in str(caught.value)


def test_positions_that_the_candidate_alone_has_are_refused():
    entries = [{3: 0.5, 5: 0.25}]
    with pytest.raises(NotComparable, match="candidate's rows, window w, position 2: 1 of 2 positions"):
        compare_topk(table(entries), table(entries * 2))


def test_no_row_and_one_row():
    nothing = ROWS.empty_table()
    for top_k in (None, 20):
        found = compare_topk(nothing, nothing, top_k=top_k)
        assert found.num_rows == 0 and found.schema.equals(COMPARISON, check_metadata=True)
    assert compared([{7: 1.0}], [{7: 1.0}])["flip"] == [False]


def full_tables(reference: np.ndarray, candidate: np.ndarray, top_k: int) -> list[pa.Table]:
    count, columns = reference.shape
    positions = np.arange(1, count + 1, dtype=np.int32)
    tokens = np.full(count, 1, dtype=np.int32)
    tables = []
    for logits in (reference, candidate):
        arrays = summarise_rows(logits, tokens, top_k=top_k, dictionary_size=columns, positions=positions).arrays()
        arrays |= {
            "window": pa.array(["w"] * count).dictionary_encode(),
            "role": pa.array(["prompt"] * count).dictionary_encode(),
            "position": pa.array(positions),
            "token": pa.array(tokens),
        }
        tables.append(
            pa.table({field.name: arrays.get(field.name, pa.nulls(count, field.type)) for field in ROWS}).cast(ROWS)
        )
    return tables


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), top_k=st.integers(1, 33), scale=st.sampled_from([0.0, 0.05, 1.0, 4.0]))
def test_rows_of_full_distributions_give_what_the_distributions_give(seed: int, top_k: int, scale: float):
    generator = np.random.default_rng(seed)
    reference = (generator.standard_normal((4, 30)) * 3).astype(np.float32)
    candidate = reference + (generator.standard_normal((4, 30)) * scale).astype(np.float32)
    exact = compare_rows(
        reference, candidate, np.full(4, 1, dtype=np.int32), dictionary_size=30, top_k=min(top_k, 30)
    ).arrays()
    found = compare_topk(*full_tables(reference, candidate, top_k))
    same = ("flip", "swap", "flip_text", "shared_support", "missed", "reference_top", "candidate_top", "top_k")
    if top_k == 1:
        # One entry says which token is best and not which is second.
        assert found["swap"].to_pylist() == [None if flip else False for flip in exact["flip"].to_pylist()]
        same = tuple(name for name in same if name != "swap")
    for name in (*same, "reference_entropy_nats", "candidate_entropy_nats", "reference_p1", "candidate_p1"):
        assert found[name].to_pylist() == exact[name].to_pylist(), name
    close = ("kl_topk_shared_nats", "kl_topk_lower_nats", "kl_topk_floor_nats", "reference_mass_outside")
    for name in (*close, "reference_mass_dropped", "reference_entropy_topk_nats", "candidate_entropy_topk_nats"):
        for value, wanted in zip(found[name].to_pylist(), exact[name].to_pylist(), strict=True):
            assert value == (None if wanted is None else pytest.approx(wanted, rel=1e-5, abs=2e-6)), name
    for value, wanted, missed in zip(
        found["kl_topk_tail_nats"].to_pylist(),
        exact["kl_topk_tail_nats"].to_pylist(),
        exact["missed"].to_pylist(),
        strict=True,
    ):
        # The actual token alone is known beside the list, so a row that misses others has no tail.
        assert value is None or value == pytest.approx(wanted, rel=1e-5, abs=2e-6)
        assert missed or value is not None
    for name in ("reference_nll_nats", "candidate_nll_nats", "dp", "reference_rank", "candidate_rank"):
        assert found[name].to_pylist() == pytest.approx(exact[name].to_pylist(), rel=1e-5, abs=1e-6), name


def published() -> list:
    if not (FOLDER / "expected.json").is_file():
        return [pytest.param({}, marks=pytest.mark.skip(reason="no published data: set DRIFT_PUBLISHED_DATA"))]
    return json.loads((FOLDER / "expected.json").read_text())["comparisons"]


def receipt(name: str) -> pa.Table:
    document = json.loads((RECEIPTS / name).read_text())
    rows = [(row["id"], position) for row in document["rows"] for position in row["positions"]]
    entries = [{int(token): value for token, value in position["dist"].items()} for _, position in rows]
    return table(
        entries,
        window=[name for name, _ in rows],
        position=[position["context_len"] for _, position in rows],
        token=[position["forced_next_id"] for _, position in rows],
    )


@pytest.mark.parametrize("expected", published(), ids=lambda entry: entry.get("id", "absent"))
def test_published_figures_of_twenty_entries(expected: dict):
    """``mean_with_candidate_floor`` comes out when both sides are divided by their sum over the reference's twenty."""
    found = compare_topk(receipt(expected["reference"]), receipt(expected["candidate"]), top_k=expected["k"])
    divergence = found["kl_topk_shared_nats"].to_numpy()
    flips = found["flip"].to_numpy()
    measured = {
        "mean": divergence.mean(),
        "median": np.median(divergence),
        "max": divergence.max(),
        "top1_agreement": 1 - flips.mean(),
        "top1_flips": flips.sum(),
        "positions": len(divergence),
        "positions_exactly_zero": (divergence == 0).sum(),
        "identical_rows": sum(found["row_identical"].to_pylist()),
        "mean_shared_support": found["shared_support"].to_numpy().mean(),
        "min_shared_support": found["shared_support"].to_numpy().min(),
        "mean_reference_mass_dropped": found["reference_mass_dropped"].to_numpy().mean(),
        "max_reference_mass_dropped": found["reference_mass_dropped"].to_numpy().max(),
        "mean_with_candidate_floor": found["kl_topk_floor_nats"].to_numpy().mean(),
    }
    checked = {name: value for name, value in measured.items() if name in expected}
    assert len(checked) >= 5
    for name, value in checked.items():
        assert value == pytest.approx(expected[name], rel=1e-12, abs=0), name
