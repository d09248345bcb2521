"""Reasons against a comparison."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from drift_runs.measure.comparability import ComparabilityKey, key_of, reasons_against

KEY = ComparabilityKey(
    protocol_sha256="a" * 64,
    scored_set_sha256="b" * 64,
    outlier_set=("w",),
    outliers="with",
    reference_capture_id="0123456789abcdef",
    spec="kl.full",
    quantile_rule="linear",
    tie_rule="lowest id",
    cluster_unit="document",
    path_shape="prefill",
    vocabulary_policy="full rows",
    dictionary_sha256="c" * 64,
)


def test_equal_keys_have_nothing_against_them():
    assert reasons_against(KEY, replace(KEY)) == ()


@pytest.mark.parametrize("name", [field.name for field in fields(ComparabilityKey)])
def test_every_part_of_the_key_is_a_reason(name: str):
    other = replace(KEY, **{name: () if name == "outlier_set" else "d" * 64})
    (reason,) = reasons_against(KEY, other)
    assert "another" in reason or "differently" in reason
    assert reasons_against(other, KEY) != ()


def test_reasons_are_words_with_short_digests():
    other = replace(KEY, protocol_sha256="d" * 64, quantile_rule="lower")
    assert reasons_against(KEY, other) == (
        "another protocol or version (aaaaaaaaaaaa and dddddddddddd)",
        "another quantile rule (linear and lower)",
    )


def test_the_key_of_a_protocol_follows_what_is_scored(make_protocol):
    digests = {"protocol_sha256": "a" * 64, "reference_capture_id": "0" * 16}
    one = key_of(make_protocol({"w": ("A", "d", [(1, 9)])}), **digests)
    assert reasons_against(one, key_of(make_protocol({"w": ("A", "d", [(1, 9)])}), **digests)) == ()
    (reason,) = reasons_against(one, key_of(make_protocol({"w": ("A", "d", [(1, 8)])}), **digests))
    assert reason.startswith("another set of scored positions")
    declared = key_of(make_protocol({"w": ("A", "d", [(1, 9)])}, outliers=("w",)), **digests)
    assert reasons_against(one, declared) == ("another set of outlier windows (none and w)",)
    assert one.as_tags()["quantile_rule"] == "linear" and declared.as_tags()["outlier_set"] == "w"
