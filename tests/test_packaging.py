"""What is shipped: the wheel's content and how it runs alone, the locks, the Makefile and the image's recipe."""

from __future__ import annotations

import fnmatch
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import drift_runs

ROOT = Path(__file__).resolve().parents[1]
LOCKS = ("requirements.lock", "requirements-test.lock")
SHIPPED = ("drift_runs", "dashboard", "protocols", "models", "pyproject.toml", "README.md", "LICENSE", ".gitignore")
ADAPTER = ("smollm2-ops.gguf", "smollm2-ops.sha256")


def pins(lock: str) -> dict[str, list[str]]:
    """Name -> pinned lines of a lock; a package may have one line for each range of Python versions."""
    found: dict[str, list[str]] = {}
    for line in (ROOT / lock).read_text(encoding="utf-8").splitlines():
        if match := re.match(r"([a-z0-9][a-z0-9.-]*)==", line):
            found.setdefault(match[1], []).append(line.rstrip(" \\"))
    return found


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy by the locked backend, without a network."""
    folder = tmp_path_factory.mktemp("wheel")
    tree = folder / "tree"
    tree.mkdir()
    for name in SHIPPED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, tree / name)
    build = "import hatchling.build, sys; print(hatchling.build.build_wheel(sys.argv[1]))"
    outcome = subprocess.run(
        [sys.executable, "-c", build, str(folder)], cwd=tree, capture_output=True, text=True, check=False
    )
    assert outcome.returncode == 0, outcome.stderr
    return folder / outcome.stdout.split()[-1]


@pytest.fixture(scope="module")
def alone(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel in it and this one's libraries behind it, but not this tree."""
    folder = tmp_path_factory.mktemp("alone")
    venv.create(folder, with_pip=False)
    site = next(folder.glob("lib/python*/site-packages"))
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    here = Path(next(path for path in sys.path if path.endswith("site-packages")))
    # A line of a .pth adds the folder, but the .pth files in it, such as the one of an editable install, are not read.
    (site / "libraries.pth").write_text(f"{here}\n", encoding="utf-8")
    return folder / "bin" / "python"


def drift(python: Path, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [python, "-P", "-m", "drift_runs.cli.main", *arguments],
        cwd=cwd,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        capture_output=True,
        text=True,
    )


