"""Who may import whom, and what a bare ``drift --help`` must not pay for."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("drift_runs", "dashboard")
HEAVY = ("mlflow", "streamlit", "pandas", "pyarrow", "numpy", "altair", "pydantic", "openai", "xllamacpp", "gguf")


def python_files(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def is_script(path: Path) -> bool:
    """The pages and the navigation run when they are imported; the interface tests run them."""
    return path.parent.name == "views" or path.name == "app.py"


def test_the_order_of_imports_holds() -> None:
    outcome = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache", "pyproject.toml"],
        cwd=ROOT,
        env={**os.environ, "COLUMNS": "200", "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        encoding="utf-8",
    )
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr


@pytest.mark.parametrize("package", PACKAGES)
def test_every_folder_is_a_package(package: str) -> None:
    """A folder without ``__init__.py`` is invisible to the check of the import order."""
    folders = {path.parent for path in python_files(package)}
    assert [str(folder) for folder in sorted(folders) if not (folder / "__init__.py").exists()] == []


@pytest.mark.parametrize(
    "name", [module_name(path) for package in PACKAGES for path in python_files(package) if not is_script(path)]
)
def test_every_module_imports(name: str) -> None:
    assert importlib.import_module(name).__name__ == name


def test_the_command_line_starts_without_heavy_libraries() -> None:
    probe = f"import sys, drift_runs.cli.main; print(*sorted(set({HEAVY!r}) & set(sys.modules)))"
    outcome = subprocess.run([sys.executable, "-c", probe], cwd=ROOT, capture_output=True, text=True, check=True)
    assert outcome.stdout.split() == []


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_help_and_version_load_no_heavy_library(option: str) -> None:
    """Importing little is not enough: what answers must not import more on its way."""
    probe = (
        "import sys\n"
        "from drift_runs.cli.main import main\n"
        f"code = main([{option!r}])\n"
        f"print(*sorted(set({HEAVY!r}) & set(sys.modules)), file=sys.stderr)\n"
        "sys.exit(code)"
    )
    outcome = subprocess.run([sys.executable, "-c", probe], cwd=ROOT, capture_output=True, text=True)
    assert outcome.returncode == 0, outcome.stderr
    assert "drift" in outcome.stdout
    assert outcome.stderr.split() == []
