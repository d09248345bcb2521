"""Checks of answers: what passes, why something failed, and what nobody can say. Neither side is trusted."""

from __future__ import annotations

import json
import threading
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drift_runs.generate import checks as module
from drift_runs.generate.checks import Checked, check
from drift_runs.generate.code_blocks import unfenced
from drift_runs.generate.future import Scene
from drift_runs.generate.values import difference, same_value
from drift_runs.generate.words import stands_alone
from drift_runs.protocol.generation import Task

PASSED = Checked(True, "")
ASSISTANT = "<|im_start|>assistant\n"
DICTIONARY = (b"<|im_end|>", b"Run it.", ASSISTANT.encode(), b"`")
TOOLS = (
    {"name": "open_port", "parameters": {"type": "object", "properties": {"port": {"type": "integer"}}}},
    {"name": "restart", "parameters": {"type": "object", "properties": {"unit": {"type": "string"}}}},
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


def scene(*history: int, tools: tuple[dict, ...] = TOOLS, syntax: str = "hermes") -> Scene:
    return Scene(
        history=history or (1, 0, 2),
        dictionary=DICTIONARY,
        end_tokens=frozenset({0}),
        assistant=ASSISTANT,
        tools=tools,
        syntax=syntax,
        sql_dialect="sqlite",
    )


def task(kind: str, *expected: str, **more: object) -> Task:
    return Task(name="t", window="w", at=3, check=kind, expected=expected, **more)


def call(name: str, **arguments: object) -> str:
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"


def checked(kind: str, answer: str, *expected: str, text: str | None = None, ended: str = "turn", **more) -> Checked:
    return check(task(kind, *expected, **more), text, answer, scene(), ended=ended)


class TestTheTurn:
    def test_an_answer_that_the_horizon_cut_has_failed(self):
        found = checked("literals", "port 5432", "5432", ended="horizon", horizon_tokens=64)
        assert found == Checked(False, "cut by the horizon of 64 tokens: the turn did not end")

    def test_what_the_context_cut_is_not_known(self):
        assert checked("literals", "port 5432", "5432", ended="context").passed is None

    @pytest.mark.parametrize("ended", ["turn", "structure"])
    def test_the_token_that_ends_the_turn_is_no_part_of_it(self, ended):
        assert checked("pattern", "done<|im_end|>", "done$", ended=ended) == PASSED
        assert checked("json", "[1]<|im_end|>", text="[1]<|im_end|>", ended=ended) == PASSED

    def test_what_stood_of_the_turn_belongs_to_it(self):
        """Two backticks were there before: the third and the rest come from the model."""
        given = scene(1, 0, 2, 3, 3)
        assert check(task("json", "[1]"), None, "`json\n[1]\n```", given, ended="turn") == PASSED
        for own in ("`json\n[1]\n```<|im_end|>", "```json\n[1]\n```"):  # from the task on, and the whole turn
            assert check(task("json"), own, "`json\n[1]\n```", given, ended="turn") == PASSED
        assert check(task("pattern", "^`json"), None, "`json", given, ended="turn") == PASSED
        assert check(task("literals", "``"), None, "`", given, ended="turn").passed is False


class TestCalls:
    def test_the_same_calls_by_value_in_any_order_with_prose_around(self):
        answer = f"I do both.\n{call('restart', unit='db')}\nand {call('open_port', port=5432.0)} Done."
        assert checked("calls", answer, call("open_port", port=5432), call("restart", unit="db")) == PASSED
        both = f"{call('open_port', port=5432)}\n{call('restart', unit='db')}<|im_end|>"
        assert checked("calls", answer, text=both) == PASSED

    @pytest.mark.parametrize(
        ("answer", "reason"),
        [
            ("I would rather not.", "no call, expected open_port"),
            ("", "no call, expected open_port"),
            (call("open_port", port=5433), "call 1, open_port, has another value: port: 5433, expected 5432"),
            (call("open_port"), "call 1, open_port, has another value: port is missing"),
            (
                call("open_port", port=5432, host="a"),
                "call 1, open_port, has another value: host is not expected",
            ),
            (call("restart", unit="db"), "call 1 is of another tool: 'restart', expected open_port"),
            (call("open_port", port=5432) * 2, "1 calls more than expected: open_port"),
            (call("open_port", port=True), "call 1 fits no schema: argument port: True is not of type 'integer'"),
            (call("open_port", port="5432"), "call 1 fits no schema: argument port: '5432' is not of type 'integer'"),
            (call("shut"), "call 1 fits no schema: no tool 'shut' among open_port, restart"),
        ],
    )
    def test_the_reason_names_what_is_wrong(self, answer, reason):
        assert checked("calls", answer, call("open_port", port=5432)) == Checked(False, reason)

    def test_a_call_that_is_missing(self):
        two = call("restart", unit="a") + call("restart", unit="b")
        found = checked("calls", call("restart", unit="b"), two)
        assert found == Checked(False, "1 of 2 expected calls missing: restart")

    @pytest.mark.parametrize(
        "answer",
        [
            '<tool_call>{"name": "open_port", "arguments": {"port": 5432}',  # the turn ended inside
            '<tool_call>{"name": "open_port", "arguments": {"port": 543ql}}</tool_call>',
            call("open_port", port=5432) + "</tool_call>",
            "<tool_call>" + "[" * 100_000,
        ],
    )
    def test_a_malformed_call_is_no_call_and_no_wrong_one(self, answer):
        found = checked("calls", answer, call("open_port", port=5432))
        assert found.passed is False and found.reason.startswith("a malformed call at character")

    def test_a_window_without_tools_has_no_schema(self):
        wanted = task("calls", call("anything", a=[1, {"b": None}]))
        found = check(wanted, None, call("anything", a=[1.0, {"b": None}]), scene(tools=()), ended="turn")
        assert found == PASSED

    @pytest.mark.parametrize(
        ("expected", "reason"),
        [
            ((), "no call is expected"),
            (("none here",), "the expected text holds no call of the syntax hermes"),
            (("<tool_call>{",), "the expected call is malformed"),
            ((call("open_port", port="x"),), "the expected call fits no schema"),
        ],
    )
    def test_an_expectation_that_is_at_fault_says_nothing_of_the_answer(self, expected, reason):
        found = checked("calls", call("open_port", port=1), *expected)
        assert found.passed is None and found.reason.startswith(reason)

    def test_another_syntax(self):
        wanted = task("calls", '[TOOL_CALLS] [{"name": "restart", "arguments": {"unit": "db"}}]')
        answer = '[TOOL_CALLS] [{"arguments": {"unit": "db"}, "name": "restart"}]'
        assert check(wanted, None, answer, scene(syntax="mistral"), ended="turn") == PASSED
        assert check(wanted, None, call("restart", unit="db"), scene(syntax="mistral"), ended="turn").passed is False

    @settings(deadline=None)
    @given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from([0, 1, 2])), min_size=1, max_size=5), st.data())
    def test_an_order_never_counts_and_a_change_always_does(self, drawn, data):
        expected = "".join(call(name, v=value) for name, value in drawn)
        shuffled = data.draw(st.permutations(drawn))
        given = scene(tools=())
        answer = "\n".join(call(name, v=float(value)) for name, value in shuffled)
        assert check(task("calls", expected), None, answer, given, ended="turn") == PASSED
        at = data.draw(st.integers(0, len(shuffled) - 1))
        shuffled[at] = (shuffled[at][0], 7)
        answer = "\n".join(call(name, v=value) for name, value in shuffled)
        assert check(task("calls", expected), None, answer, given, ended="turn").passed is False


