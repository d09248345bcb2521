"""Where captures and comparisons lie, and how they are written so that a kill at any moment loses one window at most.

    <store>/store.json                                    format version
    <store>/captures/<capture id>/capture.json            identity of what was executed
    <store>/captures/<capture id>/<window>.parquet        schema ROWS
    <store>/captures/<capture id>/processes.json          which process took which window
    <store>/comparisons/<comparison id>/comparison.json   the two capture ids
    <store>/comparisons/<comparison id>/<window>.parquet  schema COMPARISON
    <store>/campaigns/<protocol digest>-<key>.json        which capture is which arm
    <store>/dictionaries/<dictionary digest>.parquet      schema DICTIONARY: the bytes of each token
    <store>/spill/                                        full rows of the reference, for the group at work only

Every file is written under a temporary name, flushed, and renamed. A file that is there is whole.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import pyarrow as pa
import pyarrow.parquet as pq

from drift_runs import schema
from drift_runs.errors import StoreBusy, StoreError
from drift_runs.protocol.canonical import canonical_json, dictionary_sha256, write_atomically

FORMAT = "drift.store/1"
DEFAULT_FOLDER = "drift-store"
_PART = ".part"

StoredTable = Literal["comparison", "contexts", "rollouts"]


def content_id(content: object) -> str:
    """First 16 hex digits of SHA-256 over canonical JSON."""
    return hashlib.sha256(canonical_json(content)).hexdigest()[:16]


def comparison_id(reference_capture: str, candidate_capture: str, marks: Mapping[str, int] | None = None) -> str:
    """Identity of a comparison: the two captures, the table's version, and what else its columns depend on.

    ``marks``: settings of the marks that are stored in it, where they are not the defaults.
    """
    content: dict[str, object] = {
        "reference": reference_capture,
        "candidate": candidate_capture,
        "table": schema.version_of(schema.COMPARISON),
    }
    if marks:
        content["marks"] = dict(marks)
    return content_id(content)


def _way_out(error: OSError) -> str:
    """What to do about a file that cannot be written."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "free some space"
    return "put right what lies at this path, or name another folder with --store"


def write_table(path: Path, table: pa.Table, wanted: pa.Schema) -> None:
    """Write one Parquet file atomically under an explicit schema; equal tables give equal bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{os.getpid()}{_PART}")
    try:
        with part.open("wb") as sink:
            pq.write_table(table.cast(wanted), sink, compression="zstd", compression_level=3)
            sink.flush()
            os.fsync(sink.fileno())
        os.replace(part, path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise StoreError(f"cannot be written: {error.strerror}", where=str(path), todo=_way_out(error)) from None


def read_table(path: Path, wanted: pa.Schema) -> pa.Table:
    """Read one Parquet file; refuses another schema version and a damaged file."""
    try:
        # ParquetFile, not read_table: a dataset would guess partitions from the folder names.
        table = pq.ParquetFile(path).read()
        table.validate(full=True)  # lists that end outside their values, texts that are none
        table.column_names  # noqa: B018  names that are no texts
    except (pa.ArrowException, OSError, ValueError) as error:
        raise StoreError(
            f"cannot be read: {str(error).partition(chr(10))[0]}",
            where=str(path),
            todo="remove the file and run again: only its window is taken anew",
        ) from None
    if (newer := schema.upgraded(table, wanted)) is not None:
        return newer
    found = schema.version_of(table.schema)
    if found != schema.version_of(wanted):
        raise StoreError(
            f"schema {found or 'without a version'}",
            where=str(path),
            expected=schema.version_of(wanted),
            todo="read it with the version of drift-runs that wrote it",
        )
    if reason := schema.misfit(table, wanted):
        raise StoreError(f"{found} with {reason}", where=str(path), todo="remove the file and run again")
    return table


def _write_json(path: Path, content: object) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, canonical_json(content) + b"\n")
    except OSError as error:
        raise StoreError(f"cannot be written: {error.strerror}", where=str(path), todo=_way_out(error)) from None


class Store:
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
            # A store's spill is deleted at every start; in a folder that is no store it is somebody's own.
            if self.spill_folder.exists():
                raise StoreError(
                    f"no store, and {self.spill_folder.name!r} in it would be deleted",
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
        """What a killed process left: spilled rows and temporary files."""
        shutil.rmtree(self.spill_folder, ignore_errors=True)
        patterns = [".*.tmp", "*/.*.tmp", f"dictionaries/*{_PART}"]
        patterns += [f"{kind}/*/{name}" for kind in ("captures", "comparisons") for name in (f"*{_PART}", ".*.tmp")]
        for pattern in patterns:
            for part in self.root.glob(pattern):
                part.unlink(missing_ok=True)

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
            _write_json(path, identity)

    def note_process(self, capture: str, window: str, process: str) -> None:
        """Record which process took a window: a launch made of several processes is marked as such."""
        known = self.processes(capture)
        known[window] = process
        _write_json(self.capture_folder(capture) / "processes.json", known)

    def processes(self, capture: str) -> dict[str, str]:
        """Window to the id of the process that took it."""
        path = self.capture_folder(capture) / "processes.json"
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


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedCapture:
    """One entry of a campaign's plan."""

    name: str
    kind: str
    capture: str
    comparison: str
    """Empty for the reference."""
    windows: tuple[str, ...]
    against: str = ""
    """Arm that the comparison is against; empty means the protocol's reference."""
    of: str = ""
    """For a further launch, the arm that it repeats."""
    ranked: bool = True
    """False where more differs from the reference than the protocol varies: in no pair and no order."""
    table: StoredTable = "comparison"
    """What is stored of it: positions, means by context, or continuations."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One campaign of a store."""

    protocol_sha256: str
    run_id: str
    """Its run in the tracking store."""
    protocol: Mapping[str, Any] | None
    """The protocol's content, so that results can be computed again without its file; None in older plans."""
    captures: tuple[PlannedCapture, ...]
    written_ns: int

    @property
    def name(self) -> str:
        """The protocol's name; empty in older plans."""
        return str(self.protocol["name"]) if self.protocol else ""


