"""Expected answers: recorded, held against their form and against the reference, through the command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from drift_runs.cli.main import main
from drift_runs.protocol.freeze import freeze
from drift_runs.protocol.load import load_protocol
from drift_runs.protocol.model import Stream
from tests.authoring.bigram_model import write_bigram_model

pytest.importorskip("xllamacpp")

RECIPE = """
schema = "drift.recipe/1"
protocol = "chat"
title = "Chat"
question = "Which?"
sources = "sources"
streams = "streams"
context_tokens = 256

[[panels]]
name = "P-A"
title = "Authored"
role = "prompt"

[[panels]]
name = "P-T"
title = "Tasks"
role = "generated"

[[windows]]
name = "chat"
panel = "P-T"
document = "chat"
title = "Two answers"
source = "chat.txt"
"""
CHAT = """%% system
Be short.
%% range json numbers
%% user
one
%% answer json first
%% assistant
[1]
%% user
again
%% answer text second
%% assistant
[1]
%% end
"""
PASSES = {b"\n": b"[", b"[": b"1", b"1": b"]", b"]": b"<|im_end|>"}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_bigram_model(tmp_path_factory.mktemp("model") / "f16.gguf", PASSES)


def write(folder: Path, *, chat: str = CHAT, recipe: str = RECIPE) -> Path:
    (folder / "sources").mkdir()
    (folder / "sources" / "chat.txt").write_text(chat, "utf-8")
    path = folder / "chat.recipe.toml"
    path.write_text(recipe, "utf-8")
    return path


def test_answers_that_the_reference_passes_are_what_is_scored(tmp_path: Path, model: Path) -> None:
    recipe = write(tmp_path)
    assert main(["record", str(recipe), "--model", str(model)]) == 0
    loaded = load_protocol(recipe.with_name("chat.toml"))
    protocol = loaded.protocol
    stream = loaded.streams["chat"]
    first, second = protocol.answers
    assert [(one.name, one.form, one.window) for one in (first, second)] == [
        ("first", "json", "chat"),
        ("second", "text", "chat"),
    ]
    # One id a character, 0 and 1 for the ends of a turn.
    text = stream.text.replace("<|im_start|>", "\0").replace("<|im_end|>", "\1")
    assert text[first.start : first.end] == text[second.start : second.end] == "[1]\1"
    assert protocol.windows[0].scored == ((first.start, first.end), (second.start, second.end))
    (only,) = protocol.ranges
    assert (only.kind, only.start, only.end) == ("json", first.start, second.end)
    assert (stream.source, stream.prompt_tokens, stream.recorded["mode"]) == ("generated", first.start, "passed")
    assert len(str(stream.recorded["weights_sha256"])) == 64
    assert main(["check", str(recipe.with_name("chat.toml"))]) == 0
    freeze(recipe.with_name("chat.toml"))


SECOND = """
[[windows]]
name = "other"
panel = "P-T"
document = "other"
title = "One answer"
source = "other.txt"
"""


def test_recording_one_window_again_keeps_the_answers_of_another(tmp_path: Path, model: Path) -> None:
    recipe = write(tmp_path, recipe=RECIPE + SECOND)
    other = "%% range json more\n%% user\n2\n%% answer json third\n%% assistant\n[1]\n%% end\n"
    (tmp_path / "sources" / "other.txt").write_text(other, "utf-8")
    assert main(["record", str(recipe), "--model", str(model)]) == 0
    draft = recipe.with_name("chat.toml")
    before = draft.read_text("utf-8")
    assert main(["record", str(recipe), "--model", str(model), "--only", "other"]) == 0
    assert draft.read_text("utf-8") == before
    assert [one.name for one in load_protocol(draft).protocol.answers] == ["first", "second", "third"]


def test_windows_of_two_references_are_not_mixed(
    tmp_path: Path, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = write(tmp_path, recipe=RECIPE + SECOND)
    other = "%% range json more\n%% user\n2\n%% answer json third\n%% assistant\n[1]\n%% end\n"
    (tmp_path / "sources" / "other.txt").write_text(other, "utf-8")
    assert main(["record", str(recipe), "--model", str(model)]) == 0
    draft = recipe.with_name("chat.toml")
    before = draft.read_text("utf-8")
    another = write_bigram_model(tmp_path / "another.gguf", PASSES | {b"z": b"z"})
    assert main(["record", str(recipe), "--model", str(another), "--only", "other"]) == 2
    message = capsys.readouterr().err
    assert "chat.json: it was recorded with other weights" in message
    assert "without --only" in message
    assert draft.read_text("utf-8") == before


def test_a_recording_that_is_refused_halfway_changes_nothing(tmp_path: Path, model: Path) -> None:
    recipe = write(tmp_path, recipe=RECIPE + SECOND)
    other = tmp_path / "sources" / "other.txt"
    other.write_text("%% range json more\n%% user\n2\n%% answer json third\n%% assistant\n[1]\n%% end\n", "utf-8")
    assert main(["record", str(recipe), "--model", str(model)]) == 0
    files = [recipe.with_name("chat.toml"), *sorted((tmp_path / "streams").iterdir())]
    before = [file.read_bytes() for file in files]
    (tmp_path / "sources" / "chat.txt").write_text(CHAT.replace("Be short.", "Be very short."), "utf-8")
    other.write_text(other.read_text("utf-8").replace("[1]", "[2]"), "utf-8")
    assert main(["record", str(recipe), "--model", str(model)]) == 2
    assert [file.read_bytes() for file in files] == before


def test_a_miss_is_named_with_its_answer_position_and_both_tokens(
    tmp_path: Path, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = write(tmp_path, chat=CHAT.replace("[1]\n%% end", "[2]\n%% end"))
    assert main(["record", str(recipe), "--model", str(model)]) == 2
    message = capsys.readouterr().err
    assert "window chat, answer second: the reference does not pass it: at position" in message
    assert "it says b'1'" in message
    assert "expected b'2'" in message
    assert not recipe.with_name("chat.toml").exists()


def test_a_tie_goes_to_the_lowest_id(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ties = write_bigram_model(tmp_path / "ties.gguf", {key: PASSES[key] for key in (b"\n", b"[", b"1")})
    assert main(["record", str(write(tmp_path)), "--model", str(ties)]) == 2
    assert "it says b'<|im_start|>' (0); expected b'<|im_end|>' (1)" in capsys.readouterr().err


def test_an_authored_text_may_expect_what_the_reference_does_not_say(tmp_path: Path, model: Path) -> None:
    told = RECIPE.replace('panel = "P-T"', 'panel = "P-A"')
    recipe = write(tmp_path, chat=CHAT.replace("[1]", "[2]"), recipe=told + "must_pass = false\n")
    assert main(["record", str(recipe), "--model", str(model)]) == 0
    loaded = load_protocol(recipe.with_name("chat.toml"))
    assert loaded.streams["chat"].source == "authored"
    assert loaded.streams["chat"].prompt_tokens == 0
    assert len(loaded.protocol.answers) == 2
    recipe.write_text(told, "utf-8")
    assert main(["record", str(recipe), "--model", str(model)]) == 2


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[1]", "[1", "answer first: no JSON"),
        ("%% answer json first\n", "%% answer call first\n", "answer first: no tool call"),
        ("[1]", "[1]" * 12, "the range repeats itself"),
        ("%% answer json first\n", "", "context"),
    ],
)
def test_what_must_not_be_recorded_is_refused(
    tmp_path: Path, model: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, message: str
) -> None:
    recipe = write(tmp_path, chat=CHAT.replace(old, new))
    if message == "context":
        recipe.write_text(RECIPE.replace("context_tokens = 256", "context_tokens = 32"), "utf-8")
    assert main(["record", str(recipe), "--model", str(model)]) in (2, 5)
    assert message in capsys.readouterr().err
    assert not recipe.with_name("chat.toml").exists()


def test_a_panel_of_the_reference_takes_no_text_that_it_did_not_write(
    tmp_path: Path, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = write(tmp_path, chat="title\n%% range prose body\nwords\n%% end\n")
    assert main(["record", str(recipe), "--model", str(model)]) == 2
    assert "the reference writes nothing in range 'body'" in capsys.readouterr().err


def test_calls_are_held_against_the_schemas_that_the_source_names(
    tmp_path: Path, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    body = '<tool_call>\n{"name": "open", "arguments": {"port": 1}}\n</tool_call>'
    chat = (
        f"%% range tool-call calls\n%% schemas open\n%% user\nopen 1\n%% answer call a\n%% assistant\n{body}\n%% end\n"
    )
    recipe = write(tmp_path, chat=chat, recipe=RECIPE.replace('panel = "P-T"', 'panel = "P-A"') + "must_pass = false\n")
    (tmp_path / "sources" / "tools").mkdir()
    file = tmp_path / "sources" / "tools" / "open.json"
    for kind, code in (("integer", 0), ("string", 2)):
        schema = {"type": "object", "properties": {"port": {"type": kind}}, "required": ["port"]}
        file.write_text(json.dumps({"type": "function", "function": {"name": "open", "parameters": schema}}), "utf-8")
        assert main(["record", str(recipe), "--model", str(model)]) == code
    assert "answer a: call 1 fits no schema: argument port: 1 is not of type 'string'" in capsys.readouterr().err
    stream = Stream.model_validate_json((tmp_path / "streams" / "chat.json").read_bytes())
    assert [tool["function"]["name"] for tool in stream.tools] == ["open"]
