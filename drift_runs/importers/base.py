"""What a file of another tool is read into, whatever its format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

import pyarrow as pa

Kind = Literal["rows", "comparison", "contexts", "rollouts"]
"""``rows``: one arm's own distributions. ``comparison``: figures of a candidate against a reference, by position.
``contexts``: the same as means by context. ``rollouts``: free-running continuations of one arm."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedWindow:
    """One window of a file: what must be equal before two files are set against each other."""

    name: str
    document: str
    """The cluster that it belongs to."""
    group: str = ""
    """Stratum or bucket; empty when the source has none."""
    role: Literal["prompt", "generated"] = "prompt"
    scored: tuple[tuple[int, int], ...] = ()
    """Half-open spans of positions."""
    tokens_sha256: str = ""
    """What the source says the history's ids hash to; empty when it says nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedFile:
    """One file, read and checked."""

    format: str
    kind: Kind
    path: Path
    sha256: str
    """Of the file's bytes."""
    table: pa.Table
    """Schema ``ROWS``, ``COMPARISON``, ``CONTEXTS`` or ``ROLLOUTS``, by ``kind``."""
    top_k: int | None
    """Entries a row, for rows that are cut off; None for full rows and where there are none."""
    convention: str
    """How the source counts positions, and how they were read: one sentence."""
    cluster: Literal["document", "window", "prompt"] = "document"
    windows: tuple[ImportedWindow, ...] = ()
    facts: Mapping[str, str] = field(default_factory=dict)
    """What the file says about itself (engine, model, seed, ...): shown, and compared where it must be equal."""
    notes: tuple[str, ...] = ()
    """What a reader must know: rows left out and why, masses that do not sum to 1, what this format cannot say."""
    divergence: str = "kl.full"
    """Base of the spec that the published figures of this format use: the headline of an import."""


class Importer(Protocol):
    """A module of this package. ``FORMAT`` is its name on the command line."""

    FORMAT: str
    KIND: Kind
    HELP: str
    """One line: what the file is, and which tool writes it."""

    def read(self, path: Path) -> ImportedFile:
        """Read one file; ``ImportFileError`` for anything that cannot be trusted."""
        ...
