"""What two executions must or must not share, and what is said when they do otherwise."""

from __future__ import annotations

import hashlib

import pyarrow as pa

from drift_runs.capture.execution import Execution
from drift_runs.errors import SameRows
from drift_runs.measure.determinism import DeterminismSummary, rows_identical
from drift_runs.measure.topk import compare_topk
from drift_runs.store import Store


def compare_captures(
    store: Store, reference: Execution, candidate: Execution, window: str, marks: pa.Table
) -> pa.Table:
    """Two captures of one window from their stored rows: what K entries allow, and whether the full rows were equal.

    ``marks``: any comparison of that window, for what its text alone decides.
    """
    left, right = (store.read_rows(execution.capture_id, [window]) for execution in (reference, candidate))
    table = compare_topk(left, right)
    same = rows_identical(left["row_full"].to_pylist(), right["row_full"].to_pylist())
    kind = pa.array(["row.full"] * table.num_rows).dictionary_encode()
    copied = [(name, marks[name].combine_chunks()) for name in ("copy", "literal")]
    for name, column in (("row_identical", same), ("row_hash", kind), *copied):
        at = table.schema.get_field_index(name)
        table = table.set_column(at, table.schema.field(at), column.cast(table.schema.field(at).type))
    return table


def check_switch(execution: Execution, found: DeterminismSummary) -> None:
    """``SameRows`` when an execution that the protocol says differs gave the reference's bytes."""
    must_differ = execution.kind in ("candidate", "follow-up")
    if execution.floor is not None:
        must_differ = execution.floor.rows == "differ"
    if must_differ and found.identical:
        raise SameRows(
            f"all {found.rows} rows are byte-identical to those of {execution.against}",
            where=f"arm {execution.name}",
            expected="other rows: the protocol says that this arm differs",
            todo="check the weight file and settings in drift.toml: the switch did nothing",
        )


def refuted(execution: Execution, found: DeterminismSummary) -> tuple[str, ...]:
    """One sentence when rows that had to be identical are not."""
    if execution.floor is None or execution.floor.rows != "identical" or found.identical:
        return ()
    where = f", first at {found.first_difference[0]}:{found.first_difference[1]}" if found.first_difference else ""
    return (
        f"determinism refuted by {execution.name}: "
        f"{found.rows - found.rows_identical} of {found.rows} rows differ{where}",
    )


class Twins:
    """Remembers which arm gave which rows."""

    def __init__(self) -> None:
        self._arms: dict[bytes, str] = {}

    def refuse(self, execution: Execution, store: Store) -> None:
        """``SameRows`` when an arm gave the bytes of another one: one of the two switches did nothing."""
        if execution.kind not in ("candidate", "follow-up"):
            return
        digest = hashlib.sha256()
        for hashed in store.read_rows(execution.capture_id, execution.windows)["row_full"].to_pylist():
            if hashed is None:
                return
            digest.update(hashed)
        twin = self._arms.setdefault(digest.digest(), execution.name)
        if twin != execution.name:
            raise SameRows(
                f"all rows are byte-identical to those of arm {twin}",
                where=f"arm {execution.name}",
                expected="other rows: the protocol says that the two arms differ",
                todo="check the weight files and settings of both in drift.toml",
            )


def several_processes(execution: Execution, store: Store) -> tuple[str, ...]:
    """One sentence when an interruption made a launch of several processes: it is no single launch then."""
    known = store.processes(execution.capture_id)
    count = len({known[name] for name in execution.windows if name in known})
    return (f"launch {execution.name} is made of {count} processes",) if count > 1 else ()
