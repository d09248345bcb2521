"""The forms of answers, and the text of an answer from its stream."""

from __future__ import annotations

import pytest

from drift_runs.generate.answer_forms import answer_text, form_problem
from drift_runs.protocol.model import STREAM_SCHEMA, Answer, Stream
from tests.generate.test_tools import block, tool

TOOLS = [tool("open", port={"type": "integer"})]
ONE = block("open", {"port": 1})


@pytest.mark.parametrize(
    ("form", "text", "problem"),
    [
        ("call", ONE, ""),
        ("call", f"{ONE}\n{ONE}", ""),
        ("call", "Which port?", "no tool call"),
        ("call", f"I open it.\n{ONE}", "text beside the calls, before call 1"),
        ("call", f"{ONE}{ONE}", "text beside the calls, before call 2"),
        ("call", f"{ONE}\n", "text behind the last call"),
        ("call", ONE[:-3], "malformed at character 0: the text ends inside the call"),
        ("call", f"{ONE}\n{block('open', {'port': '1'})}", "call 2 fits no schema: argument port"),
        ("call", block("shut", {}), "call 1 fits no schema: no tool 'shut' among open"),
        ("json", '{"a": 1}', ""),
        ("json", '{"a": 1,}', "no JSON"),
        ("json", '{"a": 1, "a": 1}', "given twice"),
        ("text", "<tool_call>", ""),
    ],
)
def test_forms(form: str, text: str, problem: str) -> None:
    found = form_problem(form, text, TOOLS)
    assert (problem in found) if problem else (found == "")


def chat(text: str, tokens: list[int]) -> Stream:
    return Stream(schema_=STREAM_SCHEMA, name="a", tokens=tokens, text=text, source="authored")


def answer(start: int, end: int) -> Answer:
    return Answer.model_validate({"name": "a", "window": "w", "from": start, "to": end, "form": "text"})


def test_the_text_of_an_answer_is_its_turn() -> None:
    # One id a word; 9 ends a turn.
    stream = chat(
        "<|im_start|>user\nping<|im_end|>\n<|im_start|>assistant\npong\ntwice<|im_end|>\n"
        "<|im_start|>user\nmore<|im_end|>\n<|im_start|>assistant\nno<|im_end|>\n",
        [1, 2, 3, 4, 9, 3, 1, 5, 3, 6, 3, 7, 9, 3, 1, 2, 3, 8, 9, 3, 1, 5, 3, 10, 9, 3],
    )
    assert answer_text(stream, answer(9, 13)) == "pong\ntwice"
    assert answer_text(stream, answer(23, 25)) == "no"
    assert answer_text(stream, answer(3, 5)) is None  # the user's turn
    assert answer_text(stream, answer(9, 12)) is None  # ends with no end of turn
    assert answer_text(stream, answer(9, 99)) is None


def test_a_text_without_turns_gives_no_answer() -> None:
    assert answer_text(chat("plain", [1, 2, 3]), answer(1, 3)) is None
