from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.state import (
    COLOURINGS,
    FACETS,
    GROUPS,
    LISTS,
    LITERALS,
    METRICS,
    OPEN_LISTS,
    ORDERS,
    OUTLIERS,
    PAIRS,
    SORTS,
    Choices,
    View,
    decode,
    encode,
    fit,
)

NAMES = st.from_regex(r"\A[A-Za-z0-9][A-Za-z0-9._-]{0,20}\Z")
VIEWS = st.builds(
    View,
    campaign=NAMES,
    outliers=st.sampled_from(OUTLIERS),
    scope=st.one_of(st.just("all"), NAMES.map("panel:{}".format)),
    sort=st.sampled_from(SORTS),
    order=st.sampled_from(ORDERS),
    metric=st.sampled_from(METRICS),
    arm=NAMES,
    listed=st.sampled_from(LISTS),
    figure=st.builds("{}/{}".format, NAMES, NAMES),
    source=NAMES,
    group=st.sampled_from(GROUPS),
    plot=st.builds("{}/{}".format, NAMES, NAMES),
    span=NAMES,
    colouring=st.sampled_from(COLOURINGS),
    root=st.builds("{}/{}".format, NAMES, st.integers(1, 10**6)),
    pair=st.sampled_from(PAIRS),
    literal=st.sampled_from(LITERALS),
    history=NAMES,
    shown=st.integers(1, 10**4).map(str),
    **{name: st.lists(NAMES, unique=True, max_size=4).map(tuple) for name in (*FACETS, *OPEN_LISTS)},
)
CHOICES = Choices(
    campaigns=["run-1", "run-2"],
    scopes=["all", "panel:P-A"],
    arms=["q8_0", "q4_0"],
    facets={"derivative": ["stock"], "weights": ["q8_0", "q4_0"], "kv": ["f16"], "engine": ["llama_cpp"]},
)


def as_lists(pairs: dict) -> dict[str, list[str]]:
    return {key: [value] if isinstance(value, str) else value for key, value in pairs.items()}


@given(VIEWS)
def test_a_view_survives_the_url(view: View) -> None:
    assert decode(as_lists(encode(view))) == (view, ())


@given(st.dictionaries(st.text(max_size=12), st.lists(st.text(max_size=80), max_size=3), max_size=6))
def test_any_url_gives_a_valid_view(params: dict[str, list[str]]) -> None:
    view, _ = decode(params | {"v": ["1"]})
    assert view.outliers in OUTLIERS and view.sort in SORTS and view.order in ORDERS and view.metric in METRICS
    assert view.listed in LISTS


def test_defaults_are_written_too() -> None:
    pairs = encode(View())
    assert pairs["v"] == "1" and pairs["outliers"] == "with" and pairs["kv"] == "*" and pairs["campaign"] == "*"


def test_a_link_from_when_every_divergence_was_kl_full_still_opens() -> None:
    view, notes = decode({"v": ["1"], "sort": ["kl_p95"], "metric": ["kl.full.mean"]})
    assert (view.sort, view.metric, notes) == ("p95", "divergence.mean", ())


def test_an_empty_url_is_the_default_view_without_a_note() -> None:
    assert decode({}) == (View(), ())
    assert decode({"embed": ["true"]}) == (View(), ())


@pytest.mark.parametrize("version", [["2"], [""], ["1", "2"], []])
def test_another_version_is_not_guessed_at(version: list[str]) -> None:
    view, notes = decode({"v": version, "outliers": ["both"]})
    assert view == View()
    assert len(notes) == 1 and "version" in notes[0]


def test_a_bad_value_falls_back_alone_and_is_named() -> None:
    view, notes = decode({"v": ["1"], "outliers": ["some"], "sort": ["flip"]})
    assert (view.outliers, view.sort) == ("with", "flip")
    (note,) = notes
    assert "outliers = some" in note


def test_what_does_not_exist_is_replaced_with_a_note() -> None:
    asked = View(campaign="gone", scope="panel:P-Z", arm="q2_k", weights=("q4_0", "q1"), kv=("f16",))
    view, notes = fit(asked, CHOICES)
    assert (view.campaign, view.scope, view.arm, view.weights, view.kv) == ("run-1", "all", "q8_0", ("q4_0",), ("f16",))
    assert [note.split(" = ")[0] for note in notes] == ["campaign", "scope", "arm", "weights"]


def test_the_default_campaign_and_arm_are_filled_in_without_a_note() -> None:
    view, notes = fit(View(), CHOICES)
    assert (view.campaign, view.arm, notes) == ("run-1", "q8_0", ())


def test_a_note_does_not_repeat_a_long_value_in_full() -> None:
    _, notes = decode({"v": ["1"], "outliers": ["x" * 10_000]})
    assert len(notes[0]) < 200
