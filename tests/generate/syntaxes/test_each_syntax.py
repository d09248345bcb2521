"""What is particular to each syntax: its real forms, and the ways in which each one breaks."""

from __future__ import annotations

from typing import Any

import pytest

from drift_runs.generate.calls import Malformed, NoCall, WellFormed, misfit, same_calls
from drift_runs.generate.syntaxes import closed, opened, parse, typed


def calls(syntax: str, text: str, tools: tuple[dict[str, Any], ...] = ()) -> list[tuple[str, Any]]:
    parsed = parse(syntax, text, tools)
    assert isinstance(parsed, WellFormed), parsed
    return [(call.name, call.arguments) for call in parsed.calls]


def why(syntax: str, text: str) -> str:
    parsed = parse(syntax, text)
    assert isinstance(parsed, Malformed), parsed
    return parsed.why


# hermes


def test_hermes_a_tag_in_a_text_is_part_of_it() -> None:
    text = '<tool_call>{"name": "say", "arguments": {"words": "</tool_call> <tool_call>"}}</tool_call>'
    assert calls("hermes", text) == [("say", {"words": "</tool_call> <tool_call>"})]
    assert closed("hermes", text, 0) == len(text)


def test_hermes_a_broken_call_ends_with_its_tag_or_where_the_next_one_opens() -> None:
    good = '<tool_call>{"name": "b", "arguments": {}}</tool_call>'
    for broken in ('<tool_call>{"name": 5 7}</tool_call>', '<tool_call>["a"]\n</tool_call>', '<tool_call>{"a": '):
        assert closed("hermes", broken + good, 0) == len(broken)
        assert opened("hermes", broken + good) is None
        assert isinstance(parse("hermes", broken + good), Malformed)
    assert opened("hermes", '<tool_call>{"name": 5 7}') == 0
    assert why("hermes", '<tool_call>{"name": 5 7}').startswith("no JSON: '7' in place of a comma")


@pytest.mark.parametrize("text", ["</tool_call>", '{"name": "a", "arguments": {}}</tool_call>', "x </tool_call> y"])
def test_hermes_a_closing_tag_alone_is_no_abstention(text: str) -> None:
    assert why("hermes", text) == "</tool_call> outside of a call"


# openai-json


def test_openai_reads_arrays_objects_and_messages_with_arguments_as_text_or_object() -> None:
    expected = [("get", {"x": 1})]
    one = '{"id": "c", "type": "function", "function": {"name": "get", "arguments": "{\\"x\\": 1}"}}'
    for text in (
        one,
        f"[{one}]",
        f'{{"tool_calls": [{one}]}}',
        f'Sure. {{"role": "assistant", "content": null, "tool_calls": [{one}]}} Done.',
        '[{"function": {"arguments": {"x": 1}, "name": "get"}}]',
    ):
        assert calls("openai-json", text) == expected


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('[{"type": "function", "function": {"name": "a", "arguments": "{"}}]', "the text of arguments is no JSON"),
        ('[{"type": "function", "function": {"name": "a", "arguments": "[]"}}]', "arguments are no object"),
        ('[{"type": "tool", "function": {"name": "a", "arguments": {}}}]', "type is not function"),
        ('[{"function": {"name": "a"}}]', "no object of name and arguments"),
        ('[{"function": "a"}]', "function is no object"),
        ('{"name": "a", "arguments": {}}', "no object of id, type, index and function"),
        ('{"tool_calls": []}', "an array without a call"),
        ('{"tool_calls": {}}', "no message of role"),
    ],
)
def test_openai_other_forms_are_malformed(text: str, reason: str) -> None:
    assert reason in why("openai-json", text)
    assert closed("openai-json", text, 0) == len(text)


def test_openai_data_is_no_call() -> None:
    for text in ('[{"port": 5432}]', '{"id": 1, "type": "disk"}', "[1, 2]", "an array [a] of {x}"):
        assert parse("openai-json", text) == NoCall()


# mistral


def test_mistral_reads_the_forms_of_its_tokenizers() -> None:
    expected = [("a", {"x": 1}), ("b", {})]
    for text in (
        '[TOOL_CALLS] [{"name": "a", "arguments": {"x": 1}}, {"name": "b", "arguments": {}}]',
        '[TOOL_CALLS][{"name":"a","arguments":{"x":1},"id":"D681PevKs"},{"name":"b","arguments":{},"id":"D681PevKt"}]',
        '[TOOL_CALLS]a[ARGS]{"x": 1}[TOOL_CALLS]b[ARGS]{}',
        '[TOOL_CALLS]a[CALL_ID]D681PevKs[ARGS]{"x": 1}[TOOL_CALLS]b[CALL_ID]D681PevKt[ARGS]{}',
        '[TOOL_CALLS]a{"x": 1}[TOOL_CALLS]b{}',
    ):
        assert calls("mistral", text) == expected


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[TOOL_CALLS][ARGS]{}", "no JSON"),
        ("[TOOL_CALLS]{}", "no name"),
        ("[TOOL_CALLS]a[ARGS][]", "no arguments"),
        ("[TOOL_CALLS]a b", "no arguments"),
        ("[TOOL_CALLS]a[ARG]{}", "no [CALL_ID] or [ARGS]"),
        ("[TOOL_CALLS]a[CALL_ID]x{}", "no [ARGS]"),
        ("[TOOL_CALLS][]", "an array without a call"),
        ('[TOOL_CALLS][{"name": "a"}]', "no object of name and arguments"),
        ('[TOOL_CALLS]a[ARGS]{"x": 1}b[ARGS]{}', "[ARGS] outside of a call"),
        ("a[ARGS]{}", "[ARGS] outside of a call"),
    ],
)
def test_mistral_other_forms_are_malformed(text: str, reason: str) -> None:
    assert reason in why("mistral", text)


