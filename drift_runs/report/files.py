"""A report's files on the disk: HTML, Markdown, and a folder of CSV files. Each is written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from drift_runs.errors import ConfigError
from drift_runs.protocol.canonical import write_atomically
from drift_runs.report.content import Content
from drift_runs.report.fields import safe_name, table_csv, to_csv
from drift_runs.report.grid import Section

STORED = "stored"
"""Folder of the tables as they lie in the store, inside the folder of CSV files."""


def write_file(path: Path, text: str, *, option: str) -> Path:
    """Write a text; ``ConfigError`` names the option where it cannot be written."""
    if path.is_dir():
        raise ConfigError(f"{path} is a folder", where=f"option {option}", expected="the name of a file")
    if not path.absolute().parent.is_dir():
        raise ConfigError(f"no folder {path.absolute().parent}", where=f"option {option}", todo="make it first")
    try:
        # Half a character, which a file of another tool may hold, cannot be written as UTF-8.
        write_atomically(path.absolute(), text.encode("utf-8", "replace"))
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}", where=f"option {option}") from error
    return path


def write_csv(folder: Path, content: Content, sections: Sequence[Section]) -> list[Path]:
    """A file for every table of the report, and below :data:`STORED` one for every table of the store."""
    grids = {grid.name: to_csv(grid.flat()) for section in sections for grid in section.grids}
    texts: Mapping[str, str] = {
        **{f"{safe_name(name, 'table')}.csv": text for name, text in grids.items()},
        **{os.path.join(STORED, f"{name}.csv"): table_csv(table) for name, table in content.tables.items()},
    }
    try:
        (folder / STORED).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{folder} cannot be made: {error.strerror}", where="option --csv") from error
    return [write_file(folder / name, text, option="--csv") for name, text in texts.items()]
