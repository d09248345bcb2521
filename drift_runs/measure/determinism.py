"""Row and window hashes, specs ``row.top@K`` and ``row.full``, and whether two executions agree to the byte."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from drift_runs.schema import DETERMINISM

TOP_TAG = b"drift.row.top/1"
FULL_TAG = b"drift.row.full/1"

_ENTRY = np.dtype([("id", "<u4"), ("logprob", "<f4")])


def row_top_hash(
    ids: NDArray[np.int32], logprobs: NDArray[np.float32 | np.float64], position: int, top_k: int
) -> bytes | None:
    """SHA-256 of one row's best entries; None when a log-probability is NaN or infinite.

    ``ids``: int[m] distinct, ``logprobs``: float[m], in any order, at most ``top_k`` of them (the actual token that an
    engine appends beyond rank K is not among them). When all K entries are there, those equal to the K-th are dropped:
    ties at the edge are common and which of them is returned is arbitrary.
    """
    values = np.asarray(logprobs).astype(np.float64).astype(np.float32)
    if not np.isfinite(values).all():
        return None
    values = values + np.float32(0)  # -0 becomes +0
    order = np.lexsort((ids, -values))
    return _top_digest(np.asarray(ids)[order], values[order], position, top_k)


def _top_digest(ids: NDArray[np.int32], values: NDArray[np.float32], position: int, top_k: int) -> bytes:
    """The digest of entries that are sorted by (-logprob, id) and finite."""
    if len(values) >= top_k:
        kept = int(np.count_nonzero(values > values[top_k - 1]))
        ids, values = ids[:kept], values[:kept]
    entries = np.empty(len(ids), dtype=_ENTRY)
    entries["id"] = ids
    entries["logprob"] = values
    head = TOP_TAG + struct.pack("<III", top_k, position, len(ids))
    return hashlib.sha256(head + entries.tobytes()).digest()


def row_top_hashes(
    top_ids: NDArray[np.int32], top_logprobs: NDArray[np.float32], positions: NDArray[np.int32], top_k: int
) -> list[bytes | None]:
    """:func:`row_top_hash` of each row of int32[n, m] and float32[n, m], sorted by (-logprob, id) as in captures."""
    values = np.asarray(top_logprobs, dtype=np.float32) + np.float32(0)
    finite = np.isfinite(values).all(axis=1)
    return [
        _top_digest(top_ids[row], values[row], int(positions[row]), top_k) if finite[row] else None
        for row in range(len(values))
    ]


def row_full_hash(logits: NDArray[np.float32], position: int, dictionary_size: int) -> bytes | None:
    """SHA-256 of one row's raw float32 logits, padding dropped; None when one of them is NaN or infinite."""
    return row_full_hashes(np.asarray(logits)[None, :], np.array([position]), dictionary_size)[0]


def row_full_hashes(
    logits: NDArray[np.float32],
    positions: NDArray[np.int32],
    dictionary_size: int,
    *,
    finite: NDArray[np.bool_] | None = None,
) -> list[bytes | None]:
    """``row.full`` of each row of float32[n, V_all]. ``finite``: bool[n], when the caller has looked already."""
    rows = np.asarray(logits)[:, :dictionary_size]
    if finite is None:
        finite = np.array([bool(np.isfinite(row).all()) for row in rows], dtype=bool)
    hashes: list[bytes | None] = []
    for row, position, usable in zip(rows, positions, finite, strict=True):
        if not usable:
            hashes.append(None)
            continue
        digest = hashlib.sha256(FULL_TAG + struct.pack("<II", int(position), dictionary_size))
        digest.update(np.ascontiguousarray(row, dtype="<f4"))
        hashes.append(digest.digest())
    return hashes


def window_hash(hashes: Sequence[bytes | None]) -> bytes | None:
    """SHA-256 of the row count (u32, little-endian) and the row hashes in order; None when a row has none."""
    digest = hashlib.sha256(struct.pack("<I", len(hashes)))
    for value in hashes:
        if value is None:
            return None
        digest.update(value)
    return digest.digest()


def window_hashes(rows: pa.Table) -> dict[str, bytes | None]:
    """:func:`window_hash` of each window of a table of schema ``ROWS``, rows by position.

    Of the rows' ``row_full`` where the table has any, else of their ``row_top``.
    """
    column = rows["row_full"] if rows["row_full"].null_count < rows.num_rows else rows["row_top"]
    hashes = column.to_pylist()
    by_window: dict[str, list[tuple[int, bytes | None]]] = {}
    for window, position, value in zip(
        rows["window"].cast(pa.string()).to_pylist(), rows["position"].to_pylist(), hashes, strict=True
    ):
        by_window.setdefault(window, []).append((position, value))
    return {
        window: window_hash([value for _, value in sorted(placed, key=lambda place: place[0])])
        for window, placed in by_window.items()
    }


