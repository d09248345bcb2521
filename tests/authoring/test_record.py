"""Recording with a real engine and a tiny model: through the command, as a user runs it."""

from __future__ import annotations

from pathlib import Path

import pytest

from drift_runs.cli.main import main
from drift_runs.protocol.freeze import freeze
from drift_runs.protocol.load import load_protocol
from drift_runs.protocol.model import Stream
from drift_runs.protocol.streams import decode_text
from tests.authoring.test_recipe import RECIPE
from tests.tiny_model import write_tiny_model

pytest.importorskip("xllamacpp")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("model") / "f16.gguf")


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    (tmp_path / "sources").mkdir()
    (tmp_path / "sources" / "first.txt").write_text("title\n%% range prose body\nhello there\n%% end\n", "utf-8")
    (tmp_path / "sources" / "second.txt").write_text("once upon\n%% generate\n", "utf-8")
    path = tmp_path / "tiny.recipe.toml"
    path.write_text(RECIPE, "utf-8")
    return path


def stream(path: Path) -> Stream:
    return Stream.model_validate_json(path.read_bytes())


def change(recipe: Path, old: str, new: str) -> None:
    text = recipe.read_text("utf-8")
    assert old in text
    recipe.write_text(text.replace(old, new), "utf-8")


def test_it_writes_streams_and_a_draft_that_loads_and_freezes(
    recipe: Path, model: Path, tiny_dictionary: list[bytes]
) -> None:
    assert main(["record", str(recipe), "--model", str(model)]) == 0
    loaded = load_protocol(recipe.with_name("tiny.toml"))
    first, second = loaded.protocol.windows
    assert (first.scored, second.scored) == (((6, 18),), ((9, 39),))
    assert [(item.kind, item.start, item.end) for item in loaded.protocol.ranges] == [
        ("prose", 6, 18),
        ("prose", 9, 39),
    ]
    assert loaded.protocol.dictionary.size == len(tiny_dictionary)
    written = stream(recipe.parent / "streams" / "second.json")
    assert (written.source, written.prompt_tokens) == ("generated", 9)
    assert written.text.startswith("once upon")
    assert written.text == decode_text(written.tokens, tiny_dictionary)
    assert 1 not in written.tokens  # the end token was masked
    assert written.recorded["mode"] == "sampled"
    assert written.recorded["seed"] == 3
    assert len(str(written.recorded["weights_sha256"])) == 64
    freeze(recipe.with_name("tiny.toml"))


def test_recording_again_gives_the_same_bytes_and_another_seed_gives_others(recipe: Path, model: Path) -> None:
    def bytes_of(folder: str) -> dict[str, bytes]:
        out = recipe.parent / folder
        assert main(["record", str(recipe), "--model", str(model), "--out", str(out)]) == 0
        return {path.name: path.read_bytes() for path in out.iterdir()}

    one, two = bytes_of("one"), bytes_of("two")
    assert one == two
    change(recipe, "seed = 3", "seed = 4")
    three = bytes_of("three")
    assert three["first.json"] == one["first.json"]
    assert three["second.json"] != one["second.json"]
    assert not recipe.with_name("tiny.toml").exists()


def test_one_window_alone_leaves_the_others_and_what_a_person_wrote(recipe: Path, model: Path) -> None:
    assert main(["record", str(recipe), "--model", str(model)]) == 0
    draft = recipe.with_name("tiny.toml")
    draft.write_text(draft.read_text("utf-8") + "\n# a remark\n[bands]\nstrong_from = 0.8\n", "utf-8")
    first = (recipe.parent / "streams" / "first.json").read_bytes()
    change(recipe, "tokens = 30", "tokens = 20")
    assert main(["record", str(recipe), "--model", str(model), "--only", "second"]) == 0
    assert load_protocol(draft).protocol.windows[1].scored == ((9, 29),)
    assert "# a remark\n[bands]\nstrong_from = 0.8\n" in draft.read_text("utf-8")
    assert (recipe.parent / "streams" / "first.json").read_bytes() == first


def test_a_frozen_protocol_is_not_written_to(recipe: Path, model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["record", str(recipe), "--model", str(model)]) == 0
    freeze(recipe.with_name("tiny.toml"))
    before = {path: path.read_bytes() for path in recipe.parent.rglob("*") if path.is_file()}
    assert main(["record", str(recipe), "--model", str(model)]) == 2
    assert "the protocol is frozen" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in recipe.parent.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("temperature = 1.0, seed = 3", "temperature = 0.0", "the range repeats itself"),
        ('source = "second.txt"', 'source = "first.txt"', "disagree on who writes the text"),
        ("context_tokens = 96", "context_tokens = 24", "fit"),
        ("tokens = 30", "at_least = 40, tokens = 30", "wrote 30 tokens"),
    ],
)
def test_what_must_not_be_recorded_is_refused(
    recipe: Path, model: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, message: str
) -> None:
    change(recipe, old, new)
    assert main(["record", str(recipe), "--model", str(model)]) in (2, 5)
    assert message in capsys.readouterr().err
    assert not recipe.with_name("tiny.toml").exists()


def test_a_model_that_is_not_there_is_named_as_the_option_it_is(recipe: Path, capsys: pytest.CaptureFixture) -> None:
    assert main(["record", str(recipe), "--model", "none.gguf"]) == 5
    assert "--model: none.gguf: no such file" in capsys.readouterr().err


def test_an_unknown_window_is_named_with_the_nearest(
    recipe: Path, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["record", str(recipe), "--model", str(model), "--only", "secnd"]) == 2
    assert "second" in capsys.readouterr().err
