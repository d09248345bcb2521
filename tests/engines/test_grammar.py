"""Grammars on a dictionary that cuts texts in many ways: what they allow is sound, and what is sound is allowed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drift_runs.engines import llguidance_binding as llguidance
from drift_runs.engines.grammar import Grammar, Grammars
from drift_runs.engines.llama_cpp_branches import BranchingLlamaCpp
from drift_runs.errors import ConfigError, LayoutMismatch, NotAllowed
from drift_runs.generate.calls import Malformed, WellFormed, misfit
from drift_runs.generate.future import Scene
from drift_runs.generate.futures import Rule, follow
from drift_runs.generate.syntaxes import parse
from tests.engines.conftest import settings
from tests.tiny_model import write_tiny_model

WORDS = [
    b"</s>", b"<|end|>", b"<|user|>", b"", b"<tool_call>", b"</tool_call>", b"tool_call", b">\n", b"><", b"<tool",
    b'>{"', b'">',
    b'{"name": "', b'", "arguments": {', b'": ', b'"}}', b"}}\n</", b"host", b"ho", b"st", b"port", b"run", b"read",
    b"_file", b"12", b"34", b"true", b"\\u00", b"\xc3\xa9", b"host", b", ", b"}</tool_call>\nI", b'"a"', b"}}", b"  ",
]  # fmt: skip
DICTIONARY = [*WORDS, *(bytes([byte]) for byte in range(256))]
END = frozenset({0, 1})
READ = {
    "name": "read_file",
    "parameters": {
        "type": "object",
        "properties": {"host": {"type": "string"}, "path": {"type": "string", "pattern": "^/[a-z/]+$"}},
        "required": ["host", "path"],
    },
}
RUN = {
    "type": "function",
    "function": {
        "name": 'run "é"',
        "parameters": {
            "type": "object",
            "properties": {
                "port": {"type": "integer", "minimum": 1, "maximum": 65535},
                "mode": {"enum": ["a", "b", None]},
                "tags": {"type": "array", "items": {"type": "string", "maxLength": 3}, "maxItems": 2},
                "inner": {"$ref": "#/$defs/inner"},
                "dry": {"type": "boolean"},
            },
            "required": ["port", "inner"],
            "additionalProperties": False,
            "$defs": {"inner": {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]}},
        },
    },
}
NOW = {"name": "now"}
TOOLS = (READ, RUN, NOW)
CALL = '<tool_call>\n{"name": "read_file", "arguments": {"host": "db<tool_call>", "path": "/etc/hosts"}}\n</tool_call>'
SOUND = [
    CALL,
    f"Let me look. é <tool {CALL}\n{CALL}\n\nDone, <tool_cal",
    '<tool_call>{"arguments":{"path":"/a","host":"é\\u0007\\n"},"name":"read_file"}</tool_call>',
    '<tool_call>\t{ "name" :"read_file","arguments": { "path" : "/a", "host": "", "m": [1.5e3, {}] } }\r\n</tool_call>',
    '<tool_call>{"name": "now", "arguments": {}}</tool_call>',
    '<tool_call>{"name": "now", "arguments": {"host": "</tool_call>", "n": -0.5}}</tool_call>',
    '<tool_call>{"name": "run \\"é\\"", "arguments": {"port": 80, "inner": {"x": 1}}}</tool_call>',
    '<tool_call>{"name": "run \\"é\\"", "arguments": {"port": 65535, "mode": null, "tags": ["abc"],'
    ' "inner": {"x": 0.1}, "dry": true}}</tool_call>',
]


@pytest.fixture(scope="module")
def grammars() -> Grammars:
    return Grammars(DICTIONARY, END)


def cuts(text: str, rng: np.random.Generator) -> list[int]:
    """The text as tokens, cut at random among the ways that the dictionary has."""
    data, place, tokens = text.encode(), 0, []
    while place < len(data):
        ways = [at for at, token in enumerate(DICTIONARY) if token and at not in END and data.startswith(token, place)]
        tokens.append(int(rng.choice(ways)))
        place += len(DICTIONARY[tokens[-1]])
    return tokens


def logits(rng: np.random.Generator) -> np.ndarray:
    return rng.standard_normal(len(DICTIONARY)).astype(np.float32)


def walk(grammar: Grammar, rng: np.random.Generator, *, steps: int = 400, free: int = 25) -> list[int]:
    """Random tokens that the grammar allows; after ``free`` of them whatever closes is preferred."""
    order = [b"</tool_call>", b"}", b"]", b'"', b":", b"0", b"<", b"/"]
    blank = [at for at, token in enumerate(DICTIONARY) if token.isspace()]
    tokens: list[int] = []
    while len(tokens) < steps:
        row = logits(rng)
        row[blank] -= 3
        if len(tokens) >= free:
            in_a_string = grammar.allows(DICTIONARY.index(b"~"))
            for rank, closer in enumerate([b'"'] if in_a_string else order):
                row[DICTIONARY.index(closer)] += 100 - 10 * rank
            row[list(END)] += 200
        tokens.append(int(grammar.mask(row).argmax()))
        assert np.isfinite(grammar.mask(row)[tokens[-1]])
        grammar.accept(tokens[-1])
        if tokens[-1] in END:
            break
    return tokens


def text_of(tokens: list[int], errors: str = "replace") -> str:
    """Free text behind a call may hold any bytes."""
    return b"".join(DICTIONARY[token] for token in tokens if token not in END).decode("utf-8", errors)


def mask_of(grammar: Grammar) -> np.ndarray:
    """bool[dictionary]: what it allows."""
    return np.isfinite(grammar.mask(np.zeros(len(DICTIONARY), dtype=np.float32)))


class TestCalls:
    @pytest.mark.parametrize("seed", range(20))
    def test_what_is_written_parses_and_fits_its_schema(self, grammars: Grammars, seed: int) -> None:
        rng = np.random.default_rng(seed)
        grammar = grammars.tools(TOOLS)
        for token in cuts("I say <tool_call>", rng):
            grammar.accept(token)
        tokens = walk(grammar, rng)
        assert tokens[-1] in END
        found = parse("hermes", "<tool_call>" + text_of(tokens))
        assert isinstance(found, WellFormed), text_of(tokens)
        assert [misfit(call, TOOLS) for call in found.calls] == [""] * len(found.calls)

    def test_every_tool_is_written_some_time(self, grammars: Grammars) -> None:
        names = set()
        for seed in range(12):
            grammar = grammars.tools(TOOLS, written="<tool_call>")
            found = parse("hermes", "<tool_call>" + text_of(walk(grammar, np.random.default_rng(seed), free=9)))
            assert isinstance(found, WellFormed)
            names |= {call.name for call in found.calls}
        assert names == {"read_file", 'run "é"', "now"}

    @pytest.mark.parametrize("text", SOUND)
    @pytest.mark.parametrize("seed", range(4))
    def test_sound_calls_are_left_alone_however_they_are_cut(self, grammars: Grammars, text: str, seed: int) -> None:
        rng = np.random.default_rng(seed)
        grammar = grammars.tools(TOOLS)
        for token in [*cuts(text, rng), 1]:
            row = logits(rng)
            masked = grammar.mask(row)
            assert masked[token] == row[token], DICTIONARY[token]
            assert set(masked) <= {*row, -np.inf}
            grammar.accept(token)

    def test_free_text_is_free(self, grammars: Grammars) -> None:
        rng = np.random.default_rng(0)
        for written in (
            "",
            "{not json",
            CALL,
            f"{CALL} and ",
            "<tool_call>{}</tool_call> was no call",
            "é".encode()[:1],
        ):
            row = logits(rng)
            masked = grammars.tools(TOOLS, written=written).mask(row)
            assert np.array_equal(masked, row), written
        masked = grammars.tools(TOOLS, written="<tool_call").mask(row)
        held_back = [DICTIONARY[at] for at in np.flatnonzero(masked != row)]
        assert held_back == [b"><"], "what opens a call that can never be one"
        assert masked[DICTIONARY.index(b'>{"')] == row[DICTIONARY.index(b'>{"')]

    @pytest.mark.parametrize(
        ("written", "not_next"),
        [
            ('{"name": "read', b'"'),
            ('{"name": "now"', b"}"),
            ('{"name": "read_file", "arguments": {"host": "a"', b"}"),
            ('{"name": "read_file", "arguments": {"host": ', b"12"),
            ('{"name": "read_file", "arguments": {"path": "', b"a"),
            ('{"name": "run \\"é\\"", "arguments": {"port": ', b"0"),
            ('{"name": "run \\"é\\"", "arguments": {"port": 6553', b"12"),
            ('{"name": "run \\"é\\"", "arguments": {"', b"host"),
            ('{"name": "now", "arguments": ', b"true"),
            ('{"name": "now", "arguments": {}', b","),
            ('{"name": "now", "arguments": {}}', b"</s>"),
            ('{"name": "now", "arguments": {}}', b"<tool"),
            ("", b"["),
            ("", b"</s>"),
        ],
    )
    def test_what_would_break_a_call_is_held_back(self, grammars: Grammars, written: str, not_next: bytes) -> None:
        grammar = grammars.tools(TOOLS, written=f"So <tool_call>{written}")
        assert not mask_of(grammar)[DICTIONARY.index(not_next)]
        assert mask_of(grammar).any()

    def test_the_mask_and_the_answer_agree_on_every_token(self, grammars: Grammars) -> None:
        rng = np.random.default_rng(3)
        grammar = grammars.tools(TOOLS)
        for token in [*cuts(SOUND[1], rng), 0, *cuts(SOUND[3], rng)]:
            assert [grammar.allows(at) for at in range(len(DICTIONARY))] == mask_of(grammar).tolist()
            grammar.accept(token)

    def test_duplicates_and_empty_tokens(self, grammars: Grammars) -> None:
        grammar = grammars.tools(TOOLS, written='<tool_call>{"name": "read_file", "arguments": {"')
        allowed = mask_of(grammar)
        twins = [at for at, token in enumerate(DICTIONARY) if token == b"host"]
        assert len(twins) == 2 and allowed[twins].all()
        assert not allowed[DICTIONARY.index(b"")]

    def test_without_tools_no_call_opens(self, grammars: Grammars) -> None:
        grammar = grammars.tools(())
        assert not grammar.allows(DICTIONARY.index(b"<tool_call>"))
        assert grammar.allows(DICTIONARY.index(b"<tool"))
        with pytest.raises(NotAllowed):
            grammars.tools((), written="<tool_call>")


class TestWrittenAlready:
    def test_a_root_anywhere_is_as_if_all_had_been_told(self, grammars: Grammars) -> None:
        rng = np.random.default_rng(5)
        told, data = grammars.tools(TOOLS), b""
        for token in cuts(SOUND[1], rng):
            seeded = grammars.tools(TOOLS, written=data)
            assert np.array_equal(mask_of(seeded), mask_of(told)), data
            data += DICTIONARY[token]
            told.accept(token)

    def test_half_a_character(self, grammars: Grammars) -> None:
        grammar = grammars.tools(TOOLS, written=b'<tool_call>{"name": "run \\"' + "é".encode()[:1])
        assert [DICTIONARY[at] for at in np.flatnonzero(mask_of(grammar))] == ["é".encode()[1:]]
        grammar = grammars.json(written=b'"' + "東".encode()[:1])
        assert mask_of(grammar).sum() == 64

    @pytest.mark.parametrize("written", ["<tool_call>[", '<tool_call>{"name": "other"', '<tool_call>{"arguments": 1'])
    def test_a_call_that_is_none_already(self, grammars: Grammars, written: str) -> None:
        with pytest.raises(NotAllowed, match="is written already; expected the beginning of a sound call"):
            grammars.tools(TOOLS, written=f"Well, {written}")

    def test_a_call_that_was_none_and_is_over(self, grammars: Grammars) -> None:
        grammar = grammars.tools(TOOLS, written='<tool_call>{"name": 1}</tool_call> <tool_call>{"')
        assert grammar.allows(DICTIONARY.index(b"n")) and not grammar.allows(DICTIONARY.index(b"x"))


class TestNotAllowed:
    def test_it_is_said_and_changes_nothing(self, grammars: Grammars) -> None:
        grammar = grammars.tools(TOOLS, written='<tool_call>{"name": "read_file", "arguments": {"host": ')
        before = mask_of(grammar)
        with pytest.raises(NotAllowed, match=r"token \d+ \('12'\); expected free text or a sound call; take the best"):
            grammar.accept(DICTIONARY.index(b"12"))
        with pytest.raises(NotAllowed):
            grammar.accept(0)
        assert np.array_equal(mask_of(grammar), before)
        grammar.accept(DICTIONARY.index(b'"a"'))
        assert not np.array_equal(mask_of(grammar), before)

    def test_in_free_text_too(self, grammars: Grammars) -> None:
        grammar = grammars.tools(TOOLS, written="So <tool_call")
        with pytest.raises(NotAllowed):
            grammar.accept(DICTIONARY.index(b"><"))
        grammar.accept(DICTIONARY.index(b'>{"'))
        assert not grammar.allows(DICTIONARY.index(b"x"))


class TestJson:
    @pytest.mark.parametrize("seed", range(15))
    def test_what_is_written_is_one_value(self, grammars: Grammars, seed: int) -> None:
        grammar = grammars.json()
        tokens = walk(grammar, np.random.default_rng(seed), free=seed)
        assert tokens[-1] in END
        json.loads(text_of(tokens, "strict"))

    @pytest.mark.parametrize(
        "text", ['{"a": [1, -2.5e-3, true, null], "é": {"\\u001f\\\\": ""}}', ' "x"\n', "[]", "-0"]
    )
    def test_json_is_left_alone(self, grammars: Grammars, text: str) -> None:
        for seed in range(4):
            grammar = grammars.json()
            for token in [*cuts(text, np.random.default_rng(seed)), 0]:
                assert mask_of(grammar)[token]
                grammar.accept(token)

    def test_it_ends_where_the_value_is_whole_and_not_before(self, grammars: Grammars) -> None:
        grammar = grammars.json(written='{"a": [1')
        assert not grammar.allows(0)
        for token in (b"]", b"}"):
            grammar.accept(DICTIONARY.index(token))
        assert {DICTIONARY[at] for at in np.flatnonzero(mask_of(grammar))} == {
            b"</s>", b"<|end|>", b"  ", b" ", b"\t", b"\n", b"\r"
        }  # fmt: skip

    def test_the_next_turn_is_one_value_again(self, grammars: Grammars) -> None:
        grammar = grammars.json()
        start = mask_of(grammar)
        for token in (b"[", b"]", b"</s>"):
            grammar.accept(DICTIONARY.index(token))
        assert np.array_equal(mask_of(grammar), start)

    def test_what_begins_no_value(self, grammars: Grammars) -> None:
        with pytest.raises(NotAllowed, match="'Sure' is written already; expected the beginning of one JSON value"):
            grammars.json(written="Sure")


class TestSchemas:
    @pytest.mark.parametrize(
        ("parameters", "why"),
        [
            ({"properties": {"a": {"not": {"type": "string"}}}}, r'Unimplemented keys: \["not"\]'),
            ({"properties": {"a": {"type": "array", "uniqueItems": True}}}, "uniqueItems"),
            ({"properties": {"a": {"pattern": "(?=x)y", "type": "string"}}}, "regex parse error|look"),
            ({"properties": {"a": {"oneOf": [{"type": "number"}, {"type": "integer"}]}}}, "oneOf"),
            ({"properties": {"a": {"$ref": "https://example.org/schema"}}}, "example.org"),
            ({"properties": {"a": {"type": "strin"}}}, "strin"),
            ({"properties": {"a": {"minimum": float("nan")}}}, "JSON"),
            ({"properties": {"a": False}, "required": ["a"]}, "[Uu]nsatisfiable"),
            ({"type": "array"}, "[Uu]nsatisfiable"),
            ({"not": {}, "x-guidance": {"lenient": True}}, "not"),
            (False, "[Uu]nsatisfiable"),
        ],
    )
    def test_what_no_grammar_can_say_is_one_line(self, grammars: Grammars, parameters: Any, why: str) -> None:
        with pytest.raises(ConfigError, match=f"tool t: no grammar can be made of its parameters: .*({why})") as caught:
            grammars.tools([NOW, {"name": "t", "parameters": parameters}])
        assert "\n" not in str(caught.value) and "state less in its schema" in caught.value.todo

    def test_nesting_beyond_all_measure(self, grammars: Grammars) -> None:
        schema: dict[str, Any] = {}
        for _ in range(3_000):
            schema = {"properties": {"a": schema}}
        with pytest.raises(ConfigError, match=r"nested too deeply|recursion"):
            grammars.tools([{"name": "t", "parameters": schema}])

    @pytest.mark.parametrize("tool", [{}, {"name": 3}, {"name": "t", "parameters": [1]}])
    def test_no_tool(self, grammars: Grammars, tool: dict) -> None:
        with pytest.raises(ConfigError, match="no tool: "):
            grammars.tools([tool])

    def test_another_syntax(self, grammars: Grammars) -> None:
        with pytest.raises(
            ConfigError, match=r"no grammar for the call syntax 'mistral'; expected branches\.syntax 'hermes'"
        ):
            grammars.tools(TOOLS, syntax="mistral")

    def test_keys_of_few_come_in_any_order_and_of_many_in_the_schemas(self, grammars: Grammars) -> None:
        def allows(count: int, written: str, token: bytes) -> bool:
            names = "abcde"[:count]
            schema = {
                "properties": {name: {} for name in names},
                "required": list(names),
                "additionalProperties": False,
            }
            tool = {"name": "t", "parameters": schema}
            text = f'<tool_call>{{"name": "t", "arguments": {{{written}'
            return grammars.tools([tool], written=text).allows(DICTIONARY.index(token))

        assert allows(4, '"d": 1, "b": 2, "', b"a") and not allows(4, '"d": 1, "b": 2, "', b"d")
        assert allows(5, '"', b"a") and not allows(5, '"', b"b")

    def test_an_escape_that_is_not_needed_is_not_written(self, grammars: Grammars) -> None:
        grammar = grammars.json(written='["\\u00')
        assert grammar.allows(DICTIONARY.index(b"0")) and not grammar.allows(DICTIONARY.index(b"e"))

    def test_logits_that_are_no_dictionarys(self, grammars: Grammars) -> None:
        grammar = grammars.tools(TOOLS)
        with pytest.raises(ConfigError, match="3 logits for a dictionary of"):
            grammar.mask(np.zeros(3, dtype=np.float32))
        padded = grammar.mask(np.zeros(len(DICTIONARY) + 5, dtype=np.float32))
        assert np.isfinite(padded[:-5]).all() and np.isneginf(padded[-5:]).all()


def test_a_dictionary_that_cannot_spell_json() -> None:
    """The tiny one has neither quotes nor digits: nothing but braces and words of a to z can come."""
    from tests.conftest import tiny_dictionary

    words = tiny_dictionary()
    grammar = Grammars(words, {1}).json(written="{")
    allowed = np.isfinite(grammar.mask(np.zeros(len(words), dtype=np.float32)))
    assert {words[at] for at in np.flatnonzero(allowed)} == {b"}", b" ", b"\n"}
    grammar = Grammars(words, {1}).tools([NOW])
    for token in (words.index(b"{"), words.index(b"}")):
        grammar.accept(token)


@pytest.mark.parametrize("field", ["max_items_in_row", "step_max_items", "precompute_large_lexemes"])
def test_another_layout_is_refused(monkeypatch: pytest.MonkeyPatch, field: str) -> None:
    monkeypatch.setitem(llguidance._KNOWN_LIMITS, field, 3)
    with pytest.raises(LayoutMismatch, match=rf"LlgParserLimits\.{field} reads .*; expected 3 by default"):
        llguidance.load_llguidance.__wrapped__()


def test_a_wheel_without_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(llguidance._FUNCTIONS, "llg_of_another_version", (None, []))
    with pytest.raises(
        LayoutMismatch, match=r"llg_of_another_version is not exported.*or leave out \[\[constrained\]\]"
    ):
        llguidance.load_llguidance.__wrapped__()


def test_a_future_that_an_engine_writes_under_it(tmp_path: Path) -> None:
    """Random weights, greedy: free they write nonsense behind the tag, held they write a call and stop behind it."""
    words = [b"<s>", b"</s>", b"\n", *(bytes([byte]) for byte in range(32, 127))]
    model = write_tiny_model(tmp_path / "ascii.gguf", tokens=words, context=256)
    schema = {"properties": {"host": {"maxLength": 6, "type": "string"}, "port": {"enum": [22, 80]}}}
    tool = {"name": "open", "parameters": {**schema, "required": ["host", "port"], "additionalProperties": False}}
    text = "abc <tool_call"
    scene = Scene(
        history=[words.index(bytes([byte])) for byte in text.encode()],
        dictionary=words,
        end_tokens=frozenset({1}),
        assistant="",
        tools=(tool,),
        syntax="hermes",
        sql_dialect="sqlite",
    )
    first = words.index(b">")
    futures = []
    with BranchingLlamaCpp(model, settings(context_tokens=256, batch=256)) as engine:
        engine.hold([*scene.history, 5, 6, 7], [])
        for grammar in (None, Grammars(words, {1}).tools((tool,), written=scene.turn)):
            futures.append(
                follow(
                    engine,
                    scene,
                    first,
                    Rule(horizon_tokens=120, stops="turn"),
                    window="w",
                    position=len(scene.history),
                    best=first,
                    grammar=grammar,
                )
            )
    free, held = (parse("hermes", text + future.text) for future in futures)
    assert isinstance(free, Malformed)
    # It may go on with another call, which the horizon cuts.
    assert isinstance(held, WellFormed) or held.unfinished, futures[1].text
    calls = held.calls if isinstance(held, WellFormed) else held.before
    assert calls and [misfit(call, [tool]) for call in calls] == [""] * len(calls)
    assert futures[0].tokens[0] == futures[1].tokens[0] == first


def test_a_real_model_is_held_to_it(smollm2: Path) -> None:
    """Greedy, behind a question that does not even ask for a call."""
    short = {"type": "string", "maxLength": 20}  # a small model repeats itself, which no grammar forbids
    schema = {
        "type": "object",
        "properties": {"host": short, "path": short},
        "required": ["host", "path"],
        "additionalProperties": False,
    }
    tool = {"name": "read_file", "parameters": schema}
    turn = '<tool_call>\n{"name": "'
    prompt = "<|im_start|>user\nRead /etc/hosts on the host db-3.<|im_end|>\n<|im_start|>assistant\n"
    with BranchingLlamaCpp(smollm2, settings(context_tokens=256, batch=256)) as engine:
        dictionary = engine.token_bytes()
        ends = {token for token in range(len(dictionary)) if engine.ends_generation(token)}
        grammar = Grammars(dictionary, ends).tools([tool], written=turn)
        ids = engine.tokenize(prompt + turn)
        row = engine.hold(ids, [len(ids) - 1])[0]
        engine.branch(len(ids))
        data = turn.encode()
        while engine.context_left > 100 and not data.endswith(b"</tool_call>"):
            token = int(grammar.mask(row).argmax())
            grammar.accept(token)
            data += dictionary[token]
            row = engine.append(token)
    found = parse("hermes", data.decode())
    assert isinstance(found, WellFormed), data.decode()
    assert misfit(found.calls[0], [tool]) == ""
