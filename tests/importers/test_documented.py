"""Every format has its section in the documentation, and what it says of positions."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from drift_runs.importers.formats import FORMATS, load

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "formats.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## ([a-z-]+)\n(.*?)(?=^#)", TEXT, re.DOTALL | re.MULTILINE))


def test_the_sections_are_the_formats():
    assert set(SECTIONS) == set(FORMATS)


@pytest.mark.parametrize("name", FORMATS)
def test_a_format_says_what_it_is(name: str):
    module = load(name)
    assert name == module.FORMAT and f"| `{name}` |" in TEXT
    assert module.KIND in ("rows", "comparison", "contexts", "rollouts")
    assert module.HELP and "\n" not in module.HELP
    if name != "rows":  # its keys stand in tables
        for word in ("**Position:**", "**Cluster:**", "**Refused:**", "**Cannot say:**"):
            assert word in SECTIONS[name]
