"""JSON that has ended, can be completed, or never can: against a parser that knows whole values only."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drift_runs.generate.calls import strict_json
from drift_runs.generate.json_prefix import DEPTH, scan, skip_space

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
CONTAINERS = st.lists(VALUES, max_size=3) | st.dictionaries(st.text(max_size=4), VALUES, max_size=3)


@settings(deadline=None, max_examples=60)
@given(CONTAINERS, st.sampled_from([None, 0, 2]), st.booleans(), st.text(max_size=5))
def test_every_prefix_of_a_value_is_open_and_the_whole_has_ended(
    value: Any, indent: int | None, escaped: bool, behind: str
) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=escaped)
    for length in range(len(text)):
        found = scan(text[:length], 0)
        assert (found.end, found.fault) == (None, None)
    assert scan(text + behind, 0).end == len(text)
    assert scan("ab" + text, 2).end == len(text) + 2


def _whole(text: str) -> bool:
    try:
        strict_json(text)
    except ValueError:
        return False
    return True


@settings(deadline=None, max_examples=300)
@given(st.text('{}[]:,"\\ u0a1.-e\ntrue', max_size=14))
def test_it_agrees_with_a_parser_of_whole_values(tail: str) -> None:
    for text in ("{" + tail, "[" + tail, '{"a"' + tail, '["' + tail):
        found = scan(text, 0)
        if found.end is None:
            assert not _whole(text)
        else:
            # Numbers here are small and escapes are no surrogates, so grammar is all that counts.
            assert _whole(text[: found.end])
        if found.fault is not None:
            # Nothing mends it: the brackets that are open, closed in any way, make no value.
            assert not any(
                _whole(text + close) for close in ("]", "}", '"]', '"}', "]}", "}]", ":1}", '":1}', "0]", "0}")
            )


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('{"name": 5 7', 11),
        ("{1", 1),
        ("{,", 1),
        ('{"a" 1', 5),
        ('{"a": }', 6),
        ('{"a": 1,}', 8),
        ("[1,]", 3),
        ("[,", 1),
        ("[1}", 2),
        ('{"a": 1]', 7),
        ("[01", 2),
        ("[1.a", 2),
        ("[-a", 1),
        ("[+1", 1),
        ("[.5", 1),
        ("[tru3", 1),
        ("[trueish", 1),
        ("[NaN", 1),
        ("[-Infinity", 1),
        ("['a'", 1),
        ('["\\x', 2),
        ('["\\u12g', 2),
        ('["a\tb', 3),
        ('{"a": 1, "\\u0061"', 9),
        ("\u00a0[", 0),
        ('"text"', 0),
        ("7", 0),
    ],
)
def test_a_fault_stands_where_it_is_certain(text: str, fault: int) -> None:
    found = scan(text, 0)
    assert (found.end, found.fault) == (None, fault)
    assert found.why.endswith(f"at character {fault}")
    # Not earlier: what stands before it can be completed.
    assert scan(text[:fault], 0).fault is None


def test_a_key_twice_is_reported_once_it_is_whole() -> None:
    assert scan('{"a": 1, "a', 0).fault is None
    assert "'a' is given twice" in scan('{"a": 1, "a"', 0).why
    assert scan('{"a": {"a": 1}, "b": [{"a": 1}, {"a": 1}]}', 0).end is not None


def test_keys_are_given_with_their_depth_as_far_as_they_are_read() -> None:
    assert scan('{"a": [{"b": {"c": {"d": 1}}}], "e": 1, "f', 0).keys == ((1, "a"), (3, "b"), (1, "e"))


def test_depth_is_bounded_and_long_texts_take_linear_time() -> None:
    deep = "[" * DEPTH + "]" * DEPTH
    assert scan(deep, 0).end == len(deep)
    assert scan(f"[{deep}]", 0).fault == DEPTH
    assert strict_json(deep) is not None
    begun = time.process_time()
    wide = "[" + ", ".join(f'{{"k": "v{number}"}}' for number in range(40_000)) + "]"
    assert scan(wide, 0).end == len(wide)
    assert scan('{"a": "' + "\\\\" * 400_000, 0).end is None
    assert scan("[" + "1" * 800_000, 0).end is None
    assert time.process_time() - begun < 5


def test_white_space_is_that_of_json() -> None:
    assert skip_space(" \t\r\n\u00a0", 0) == 4
    assert skip_space("a", 1) == 1
