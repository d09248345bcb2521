"""What a GGUF file really holds: its digest and its tensor types. A file's name proves nothing."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from drift_runs.engines.gguf_header import tensor_table
from drift_runs.errors import EngineMissing, ModelFileError
from drift_runs.protocol.canonical import file_sha256


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsFile:
    """Facts read from a weight file."""

    path: Path
    sha256: str
    size_bytes: int
    types: tuple[tuple[str, int], ...]
    """(tensor type in lower case, number of weights), most weights first."""
    stamp: tuple[int, ...]
    """:func:`file_stamp` when the digest was taken."""

    @property
    def dominant(self) -> str:
        """The type that most weights have: the facet ``weights``."""
        return self.types[0][0]

    @property
    def label(self) -> str:
        """For example ``q4_0 79%, q8_0 21%``; types under half a percent are left out."""
        total = sum(count for _, count in self.types)
        return ", ".join(f"{name} {count / total:.0%}" for name, count in self.types if count / total >= 0.005)


def file_stamp(path: Path) -> tuple[int, ...]:
    """Size, time of change and number of a file: equal as long as nobody wrote or replaced it."""
    found = path.stat()
    return found.st_size, found.st_mtime_ns, found.st_ino


def inspect(path: Path, *, what: str = "model") -> WeightsFile:
    """Read digest and tensor types. ``what`` the file is to be, for errors.

    Raises
    ------
    ModelFileError
        missing, or no whole GGUF file.
    """
    try:
        return _inspected(path, what)
    except OSError as error:
        raise ModelFileError(
            f"cannot be read: {error.strerror}",
            where=str(path),
            expected=f"a GGUF {what}",
            todo="correct its permissions, or the path in drift.toml",
        ) from None


def _inspected(path: Path, what: str) -> WeightsFile:
    if not path.is_file():
        raise ModelFileError(
            "no such file", where=str(path), expected=f"a GGUF {what}", todo="correct the path in drift.toml"
        )
    stamp = file_stamp(path)
    table = tensor_table(path)
    counts: Counter[str] = Counter()
    for entry in table:
        counts[entry.type] += entry.weights
    end, size = max((entry.end for entry in table), default=0), path.stat().st_size
    if not counts or end > size:
        raise ModelFileError(
            f"the file is cut short: {size} bytes",
            where=str(path),
            expected=f"{end} bytes by its own table of tensors",
            todo="fetch or make it again",
        )
    types = tuple(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
    return WeightsFile(path=path, sha256=file_sha256(path), size_bytes=size, types=types, stamp=stamp)


def open_reader(path: Path):
    """``gguf.GGUFReader`` of a file, with errors that say what is wrong with it."""
    try:
        import gguf
    except ImportError:
        raise EngineMissing(
            "the package gguf is not installed", todo="install it with: pip install 'drift-runs[llama-cpp]'"
        ) from None
    try:
        return gguf.GGUFReader(path)
    except (ValueError, IndexError, KeyError, OSError, OverflowError) as error:
        # The reader indexes into a memory map: what is not GGUF, or ends early, fails in one of these ways.
        raise ModelFileError(
            f"not a readable GGUF file: {error}", where=str(path), todo="fetch or make it again"
        ) from None
