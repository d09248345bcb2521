"""Lists of the worst positions: order, counts, texts, and what is not known."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from drift_runs import schema
from drift_runs.measure import listed
from drift_runs.measure.listed import LISTED_ROWS, listed_rows
from drift_runs.measure.text import Texts, TokenText

NAN = math.nan


@pytest.fixture
def protocol(make_protocol):
    """Windows b before a, so that order of the protocol and of names differ; a is an outlier."""
    return make_protocol({"b": ("A", "one", [(3, 6), (8, 10)]), "a": ("A", "two", [(1, 4)])}, outliers=("a",))


def rows_of(table: pa.Table, name: str) -> list[dict]:
    return [row for row in table.to_pylist() if row["list"] == name]


def places(table: pa.Table, name: str) -> list[tuple[str, int]]:
    return [(row["window"], row["position"]) for row in rows_of(table, name)]


def test_each_list_is_worst_first(protocol, make_table):
    """Positions: b 3 4 5 8 9, a 1 2 3."""
    table = make_table(
        protocol,
        kl_full_nats=np.array([0.1, 0.5, 0, -1e-6, NAN, 0.5, 2, 0.1]),
        flip=np.array([1, 1, 0, 1, NAN, 1, 1, 0]),
        reference_p1=np.array([0.95, 0.5, 0.99, 0.99, 0.99, NAN, 0.9, 0.91]),
        reference_nll_nats=np.array([1, 3, 1, 1, NAN, 1, 0.01, 1]),
        candidate_nll_nats=np.array([1, 1, 2, 5, 9, NAN, 3, 1]),
        flags=np.array([0, 0, 0, 0, 0, 0, 0, 0]),
        token=np.arange(8),
        q_of_reference_top=np.linspace(0, 0.7, 8),
    )
    found = listed_rows(table, protocol, arm="q4_0")
    assert found.schema.equals(schema.LISTED, check_metadata=True)
    assert set(found["arm"].to_pylist()) == {"q4_0"} and set(found["spec"].to_pylist()) == {"kl.full"}
    assert list(dict.fromkeys(found["list"].to_pylist())) == ["strong_overturn", "dnll", "kl"]
    assert places(found, "strong_overturn") == [("b", 8), ("b", 3), ("a", 2)]
    assert places(found, "dnll") == [("b", 8), ("a", 2), ("b", 4)]
    assert places(found, "kl") == [("a", 2), ("b", 4), ("a", 1), ("b", 3), ("a", 3)]
    assert {(row["list"], row["of"]) for row in found.to_pylist()} == {("strong_overturn", 3), ("dnll", 3), ("kl", 5)}
    first, second, third = rows_of(found, "dnll")
    assert [row["place"] for row in (first, second, third)] == [1, 2, 3]
    assert [row["confident"] for row in (first, second, third)] == [False, True, False]
    assert [row["dnll_nats"] for row in (first, second, third)] == pytest.approx([4, 2.99, -2])
    assert (first["range"], second["range"], third["range"]) == ("b-1", "a-0", "b-0")
    assert (first["outlier"], second["outlier"]) == (False, True)
    assert (first["token"], first["reference_top"], first["role"], first["flip"]) == (3, 0, "prompt", True)
    assert first["q_of_reference_top"] == pytest.approx(0.3) and first["divergence_nats"] == -1e-6
    assert all(row[name] is None for row in found.to_pylist() for name in ("token_text", "before", "after", "copy"))


def test_what_is_not_known_is_null(protocol, make_table):
    table = make_table(
        protocol,
        kl_full_nats=np.array([0.5, *[NAN] * 7]),
        flip=np.full(8, NAN),
        reference_nll_nats=np.full(8, NAN),
        candidate_nll_nats=np.full(8, NAN),
        reference_p1=np.full(8, NAN),
        token=np.full(8, NAN),
        reference_top=np.full(8, -1),
        candidate_top=np.full(8, NAN),
        copy=np.array([1, *[NAN] * 7]),
        literal=np.zeros(8),
    )
    (row,) = listed_rows(table, protocol, arm="q").to_pylist()
    assert row["list"] == "kl" and row["copy"] is True and row["literal"] is False
    unknown = ["token", "reference_top", "candidate_top", "reference_p1", "dnll_nats", "flip", "confident"]
    assert [row[name] for name in unknown] == [None] * len(unknown)


def test_an_infinite_divergence_comes_first_and_has_no_number(protocol, make_table):
    flags = np.zeros(8)
    flags[2] = schema.RowFlag.INFINITE_KL
    kl = np.full(8, 0.5)
    kl[2] = NAN
    found = rows_of(listed_rows(make_table(protocol, kl_full_nats=kl, flags=flags), protocol, arm="q"), "kl")
    assert (found[0]["position"], found[0]["divergence_nats"], found[0]["of"]) == (5, None, 8)
    assert all(row["divergence_nats"] == 0.5 for row in found[1:])


def test_collapsed_support_is_listed_before_all(make_protocol, make_table):
    protocol = make_protocol({"w": ("A", "d", [(1, 6)])}, capture={"divergence": "kl.topk-shared"})
    table = make_table(
        protocol,
        top_k=np.full(5, 20),
        kl_full_nats=np.full(5, NAN),
        kl_topk_shared_nats=np.array([0.1, NAN, 0.3, NAN, NAN]),
        flags=np.array([0, 128, 0, 128 + 8, 128]),
        reference_mass_outside=np.array([0, 0.4, 0, 0.9, NAN]),
    )
    found = listed_rows(table, protocol, arm="q")
    assert found["list"].to_pylist() == ["support_collapse"] * 3 + ["kl"] * 2
    assert places(found, "support_collapse") == [("w", 4), ("w", 2), ("w", 5)]
    assert places(found, "kl") == [("w", 3), ("w", 1)]
    assert set(found["spec"].to_pylist()) == {"kl.topk-shared@20"}


def test_texts_of_tokens_and_of_what_stands_around(protocol, make_table):
    tokens = TokenText([f"<{at}>".encode() for at in range(9)] + [b"\x1b"])
    texts = Texts(tokens=tokens, streams={"b": [*range(9), 9], "a": [1, 2]})
    table = make_table(
        protocol,
        kl_full_nats=np.array([0, 1, 0, 0, 3, 0, 2, 0]),
        token=np.array([3, 4, 5, 8, 9, 2, 0, 0]),
        reference_top=np.full(8, 7),
        candidate_top=np.full(8, 77),
    )
    last, short, middle = rows_of(listed_rows(table, protocol, arm="q", texts=texts), "kl")
    assert (last["window"], last["position"], last["token_text"]) == ("b", 9, r"\x1b")
    assert (last["reference_text"], last["candidate_text"]) == ("<7>", r"\{77}")
    assert (last["before"], last["after"]) == ("<0><1><2><3><4><5><6><7><8>", "")
    assert (middle["before"], middle["after"]) == ("<0><1><2><3>", r"<5><6><7><8>\x1b")
    # The stream of window a ends before position 2.
    assert (short["window"], short["before"], short["after"], short["token_text"]) == ("a", None, None, "<0>")


def test_a_window_without_a_stream_and_one_that_the_protocol_lacks(protocol, make_protocol, make_table):
    other = make_protocol({"b": ("A", "one", [(3, 5)]), "0": ("A", "new", [(3, 5)])})
    table = make_table(other, kl_full_nats=np.ones(4))
    found = listed_rows(table, protocol, arm="q", texts=Texts(tokens=TokenText([b"x"]), streams={}))
    assert places(found, "kl") == [("b", 3), ("b", 4), ("0", 3), ("0", 4)]
    assert [row["range"] for row in rows_of(found, "kl")] == ["b-0", "b-0", "", ""]
    assert set(found["before"].to_pylist()) == {None} and set(found["token_text"].to_pylist()) == {"x"}


def test_no_row_and_one_row(protocol, make_table):
    empty = listed_rows(make_table(protocol, windows=()), protocol, arm="q")
    assert empty.num_rows == 0 and empty.schema.equals(schema.LISTED, check_metadata=True)
    one = make_table(protocol, kl_full_nats=np.ones(8)).slice(4, 1)
    assert [(row["place"], row["of"]) for row in listed_rows(one, protocol, arm="q").to_pylist()] == [(1, 1)]


def test_equal_arms_list_nothing(protocol, make_table):
    assert listed_rows(make_table(protocol), protocol, arm="q").num_rows == 0


def test_ties_are_cut_in_order(make_protocol, make_table):
    protocol = make_protocol({"b": ("A", "d", [(1, 41)]), "a": ("A", "d", [(1, 41)])})
    found = rows_of(listed_rows(make_table(protocol, kl_full_nats=np.ones(80)), protocol, arm="q"), "kl")
    assert len(found) == LISTED_ROWS and {row["of"] for row in found} == {80}
    expected = [("b", at) for at in range(1, 41)] + [("a", at) for at in range(1, 11)]
    assert [(row["window"], row["position"]) for row in found] == expected


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=25)
@given(data=st.data())
def test_neither_the_order_of_rows_nor_the_portions_matter(monkeypatch, make_protocol, make_table, data):
    count = 130
    protocol = make_protocol({"b": ("A", "one", [(3, 68)]), "a": ("A", "two", [(1, 66)])})
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    levels = np.array([NAN, 0.0, 0.5, 1.0, 3.0])
    table = make_table(
        protocol,
        kl_full_nats=rng.choice(levels, count),
        flip=rng.choice([0, 1, NAN], count),
        reference_p1=rng.choice([NAN, 0.2, 0.92, 0.97], count),
        reference_nll_nats=rng.choice(levels, count),
        candidate_nll_nats=rng.choice(levels, count),
        flags=rng.choice([0, 8, 128], count),
        reference_mass_outside=rng.choice([NAN, 0, 0.5], count),
    )
    whole = listed_rows(table, protocol, arm="q")
    shuffled = table.take(pa.array(rng.permutation(count)))
    assert listed_rows(shuffled, protocol, arm="q").equals(whole)
    with monkeypatch.context() as patch:
        patch.setattr(listed, "_AT_ONCE", data.draw(st.integers(1, count)))
        assert listed_rows(shuffled, protocol, arm="q").equals(whole)
    for name in listed.LISTS:
        rows = rows_of(whole, name)
        assert [row["place"] for row in rows] == list(range(1, len(rows) + 1))
        assert all(len(rows) == min(row["of"], LISTED_ROWS) for row in rows)