def write_plan(
    store: Store,
    protocol_sha256: str,
    key: str,
    *,
    run_id: str,
    captures: Sequence[PlannedCapture],
    protocol: Mapping[str, Any],
) -> None:
    """Note which capture is which arm. Entries of an earlier run that are not among ``captures`` stay: follow-ups."""
    path = store.root / "campaigns" / f"{protocol_sha256[:16]}-{key}.json"
    entries = {}
    if path.is_file():
        entries = {entry.name: entry for entry in _read_plan(path).captures}
    entries |= {entry.name: entry for entry in captures}
    plan = {
        "protocol_sha256": protocol_sha256,
        "run_id": run_id,
        "protocol": protocol,
        "captures": [asdict(entry) for entry in entries.values()],
    }
    _write_json(path, plan)


def plans(store: Store) -> tuple[Plan, ...]:
    """Every campaign of a store, the newest first."""
    found = [_read_plan(path) for path in sorted((store.root / "campaigns").glob("*.json"))]
    return tuple(sorted(found, key=lambda plan: plan.written_ns, reverse=True))


def _read_plan(path: Path) -> Plan:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        captures = tuple(map(_planned, content["captures"]))
        names = {entry.name for entry in captures}
        if any(entry.table == "rollouts" and entry.against not in names for entry in captures):
            raise ValueError
        protocol = content.get("protocol")
        if protocol is not None and not isinstance(protocol["name"], str):
            raise ValueError
        return Plan(
            protocol_sha256=str(content["protocol_sha256"]),
            run_id=str(content["run_id"]),
            protocol=protocol,
            captures=captures,
            written_ns=path.stat().st_mtime_ns,
        )
    except (ValueError, KeyError, TypeError):
        raise StoreError("not a campaign's plan", where=str(path), todo="remove the file and run again") from None


_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._#-]{0,79}")
"""Names and ids of a plan become paths: nothing else may, whoever wrote the file."""


def _planned(entry: Mapping[str, Any]) -> PlannedCapture:
    planned = PlannedCapture(**{**entry, "windows": tuple(entry["windows"])})
    needed = (planned.name, planned.kind, planned.capture, *planned.windows)
    optional = (planned.comparison, planned.against, planned.of)
    if not all(_NAME.fullmatch(text) for text in needed) or not all(
        _NAME.fullmatch(text) or text == "" for text in optional
    ):
        raise ValueError
    if planned.table not in get_args(StoredTable):
        raise ValueError
    return planned
