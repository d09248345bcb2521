"""What holds for every syntax: calls come back, nothing raises, and a prefix is judged like the whole."""

from __future__ import annotations

import json
import time
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drift_runs.errors import ProtocolError
from drift_runs.generate.calls import Malformed, NoCall, WellFormed
from drift_runs.generate.syntaxes import SYNTAXES, closed, envelopes, opened, parse, same_calls
from drift_runs.protocol.generation import Syntax
from tests.generate.syntaxes.rendering import DRAWN, Drawn, rendered

NAMES = sorted(SYNTAXES)
every_syntax = pytest.mark.parametrize("syntax", NAMES)
every_form = pytest.mark.parametrize("form", [0, 1])
# Values that are bare texts have no quotes, escapes or numbers: see the tests of that syntax.
every_json = pytest.mark.parametrize("syntax", [name for name in NAMES if name != "qwen3-coder"])
open_json = pytest.mark.parametrize(
    ("syntax", "form"),
    [
        (name, form)
        for name in NAMES
        for form in (0, 1)
        # Here the arguments are JSON inside a text.
        if name != "qwen3-coder" and (name, form) != ("openai-json", 0)
    ],
)

# Pieces of calls, of other syntaxes' calls, and of nothing.
PIECES = st.sampled_from(
    [
        "<tool_call>",
        "</tool_call>",
        "<tool_ca",
        "<function=a>",
        "</function>",
        "<parameter=k>",
        "</parameter>",
        "[TOOL_CALLS]",
        "[ARGS]",
        "[CALL_ID]x",
        "<|python_tag|>",
        "```json\n",
        "\n```\n",
        "```",
        '{"name": "a", "arguments": {"k": 1}}',
        '{"name": "a", "parameters": {}}',
        '{"function": {"name": "a", "arguments": "{}"}}',
        '{"name":',
        '{"k": 1}',
        "{",
        "}",
        "[",
        "]",
        '"',
        "\\",
        ":",
        ",",
        ";",
        "7",
        "\n",
        " ",
        "a",
        "é",
    ]
)
MIXED = st.lists(PIECES, max_size=7).map("".join)


def test_every_syntax_of_a_protocol_has_a_parser_and_no_other_name_has() -> None:
    assert set(SYNTAXES) == set(get_args(Syntax))
    for call in (lambda: parse("xml", ""), lambda: opened("xml", ""), lambda: closed("xml", "", 0)):
        with pytest.raises(ProtocolError, match=r"no parser claims the call syntax 'xml'.*hermes"):
            call()


@every_syntax
@every_form
@settings(deadline=None, max_examples=25)
@given(data=st.data())
def test_calls_come_back(syntax: str, form: int, data: st.DataObject) -> None:
    drawn: Drawn = data.draw(DRAWN[syntax])
    before, behind = data.draw(st.sampled_from([("", ""), ("\n", "\n"), ("Look first:\n", "\nThat was it.")]))
    parsed = parse(syntax, before + rendered(syntax, drawn, form=form) + behind)
    assert isinstance(parsed, WellFormed)
    assert [(call.name, call.arguments) for call in parsed.calls] == drawn
    assert parsed.prose == tuple(filter(None, (before.strip(), behind.strip())))


@every_syntax
@every_form
def test_a_call_closes_with_its_last_character_and_is_unfinished_before(syntax: str, form: int) -> None:
    arguments = {"port": "5432", "why": "é </b> ``` [x] {y}"} if syntax != "qwen3-coder" else {"port": "5432"}
    text = rendered(syntax, [("open_port", arguments)], form=form)
    parsed = parse(syntax, text)
    assert isinstance(parsed, WellFormed)
    assert parsed.calls[0].start == 0
    assert parsed.calls[0].end == closed(syntax, text, 0) == closed(syntax, text + " and so on", 0) == len(text)
    assert opened(syntax, text) is None
    begun = False
    for length in range(len(text)):
        cut = text[:length]
        assert closed(syntax, cut, 0) is None
        begun = begun or opened(syntax, cut) is not None
        if begun:
            # Once a call is known to be one it never becomes no call again, and nothing is wrong with it so far.
            assert opened(syntax, cut) == 0
            assert parse(syntax, cut) == Malformed(
                why="the text ends inside the call", start=0, before=(), unfinished=True
            )
        else:
            assert parse(syntax, cut) == NoCall()
    assert begun


@every_syntax
@settings(deadline=None, max_examples=30)
@given(text=MIXED | st.text(max_size=30))
def test_a_prefix_is_judged_like_the_whole(syntax: str, text: str) -> None:
    ends: dict[int, int] = {}
    for length in range(len(text) + 1):
        cut = text[:length]
        parsed, start = parse(syntax, cut), opened(syntax, cut)
        if start is not None:
            assert closed(syntax, cut, start) is None
            assert isinstance(parsed, Malformed)
            assert parsed.start <= start
        elif isinstance(parsed, Malformed):
            assert not parsed.unfinished
        for at, found in envelopes(syntax, cut):
            assert closed(syntax, cut, at) == found.end
            if found.end is not None:
                ends.setdefault(at, found.end)
            if isinstance(parsed, WellFormed):
                assert found.end is not None
                assert all(call.end <= found.end for call in found.calls)
        for at, end in ends.items():
            assert closed(syntax, cut, at) == end


