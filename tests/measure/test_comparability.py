"""The verdict on two comparisons, and which arms may be ranked together."""

from __future__ import annotations

import json
from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drift_runs.errors import NotComparable
from drift_runs.measure.comparability import (
    ComparabilityKey,
    compare_keys,
    described,
    key_from_tags,
    key_of,
    ranked_groups,
)
from drift_runs.measure.specs import headline_spec

KEY = ComparabilityKey(
    protocol_sha256="a" * 64,
    panel="all",
    scored_set_sha256="b" * 64,
    outlier_set=("w",),
    outliers="with",
    reference_capture_id="0123456789abcdef",
    reference_launch="1",
    spec="kl.full",
    quantile_rule="linear",
    tie_rule="lowest-id",
    cluster_unit="document",
    floor_kind="launch",
    path_shape="prefill",
    vocabulary_policy="full:yes",
    dictionary_sha256="c" * 64,
    template="",
    source="own",
    undeclared="{}",
)
NAMES = [field.name for field in fields(ComparabilityKey)]
DIGESTS = {"protocol_sha256": "a" * 64, "reference_capture_id": "0" * 16}
WINDOWS = {"w": ("A", "d", [(1, 9)]), "v": ("B", "e", [(1, 9)])}


def test_equal_keys_have_nothing_against_them():
    assert compare_keys(KEY, replace(KEY)).equal
    assert compare_keys(KEY, replace(KEY)).reasons == ()


@pytest.mark.parametrize("name", NAMES)
def test_every_part_of_the_key_is_a_reason(name: str):
    other = replace(KEY, **{name: () if name == "outlier_set" else "d" * 64})
    for found in (compare_keys(KEY, other), compare_keys(other, KEY)):
        assert not found.equal
        (reason,) = found.reasons
        assert "other" in reason or "differently" in reason


@pytest.mark.parametrize("name", NAMES)
def test_what_is_not_known_is_never_equal_not_even_to_itself(name: str):
    older = replace(KEY, **{name: None})
    for found in (compare_keys(KEY, older), compare_keys(older, KEY), compare_keys(older, older)):
        assert not found.equal
        assert found.reasons[0].startswith("not known: ")


def test_all_that_is_not_known_is_one_reason_after_the_others():
    older = replace(KEY, template=None, undeclared=None, spec="js.full")
    assert compare_keys(KEY, older).reasons == (
        "another definition of the figure (kl.full and js.full)",
        "not known: template and first token, undeclared engine settings",
    )


def test_reasons_are_words_with_short_digests():
    other = replace(KEY, protocol_sha256="d" * 64, quantile_rule="lower", undeclared='{"threads":4}', template="chat")
    assert compare_keys(KEY, other).reasons == (
        "another protocol or version (aaaaaaaaaaaa and dddddddddddd)",
        "another quantile rule (linear and lower)",
        "another template or first token (not stated and chat)",
        "other engine settings that were not declared the variable (none and threads 4)",
    )


def test_a_key_comes_back_from_its_tags_with_and_without_the_prefix():
    assert key_from_tags(KEY.as_tags()) == KEY
    assert key_from_tags({f"drift.key.{name}": value for name, value in KEY.as_tags().items()}) == KEY
    none = replace(KEY, outlier_set=(), floor_kind="")
    assert key_from_tags(none.as_tags()) == none


def test_an_older_store_s_key_lacks_fields_and_guesses_none():
    tags = {name: value for name, value in KEY.as_tags().items() if name not in ("panel", "source")}
    read = key_from_tags({**tags, "floors": "launch"})
    assert read == replace(KEY, panel=None, source=None)
    assert "panel" not in read.as_tags()
    assert compare_keys(read, read).reasons == ("not known: panel, source of the rows",)


@given(st.dictionaries(st.text(max_size=20), st.text(max_size=20), max_size=4))
def test_any_tags_give_a_key(tags: dict[str, str]):
    assert not compare_keys(key_from_tags(tags), KEY).equal


def test_the_key_of_a_protocol_follows_what_is_scored(make_protocol):
    one = key_of(make_protocol({"w": ("A", "d", [(1, 9)])}), **DIGESTS)
    assert compare_keys(one, key_of(make_protocol({"w": ("A", "d", [(1, 9)])}), **DIGESTS)).equal
    (reason,) = compare_keys(one, key_of(make_protocol({"w": ("A", "d", [(1, 8)])}), **DIGESTS)).reasons
    assert reason.startswith("another set of scored positions")
    declared = key_of(make_protocol({"w": ("A", "d", [(1, 9)])}, outliers=("w",)), **DIGESTS)
    assert compare_keys(one, declared).reasons == ("another set of outlier windows (none and w)",)
    assert one.as_tags()["quantile_rule"] == "linear" and declared.as_tags()["outlier_set"] == "w"