class TestLiterals:
    @pytest.mark.parametrize(
        ("literal", "text"),
        [
            ("5432", "port 5432."),
            ("5432", "db.internal:5432"),
            ("5432", '{"port":5432,"x":1}'),
            ("5432", "[80,5432,443]"),
            ("5432", "54321 5432"),
            ("5432", "端口5432已关闭"),
            ("端口", "这个端口是"),
            ("5432", "5432번 포트"),
            ("/var/log", "cat /var/log/nginx"),
            ("10.0.0.1", "ping 10.0.0.1."),
            ("--force", "rm --force"),
            ("naïve", "a naïve one"),
        ],
    )
    def test_a_word_of_its_own(self, literal, text):
        assert stands_alone(literal, text)
        assert checked("literals", text, literal) == PASSED

    @pytest.mark.parametrize(
        ("literal", "text"),
        [
            ("5432", "54321"),
            ("5432", "15432"),
            ("5432", "5432ql"),
            ("5432", "port_5432"),
            ("5432", "5432.7"),
            ("5432", "v3.5432"),
            ("10.0.0.1", "10.0.0.1.7"),
            ("10.0.0.1", "110.0.0.1 and 10.0.0.12"),
            ("caf", "café"),
            ("/var/log", "/mnt/var/log"),
            ("Db", "db"),
            ("5432", ""),
        ],
    )
    def test_a_part_of_another_word(self, literal, text):
        assert not stands_alone(literal, text)
        assert checked("literals", text, literal).passed is False

    def test_every_one_is_needed_and_the_missing_are_named(self):
        found = checked("literals", "host a-1, port 5433", "a-1", "5432", "/srv")
        assert found == Checked(False, "2 of 3 literals missing: '5432', '/srv'")

    @pytest.mark.parametrize("expected", [(), ("",), ("a", ""), ("a" * 1001,)])
    def test_nothing_to_look_for(self, expected):
        assert checked("literals", "a", *expected).passed is None

    @settings(deadline=None)
    @given(st.text(alphabet="ab1. _", max_size=12), st.text(alphabet="ab1. _", max_size=6))
    def test_an_added_space_makes_it_stand_alone(self, before, after):
        assert stands_alone("x9", f"{before} x9 {after}")
        assert not stands_alone("x9", f"{before}ax9 {after}") and not stands_alone("x9", f"{before} x9a{after}")

    def test_a_megabyte(self):
        started = time.process_time()
        assert checked("literals", "x5432" * 200_000 + " 5432", "5432") == PASSED
        assert checked("literals", "5" * 1_000_000, "5432", "5" * 999).passed is False
        assert time.process_time() - started < 10