def test_mistral_a_tag_in_a_text_is_part_of_it() -> None:
    assert calls("mistral", '[TOOL_CALLS]say[ARGS]{"w": "[TOOL_CALLS]x[ARGS]{}"}') == [
        ("say", {"w": "[TOOL_CALLS]x[ARGS]{}"})
    ]


# llama3


def test_llama3_reads_tagged_and_bare_objects() -> None:
    expected = [("a", {"x": 1}), ("b", {})]
    for text in (
        '<|python_tag|>{"name": "a", "parameters": {"x": 1}}; {"name": "b", "parameters": {}}',
        '{"name": "a", "parameters": {"x": 1}};{"name": "b", "arguments": {}}',
        '{"type": "function", "name": "a", "parameters": {"x": 1}} ;\n{"parameters": {}, "name": "b"}',
        'First {"name": "a", "parameters": {"x": 1}} with {a} and {"x": 1}, then {"name": "b", "parameters": {}}.',
    ):
        assert calls("llama3", text) == expected


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"name": "a", "parameters": {bad}}', "in place of a key"),
        ('{"name": "a"}', "no object of name and parameters or arguments"),
        ('{"nme": "a", "parameters": {}}', "no object of name and parameters or arguments"),
        ('{"name": "a", "parameters": {}, "arguments": {}}', "no object of name and parameters or arguments"),
        ('{"name": "a", "parameters": "{}"}', "parameters are no object"),
        ('{"type": "tool", "name": "a", "parameters": {}}', "type is not function"),
        ('{"name": "a", "parameters": {}}; {"x": 1}', "no object of name"),
        ("<|python_tag|>print(1)", "no JSON object"),
        ('{oops {"name": "a", "parameters": 1 2}', "in place of a comma"),
        ('{"x} then {"name": "a", "parameters": [}', "in place of a value"),
    ],
)
def test_llama3_other_forms_are_malformed(text: str, reason: str) -> None:
    assert reason in why("llama3", text)


def test_llama3_a_call_inside_data_is_data() -> None:
    assert parse("llama3", '{"log": {"name": "a", "parameters": {}}}') == NoCall()


def test_llama3_a_semicolon_is_no_prose() -> None:
    parsed = parse("llama3", '{"name": "a", "parameters": {}}; {"name": "b", "parameters": {}}')
    assert isinstance(parsed, WellFormed)
    assert parsed.prose == ()


# fenced-json


def test_fenced_json_reads_objects_and_arrays_in_blocks() -> None:
    one = '{"name": "a", "arguments": {"x": "```"}}'
    for text in (
        f"```json\n{one}\n```",
        f"```\n{one}\n```\n",
        f"Sure: ```json {one} ``` and so on",
        f"```tool_call\n{one}\n```",
        f"  ```json\n  [{one}]\n  ```",
        f'```python\nx = "y"\n```\n```json\n{{"port": 1}}\n```\n```json\n{one}\n```',
    ):
        assert calls("fenced-json", text) == [("a", {"x": "```"})]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('```json\n{"name": "a", "arguments": {}}\nmore\n```', "no ```"),
        ('```json\n{"name": "a"}\n```', "no object of name and arguments or parameters"),
        ('```json\n{"name": "a", "arguments": {"x": }}\n```', "in place of a value"),
        ("```tool_call\na()\n```", "in place of an object or array"),
        ("```tool_call\n[]\n```", "an array without a call"),
    ],
)
def test_fenced_json_other_forms_are_malformed_and_end_with_the_fence(text: str, reason: str) -> None:
    assert reason in why("fenced-json", text)
    assert closed("fenced-json", text, 0) == len(text)


def test_fenced_json_data_and_code_are_no_call() -> None:
    for text in (
        '```json\n{"port": 5432}\n```',
        '```python\n{"name": "a", "arguments": {}}\n```',
        '```text\nx\n```\n{"name": "a", "arguments": {}}',
        '{"name": "a", "arguments": {}}',
    ):
        assert parse("fenced-json", text) == NoCall()