def test_a_panel_and_a_subset_of_windows_have_their_own_scored_sets(make_protocol):
    protocol = make_protocol(WINDOWS)
    whole, panel = key_of(protocol, **DIGESTS), key_of(protocol, **DIGESTS, panel="A")
    assert [reason.split(" (")[0] for reason in compare_keys(whole, panel).reasons] == [
        "another panel",
        "another set of scored positions",
    ]
    some = key_of(protocol, **DIGESTS, windows=["w"])
    assert some.scored_set_sha256 == panel.scored_set_sha256 != whole.scored_set_sha256
    assert key_of(protocol, **DIGESTS, windows=["v", "w"]).scored_set_sha256 == whole.scored_set_sha256


def test_the_spec_is_the_protocol_s_headline_with_its_k(make_protocol):
    best = {"divergence": "kl.topk-shared", "full_vocabulary": "no", "top_k": 20}
    protocol = make_protocol(WINDOWS, capture=best)
    assert headline_spec(protocol, 20) == "kl.topk-shared@20"
    assert headline_spec(make_protocol(WINDOWS), None) == "kl.full"
    with pytest.raises(NotComparable, match="without K"):
        headline_spec(protocol, None)
    one, five = key_of(protocol, **DIGESTS), key_of(protocol, **DIGESTS, top_k=5)
    assert (one.spec, one.vocabulary_policy) == ("kl.topk-shared@20", "best:20")
    assert compare_keys(one, five).reasons == (
        "another definition of the figure (kl.topk-shared@20 and kl.topk-shared@5)",
        "another part of the vocabulary (best:20 and best:5)",
    )


def test_floors_source_and_dictionary_come_from_the_protocol(make_protocol):
    floors = [
        {"name": "again", "arm": "f16", "kind": "launch"},
        {"name": "small", "arm": "f16", "kind": "geometry", "settings": {"micro_batch": 64}},
        {"name": "of-another", "arm": "q4_0", "kind": "pass"},
    ]
    own = key_of(make_protocol(WINDOWS, floors=floors), **DIGESTS)
    assert (own.floor_kind, own.source) == ("geometry,launch", "own")
    arms = [
        {"name": "a", "role": "reference", "derivative": "stock", "weights": "bf16", "engine": "imported"},
        {"name": "b", "role": "candidate", "derivative": "stock", "weights": "bf16", "engine": "imported"},
    ]
    bare = key_of(make_protocol(WINDOWS, arms=arms, dictionary=None), **DIGESTS, floor_kinds=[])
    assert (bare.source, bare.dictionary_sha256, bare.floor_kind) == ("imported", "", "")
    assert compare_keys(bare, bare).equal, "no dictionary is stated on either side, and the reference is one"


def test_undeclared_settings_do_not_depend_on_their_order(make_protocol):
    protocol = make_protocol(WINDOWS)
    one = key_of(protocol, **DIGESTS, undeclared={"threads": 4, "batch": 8})
    assert one == key_of(protocol, **DIGESTS, undeclared={"batch": 8, "threads": 4})
    assert json.loads(one.undeclared) == {"threads": 4, "batch": 8}
    assert compare_keys(one, key_of(protocol, **DIGESTS)).reasons == (
        "other engine settings that were not declared the variable (batch 8, threads 4 and none)",
    )


def test_arms_are_grouped_by_what_they_may_be_ranked_with():
    js = replace(KEY, spec="js.full")
    groups = ranked_groups({"a": js, "b": KEY, "c": KEY, "d": js, "e": replace(KEY, template=None), "f": KEY})
    assert [group.arms for group in groups] == [("b", "c", "f"), ("a", "d"), ("e",)]
    assert groups[0].reasons == {}
    assert groups[1].reasons["d"] == ("another definition of the figure (js.full and kl.full)",)
    assert groups[2].reasons == {"e": ("not known: template and first token",)}


def test_no_arm_is_no_group_and_arms_of_unknown_keys_stand_alone():
    assert ranked_groups({}) == ()
    groups = ranked_groups({"a": key_from_tags({}), "b": key_from_tags({})})
    assert [group.arms for group in groups] == [("a",), ("b",)]


@given(st.lists(st.sampled_from(["kl.full", "js.full", None]), max_size=8))
def test_every_arm_is_in_one_group_and_groups_agree(specs: list[str | None]):
    keys = {f"arm-{at}": replace(KEY, spec=spec) for at, spec in enumerate(specs)}
    groups = ranked_groups(keys)
    assert sorted(arm for group in groups for arm in group.arms) == sorted(keys)
    sizes = [len(group.arms) for group in groups]
    assert sizes == sorted(sizes, reverse=True)
    for group in groups:
        assert all(compare_keys(keys[group.arms[0]], keys[arm]).equal for arm in group.arms[1:])
    for group in groups[1:]:
        assert set(group.reasons) == set(group.arms) and all(group.reasons.values())


def test_a_key_is_described_by_noun_and_what_is_not_known_is_said() -> None:
    tags = {"protocol_sha256": "ab" * 32, "outlier_set": "w2,w1", "undeclared": '{"threads": 4}', "template": ""}
    words = described(key_from_tags(tags))
    assert len(words) == len(fields(ComparabilityKey))
    assert words["protocol"] == "ab" * 6 and words["outlier windows"] == "w2, w1"
    assert words["undeclared engine settings"] == "threads 4" and words["template and first token"] == "not stated"
    assert words["definition of the figure"] == "not known"
