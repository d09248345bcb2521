"""Fenced blocks as far as a text goes."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drift_runs.generate.code_blocks import Block, block_at, open_block, unfenced


def test_a_block_has_a_language_a_body_and_an_end() -> None:
    text = "Run:\n```sql title=x\nSELECT 1;\n```\nthen"
    block = block_at(text, 5)
    assert block == Block(start=5, language="sql", body="SELECT 1;\n", end=text.index("\nthen"))
    assert open_block(text) is None


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("```Python\nx", "python"),
        ("~~~\nx", ""),
        ("````md\n```\nx\n```\n", "md"),
        ("```\n~~~\n", ""),
        ("1. do\n   ```sh\n   ls", "sh"),
        ("```a\nb\n```\n```c\n", "c"),
        ("```sql\r\nSELECT 1\r\n", "sql"),
        ("```x\n``` y\n", "x"),
        ("```{r}\n", ""),
        ("~~~a`b\n", "a"),
        ("~~~ sql `x` ~~~\n```\n", "sql"),
    ],
)
def test_a_block_is_open_until_as_many_marks_stand_alone(text: str, language: str) -> None:
    block = open_block(text)
    assert block is not None
    assert (block.language, block.end) == (language, None)


@pytest.mark.parametrize(
    "text", ["", "```", "```py", "a ```x\n", "```x``` y\n", "``\n", "``x`y\n", "```a\nb\n```", "```a\n```\n"]
)
def test_nothing_is_open(text: str) -> None:
    assert open_block(text) is None


def test_the_indentation_of_the_fence_is_no_part_of_the_body() -> None:
    text = "  ```py\n  if a:\n      b\n c\n  ```\n"
    block = block_at(text, 0)
    assert block is not None
    assert block.body == "if a:\n    b\nc\n"
    assert block.end == len(text) - 1


def test_marks_that_end_the_text_close_the_block_at_once() -> None:
    text = "```sh\nls\n```"
    for length in range(len("```sh\n"), len(text)):
        block = block_at(text[:length], 0)
        assert block is not None
        assert block.end is None
    for behind in ("", "\n", " \n", "\r\n", "\nmore\n```\n"):
        block = block_at(text + behind, 0)
        assert block is not None
        assert block.end == len(text)


def test_what_looks_like_a_fence_in_a_call_is_none() -> None:
    text = "<x>\n```py\n</x>\n```sh\nls"
    block = open_block(text, [(0, text.index("```sh"))])
    assert block is not None
    assert block.language == "sh"
    assert open_block(text[: text.index("```sh")], [(0, 15)]) is None


def test_a_fence_in_a_list_opens_a_block_and_is_no_answer() -> None:
    """How far a fence may be indented is all that the two readings differ in."""
    deep, shallow = "1. so\n    ```sql\n    SELECT 1\n    ```\n", "1. so\n   ```sql\n   SELECT 1\n   ```\n"
    for text in (deep, shallow):
        found = block_at(text, text.index("\n") + 1)
        assert found is not None and (found.language, found.body) == ("sql", "SELECT 1\n")
    assert unfenced(deep) == deep
    assert unfenced(shallow) == "   SELECT 1"
    # A fence of code that is indented by four does not close the block either.
    assert unfenced("```\na\n    ```\nb\n```") == "a\n    ```\nb"


@settings(deadline=None)
@given(st.text("`~\n a", max_size=40))
def test_one_reading_closes_what_the_other_closes(text: str) -> None:
    """Where no line is indented, a whole block that opens a text and leaves nothing behind it is the answer."""
    lines = "\n".join(line.lstrip(" ") for line in text.split("\n"))
    block = block_at(lines, 0)
    if block is not None and block.end == len(lines):
        assert unfenced(lines) + ("\n" if block.body else "") == block.body


@settings(deadline=None)
@given(st.text("`~\n a", max_size=40))
def test_the_open_block_is_one_that_does_not_end(text: str) -> None:
    block = open_block(text)
    if block is not None:
        assert block_at(text, block.start) == block
        assert block.end is None
        marks = text[block.start :].lstrip(" \t")
        fence = marks[: len(marks) - len(marks.lstrip(marks[0]))]
        assert open_block(f"{text}\n{fence}") is None


def test_time_is_linear() -> None:
    begun = time.process_time()
    for text in ("```\n" * 50_000, "```x\n" * 50_000, "`" * 200_000, "```\n" + "~~~\n" * 50_000, " " * 200_000):
        open_block(text)
        unfenced(text)
    fences = "~~~x\n" * 50_000
    open_block(fences, [(at, at + 4) for at in range(0, len(fences), 5)])
    assert time.process_time() - begun < 5
