"""docs/protocol.md is true to the code."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest

from drift_runs.authoring.recipe import Generate, Recipe, RecipeWindow, load_recipe
from drift_runs.authoring.source import render
from drift_runs.generate.answer_forms import form_problem
from drift_runs.protocol import generation, model
from drift_runs.protocol.load import load_followups, load_protocol
from drift_runs.protocol.lock import Lock
from tests.conftest import TINY, copy_tiny

TEXT = (Path(__file__).parents[2] / "docs" / "protocol.md").read_text("utf-8")
MODELS = [
    kind
    for kind in (*vars(model).values(), *vars(generation).values())
    if isinstance(kind, type) and issubclass(kind, model.Part) and kind is not model.Part
]


@pytest.mark.parametrize("kind", [*MODELS, Lock, Recipe, RecipeWindow, Generate], ids=lambda kind: kind.__name__)
def test_every_key_is_described(kind):
    described = {name.rpartition(".")[2] for name in re.findall(r"`\[{0,2}([a-z0-9_.]+)\]{0,2}`", TEXT)}
    assert {field.alias or name for name, field in kind.model_fields.items()} <= described


def test_every_choice_is_described():
    for choice in (*model.RANGE_KINDS, *model.KVType.__args__, "prefill", "decode", "identical", "differ", "report"):
        assert f"`{choice}`" in TEXT


def test_the_example_is_a_sound_protocol(tmp_path):
    path = copy_tiny(tmp_path)
    examples = re.findall(r"```toml\n(.*?)```", TEXT, re.DOTALL)
    path.write_text(examples[0], "utf-8")
    assert load_protocol(path).protocol.name == "tiny"


def test_the_recipe_and_its_source_are_sound(tmp_path):
    section = TEXT.partition("\n## Recipes\n")[2].partition("\n## ")[0]
    recipe, source, answered = re.findall(r"```(?:toml)?\n(.*?)```", section, re.DOTALL)
    path = tmp_path / "mine.recipe.toml"
    path.write_text(recipe, "utf-8")
    (window,) = load_recipe(path).windows
    text = tmp_path / window.source
    text.write_text(source, "utf-8")
    (mark,) = render(text).marks
    assert (mark.kind, mark.name) == ("prose", "letter-text") and mark.start > 0
    (tmp_path / "tools").mkdir()
    schema = {"type": "object", "properties": {"port": {"type": "integer"}, "host": {"type": "string"}}}
    tool = {"type": "function", "function": {"name": "open_port", "parameters": schema}}
    (tmp_path / "tools" / "open_port.json").write_text(json.dumps(tool), "utf-8")
    text.write_text(answered, "utf-8")
    rendered = render(text)
    (answer,) = rendered.answers
    reply = rendered.text.encode()[answer.start : answer.end].decode().removesuffix("<|im_end|>")
    assert form_problem(answer.kind, reply, rendered.tools) == ""


def test_the_amendment_and_the_followups_fit_the_tiny_protocol(tmp_path):
    loaded = load_protocol(TINY / "tiny.toml")
    *_, amendment, followups = re.findall(r"```toml\n(.*?)```", TEXT, re.DOTALL)
    assert tomllib.loads(amendment)["supersedes"]["sha256"] == loaded.protocol_sha256
    model.Supersedes.model_validate(tomllib.loads(amendment)["supersedes"])
    path = tmp_path / "more.toml"
    path.write_text(followups, "utf-8")
    assert [arm.name for arm in load_followups(path, loaded)] == ["kv-bf16"]


@pytest.mark.parametrize(
    ("heading", "kind"),
    [("### `[capture]`", model.Capture), ("### `[intervals]`", model.Intervals), ("### `[[arms]]`", model.Arm)],
)
def test_the_defaults_are_those_of_the_code(heading, kind):
    section = TEXT.partition(heading)[2].partition("\n#")[0]
    rows = re.findall(r"^\| `(\w+)` \| *([^|]*?) *\|", section, re.MULTILINE)
    assert [key for key, _ in rows] == list(kind.model_fields)
    for key, said in rows:
        field = kind.model_fields[key]
        if field.is_required():
            assert said == ""
        elif isinstance(field.default, (str, int, float)):
            assert said.strip("`") == (str(field.default) or "empty")
