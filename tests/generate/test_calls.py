"""When two lists of calls are the same."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drift_runs.generate.calls import Call, same_calls, value_key


def call(name: str, **arguments: Any) -> Call:
    return Call(name=name, arguments=arguments, start=0, end=1)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (1, 1.0),
        (0, -0.0),
        (10**15, 1e15),
        ({"a": 1, "b": [2]}, {"b": [2.0], "a": 1}),
        ([], []),
        (None, None),
    ],
)
def test_equal_values(left: Any, right: Any) -> None:
    assert same_calls([call("f", x=left)], [call("f", x=right)])


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (1, True),
        (0, False),
        (0, None),
        (1, "1"),
        (2**53 + 1, float(2**53)),
        ("a", "A"),
        ("a", "a "),
        ("é", "e\u0301"),
        ([1, 2], [2, 1]),
        ([], {}),
        ({}, {"a": None}),
        ([[1]], [[True]]),
    ],
)
def test_unequal_values(left: Any, right: Any) -> None:
    assert not same_calls([call("f", x=left)], [call("f", x=right)])


def test_calls_are_counted_and_their_order_is_free() -> None:
    a, b = call("a", x=1), call("b")
    assert same_calls([a, b], [b, a])
    assert same_calls([], [])
    assert not same_calls([a, a], [a])
    assert not same_calls([a, a, b], [a, b, b])
    assert not same_calls([a], [call("b", x=1)])
    assert same_calls([Call(name="a", arguments={"x": 1}, start=7, end=9)], [a])


@settings(deadline=None)
@given(
    st.recursive(
        st.integers() | st.booleans() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
def test_a_value_is_itself_and_no_longer_value_is(value: Any) -> None:
    assert value_key(value) == value_key(value)
    assert value_key([value]) != value_key(value)
    assert value_key([value, value]) != value_key([value])