def rows_identical(left: Sequence[bytes | None], right: Sequence[bytes | None]) -> pa.Array:
    """The column ``row_identical``: bool[n], null where either row is unhashable."""
    return pa.array(
        [None if a is None or b is None else a == b for a, b in zip(left, right, strict=True)], type=pa.bool_()
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DeterminismSummary:
    """How far two executions agree, over the windows that both have."""

    windows: int
    windows_identical: int
    rows: int
    rows_identical: int
    rows_unhashable: int
    """NaN or infinity on either side: counted as not identical."""
    max_abs_dlogit: float | None
    """Largest |difference| of raw logits over finite rows; None when there is none."""
    max_abs_dlogprob: float | None
    """The same of log-probabilities, where raw logits are not known."""
    row_hash: str
    """Which hash decided: ``row.full`` or ``row.top@K``."""
    first_difference: tuple[str, int] | None
    """(window, position) of the first row that is not identical; None when all are."""

    @property
    def identical(self) -> bool:
        """True when there are rows and every one is identical."""
        return self.rows > 0 and self.rows_identical == self.rows


def determinism_table(
    comparison: pa.Table, *, arm: str, against: str, window_hashes: Mapping[str, bytes | None] | None = None
) -> pa.Table:
    """One row a window (schema ``DETERMINISM``) from a comparison table, windows in order of first appearance.

    ``window_hashes``: :func:`window_hash` of the arm's own rows, which a comparison does not hold.
    """
    known = window_hashes or {}
    columns: dict[str, list] = {field.name: [] for field in DETERMINISM}
    window = pc.dictionary_encode(comparison["window"].cast(pa.string()).combine_chunks())
    codes = window.indices.to_numpy(zero_copy_only=False)
    positions = comparison["position"].to_numpy()
    identical = comparison["row_identical"]
    same = pc.fill_null(identical, False).to_numpy(zero_copy_only=False).astype(bool)
    hashed = identical.is_valid().to_numpy(zero_copy_only=False).astype(bool)
    difference = comparison["max_abs_dlogit"].to_numpy(zero_copy_only=False).astype(np.float64)
    logprob_difference = comparison["max_abs_dlogprob"].to_numpy(zero_copy_only=False).astype(np.float64)
    kinds = {value for value in pc.unique(comparison["row_hash"].cast(pa.string())).to_pylist() if value}
    # One sort for all windows: a search for each would take the square of a long panel's time.
    order = np.lexsort((positions, codes))
    edges = np.searchsorted(codes[order], np.arange(len(window.dictionary) + 1))
    for index, name in enumerate(window.dictionary.to_pylist()):
        here = order[edges[index] : edges[index + 1]]
        different = here[~same[here]]
        columns["arm"].append(arm)
        columns["against"].append(against)
        columns["window"].append(name)
        columns["rows"].append(len(here))
        columns["rows_identical"].append(int(same[here].sum()))
        columns["rows_unhashable"].append(int((~hashed[here]).sum()))
        columns["window_identical"].append(len(different) == 0)
        columns["row_hash"].append(", ".join(sorted(kinds)))
        columns["max_abs_dlogit"].append(_largest(difference[here]))
        columns["max_abs_dlogprob"].append(_largest(logprob_difference[here]))
        columns["first_difference"].append(int(positions[different[0]]) if len(different) else None)
        columns["window_hash"].append(known.get(name))
    return pa.table(columns, schema=DETERMINISM)


def _largest(values: NDArray[np.float64]) -> float | None:
    """The largest finite value; None when there is none."""
    finite = values[np.isfinite(values)]
    return float(finite.max()) if len(finite) else None


def summarise_determinism(table: pa.Table) -> DeterminismSummary:
    """The lines of :func:`determinism_table` as one answer."""
    differences = [value for value in table["max_abs_dlogit"].to_pylist() if value is not None]
    logprobs = [value for value in table["max_abs_dlogprob"].to_pylist() if value is not None]
    firsts = [
        (window, position)
        for window, position in zip(table["window"].to_pylist(), table["first_difference"].to_pylist(), strict=True)
        if position is not None
    ]
    return DeterminismSummary(
        windows=table.num_rows,
        windows_identical=sum(table["window_identical"].to_pylist()),
        rows=sum(table["rows"].to_pylist()),
        rows_identical=sum(table["rows_identical"].to_pylist()),
        rows_unhashable=sum(table["rows_unhashable"].to_pylist()),
        max_abs_dlogit=max(differences) if differences else None,
        max_abs_dlogprob=max(logprobs) if logprobs else None,
        row_hash=", ".join(sorted(set(table["row_hash"].to_pylist()))),
        first_difference=firsts[0] if firsts else None,
    )
