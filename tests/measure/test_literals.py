"""Literal marks: each kind by known answers, tokens that split anything, and text made to be slow."""

from __future__ import annotations

import time
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drift_runs.measure.literals import literal_marks, literal_spans, repeated_spans


def found(text: str) -> list[str]:
    data = text.encode()
    return [data[start:end].decode() for start, end in sorted(set(literal_spans(data)))]


@pytest.mark.parametrize(
    ("text", "literals"),
    [
        ("12, 3.14. 1,024 [1,2] 1_000", ["12", "3.14", "1,024", "1", "2", "1_000"]),
        ("6.02e23 1e-4 10ms 50% 0x1F v1.2.3", ["6.02e23", "1e-4", "10ms", "50%", "0x1F", "v1.2.3"]),
        ("h264 12abcd 7b2ï3 -5", ["5"]),
        ("7fa3bc9 deadbeef 1234abc1g", ["7fa3bc9"]),
        ("192.168.0.1, 999", ["192.168.0.1", "999"]),
        ("host 10.0.0.1:8080.", ["10.0.0.1", "10.0.0.1:8080", "8080"]),
        ("10.0.0.0/8", ["10.0.0.0", "10.0.0.0/8", "8"]),
        ("fe80::1 std::vec 12:30:45", ["fe80::1", "1", "12", "30", "45"]),
        ("2001:db8:12::37", ["2001", "2001:db8:12::37", "12", "37"]),
        ("main.py:12:5", ["main.py:12", "12", "5"]),
        ("aa:bb:cc:dd:ee:ff aa-bb-cc-dd-ee-ff", ["aa:bb:cc:dd:ee:ff", "aa-bb-cc-dd-ee-ff"]),
        ("aabb.ccdd.eeff", ["aabb.ccdd.eeff"]),
        ("db.internal:5432 alpha:", ["db.internal:5432", "5432"]),
        ("/etc/x.conf ./a ../b ~/c dir/", ["/etc/x.conf", "./a", "../b", "~/c", "dir/"]),
        ("see src/main.rs. and/or n/a // note </div> / ..", ["src/main.rs"]),
        ("C:\\tmp\\x https://h.io/a?b=c.", ["C:\\tmp\\x", "https://h.io/a?b=c"]),
        ("say \"hi there\" 'x y' `cmd` “curly – one”", ['"hi there"', "'x y'", "`cmd`", "“curly – one”"]),
        ('don\'t, can\'t "" "open\n', []),
        ('{"": 0, "b": 0}', ["0", '"b"', "0"]),
        ('"' + "a" * 256 + '" "' + "b" * 257 + '" "c"', ['"' + "a" * 256 + '"', '"c"']),
        ("foo_bar __init__ camelCase HTTPServer", ["foo_bar", "__init__", "camelCase", "HTTPServer"]),
        ("Word HTTP iPhone _ __ nöt_ascii", ["iPhone"]),
        ("<|im_start|> im_start", ["im_start"]),
        ("", []),
    ],
)
def test_what_a_literal_is(text: str, literals: list[str]) -> None:
    assert found(text) == literals


def test_only_what_ended_before_is_earlier() -> None:
    tokens = [b"port", b" 80", b"80", b" and", b" 8080", b".", b" 80", b" x"]
    assert literal_marks(tokens).tolist() == [False] * 4 + [True] + [False] * 3


def test_a_token_with_one_byte_inside_counts() -> None:
    tokens = [b'f("a b")', b' g("', b"a", b" ", b'b")', b"; ", b"", b'"a b"', b"a b"]
    assert literal_marks(tokens).tolist() == [False, True, True, True, True, False, False, True, False]


def test_tokens_that_split_a_character() -> None:
    quoted = "“naïve”".encode()
    tokens = [quoted, b" ", *(quoted[at : at + 1] for at in range(len(quoted))), b" "]
    assert literal_marks(tokens).tolist() == [False, False, *[True] * len(quoted), False]


