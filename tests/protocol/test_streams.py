"""Stream files and the dictionary's digest."""

from __future__ import annotations

import hashlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drift_runs.errors import ProtocolError
from drift_runs.protocol.load import load_protocol
from drift_runs.protocol.model import Stream
from drift_runs.protocol.streams import decode_text, dictionary_sha256, stream_bytes, write_stream
from tests.conftest import TINY, tiny_dictionary


def test_the_digest_of_a_known_dictionary():
    raw = b"\x02\x00\x00\x00ab" + b"\x00\x00\x00\x00" + b"\x01\x00\x00\x00c"
    assert dictionary_sha256([b"ab", b"", b"c"]) == hashlib.sha256(raw).hexdigest()


@given(st.lists(st.binary(max_size=5), max_size=6), st.lists(st.binary(max_size=5), max_size=6))
def test_different_dictionaries_have_different_digests(one, other):
    assert (dictionary_sha256(one) == dictionary_sha256(other)) == (one == other)


def test_the_tiny_protocol_declares_the_digest_of_the_tiny_dictionary():
    loaded = load_protocol(TINY / "tiny.toml")
    assert loaded.protocol.dictionary.sha256 == dictionary_sha256(tiny_dictionary())
    for stream in loaded.streams.values():
        assert decode_text(stream.tokens, tiny_dictionary()) == stream.text


def test_a_character_may_be_spread_over_tokens():
    assert decode_text([0, 1, 2], ["é".encode()[:1], "é".encode()[1:], b"!"]) == "é!"
    assert decode_text([0], ["é".encode()[:1]]) == "\N{REPLACEMENT CHARACTER}"


@pytest.mark.parametrize("token", [-1, 2])
def test_an_id_beyond_the_dictionary_is_refused(token):
    with pytest.raises(
        ProtocolError, match=f"token id {token} at index 1 is beyond the dictionary; expected ids below 2"
    ):
        decode_text([0, token], [b"a", b"b"])


@given(
    tokens=st.lists(st.integers(0, 2**31 - 1), max_size=20),
    text=st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    recorded=st.dictionaries(st.sampled_from("abc"), st.integers(0, 9) | st.text("xyé")),
)
def test_a_stream_is_read_back_as_it_was_written(tokens, text, recorded):
    stream = Stream(
        schema="drift.stream/1", name="s", tokens=tuple(tokens), text=text, source="authored", recorded=recorded
    )
    raw = stream_bytes(stream)
    assert Stream.model_validate_json(raw, strict=True) == stream
    assert stream_bytes(Stream.model_validate_json(raw, strict=True)) == raw


def test_the_bytes_of_a_stream_do_not_depend_on_the_order_of_its_values(tmp_path):
    parts = {"schema": "drift.stream/1", "name": "s", "tokens": [1, 2], "text": "ab", "source": "generated"}
    one = Stream.model_validate(parts | {"recorded": {"a": 1, "b": 2}})
    other = Stream.model_validate(parts | {"recorded": {"b": 2, "a": 1}})
    write_stream(tmp_path / "new" / "s.json", one)
    assert (tmp_path / "new" / "s.json").read_bytes() == stream_bytes(other)
    assert b'\n  "tokens": [1, 2],\n' in stream_bytes(one)


@pytest.mark.parametrize("name", ["alpha", "beta", "odd"])
def test_the_golden_streams_have_the_form_that_is_written(name):
    raw = (TINY / "streams" / f"{name}.json").read_bytes()
    assert stream_bytes(Stream.model_validate(json.loads(raw))) == raw