# qwen3-coder

TOOL = {
    "type": "function",
    "function": {
        "name": "open_port",
        "parameters": {
            "type": "object",
            "properties": {
                "port": {"type": "integer"},
                "host": {"type": "string"},
                "force": {"type": "boolean"},
                "tags": {"type": "array"},
                "note": {"type": ["string", "null"]},
                "level": {"enum": [1, 2]},
                "ratio": {"anyOf": [{"type": "number"}, {"type": "null"}]},
            },
        },
    },
}


def xml(*parameters: tuple[str, str]) -> str:
    body = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in parameters)
    return f"<tool_call>\n<function=open_port>\n{body}</function>\n</tool_call>"


def test_qwen_values_are_texts_and_get_the_types_of_their_tool() -> None:
    text = xml(("port", "5432"), ("host", "12"), ("force", "True"), ("tags", '["a"]'), ("note", "None"), ("ratio", "1"))
    assert calls("qwen3-coder", text)[0][1]["port"] == "5432"
    (_, arguments), *_rest = calls("qwen3-coder", text, (TOOL,))
    assert arguments == {"port": 5432, "host": "12", "force": True, "tags": ["a"], "note": None, "ratio": 1}
    assert arguments["force"] is True


def test_qwen_equal_values_in_another_spelling_are_the_same_call() -> None:
    left, right, text_of_one, other = (
        parse("qwen3-coder", xml(*given), (TOOL,))
        for given in (
            [("port", "1"), ("level", "2"), ("tags", "[1,2]")],
            [("tags", " [1.0, 2] "), ("level", "2.0"), ("port", "1.0")],
            [("port", "1"), ("level", "2"), ("tags", '["1","2"]')],
            [("port", "543ql"), ("level", "2"), ("tags", "[1,2]")],
        )
    )
    assert all(isinstance(parsed, WellFormed) for parsed in (left, right, text_of_one, other))
    assert same_calls(left.calls, right.calls)
    assert not same_calls(left.calls, text_of_one.calls)
    assert not same_calls(left.calls, other.calls)
    assert misfit(left.calls[0], [TOOL]) == ""
    assert misfit(other.calls[0], [TOOL]) == "argument port: '543ql' is not of type 'integer'"


def test_qwen_what_is_not_known_stays_a_text() -> None:
    other = {"name": "shut", "parameters": {"properties": {"port": {"type": "integer"}}}}
    strange = {"name": "open_port", "parameters": {"properties": {"port": True}}}
    parsed = parse("qwen3-coder", xml(("port", "1"), ("unknown", "2")))
    assert isinstance(parsed, WellFormed)
    for tools in ((), (other,), (strange,), ({"name": "open_port"},), ({"name": "open_port", "parameters": 1},)):
        (call,) = typed("qwen3-coder", parsed.calls, tools)
        assert call.arguments == {"port": "1", "unknown": "2"}


def test_qwen_lines_and_compact_tags_are_read() -> None:
    compact = "<tool_call><function=f><parameter=x>1</parameter></function></tool_call>"
    assert calls("qwen3-coder", compact) == [("f", {"x": "1"})]
    assert calls("qwen3-coder", xml(("host", "\na < b\n\n"), ("note", ""))) == [
        ("open_port", {"host": "\na < b\n\n", "note": ""})
    ]
    assert calls("qwen3-coder", "<tool_call>\n<function=f>\n</function>\n</tool_call>") == [("f", {})]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('<tool_call>{"name": "a", "arguments": {}}</tool_call>', "no <function="),
        ("<tool_call><function=></function></tool_call>", "no name"),
        ("<tool_call><function=a</function></tool_call>", "no name and >"),
        ("<tool_call><function=a><parameter=x>1</function></tool_call>", "</function> inside the value of 'x'"),
        ("<tool_call><function=a><parameter=x>1</parameter></tool_call>", "no <parameter= or </function>"),
        ("<tool_call><function=a></function><function=b></function></tool_call>", "no </tool_call>"),
        (xml(("port", "1"), ("port", "1")), "parameter 'port' is given twice"),
    ],
)
def test_qwen_other_forms_are_malformed_and_end_with_the_tag(text: str, reason: str) -> None:
    assert reason in why("qwen3-coder", text)
    assert closed("qwen3-coder", text, 0) == len(text)


@pytest.mark.parametrize("text", ["<function=a></function>", "</tool_call>", "<parameter=a>1</parameter>"])
def test_qwen_inner_tags_alone_are_no_abstention(text: str) -> None:
    assert why("qwen3-coder", text).endswith("outside of a call")


def test_qwen_a_missing_tag_does_not_swallow_the_next_call() -> None:
    broken = "<tool_call><function=a><parameter=x>1\n"
    text = broken + xml(("port", "1"))
    assert closed("qwen3-coder", text, 0) == len(broken)
    assert opened("qwen3-coder", text) is None
