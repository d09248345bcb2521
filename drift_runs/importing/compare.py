"""Reads the files of an import and sets them against each other; nothing is written."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import ModuleType

import pyarrow as pa
import pyarrow.compute as pc

from drift_runs.errors import ConfigError, NotComparable, SameRows, one_line
from drift_runs.importers.base import ImportedFile
from drift_runs.importers.comparable import reasons_between
from drift_runs.importers.panel import ImportedArm, renamed
from drift_runs.importing.request import ArmFile, Compared, ImportRequest
from drift_runs.measure.topk import compare_topk
from drift_runs.store import comparison_id, content_id


def compare_all(
    request: ImportRequest,
    module: ModuleType,
    files: Mapping[str, ImportedFile | None],
    note: Callable[[str], None],
) -> tuple[Compared, ...]:
    """Every candidate and floor against its reference, in the order given."""
    measured = [item for item in request.files if item.arm.role != "reference"]
    compared = tuple(_compare(request, module, files, item, note) for item in measured)
    _refuse_one_twice(compared)
    return compared


def reference_capture(name: str, file: ImportedFile | None) -> str:
    """Capture id of a reference; one without a file has an id by its name."""
    return capture_id(file) if file else content_id({"imported": "reference", "name": name})


def _refuse_one_twice(compared: Sequence[Compared]) -> None:
    """Two arms of the same bytes against one reference are one comparison, and could be logged under one name only."""
    arms: dict[str, str] = {}
    for item in compared:
        first = arms.setdefault(item.comparison, item.arm.name)
        if first != item.arm.name:
            raise ConfigError(
                f"{first} and {item.arm.name} have the same bytes, and the same reference",
                where=str(item.file.path),
                expected="a file of its own for each arm",
            )


def read_files(request: ImportRequest, module: ModuleType) -> dict[str, ImportedFile | None]:
    """Files by arm, in the order given; None for a reference without one."""
    names = [item.arm.name for item in request.files]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"two arms are named {name!r}", expected="a name for each arm")
    references = [item for item in request.files if item.arm.role == "reference"]
    if not references:
        raise ConfigError("no reference is named", expected="--reference NAME=FILE")
    if len(request.files) == len(references):
        raise ConfigError("nothing to compare", expected="--candidate NAME=FILE or --floor KIND:NAME=FILE")
    for item in request.files:
        if item.arm.against and item.arm.against not in {found.arm.name for found in references}:
            raise ConfigError(
                f"{item.arm.against!r} is no reference",
                where=f"--against {item.arm.name}",
                expected="one of " + ", ".join(found.arm.name for found in references),
            )
    own_rows = module.KIND in ("rows", "rollouts")
    files: dict[str, ImportedFile | None] = {}
    for item in request.files:
        if item.path is None and (own_rows or item.arm.role != "reference"):
            raise ConfigError(f"arm {item.arm.name} has no file", expected=f"{item.arm.name}=FILE")
        if item.path is not None and item.arm.role == "reference" and not own_rows:
            raise ConfigError(
                f"reference {item.arm.name} has a file",
                where=f"format {request.format}",
                expected="the name alone: such a file already holds figures against the reference",
            )
        files[item.arm.name] = None if item.path is None else module.read(item.path)
    return files


def _compare(
    request: ImportRequest,
    module: ModuleType,
    files: Mapping[str, ImportedFile | None],
    item: ArmFile,
    note: Callable[[str], None],
) -> Compared:
    arm, file = item.arm, files[item.arm.name]
    assert file is not None
    against = arm.against or next(found.arm.name for found in request.files if found.arm.role == "reference")
    reference = files[against]
    other = reference or next(found for found in files.values() if found is not None)
    if reasons := reasons_between(other, file):
        raise NotComparable(
            f"{arm.name} cannot be set against {against if reference else 'the other files'}: {'; '.join(reasons)}",
            where=str(file.path),
            todo="import it under a name of its own",
        )
    note(f"{arm.name}: {file.table.num_rows:,} {_NOUNS[module.KIND]} of {one_line(file.path.name)}")
    table = file.table
    if module.KIND == "rows":
        assert reference is not None
        if hasattr(module, "compare_files"):
            table = module.compare_files(reference, file)
        else:
            table = compare_topk(reference.table, file.table)
    if module.KIND in ("rows", "comparison"):
        table = renamed(table)
        if arm.role == "candidate" and not request.equal_is_right:
            _refuse_no_difference(arm, table, file)
    capture = capture_id(file)
    comparison = comparison_id(reference_capture(against, reference), capture)
    return Compared(arm=arm, file=file, capture=capture, comparison=comparison, table=table)


_NOUNS = {"rows": "rows", "comparison": "positions", "contexts": "contexts", "rollouts": "continuations"}


def capture_id(file: ImportedFile) -> str:
    """Capture id of one file: its format and bytes."""
    return content_id({"imported": file.format, "sha256": file.sha256})


def _refuse_no_difference(arm: ImportedArm, table: pa.Table, file: ImportedFile) -> None:
    same = table["row_identical"]
    known = table.num_rows > 0 and same.null_count == 0
    columns = [name for name in table.column_names if name.startswith(("kl_", "js_"))]
    measured = [table[name] for name in columns if table[name].null_count < table.num_rows]
    zero = bool(measured) and all(pc.max(pc.abs(column)).as_py() == 0 for column in measured)
    if (known and pc.all(same).as_py()) or (zero and not known):
        raise SameRows(
            f"all {table.num_rows:,} rows are the reference's",
            where=f"arm {arm.name}, {file.path}",
            expected="other rows: a candidate differs from its reference",
            todo="import it as a floor (--floor pass:NAME=FILE), or say --equal-is-right",
        )