@pytest.mark.parametrize("tokens", [[], [b""], [b"foo_bar"], [b"", b"\xff\xfe", b""]])
def test_nothing_to_repeat(tokens: list[bytes]) -> None:
    marks = literal_marks(tokens)
    assert marks.dtype == np.bool_ and marks.tolist() == [False] * len(tokens)


SINGLE = [bytes([byte]) for byte in b"10.,:/\"'`_aB \n\\-\xff\xc3"]
WHOLE = [b"<|", b"|>", b"foo_bar", b"/etc/x", b"10.0.0.1", b"::1", b"\xe2\x80\x9c", b"\xe2\x80\x9d", b"aB"]
NASTY = st.lists(st.sampled_from(SINGLE + WHOLE), max_size=60).map(b"".join)


@given(text=st.one_of(NASTY, st.binary(max_size=200)))
def test_a_literal_is_repeated_when_its_bytes_ended_before(text: bytes) -> None:
    spans = sorted(set(literal_spans(text)))
    assert all(0 <= start < end <= len(text) for start, end in spans)
    naive = [(start, end) for start, end in spans if any(text[s:e] == text[start:end] and e <= start for s, e in spans)]
    assert repeated_spans(text) == naive


@given(text=NASTY, cuts=st.lists(st.integers(0, 300), max_size=40))
def test_how_the_text_is_cut_does_not_matter(text: bytes, cuts: list[int]) -> None:
    """A token is marked exactly when one of its bytes is."""
    by_byte = literal_marks([text[at : at + 1] for at in range(len(text))])
    edges = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    tokens = [text[a:b] for a, b in pairwise(edges)]
    expected = [bool(by_byte[a:b].any()) for a, b in pairwise(edges)]
    assert literal_marks(tokens).tolist() == expected


@given(text=NASTY)
def test_a_text_said_twice_repeats_every_literal(text: bytes) -> None:
    again = len(text) + 3
    repeated = set(repeated_spans(text + b"\n \n" + text))
    assert {(start + again, end + again) for start, end in literal_spans(text)} <= repeated


SIZE = 200_000
HOSTILE = {
    "digits": b"1",
    "number chain": b"1.",
    "thousands": b"1,234",
    "exponents": b"1e+",
    "hexadecimal": b"a1",
    "one long word": b"a",
    "underscores": b"_",
    "mixed case": b"aB",
    "double quotes": b'"',
    "escaped quotes": b'\\"',
    "single quotes that do not close": b" 'a'b",
    "curly quotes that do not close": b"\xe2\x80\x9c",
    "dashes in curly quotes": b"\xe2\x80\x93",
    "slashes": b"/",
    "dots and slashes": b"./",
    "closing tags": b"</a ",
    "colons": b":",
    "IPv6 or not": b"1:2:3 ",
    "IPv4 or not": b"1.1.1.",
    "MAC or not": b"aa:",
    "host without port": b"a.",
    "schemes": b"a+",
    "scheme after scheme": b"a://",
    "drives": b"c:\\",
    "markup": b"<|a_b|>",
    "no UTF-8": b"\xff",
    "zeros": b"\x00",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_takes_no_longer_than_its_length(name: str) -> None:
    part = HOSTILE[name]
    text = b'"' + part * (SIZE // len(part)) + b"g\n"  # within a quote that never closes, and ending unlike itself
    before = time.process_time()
    repeated_spans(text)
    # What is quadratic takes minutes at this size.
    assert time.process_time() - before < 3


def test_marks_of_a_long_stream_are_cheap() -> None:
    tokens = [b"port", b" 8080", b" of", b" db_main", b" at", b" /var/log/x", b".\n"] * 18_000
    before = time.process_time()
    marks = literal_marks(tokens)
    assert time.process_time() - before < 6
    assert marks.tolist() == [False] * 7 + [False, True, False, True, False, True, False] * 17_999
