"""One store folder: where captures, comparisons and dictionaries lie in it, and who holds it."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from drift_runs import schema
from drift_runs.errors import StoreBusy, StoreError
from drift_runs.protocol.canonical import canonical_json, dictionary_sha256, write_atomically
from drift_runs.store.files import PART, content_id, read_table, write_json, write_table
from drift_runs.store.generation import GenerationFiles

FORMAT = "drift.store/1"
DEFAULT_FOLDER = "drift-store"


class Store(GenerationFiles):
    """One store folder."""

    def __init__(self, root: Path) -> None:
        self.root = Path(root)

    def open(self, *, create: bool) -> None:
        """Check the format version; ``create`` makes the folder."""
        marker = self.root / "store.json"
        if not marker.is_file():
            if not create:
                raise StoreError(
                    "no store here",
                    where=str(self.root),
                    expected="a folder that drift wrote",
                    todo="name it with --store, or run 'drift demo' first",
                )
            # These are deleted at every start; in a folder that is no store they are somebody's own.
            if own := next((folder.name for folder in self._passing if folder.exists()), ""):
                raise StoreError(
                    f"no store, and {own!r} in it would be deleted",
                    where=str(self.root),
                    expected="an empty folder or a store",
                    todo="name another folder with --store",
                )
            try:
                self.root.mkdir(parents=True, exist_ok=True)
                write_atomically(marker, canonical_json({"format": FORMAT}) + b"\n")
            except OSError as error:
                raise StoreError(
                    f"cannot be written: {error.strerror}",
                    where=str(self.root),
                    todo="name another folder with --store",
                ) from None
            return
        try:
            found = json.loads(marker.read_text(encoding="utf-8"))["format"]
        except (ValueError, KeyError, TypeError):
            found = "unreadable"
        if found != FORMAT:
            raise StoreError(f"store format {found}", where=str(marker), expected=FORMAT)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the store: one campaign at a time. The system frees the lock when its holder dies, however it dies."""
        import filelock

        lock = filelock.FileLock(self.root / "lock")
        try:
            lock.acquire(timeout=0)
        except filelock.Timeout:
            raise StoreBusy(
                "another campaign is running in it",
                where=str(self.root),
                todo="wait for it, or use another folder with --store",
            ) from None
        except OSError as error:
            raise StoreError(
                f"cannot be written: {error.strerror}", where=str(self.root), todo="name another folder with --store"
            ) from None
        try:
            self._clean()
            yield
        finally:
            lock.release()

    def _clean(self) -> None:
        """What a killed process left: spilled rows, kept states and temporary files."""
        for folder in self._passing:
            shutil.rmtree(folder, ignore_errors=True)
        patterns = [".*.tmp", "*/.*.tmp", f"dictionaries/*{PART}"]
        folders = ("captures/*", "comparisons/*", "generation/*", "generation/*/*")
        patterns += [f"{folder}/{name}" for folder in folders for name in (f"*{PART}", ".*.tmp")]
        for pattern in patterns:
            for part in self.root.glob(pattern):
                part.unlink(missing_ok=True)

    @property
    def _passing(self) -> tuple[Path, ...]:
        """Folders that die with the process that filled them."""
        return self.spill_folder, self.states_folder

    @property
    def states_folder(self) -> Path:
        return self.root / "states"

    def state_file(self, capture: str, window: str) -> Path:
        """What an engine's memory held behind a window of a capture."""
        return self.states_folder / capture / f"{window}.state"

    def states_bytes(self) -> int:
        """Size of all kept states."""
        return sum(path.stat().st_size for path in self.states_folder.glob("*/*.state"))

    def drop_states(self) -> None:
        shutil.rmtree(self.states_folder, ignore_errors=True)

    @property
    def spill_folder(self) -> Path:
        return self.root / "spill"

    def spill_file(self, window: str) -> Path:
        return self.spill_folder / f"{window}.npy"

    def capture_folder(self, capture: str) -> Path:
        return self.root / "captures" / capture

    def comparison_folder(self, comparison: str) -> Path:
        return self.root / "comparisons" / comparison

    def rows_file(self, capture: str, window: str) -> Path:
        return self.capture_folder(capture) / f"{window}.parquet"

    def comparison_file(self, comparison: str, window: str) -> Path:
        return self.comparison_folder(comparison) / f"{window}.parquet"

    def dictionary_file(self, sha256: str) -> Path:
        return self.root / "dictionaries" / f"{sha256}.parquet"

    def write_dictionary(self, tokens: Sequence[bytes]) -> Path:
        """Keep a dictionary under its digest; one that is there is not written again."""
        path = self.dictionary_file(dictionary_sha256(tokens))
        if not path.is_file():
            write_table(path, pa.table({"bytes": tokens}, schema=schema.DICTIONARY), schema.DICTIONARY)
        return path

    def read_dictionary(self, sha256: str) -> tuple[bytes, ...]:
        """The bytes of each id, in order. ``StoreError`` when it is not here, or is not what its name says."""
        path = self.dictionary_file(sha256)
        tokens = tuple(read_table(path, schema.DICTIONARY)["bytes"].to_pylist())
        found = dictionary_sha256(tokens)
        if found != sha256:
            raise StoreError(
                f"its dictionary has SHA-256 {found[:16]}…",
                where=str(path),
                expected=f"{sha256[:16]}…, its name",
                todo="remove the file and run again: it is written anew",
            )
        return tokens

    def write_identity(self, folder: Path, name: str, identity: object) -> None:
        """Write an identity beside its tables; the same identity is not written twice."""
        path = folder / name
        if not path.is_file():
            write_json(path, identity)

    def read_capture(self, capture: str) -> dict[str, object]:
        """What was executed, as written beside a capture's rows. ``StoreError`` unless its id follows from it."""
        path = self.capture_folder(capture) / "capture.json"
        try:
            identity = json.loads(path.read_text(encoding="utf-8"))
            same = isinstance(identity, dict) and content_id(identity) == capture
        except (OSError, ValueError, TypeError):
            same = False
        if not same:
            raise StoreError(
                "not the identity of this capture",
                where=str(path),
                expected=f"what id {capture} follows from",
                todo="remove the file and run again",
            )
        return identity

    def write_observed(self, key: str, content: object) -> None:
        """Keep what a server said of itself, by what it was asked with."""
        write_json(self.root / "observed" / f"{key}.json", content)

    def read_observed(self, key: str) -> dict[str, Any] | None:
        """What a server said at the last time; None where it never answered, or where that cannot be read."""
        try:
            return dict(json.loads((self.root / "observed" / f"{key}.json").read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return None

    def note_process(self, capture: str, window: str, process: str) -> None:
        """Record which process took a window: a launch made of several processes is marked as such."""
        known = self.processes(capture)
        known[window] = process
        write_json(self.capture_folder(capture) / "processes.json", known)

    def note_measured(self, capture: str, content: Mapping[str, float]) -> None:
        """Keep what was measured of a server and all rows of a capture are made with."""
        write_json(self.capture_folder(capture) / "measured.json", dict(content))

    def measured(self, capture: str) -> dict[str, Any]:
        """What :meth:`note_measured` kept; empty where nothing was."""
        return self._noted(capture, "measured.json")

    def note_retries(self, capture: str, window: str, count: int) -> None:
        """Record how many requests of a window had to be sent again."""
        known = self.retries(capture)
        known[window] = count
        write_json(self.capture_folder(capture) / "retries.json", known)

    def retries(self, capture: str) -> dict[str, int]:
        """Window to the number of requests that were sent again; a window is absent where nothing is sent."""
        return self._noted(capture, "retries.json")

    def processes(self, capture: str) -> dict[str, str]:
        """Window to the id of the process that took it."""
        return self._noted(capture, "processes.json")

    def _noted(self, capture: str, name: str) -> dict[str, Any]:
        path = self.capture_folder(capture) / name
        try:
            return dict(json.loads(path.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return {}
        except (ValueError, TypeError):
            raise StoreError("not JSON of a table", where=str(path), todo="remove the file and run again") from None

    def read_rows(self, capture: str, windows: Sequence[str]) -> pa.Table:
        """Rows of a capture, windows in the order given."""
        return self._concat([read_table(self.rows_file(capture, name), schema.ROWS) for name in windows], schema.ROWS)

    def read_comparison(self, comparison: str, windows: Sequence[str]) -> pa.Table:
        """Positions of a comparison, windows in the order given."""
        tables = [read_table(self.comparison_file(comparison, name), schema.COMPARISON) for name in windows]
        return self._concat(tables, schema.COMPARISON)

    @staticmethod
    def _concat(tables: list[pa.Table], wanted: pa.Schema) -> pa.Table:
        if not tables:
            return wanted.empty_table()
        return pa.concat_tables(tables).unify_dictionaries().combine_chunks()

    def remove_window(self, capture: str, window: str) -> None:
        """Forget a window's rows, so that it is taken again."""
        self.rows_file(capture, window).unlink(missing_ok=True)

    def remove_comparison(self, comparison: str, window: str) -> None:
        self.comparison_file(comparison, window).unlink(missing_ok=True)