def test_the_wheel_holds_every_module_page_and_protocol(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    for package in ("drift_runs", "dashboard"):
        for path in (ROOT / package).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                assert path.relative_to(ROOT).as_posix() in names
    for path in (ROOT / "protocols").rglob("*"):
        if path.is_file():
            assert f"drift_runs/shipped_protocols/{path.relative_to(ROOT / 'protocols').as_posix()}" in names
    assert "drift_runs/shipped_protocols/smollm2-quick.toml" in names
    models = {name.removeprefix("drift_runs/shipped_models/") for name in names if "shipped_models" in name}
    assert models == set(ADAPTER), "the adapter and its digest, and nothing of what trains it"
    assert {name.split("/")[0] for name in names} == {
        "drift_runs",
        "dashboard",
        f"drift_runs-{drift_runs.__version__}.dist-info",
    }


def test_the_wheel_carries_licence_and_console_script(wheel: Path) -> None:
    info = f"drift_runs-{drift_runs.__version__}.dist-info"
    with zipfile.ZipFile(wheel) as archive:
        assert "Apache License" in archive.read(f"{info}/licenses/LICENSE").decode()
        assert "drift = drift_runs.cli.main:entry" in archive.read(f"{info}/entry_points.txt").decode()


def test_the_wheel_runs_outside_the_tree(alone: Path, tmp_path: Path) -> None:
    where = "import drift_runs, dashboard; print(drift_runs.__file__, dashboard.__file__)"
    outcome = subprocess.run([alone, "-P", "-c", where], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert str(ROOT) not in outcome.stdout

    helped = drift(alone, "--help", cwd=tmp_path)
    assert helped.returncode == 0, helped.stderr
    assert "check" in helped.stdout

    checked = drift(alone, "check", "smollm2-quick", cwd=tmp_path)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "smollm2-quick" in checked.stdout


def test_the_wheel_finds_the_published_tables(alone: Path, tmp_path: Path) -> None:
    names = "import drift_runs.protocol.published as p; print(*(source.name for source in p.load_published()))"
    outcome = subprocess.run([alone, "-P", "-c", names], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert outcome.stdout.split() == sorted(path.stem for path in (ROOT / "protocols" / "published").glob("*.toml"))

    refused = drift(alone, "check", "level1techs-qwen3", cwd=tmp_path)
    assert refused.returncode == 2 and "no such protocol" in refused.stderr


def test_the_wheel_finds_its_adapter(alone: Path, tmp_path: Path) -> None:
    find = "from drift_runs.weights.demo import adapter_file; print(adapter_file())"
    outcome = subprocess.run([alone, "-P", "-c", find], cwd=tmp_path, capture_output=True, text=True, check=True)
    found = Path(outcome.stdout.strip())
    assert found.parent.name == "shipped_models"
    assert found.read_bytes() == (ROOT / "models" / "smollm2-ops" / "smollm2-ops.gguf").read_bytes()


@pytest.mark.parametrize("lock", LOCKS)
def test_every_pin_has_hashes_and_no_address(lock: str) -> None:
    text = (ROOT / lock).read_text(encoding="utf-8")
    entries = re.split(r"\n(?=[a-z0-9])", text.strip())
    assert len(entries) > 50
    for entry in entries:
        assert re.match(r"[a-z0-9.-]+==\S+", entry), f"not pinned: {entry.splitlines()[0]}"
        assert "--hash=sha256:" in entry, f"not hashed: {entry.splitlines()[0]}"
    assert "://" not in text
    assert "--index" not in text and "--find-links" not in text


def test_the_test_lock_holds_the_other() -> None:
    use, dev = (pins(lock) for lock in LOCKS)
    assert {name: lines for name, lines in use.items() if dev.get(name) != lines} == {}


@pytest.mark.parametrize(("lock", "extras"), [(LOCKS[0], ("llama-cpp",)), (LOCKS[1], ("llama-cpp", "test"))])
def test_the_lock_meets_what_the_project_asks_for(lock: str, extras: tuple[str, ...]) -> None:
    """Somebody who edits pyproject.toml and forgets ``make lock`` finds out here."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    asked = [*settings["project"]["dependencies"], *settings["dependency-groups"]["build"]]
    for extra in extras:
        asked += settings["project"]["optional-dependencies"][extra]
    pinned = pins(lock)
    for requirement in map(Requirement, asked):
        versions = [line.split("==")[1].split()[0] for line in pinned.get(canonical(requirement.name), [])]
        assert versions, f"{requirement} is not in {lock}: make lock"
        assert all(requirement.specifier.contains(version) for version in versions), f"{requirement}: {versions}"


def test_no_torch_and_no_compiler_in_what_users_install() -> None:
    names = {name for lock in LOCKS for name in pins(lock)}
    assert not names & {"torch", "peft", "transformers", "cmake", "ninja", "cython", "setuptools", "scikit-build-core"}


def test_every_target_of_the_makefile_is_in_its_help() -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    declared = re.search(r"^\.PHONY: (.*)$", text, re.MULTILINE)
    assert declared is not None
    make = shutil.which("make")
    if make is None:
        pytest.skip("no make on PATH")
    listed = subprocess.run([make, "--no-print-directory"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert [line.split()[1] for line in listed.splitlines()] == declared[1].split()


@pytest.mark.parametrize("target", ["demo", "dashboard", "test", "test-long", "lint", "bench"])
def test_a_target_makes_its_environment_first(target: str, tmp_path: Path) -> None:
    make = shutil.which("make")
    if make is None:
        pytest.skip("no make on PATH")
    plan = subprocess.run(
        [make, "--dry-run", "--no-print-directory", target, f"VENV={tmp_path / 'none'}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    lock = "requirements.lock" if target in ("demo", "dashboard") else "requirements-test.lock"
    assert plan[0] == f"sh .ci/venv {lock}"
    assert any(str(tmp_path / "none" / "bin") in line for line in plan[1:])


def test_a_wrong_interpreter_is_named_with_what_fits(tmp_path: Path) -> None:
    old = tmp_path / "python"
    old.write_text("#!/bin/sh\necho 3.9\n", encoding="utf-8")
    old.chmod(0o755)
    outcome = subprocess.run(
        ["sh", ".ci/venv", "requirements.lock"],
        cwd=ROOT,
        env={**os.environ, "PYTHON": str(old), "VENV": str(tmp_path / "venv")},
        capture_output=True,
        text=True,
    )
    assert outcome.returncode == 2
    assert "version 3.9; expected Python 3.11, 3.12 or 3.13" in outcome.stderr
    assert not (tmp_path / "venv").exists()


def instructions(stage_of: str) -> list[str]:
    text = re.sub(r"\\\n\s*", "", stage_of)
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def test_the_image_gets_all_that_the_wheel_holds() -> None:
    """What .dockerignore leaves out or the Dockerfile does not copy, no build in the image can find."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    included = project["tool"]["hatch"]["build"]["targets"]["wheel"]["only-include"]
    lines = instructions((ROOT / "Dockerfile").read_text(encoding="utf-8"))
    copied = {name for line in lines if line.startswith("COPY ") and "--" not in line for name in line.split()[1:-1]}
    assert set(included) <= copied
    for name in included:
        left_out = True
        for rule in (ROOT / ".dockerignore").read_text(encoding="utf-8").split():
            pattern = rule.removeprefix("!").removeprefix("**/")
            if name == pattern or fnmatch.fnmatch(name, pattern):
                left_out = not rule.startswith("!")
        assert not left_out, name


def test_the_image_is_hash_checked_and_not_root() -> None:
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    assert re.search(r"^ARG BASE=python:3\.11-slim$", text, re.MULTILINE)
    assert "--require-hashes" in text and "requirements.lock" in text
    last = instructions(text[text.rindex("\nFROM ") :])
    users = [line.split()[1] for line in last if line.startswith("USER ")]
    assert users and users[-1] not in ("root", "0")
    commands = [json.loads(line.removeprefix("CMD ")) for line in last if line.startswith("CMD ")]
    assert commands[-1][:2] == ["drift", "dashboard"]
    assert "0.0.0.0" in commands[-1]


@pytest.mark.parametrize("name", sorted(path.stem for path in (ROOT / "benchmarks").glob("[a-z]*.py")))
def test_a_benchmark_finds_what_it_imports(name: str) -> None:
    """They are run by hand and seldom: what moved in the package must move there too."""
    found = subprocess.run(
        [sys.executable, "-c", f"import benchmarks.{name}"], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert found.returncode == 0, found.stderr
