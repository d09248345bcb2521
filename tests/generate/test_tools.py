"""Tool calls: three outcomes with offsets, strict JSON, schemas."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drift_runs.generate import calls as module
from drift_runs.generate.tools import Call, Malformed, NoCall, WellFormed, misfit, parse_calls, strict_json

ARGUMENTS = st.dictionaries(
    st.text(max_size=6), st.none() | st.booleans() | st.integers() | st.text() | st.lists(st.text(max_size=4))
)


def block(name: str, arguments: object) -> str:
    return "<tool_call>\n" + json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False) + "\n</tool_call>"


@settings(deadline=None)
@given(st.lists(st.tuples(st.text(), ARGUMENTS), min_size=1, max_size=4), st.sampled_from(["", "\n", " and then "]))
def test_calls_come_back_with_the_offsets_they_stand_at(drawn: list, between: str) -> None:
    blocks = [block(name, arguments) for name, arguments in drawn]
    text = "Look: " + between.join(blocks) + " done"
    parsed = parse_calls(text)
    assert isinstance(parsed, WellFormed)
    assert [(call.name, call.arguments) for call in parsed.calls] == drawn
    assert [text[call.start : call.end] for call in parsed.calls] == blocks


@settings(deadline=None)
@given(st.text(alphabet=st.characters(exclude_characters="<>")))
def test_a_text_without_tags_holds_no_call(text: str) -> None:
    assert parse_calls(text) == NoCall()


@settings(deadline=None)
@given(st.text(alphabet='<>/{}"\\:,tolca_ename0'))
def test_nothing_is_both_and_nothing_breaks_it(text: str) -> None:
    parsed = parse_calls(text + "<tool_call>{")
    assert isinstance(parsed, Malformed)


def test_a_tag_inside_a_text_of_json_is_part_of_it() -> None:
    text = block("say", {"words": "</tool_call><tool_call>"})
    assert parse_calls(text) == WellFormed(
        calls=(Call(name="say", arguments={"words": "</tool_call><tool_call>"}, start=0, end=len(text)),)
    )


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ('{"name": "a", "arguments": {}', "no JSON"),
        ('{"name": "a", "arguments": {"n": NaN}}', "NaN is no number"),
        ('{"name": "a", "arguments": {"n": -Infinity}}', "-Infinity is no number"),
        ('{"name": "a", "arguments": {"n": 1e999}}', "1e999 is beyond"),
        ('{"name": "a", "arguments": {"n": 1, "n": 2}}', "key 'n' is given twice"),
        ('{"name": "a", "name": "a", "arguments": {}}', "key 'name' is given twice"),
        ('{"name": "a", "arguments": {"t": "\\ud800"}}', "surrogates"),
        ('{"name": "a", "arguments": {}} }', "no </tool_call> behind"),
        ('{"name": "a", "arguments": []}', "arguments are no object"),
        ('{"name": 1, "arguments": {}}', "name is no text"),
        ('{"name": "a"}', "name and arguments alone"),
        ('{"name": "a", "arguments": {}, "id": 1}', "name and arguments alone"),
        ('["a"]', "name and arguments alone"),
        ("__import__('os')", "no JSON"),
        ("[" * 100_000, "nested too deeply"),
        ("", "no JSON"),
    ],
)
def test_what_is_no_call_is_malformed_where_its_tag_stands(body: str, why: str) -> None:
    sound = block("a", {})
    parsed = parse_calls(f"{sound}\n<tool_call>\n{body}\n</tool_call>")
    assert isinstance(parsed, Malformed)
    assert why in parsed.why
    assert parsed.start == len(sound) + 1
    assert [call.name for call in parsed.before] == ["a"]


@pytest.mark.parametrize(
    ("text", "start"),
    [("</tool_call>", 0), ("a <tool_call>", 2), (block("a", {}) + "</tool_call>", len(block("a", {})))],
)
def test_a_tag_alone_is_malformed(text: str, start: int) -> None:
    parsed = parse_calls(text)
    assert isinstance(parsed, Malformed)
    assert parsed.start == start


def test_strict_json_reads_one_value() -> None:
    assert strict_json(' {"a": [1, 2.5, null]} ') == {"a": [1, 2.5, None]}
    assert strict_json('"\\ud83d\\ude00"') == "😀"
    for text in ("{} {}", "NaN", '{"a": 1, "a": 1}', "", "'a'", '"\\udc00"', "[" * 100_000, "1e400"):
        with pytest.raises(ValueError, match=r"."):
            strict_json(text)


def tool(name: str, **properties: dict) -> dict:
    parameters = {"type": "object", "properties": properties, "required": list(properties)}
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


def call(name: str, **arguments: object) -> Call:
    return Call(name=name, arguments=arguments, start=0, end=1)


def test_a_call_must_fit_a_schema_of_its_name() -> None:
    tools = [tool("open_port", port={"type": "integer"}), tool("say", way={"enum": ["loud", "low"]})]
    assert misfit(call("open_port", port=5432), tools) == ""
    assert misfit(call("say", way="low"), tools) == ""
    assert misfit(call("open_port", port="5432"), tools) == "argument port: '5432' is not of type 'integer'"
    assert misfit(call("open_port"), tools) == "'port' is a required property"
    assert misfit(call("say", way="mute"), tools).startswith("argument way: 'mute' is not one of")
    assert misfit(call("shut"), tools) == "no tool 'shut' among open_port, say"
    assert misfit(call("open_port", port=5432), [tools[0]["function"]]) == ""
    assert misfit(call("shut"), []) == "no tool 'shut' among none"


def test_one_of_two_schemas_of_a_name_is_enough() -> None:
    tools = [tool("open", port={"type": "integer"}), tool("open", target_port={"type": "integer"})]
    assert misfit(call("open", target_port=1), tools) == ""
    assert misfit(call("open", place=1), tools) == "'port' is a required property"


def test_a_schema_that_is_none_or_leads_elsewhere_fits_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def fetched(*_args: object, **_more: object) -> None:
        raise AssertionError("something was fetched")

    monkeypatch.setattr("urllib.request.urlopen", fetched)
    assert "no JSON Schema" in misfit(call("open", port=1), [tool("open", port={"type": "intger"})])
    away = [tool("open", port={"$ref": "https://example.invalid/port.json"})]
    assert "refer to what they do not hold" in misfit(call("open", port=1), away)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "pattern": "^(a+)+$"},
        {"allOf": [{"$ref": "#/$defs/n0"}]},
    ],
)
def test_a_schema_that_takes_ages_is_given_up(monkeypatch: pytest.MonkeyPatch, schema: dict) -> None:
    monkeypatch.setattr(module, "SCHEMA_LIMIT_S", 0.3)
    hostile = tool("open", word=schema)
    # Each level refers twice to the next one: 2 ** 60 ways.
    hostile["function"]["parameters"]["$defs"] = {
        f"n{level}": {"allOf": [{"$ref": f"#/$defs/n{level + 1}"}, {"$ref": f"#/$defs/n{level + 1}"}]}
        for level in range(60)
    } | {"n60": {"type": "string"}}
    reason = misfit(call("open", word="a" * 60 + "!"), [hostile])
    assert reason == "the tool's parameters take more than 0.3 s to decide"
    assert misfit(call("open", port=1), [tool("open", port={"type": "integer"})]) == ""


def test_what_no_schema_can_be_applied_to_is_a_reason_and_no_crash() -> None:
    huge = misfit(call("open", port=10**400), [tool("open", port={"multipleOf": 0.5})])
    assert huge.startswith("the tool's parameters cannot be applied")
    address = misfit(call("open", port=1), [tool("open", port={"$ref": "http://[::1"})])
    assert address.startswith("the tool's parameters refer to")
    wide = misfit(call("open", port="x" * 1_000_000), [tool("open", port={"type": "integer"})])
    assert len(wide) < 300


def test_many_keys_are_read_in_one_go() -> None:
    text = ", ".join(f'"k{number}": 0' for number in range(200_000))
    with pytest.raises(ValueError, match="'k199999' is given twice"):
        strict_json(f'{{{text}, "k199999": 1}}')
