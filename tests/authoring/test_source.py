"""Source texts: directives go, text stays to the letter, marks are byte offsets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from drift_runs.authoring.source import Mark, render
from drift_runs.errors import ProtocolError


def write(folder: Path, text: str, name: str = "text.txt") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_plain_text_keeps_every_character_and_marks_bytes(tmp_path: Path) -> None:
    source = write(tmp_path, "Überschrift\n%% range prose body\n  two  spaces\n\nend\n%% end\n")
    rendered = render(source)
    assert rendered.text == "Überschrift\n  two  spaces\n\nend\n"
    assert rendered.marks == (Mark("prose", "body", 13, 32),)  # Ü is two bytes
    assert rendered.text.encode()[13:32].decode() == "  two  spaces\n\nend\n"
    assert not rendered.prompt_only


def test_chat_turns_follow_the_template_and_an_end_after_close_holds_the_end_token(tmp_path: Path) -> None:
    source = write(tmp_path, "%% user\nping\n%% assistant\n%% range cli answer\npong\n%% close\n%% end\n")
    rendered = render(source)
    assert rendered.text == "<|im_start|>user\nping<|im_end|>\n<|im_start|>assistant\npong<|im_end|>\n"
    (mark,) = rendered.marks
    assert rendered.text.encode()[mark.start : mark.end] == b"pong<|im_end|>\n"


def test_an_empty_turn_keeps_the_newline_of_its_head(tmp_path: Path) -> None:
    source = write(tmp_path, "%% system\n%% user\nhello\n%% assistant\n%% generate\n")
    assert render(source).text == (
        "<|im_start|>system\n<|im_end|>\n<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n"
    )


def test_a_prompt_ends_without_the_newline_before_generate(tmp_path: Path) -> None:
    rendered = render(write(tmp_path, "-- the best customers\n%% generate\nnever read\n"))
    assert (rendered.text, rendered.prompt_only) == ("-- the best customers", True)


def test_tools_become_one_line_of_json_and_are_kept_parsed(tmp_path: Path) -> None:
    tool = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "look.json").write_text(json.dumps(tool, indent=2), encoding="utf-8")
    rendered = render(write(tmp_path, "%% system\nTools:\n%% tools look\n%% user\n%% generate\n"))
    assert rendered.tools == (tool,)
    assert json.dumps(tool) in rendered.text.split("\n")[2]


def test_schemas_are_kept_without_text_and_a_file_may_hold_several(tmp_path: Path) -> None:
    tools = [{"type": "function", "function": {"name": name, "parameters": {}}} for name in ("look", "wait")]
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "both.json").write_text(json.dumps(tools), encoding="utf-8")
    rendered = render(write(tmp_path, "%% system\nTools: look, wait\n%% schemas both\n%% user\n%% generate\n"))
    assert rendered.tools == tuple(tools)
    assert rendered.text == "<|im_start|>system\nTools: look, wait<|im_end|>\n<|im_start|>user\n"


def test_two_schemas_of_one_name_are_both_kept_and_one_that_comes_twice_once(tmp_path: Path) -> None:
    old, new = ({"function": {"name": "look", "parameters": {"required": [key]}}} for key in ("at", "target_at"))
    (tmp_path / "tools").mkdir()
    for name, content in (("old", old), ("both", [old, new])):
        (tmp_path / "tools" / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
    assert render(write(tmp_path, "%% schemas old both\nlook\n%% generate\n")).tools == (old, new)


CHAT = """%% system
Be short.
%% range json both
%% user
one
%% answer json first
%% assistant
[1]
%% user
two
%% assistant
not an answer
%% user
three
%% answer text second
%% assistant
pong
more
%% close
%% end
behind
"""


def test_an_answer_is_a_turns_body_with_its_end_token_and_the_range_goes_from_the_first_to_the_last(
    tmp_path: Path,
) -> None:
    rendered = render(write(tmp_path, CHAT))
    data = rendered.text.encode()
    assert [(one.kind, one.name) for one in rendered.answers] == [("json", "first"), ("text", "second")]
    assert [data[one.start : one.end] for one in rendered.answers] == [b"[1]<|im_end|>", b"pong\nmore<|im_end|>"]
    assert rendered.marks == (Mark("json", "both", rendered.answers[0].start, rendered.answers[1].end),)
    assert rendered.text.endswith("<|im_start|>assistant\npong\nmore<|im_end|>\nbehind\n")


def test_the_end_of_a_range_closes_the_turn_of_an_answer(tmp_path: Path) -> None:
    closed = render(write(tmp_path, CHAT))
    assert render(write(tmp_path, CHAT.replace("%% close\n", ""))) == closed


def test_a_range_without_answers_beside_one_with_them_keeps_its_edges(tmp_path: Path) -> None:
    rendered = render(write(tmp_path, CHAT + "%% range prose rest\nall of it\n%% end\n"))
    assert rendered.text.encode()[rendered.marks[1].start : rendered.marks[1].end] == b"all of it\n"


def test_include_takes_a_text_up_to_a_label_without_its_ranges(tmp_path: Path) -> None:
    whole = write(
        tmp_path,
        "%% user\nask\n%% assistant\n%% range cli one\nfirst\n%% end\n"
        "%% tool\nresult\n%% assistant\n%% label here\nlast\n",
        "whole.txt",
    )
    part = write(tmp_path, "%% include whole.txt to here\nI see.\n%% generate\n", "part.txt")
    rendered = render(part)
    assert rendered.text.endswith("<|im_start|>tool\nresult<|im_end|>\n<|im_start|>assistant\nI see.")
    assert render(whole).text.startswith(rendered.text.removesuffix("I see."))
    assert rendered.marks == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("%% range poem a\nx\n%% end\n", r"text\.txt, line 1: unknown range kind 'poem'; expected one of prose, code"),
        ("a\n%% range code a\n%% range code b\n", "line 3: range 'a' is still open"),
        ("a\n%% range code a\nb\n", "range 'a' is not closed"),
        ("a\n%% end\n", "line 2: no range is open"),
        ("a\n%% close\n", "line 2: no turn is open"),
        ("a\n", "nothing is scored"),
        ("%% narrator\n", "unknown directive 'narrator'; expected one of system, user"),
        ("%% tools missing\n", "no tool 'missing'"),
        ("a\n%% range code a\nb\n%% end\n%% generate\n", "a prompt has no ranges of its own"),
        ("a\n%% include text.txt to b\n", "an include must come first"),
        ("%% answer text a\n%% assistant\nx\n", "line 1: no range is open"),
        ("%% range cli r\n%% answer txt a\n", "line 2: unknown form 'txt'; expected one of call, json, text"),
        ("%% range cli r\n%% answer text a\n%% user\n", "line 3: answer 'a' has no turn"),
        ("%% range cli r\n%% answer text a\nwords\n", "line 3: answer 'a' has no turn"),
        ("%% range cli r\n%% answer text a\n", "answer 'a' has no turn"),
    ],
)
def test_faults_name_file_and_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ProtocolError, match=message):
        render(write(tmp_path, text))


def test_a_missing_file_and_a_missing_label_are_named(tmp_path: Path) -> None:
    with pytest.raises(ProtocolError, match=r"gone\.txt: no such file"):
        render(tmp_path / "gone.txt")
    with pytest.raises(ProtocolError, match="no label 'there'"):
        render(write(tmp_path, "a\n"), until="there")