class TestPattern:
    def test_it_is_found_anywhere(self):
        assert checked("pattern", "a\nport 5432\n", r"port\s+\d{4}$|(?m:^port \d+$)") == PASSED
        assert checked("pattern", "port", r"port \d") == Checked(False, r"the pattern port \d is not found")

    @pytest.mark.parametrize("pattern", [r"^(a+)+$", r"(a|aa)+$", r"^(\w+\s?)*$", r"(?=(a+))*\1$b"])
    def test_backtracking_without_end_is_given_up(self, monkeypatch, pattern):
        monkeypatch.setattr(module, "PATTERN_LIMIT_S", 0.2)
        found = checked("pattern", "a" * 4_000 + "!", pattern)
        assert found.passed is not True
        if found.passed is None:
            assert "0.2 s" in found.reason

    def test_the_classic_one_is_given_up_and_not_failed(self, monkeypatch):
        monkeypatch.setattr(module, "PATTERN_LIMIT_S", 0.2)
        assert checked("pattern", "a" * 64 + "!", r"^(a+)+$") == Checked(
            None, "the pattern takes more than 0.2 s on this answer"
        )

    @pytest.mark.parametrize("pattern", ["(", "(?P<a>x)(?P<a>y)", "a{99999999999}", "(" * 5_000 + ")" * 5_000, "*"])
    def test_what_is_no_pattern_says_nothing_of_the_answer(self, pattern):
        found = checked("pattern", "a", pattern)
        assert found.passed is None and "cannot be applied" in found.reason and len(found.reason) < 300

    def test_a_megabyte_is_not_searched(self):
        assert checked("pattern", "a" * 1_000_000, "(a|b)*c").passed is None

    def test_outside_the_main_thread_nothing_is_searched(self):
        found: list[Checked] = []
        thread = threading.Thread(target=lambda: found.append(checked("pattern", "a", "a")))
        thread.start()
        thread.join()
        assert found[0].passed is None and "main thread" in found[0].reason

    def test_two_patterns_are_not_one(self):
        assert checked("pattern", "a", "a", "b").passed is None


