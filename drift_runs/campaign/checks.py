"""What two executions must or must not share, and what is said when they do otherwise."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from drift_runs.capture.execution import COPY_SETTINGS, Execution
from drift_runs.capture.score import scored_positions
from drift_runs.errors import SameRows, one_line
from drift_runs.measure.copies import copy_marks
from drift_runs.measure.determinism import DeterminismSummary, rows_identical
from drift_runs.measure.literals import literal_marks
from drift_runs.measure.topk import compare_topk
from drift_runs.protocol.load import LoadedProtocol
from drift_runs.store import Store


def compare_captures(
    store: Store, reference: Execution, candidate: Execution, window: str, marks: pa.Table
) -> pa.Table:
    """Two captures of one window from their stored rows: what K entries allow, and whether the full rows were equal.

    ``marks``: ``copy`` and ``literal`` at the window's scored positions, for they are the text's alone: any comparison
    of that window has them, and so has :func:`text_marks`.
    """
    left, right = (store.read_rows(execution.capture_id, [window]) for execution in (reference, candidate))
    table = compare_topk(left, right)
    columns = [(name, marks[name].combine_chunks()) for name in ("copy", "literal")]
    hashes = [side["row_full"].to_pylist() for side in (left, right)]
    # Rows that a server listed have no hash of all their columns: then the best K decide, as they were compared.
    if all(any(value is not None for value in side) for side in hashes):
        kind = pa.array(["row.full"] * table.num_rows).dictionary_encode()
        columns += [("row_identical", rows_identical(*hashes)), ("row_hash", kind)]
    for name, column in columns:
        at = table.schema.get_field_index(name)
        table = table.set_column(at, table.schema.field(at), column.cast(table.schema.field(at).type))
    return table


def text_marks(loaded: LoadedProtocol, window: str, texts: Sequence[bytes] | None) -> pa.Table:
    """The columns ``copy`` and ``literal`` of a window's scored positions; null where no dictionary is known.

    ``texts``: the bytes of each id.
    """
    tokens = np.asarray(loaded.tokens(window), dtype=np.int32)
    positions = scored_positions(loaded.protocol.window(window).scored)
    settings = loaded.protocol.marks.model_dump(include=COPY_SETTINGS)
    literal = pa.nulls(len(positions), pa.bool_())
    if texts is not None:
        literal = pa.array(literal_marks([texts[token] for token in tokens])[positions])
    return pa.table({"copy": pa.array(copy_marks(tokens, **settings)[positions]), "literal": literal})


def check_switch(execution: Execution, found: DeterminismSummary) -> None:
    """``SameRows`` when an execution that the protocol says differs gave the reference's bytes."""
    must_differ = execution.kind in ("candidate", "follow-up") and not execution.may_equal
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
        rows = store.read_rows(execution.capture_id, execution.windows)
        known = "row_full" if rows["row_full"].null_count == 0 else "row_top"
        for hashed in rows[known].to_pylist():
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


def sent_again(execution: Execution, store: Store) -> tuple[str, ...]:
    """One sentence when requests to a server had to be repeated: each row is one answer's all the same."""
    known = store.retries(execution.capture_id)
    count = sum(known.get(name, 0) for name in execution.windows)
    windows = sum(known.get(name, 0) > 0 for name in execution.windows)
    return (f"{count} requests of {windows} windows were sent again",) if count else ()


def probe_remark(name: str, report: Mapping[str, Any], questions: Collection[str]) -> str:
    """One line of what an engine was found not to do, and is measured all the same: with the numbers that say so."""
    found = [answer for answer in report["answers"] if answer["question"] in questions]
    said = ", ".join(f"{answer['question']} ({one_line(answer['evidence'])})" for answer in found)
    return f"the probe of {name} says no to {said}"


def several_processes(execution: Execution, store: Store) -> tuple[str, ...]:
    """One sentence when an interruption made a launch of several processes: it is no single launch then."""
    known = store.processes(execution.capture_id)
    count = len({known[name] for name in execution.windows if name in known})
    return (f"launch {execution.name} is made of {count} processes",) if count > 1 else ()