@every_syntax
@settings(deadline=None, max_examples=50)
@given(text=MIXED | st.text())
def test_any_text_is_one_of_three(syntax: str, text: str) -> None:
    assert isinstance(parse(syntax, text), NoCall | Malformed | WellFormed)


@every_syntax
def test_an_empty_text_and_prose_hold_no_call(syntax: str) -> None:
    for text in ("", "\n", "The port is 5432.", "if (a < b) { return [1]; }", '{"port": 5432}', "see [1] and {x}"):
        assert parse(syntax, text) == NoCall()
        assert opened(syntax, text) is None


@open_json
@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ('"a": 1', '"a": 1, "a": 2', "given twice"),
        ('"a": 1', '"a": NaN', "NaN is no number"),
        ('"a": 1', '"a": 1e999', "beyond the numbers"),
        ('"a": 1', '"a": "\\ud800"', "surrogates"),
        ('"a": 1', '"a": "un\nclosed"', "inside a text"),
        ('"a": 1', '"a": 01', "in place of a comma"),
        ('"a": 1', '"a": ' + "[" * 300 + "]" * 300, "nested too deeply"),
        ('"a": 1', '"a": 5 7', "in place of a comma"),
        ('"a": 1', "'a': 1", "in place of a key"),
        ('"a": 1', '"a": 1,', "in place of a key"),
    ],
)
def test_json_is_strict(syntax: str, form: int, old: str, new: str, why: str) -> None:
    text = rendered(syntax, [("f", {}), ("f", {"a": 1})], form=form)
    assert old in text
    parsed = parse(syntax, text.replace(old, new))
    assert isinstance(parsed, Malformed)
    assert why in parsed.why
    assert not parsed.unfinished
    alone = form == 1 and syntax in ("openai-json", "mistral", "fenced-json")
    assert len(parsed.before) == (0 if alone else 1)


@every_json
@every_form
def test_a_quote_that_never_closes_is_unfinished_and_never_no_call(syntax: str, form: int) -> None:
    text = rendered(syntax, [("say", {"words": "hello"})], form=form)
    cut = text[: text.index("hello") + len("hello")]
    parsed = parse(syntax, cut + " and everything else, </tool_call> and ``` too")
    assert isinstance(parsed, Malformed)
    assert parsed.unfinished
    assert opened(syntax, cut) == parsed.start


@every_json
@every_form
def test_calls_are_the_same_in_any_order_and_spelling(syntax: str, form: int) -> None:
    one = rendered(syntax, [("a", {"x": 1, "y": "é"}), ("b", {})], form=form)
    two = rendered(syntax, [("b", {}), ("a", {"y": "é", "x": 1.0})], form=1 - form).replace(": ", "  :   ")
    left, right = parse(syntax, one), parse(syntax, two)
    assert isinstance(left, WellFormed)
    assert isinstance(right, WellFormed)
    assert same_calls(left.calls, right.calls)
    assert not same_calls(left.calls, right.calls[:1])


HOSTILE = [
    "<tool_call>",
    "<tool_call>{",
    "<tool_call><function=a><parameter=b>",
    "</parameter><parameter=b>",
    "[TOOL_CALLS]",
    "[TOOL_CALLS]a[ARGS]{}",
    "<|python_tag|>",
    "```json\n",
    "```\n",
    "```json {",
    '{"name":',
    '{"a":',
    '{"k": {"name": 1',
    '{"name":"a","parameters":{}};',
    "{",
    "[",
    '"',
    "\\",
    " ",
    '{"',
]


@every_syntax
def test_time_is_linear_in_hostile_texts(syntax: str) -> None:
    begun = time.process_time()
    for piece in HOSTILE:
        text = piece * (30_000 // len(piece))
        parse(syntax, text)
        opened(syntax, text)
        opened(syntax, '{"name": "' + text)
    # A tenth of this on an idle machine; what is quadratic takes minutes.
    assert time.process_time() - begun < 20


@every_json
def test_unicode_escapes_are_their_characters(syntax: str) -> None:
    drawn: Drawn = [("f", {"face": "😀", "accent": "é"})]
    plain, escaped = (rendered(syntax, drawn, form=form) for form in (0, 1))
    left, right = parse(syntax, plain), parse(syntax, escaped)
    assert isinstance(left, WellFormed)
    assert isinstance(right, WellFormed)
    assert same_calls(left.calls, right.calls)
    assert left.calls[0].arguments == json.loads('{"face": "\\ud83d\\ude00", "accent": "\\u00e9"}')
