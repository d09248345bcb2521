"""A recipe is checked as it is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from drift_runs.authoring.recipe import load_recipe
from drift_runs.errors import ProtocolError

RECIPE = """
schema = "drift.recipe/1"
protocol = "tiny"
title = "Tiny"
question = "Which?"
sources = "sources"
streams = "streams"
context_tokens = 96

[[panels]]
name = "P-A"
title = "Authored"
role = "prompt"

[[panels]]
name = "P-B"
title = "Generated"
role = "generated"

[[windows]]
name = "first"
panel = "P-A"
document = "one"
title = "First"
source = "first.txt"

[[windows]]
name = "second"
panel = "P-B"
document = "two"
title = "Second"
source = "second.txt"
generate = { kind = "prose", range = "written", tokens = 30, temperature = 1.0, seed = 3, end_tokens = "masked" }
"""


def load(folder: Path, old: str = "", new: str = ""):
    assert old in RECIPE
    path = folder / "tiny.recipe.toml"
    path.write_text(RECIPE.replace(old, new, 1) if old else RECIPE, encoding="utf-8")
    return load_recipe(path)


def test_a_recipe(tmp_path: Path) -> None:
    recipe = load(tmp_path)
    first, second = recipe.windows
    assert first.generate is None
    assert second.generate is not None
    assert (second.generate.kind, second.generate.seed, second.generate.top_p) == ("prose", 3, 1.0)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('kind = "prose"', 'kind = "poem"', r"windows\[1\]\.generate\.kind of 'second': 'poem' is not allowed"),
        ("temperature = 1.0", "temprature = 1.0", r"unknown key 'temprature'; .*did you mean 'temperature'"),
        ("tokens = 30", "tokns = 30", "unknown key 'tokns'; .*did you mean 'tokens'"),
        ('name = "second"', 'name = "first"', "window 'first' is there twice"),
        ('panel = "P-B"', 'panel = "P-A"', "'second' needs a panel of role generated, 'P-A' is not one"),
        ('panel = "P-A"', 'panel = "P-C"', "'first' needs a panel of role prompt, 'P-C' is not one"),
        ('panel = "P-A"', 'panel = "P-B"\nmust_pass = false', "'first' needs generate or must_pass = true"),
        ('panel = "P-A"', 'panel = "P-A"\nmust_passs = false', "unknown key 'must_passs'; .*did you mean 'must_pass'"),
        ('schema = "drift.recipe/1"', 'schema = "drift.recipe/2"', "schema: 'drift.recipe/2' is not allowed"),
        ('schema = "drift.recipe/1"', "schema = ", "not valid TOML"),
    ],
)
def test_faults_name_file_and_key(tmp_path: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(ProtocolError, match=message) as caught:
        load(tmp_path, old, new)
    assert "tiny.recipe.toml" in str(caught.value)


def test_a_missing_recipe_is_named(tmp_path: Path) -> None:
    with pytest.raises(ProtocolError, match=r"none\.toml: no such file"):
        load_recipe(tmp_path / "none.toml")
