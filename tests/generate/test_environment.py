"""Scripted environments: calls answered by value, and the results that a text itself records."""

from __future__ import annotations

import pytest

from drift_runs.generate.calls import Call
from drift_runs.generate.environment import answer, environment_of, recorded_results
from drift_runs.protocol.generation import Chat, Environment, ScriptedResult

CHAT = Chat(
    assistant="<|im_start|>assistant\n",
    ends=("<|im_end|>", "<|endoftext|>"),
    tool_turn="\n<|im_start|>tool\n{text}<|im_end|>\n<|im_start|>assistant\n",
    user_turn="<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n",
)
OPEN = '<tool_call>\n{"name": "open", "arguments": {"port": 1, "host": "a"}}\n</tool_call>'
SHUT = '<tool_call>\n{"name": "shut", "arguments": {}}\n</tool_call>'
USER = "<|im_start|>user\nplease<|im_end|>\n"


def call(name: str, **arguments: object) -> Call:
    return Call(name=name, arguments=arguments, start=0, end=0)


def result(tool: str, result: str, **arguments: object) -> ScriptedResult:
    return ScriptedResult(tool=tool, arguments=arguments, result=result)


def assistant(text: str, end: str = "<|im_end|>") -> str:
    return f"<|im_start|>assistant\n{text}{end}\n"


def tool(text: str) -> str:
    return f"<|im_start|>tool\n{text}<|im_end|>\n"


def recorded(text: str) -> list[tuple[str, dict, str]]:
    return [(one.tool, one.arguments, one.result) for one in recorded_results(text, "hermes", CHAT)]


class TestAnswer:
    environment = Environment(
        name="e", windows=("w",), results=(result("open", "opened", port=1),), otherwise="error: no such call"
    )

    def test_each_call_has_its_answer_in_order(self):
        calls = [call("shut"), call("open", port=1.0), call("open", port=True), call("open", port="1")]
        other = "error: no such call"
        assert answer(self.environment, (), calls) == (other, "opened", other, other)

    def test_recorded_results_count_where_the_environment_says_so(self):
        of_text = [result("shut", "shut it"), result("open", "recorded", port=1)]
        assert answer(self.environment, of_text, [call("shut")]) == ("error: no such call",)
        environment = self.environment.model_copy(update={"recorded": True})
        # What the protocol writes itself comes before what a stream happens to hold.
        assert answer(environment, of_text, [call("shut"), call("open", port=1)]) == ("shut it", "opened")

    def test_of_two_equal_calls_the_first_counts(self):
        environment = self.environment.model_copy(update={"recorded": True})
        assert answer(environment, [result("a", "one"), result("a", "two")], [call("a"), call("a")]) == ("one", "one")

    def test_no_calls_no_answers(self):
        assert answer(self.environment, (), []) == ()

    def test_the_environment_of_a_window(self, make_protocol):
        protocol = make_protocol(
            {"w": ("A", "d", [(1, 9)]), "v": ("A", "e", [(1, 9)])}, environments=[self.environment]
        )
        assert environment_of(protocol, "w") == self.environment and environment_of(protocol, "v") is None


class TestRecorded:
    def test_a_call_and_what_stands_behind_it(self):
        text = USER + assistant(f"Right away.\n{OPEN}") + tool('{"ok": true}') + assistant("Done.")
        assert recorded(text) == [("open", {"port": 1, "host": "a"}, '{"ok": true}')]

    def test_several_calls_are_answered_by_as_many_lines(self):
        text = USER + assistant(f"{OPEN}\n{SHUT}") + tool("first\nsecond") + assistant("Done.")
        assert [(name, text) for name, _, text in recorded(text)] == [("open", "first"), ("shut", "second")]

    def test_or_by_as_many_turns(self):
        text = USER + assistant(f"{OPEN}\n{SHUT}") + tool("first\nline") + tool("second") + assistant("Done.")
        assert [(name, text) for name, _, text in recorded(text)] == [("open", "first\nline"), ("shut", "second")]

    def test_one_call_may_have_many_lines(self):
        assert recorded(assistant(SHUT) + tool("a\n\nb") + assistant("."))[0][2] == "a\n\nb"

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "plain text",
            USER + assistant(OPEN),
            USER + assistant("No tool fits.") + tool("nothing") + assistant("."),
            USER + assistant(OPEN) + USER + assistant("."),
            USER + assistant(OPEN[:-3]) + tool("x") + assistant("."),
            USER + assistant(f"{OPEN}\n{SHUT}") + tool("one line") + assistant("."),
            USER + assistant(f"{OPEN}\n{SHUT}") + tool("one\ntwo\nthree") + assistant("."),
            USER + assistant(OPEN) + tool("x") + USER + assistant("."),  # the user speaks in between
            USER + assistant(OPEN, end="") + tool("x") + assistant("."),  # no end of the turn
        ],
    )
    def test_what_nobody_can_attribute_is_left_out(self, text):
        assert recorded(text) == []

    def test_any_end_of_a_turn_counts(self):
        assert recorded(assistant(SHUT, end="<|endoftext|>") + tool("x") + assistant("."))[0][2] == "x"

    def test_results_in_the_order_of_the_text(self):
        text = assistant(SHUT) + tool("one") + assistant(OPEN) + tool("two") + assistant(SHUT) + tool("three")
        assert [one[2] for one in recorded(text)] == ["one", "two", "three"]

    def test_values_have_the_types_of_their_tools(self):
        turn = "<tool_call>\n<function=open>\n<parameter=port>\n1\n</parameter>\n</function>\n</tool_call>"
        text = assistant(turn) + tool("x") + assistant(".")
        schema = {"name": "open", "parameters": {"type": "object", "properties": {"port": {"type": "integer"}}}}
        (typed,) = recorded_results(text, "qwen3-coder", CHAT, tools=[schema])
        assert typed.arguments == {"port": 1}
