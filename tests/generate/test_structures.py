"""What encloses a root, where it ends, and when it is malformed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drift_runs.generate.future import Scene
from drift_runs.generate.structures import Structure, enclosing, end_of, problem
from drift_runs.generate.syntaxes import SYNTAXES
from tests.generate.syntaxes.rendering import rendered

ASSISTANT = "<|assistant|>"
TOOLS = (
    {
        "type": "function",
        "function": {
            "name": "open_port",
            "parameters": {
                "type": "object",
                "properties": {"port": {"type": "integer"}, "host": {"type": "string"}},
                "required": ["port"],
            },
        },
    },
)


def scene(turn: str, *, tools: tuple[dict[str, Any], ...] = TOOLS, syntax: str = "hermes", turns: bool = True) -> Scene:
    """A root behind ``turn``; a token is a byte."""
    said = f"Call <tool_call> like this.\n```\n{ASSISTANT}" if turns else ""
    return Scene(
        history=list((said + turn).encode()),
        dictionary=[bytes([byte]) for byte in range(256)],
        end_tokens=frozenset({0}),
        assistant=ASSISTANT if turns else "",
        tools=tools,
        syntax=syntax,
        sql_dialect="sqlite",
    )


@pytest.mark.parametrize(
    ("turn", "kind", "opens", "language"),
    [
        ("", "", "", ""),
        ("Well, the port", "", "", ""),
        ('Look: <tool_call>{"name": "open', "call", "<tool_call>", ""),
        ("a <tool_call>", "call", "<tool_call>", ""),
        ('<tool_call>{"name": "a", "arguments": {}}</tool_call>', "", "", ""),
        ('<tool_call>{"name": "a", "arguments": {}}</tool_call>\n<tool_call>{"x', "call", '<tool_call>{"x', ""),
        ("Run:\n```sql\nSELECT", "sql", "```sql", "sql"),
        ("```postgresql\nSELECT", "sql", "```", "postgresql"),
        ("```bash\nls", "shell", "```", "bash"),
        ("```console\n$ ls", "shell", "```", "console"),
        ("```py\nx = ", "python", "```", "py"),
        ('```json\n{"a', "json", "```", "json"),
        ("```yaml\na: ", "fence", "```", "yaml"),
        ("```\na", "fence", "```", ""),
        ("```bash\nls\n```\nand", "", "", ""),
        ("```bas", "", "", ""),
        ('{"port": 54', "json", "{", ""),
        ("\n[1, ", "json", "[", ""),
        ('{"port": 5432}', "", "", ""),
        ('{"a": 1}\n{"a": 2}\n{"a": ', "json", '{"a": ', ""),
        ('The answer: {"port": 54', "", "", ""),
        # What the history has broken already.
        ('<tool_call>{"name": 5 7', "", "", ""),
        ('{"port": 5 7', "", "", ""),
        ('```json\n{"port": 5 7', "", "", ""),
        # A fence inside a call is text of the call.
        ('<tool_call>{"name": "say", "arguments": {"t": "```sql', "call", "<tool_call>", ""),
        # A call inside a fence is a call.
        ('```\n<tool_call>{"name"', "call", "<tool_call>", ""),
    ],
)
def test_what_is_open_at_the_root(turn: str, kind: str, opens: str, language: str) -> None:
    expected = Structure(kind=kind, start=turn.rindex(opens) if kind else 0, language=language)
    assert enclosing(scene(turn)) == expected


def test_a_text_without_turns_is_one_turn() -> None:
    text = "# Notes\n```bash\nls\n"
    assert enclosing(scene(text, turns=False)) == Structure(kind="shell", start=8, language="bash")
    # What another role said encloses nothing: the scene's own first lines open a call and a fence.
    assert enclosing(scene("so")).kind == ""


def test_a_closed_call_with_a_fence_in_it_opens_no_fence() -> None:
    call = "<tool_call>\n<function=say>\n<parameter=words>\n```sql\nx\n</parameter>\n</function>\n</tool_call>\n"
    assert enclosing(scene(call, syntax="qwen3-coder")).kind == ""


@pytest.mark.parametrize("syntax", sorted(SYNTAXES))
@pytest.mark.parametrize("form", [0, 1])
def test_a_call_in_every_syntax_ends_where_it_closes_and_must_fit_its_schema(syntax: str, form: int) -> None:
    port = "5432" if syntax == "qwen3-coder" else 5432
    turn = "Yes.\n" + rendered(syntax, [("open_port", {"port": port, "host": "db"})], form=form)
    cut = turn[: turn.index("5432")]
    at = scene(cut, syntax=syntax)
    found = enclosing(at)
    # Where no tag says so, a call is known by its keys.
    assert found == Structure(kind="call", start=len("Yes.\n"), language="")
    assert end_of(found, cut, at) is None
    assert problem(found, cut, at, complete=False) == ""
    assert problem(found, cut, at, complete=True) != ""
    assert end_of(found, turn, at) == len(turn) == end_of(found, turn + "\nmore", at)
    assert problem(found, turn, at, complete=True) == problem(found, turn + "\nmore", at, complete=False) == ""
    # No schema is asked for where the text has no tools.
    wrong = turn.replace("5432", "true")
    assert "is not of type 'integer'" in problem(found, wrong, at, complete=False)
    assert problem(found, wrong, scene(cut, syntax=syntax, tools=()), complete=True) == ""
    other = turn.replace("open_port", "shut_port")
    assert "no tool 'shut_port'" in problem(found, other, at, complete=False)


def begun(turn: str) -> tuple[Structure, Scene]:
    at = scene(turn)
    return enclosing(at), at


def test_a_call_that_can_never_be_completed_is_malformed_although_the_horizon_cut_it() -> None:
    structure, at = begun('<tool_call>{"name": 5')
    assert "in place of a comma" in problem(structure, '<tool_call>{"name": 5 7', at, complete=False)
    assert problem(structure, '<tool_call>{"name": 5', at, complete=False) == ""
    assert end_of(structure, '<tool_call>{"name": 5 7}</tool_call> so', at) == len(
        '<tool_call>{"name": 5 7}</tool_call>'
    )


def test_an_end_token_inside_an_open_structure_is_malformed() -> None:
    for turn in (
        '<tool_call>{"name": "open_port"',
        '{"a": [',
        "```sql\nSELECT 1;",
        "```\nx",
        '```json\n{"a": 1}',
        "```py\nx",
    ):
        structure, at = begun(turn)
        assert structure.kind
        assert problem(structure, turn, at, complete=False) == ""
        assert problem(structure, turn, at, complete=True).endswith("the turn ends inside it")
        assert end_of(structure, turn, at) is None


@pytest.mark.parametrize(
    ("turn", "sound", "broken"),
    [
        ("```sql\nSELECT ", "a FROM t;\n```", "FROM FROM;\n```"),
        ("```bash\nls ", "-l | wc\n```\n", "-l | )\n```\n"),
        ("```python\nx = ", "[1]\n```", "[1\n```"),
        ('```json\n{"port": ', "5432}\n```", "5432\n```"),
        ('```json\n{"port": ', "5432}\n```", "5432, }\n```"),
        ('{"port": ', "5432}", "54 32}"),
        ('{"port": ', "5432}", '5, "port": 6}'),
        ('{"port": ', "5432}", "1e999}"),
        ('<tool_call>{"name": "open_port", "arguments": {"port": ', "1}}</tool_call>", '"1"}}</tool_call>'),
        ('<tool_call>{"name": "open_port", "arguments": {"port": ', "1}}</tool_call>", "1}}</tool_calls>"),
    ],
)
def test_a_structure_is_held_against_its_grammar(turn: str, sound: str, broken: str) -> None:
    structure, at = begun(turn)
    assert structure.kind
    assert problem(structure, turn + sound, at, complete=True) == ""
    assert end_of(structure, turn + sound, at) == len((turn + sound).rstrip())
    for complete in (False, True):
        assert problem(structure, turn + broken, at, complete=complete) != ""


def test_unfinished_code_is_no_fault_and_a_plain_fence_has_no_grammar() -> None:
    for turn in ("```sql\nSELEC a FROM", "```bash\necho )", "```python\nx = ("):
        structure, at = begun(turn)
        assert problem(structure, turn, at, complete=False) == ""
        assert problem(structure, turn + "\n```\n", at, complete=False) != ""
    structure, at = begun("```\nanything (")
    assert problem(structure, "```\nanything (\n```", at, complete=True) == ""


def test_sql_is_read_in_the_dialect_of_the_fence_or_of_the_protocol() -> None:
    for language, why in (("mysql", ""), ("postgres", "no SQL")):
        structure, at = begun(f"```{language}\nSELECT")
        assert problem(structure, f"```{language}\nSELECT `a b` FROM t\n```", at, complete=True)[:6] == why


def test_nothing_open_is_never_wrong_and_has_no_end() -> None:
    structure, at = begun("Well")
    assert end_of(structure, "Well, </tool_call> ```", at) is None
    assert problem(structure, "Well, </tool_call> ```", at, complete=True) == ""


def test_a_call_of_fenced_json_is_a_call_once_its_keys_say_so() -> None:
    at = scene('```json\n{"na', syntax="fenced-json")
    assert enclosing(at).kind == "json"
    at = scene('```json\n{"name": "open_port", "argu', syntax="fenced-json")
    assert enclosing(at) == Structure(kind="call", start=0, language="")


def test_bytes_that_are_no_text_break_nothing() -> None:
    at = scene("")
    broken = Scene(
        history=[*at.history, *b'<tool_call>{"name": "caf\xc3'],
        dictionary=at.dictionary,
        end_tokens=at.end_tokens,
        assistant=at.assistant,
        tools=at.tools,
        syntax=at.syntax,
        sql_dialect=at.sql_dialect,
    )
    assert enclosing(broken) == Structure(kind="call", start=0, language="")


PIECES = st.sampled_from(
    [
        "<tool_call>",
        "</tool_call>",
        "```",
        "\n",
        "```json\n",
        "```sql\n",
        "{",
        "}",
        "[",
        '"',
        "name",
        ":",
        "1",
        " ",
        "x",
        ",",
    ]
)


@pytest.mark.parametrize("syntax", sorted(SYNTAXES))
@settings(deadline=None, max_examples=25)
@given(turn=st.lists(PIECES, max_size=8).map("".join), more=st.lists(PIECES, max_size=6).map("".join))
def test_any_text_has_an_answer_and_what_ended_stays_ended(syntax: str, turn: str, more: str) -> None:
    at = scene(turn, syntax=syntax)
    structure = enclosing(at)
    if structure.kind:
        assert end_of(structure, turn, at) is None
        assert problem(structure, turn, at, complete=False) == ""
        assert problem(structure, turn, at, complete=True) != ""
    for complete in (False, True):
        assert isinstance(problem(structure, turn + more, at, complete=complete), str)
    end = end_of(structure, turn + more, at)
    if end is not None:
        assert end_of(structure, turn + more + "\nx", at) == end
        assert len(turn) - 10 <= end <= len(turn + more)


def test_json_values_of_a_turn() -> None:
    value = {"a": [1, {"b": "} ``` </tool_call>"}]}
    text = json.dumps(value)
    for length in range(1, len(text)):
        structure, at = begun(text[:length])
        assert structure == Structure(kind="json", start=0, language="")
        assert problem(structure, text[:length], at, complete=False) == ""
        assert end_of(structure, text + " so", at) == len(text)