class TestJson:
    @pytest.mark.parametrize(
        "answer",
        [
            '{"a": [1, 2.5], "b": null}',
            ' \n{"b":null,"a":[1.0,25e-1]}\n\n',
            '```json\n{"a": [1, 2.5],\n "b": null}\n```',
            'Here it is:\n\n~~~~\n{"a": [1, 2.5], "b": null}\n~~~~\nDone.',
        ],
    )
    def test_equal_by_value(self, answer):
        assert checked("json", answer, '{"a": [1, 2.5], "b": null}') == PASSED

    @pytest.mark.parametrize(
        ("answer", "reason"),
        [
            ('{"a": [1, 2]}', "a.1: 2, expected 2.5"),
            ('{"a": [2.5, 1]}', "a.0: 2.5, expected 1"),
            ('{"a": [1]}', "a: 1 entries, expected 2"),
            ('{"a": [true, 2.5]}', "a.0: True, expected 1"),
            ('{"a": "1"}', "a: '1', expected a list of 2 entries"),
            ("{}", "a is missing"),
            ('{"a": [1, 2.5], "b": 0}', "b is not expected"),
            ("[]", "a list of 0 entries, expected an object of 1 keys"),
        ],
    )
    def test_the_first_difference_is_named(self, answer, reason):
        assert checked("json", answer, '{"a": [1, 2.5]}') == Checked(False, reason)

    @pytest.mark.parametrize(
        "answer",
        [
            "",
            "{'a': 1}",
            '{"a": NaN}',
            '{"a": 1, "a": 1}',
            '{"a": 1} {"a": 1}',
            'It is {"a": 1}',
            '```json\n{"a": 1}',  # a fence that stays open
            '```\n{"a": 1}\n```\n```\n{"a": 1}\n```',
            '{"a": "\\ud800"}',
            "1" * 5_000,
            "[" * 100_000,
            "[" * 500_000 + "]" * 500_000,
            '{"a":' * 100_000,
            "1e999",
        ],
    )
    def test_what_is_no_json_has_failed(self, answer):
        found = checked("json", answer, '{"a": 1}')
        assert found.passed is False and found.reason.startswith("no JSON: ") and len(found.reason) < 300

    def test_a_megabyte_of_it(self):
        big = json.dumps({str(number): [number, {"a": "b" * 9}] for number in range(25_000)})
        assert len(big) > 900_000
        assert checked("json", big, big) == PASSED
        found = checked("json", big, big.replace("[24999, ", "[24998, "))
        assert found == Checked(False, "24999.0: 24999, expected 24998")

    def test_an_expected_text_that_is_none(self):
        assert checked("json", "1", "one").passed is None
        assert checked("json", "1").passed is None
        assert checked("json", "1", "1", "2").passed is None

    @settings(deadline=None)
    @given(VALUES)
    def test_a_value_is_itself_in_every_spelling(self, value):
        again = json.loads(json.dumps(value), parse_int=float) if _small(value) else value
        assert same_value(value, again)
        assert not same_value([value], value) and not same_value({"a": value}, [value])
        assert checked("json", json.dumps(value, indent=2), json.dumps(value)) == PASSED

    @settings(deadline=None)
    @given(VALUES, VALUES)
    def test_equal_is_mutual_and_what_differs_has_words(self, left, right):
        assert same_value(left, right) == same_value(right, left) == (difference(left, right) == "")

    def test_values_that_nest_beyond_every_stack(self):
        deep, other = [0], [1]
        for _ in range(50_000):
            deep, other = [deep], [other]
        assert same_value(deep, deep) and difference(deep, other).endswith(": 0, expected 1")
        assert len(difference(deep, other)) < 200


def _small(value: object) -> bool:
    """Whether every integer of a value is a float without loss."""
    if isinstance(value, dict):
        return all(map(_small, value.values()))
    if isinstance(value, list):
        return all(map(_small, value))
    return not isinstance(value, int) or abs(value) < 2**53


class TestFences:
    @pytest.mark.parametrize(
        ("text", "inside"),
        [
            ("```\na\nb\n```", "a\nb"),
            ("x\n   ```sql title=a\na\n   `````  \ny", "a"),
            ("~~~\n```\na\n~~~", "```\na"),
            ("````\n```\na\n```\n````", "```\na\n```"),
            ("```\n```", ""),
        ],
    )
    def test_one_block(self, text, inside):
        assert unfenced(text) == inside

    @pytest.mark.parametrize("text", ["", "a", "```", "```\na", "    ```\na\n    ```", "``` `a`\nb\n```", "a ```b```"])
    def test_none(self, text):
        assert unfenced(text) == text

    @settings(deadline=None)
    @given(st.text(alphabet="`~a \n", max_size=30))
    def test_it_never_makes_text_up(self, text):
        assert unfenced(text) in text
