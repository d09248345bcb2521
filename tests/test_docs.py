"""The documents say what is there: links, commands, make targets and the machine file of the README."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from drift_runs.cli.main import COMMANDS
from drift_runs.machine import load_machine

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])

each_document = pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))


def make_targets() -> set[str]:
    declared = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert declared is not None
    return set(declared[1].split())


@each_document
def test_every_link_leads_to_a_file(path: Path) -> None:
    targets = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", path.read_text(encoding="utf-8"))
    assert [t for t in targets if "://" not in t and not (path.parent / t).exists()] == []


@each_document
def test_every_command_exists(path: Path) -> None:
    code = "\n".join(re.findall(r"```.*?```|`[^`]+`", path.read_text(encoding="utf-8"), re.DOTALL))
    assert set(re.findall(r"(?:^|[`\s/])drift ([a-z]+)", code, re.MULTILINE)) <= set(COMMANDS)
    assert set(re.findall(r"(?:^|`)make ([a-z-]+)", code, re.MULTILINE)) <= make_targets()


def test_the_readme_shows_the_two_commands_first() -> None:
    first_screen = (ROOT / "README.md").read_text(encoding="utf-8").split("\n## ")[0]
    assert "make demo" in first_screen and "make test" in first_screen and "docs/images/overview.png" in first_screen


def test_the_machine_file_of_the_readme_loads(tmp_path: Path) -> None:
    block = re.search(r"```toml\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert block is not None
    path = tmp_path / "drift.toml"
    path.write_text(block[1], encoding="utf-8")
    machine = load_machine(path)
    assert machine.model_file("kv-q4_0") == machine.model_file("f16") == tmp_path / "models" / "mine-f16.gguf"
    assert machine.threads("q4_k_m") == 4


def test_the_changelog_names_the_version() -> None:
    from drift_runs import __version__

    assert f"\n## {__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("script", ["venv", "run", "image"])
def test_the_scripts_parse(script: str) -> None:
    """A syntax error in a script that is seldom run would otherwise wait for its user."""
    path = ROOT / ".ci" / script
    shell = path.read_text(encoding="utf-8").splitlines()[0].split("/")[-1].removeprefix("env ")
    assert path.stat().st_mode & 0o111
    assert subprocess.run([shell, "-n", str(path)], capture_output=True, text=True).stderr == ""
