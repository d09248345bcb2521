"""Expected answers of a protocol: would an arm have written them to the letter, and where not.

Every position of an answer is predicted from the text's own history. If the best token is the text's own at each of
them, greedy decoding from the answer's first token writes the answer itself. After a first wrong token it would go
another way, so the number of wrong positions says how far the arm is from the text, and not what it would write.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from drift_runs.measure.text import Texts
from drift_runs.protocol.model import Answer, Protocol, Range
from drift_runs.schema import ANSWERS

_AT_ONCE = 262_144
"""Rows whose windows are read at a time: a comparison may have ten million."""
_READ = (
    "token",
    "flip_text",
    "reference_top",
    "candidate_top",
    "reference_nll_nats",
    "candidate_nll_nats",
    "candidate_p1",
    "literal",
)

Bools = NDArray[np.bool_]


def answers_table(comparison: pa.Table, protocol: Protocol, *, arm: str, texts: Texts | None = None) -> pa.Table:
    """The protocol's answers in one comparison, schema ``ANSWERS``, in the protocol's order.

    An answer is exact when ``flip_text`` is False at every position of ``[from, to)``; of the reference (or of what the
    comparison is against) when its best token is the text's own there. Where a position has no row, or one of these
    values is null, the answer is not judged: ``unknown`` counts such positions, and nothing else is said of it.
    Answers of windows without any row are left out. ``texts``: without them ids stand alone.
    """
    windows = {answer.window: at for at, answer in enumerate(protocol.answers)}
    rows = _Rows.of(comparison, tuple(windows))
    ranges = {window: [span for span in protocol.ranges if span.window == window] for window in windows}
    found = [
        _described(answer, rows, protocol, ranges[answer.window], arm, texts)
        for answer in protocol.answers
        if answer.window in rows.present
    ]
    return pa.Table.from_pylist(found, schema=ANSWERS)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rows:
    """The m rows of the windows that have answers, ordered by window and position."""

    windows: tuple[str, ...]
    present: frozenset[str]
    keys: NDArray[np.int64]
    """int64[m]: place in ``windows``, then position."""
    known: Bools
    wrong: Bools
    """bool[m]: the arm's best token is not the text's own; False where not ``known``. So is ``reference_wrong``."""
    reference_wrong: Bools
    table: pa.Table

    @classmethod
    def of(cls, comparison: pa.Table, windows: tuple[str, ...]) -> _Rows:
        wanted = pa.array(windows, pa.string())
        parts, codes = [], []
        for start in range(0, comparison.num_rows if windows else 0, _AT_ONCE):
            part = comparison.slice(start, _AT_ONCE)
            code = pc.index_in(part["window"].cast(pa.string()), value_set=wanted)
            inside = code.is_valid()
            parts.append(part.select(["position", *_READ]).filter(inside))
            codes.append(code.filter(inside).to_numpy())
        table = pa.concat_tables(parts) if parts else comparison.select(["position", *_READ]).slice(0, 0)
        code = np.concatenate(codes).astype(np.int64) if codes else np.zeros(0, dtype=np.int64)
        keys = (code << 32) | table["position"].to_numpy().astype(np.int64)
        order = np.argsort(keys, kind="stable")
        table = table.take(pa.array(order))
        token, best, flip = (table[name] for name in ("token", "reference_top", "flip_text"))
        # Unusable rows hold -1 as their best token.
        known = filled(pc.and_(pc.greater_equal(token, 0), pc.greater_equal(best, 0))) & filled(flip.is_valid())
        return cls(
            windows=windows,
            present=frozenset(windows[at] for at in np.unique(code)),
            keys=keys[order],
            known=known,
            wrong=filled(flip) & known,
            reference_wrong=filled(pc.not_equal(token, best)) & known,
            table=table,
        )

    def span(self, answer: Answer) -> slice:
        """The rows of an answer."""
        window = self.windows.index(answer.window) << 32
        first, end = np.searchsorted(self.keys, [window | answer.start, window | answer.end])
        return slice(int(first), int(end))


def filled(column: pa.ChunkedArray) -> Bools:
    """bool[m], False for null."""
    return pc.fill_null(column, False).to_numpy(zero_copy_only=False).astype(bool)


def _described(
    answer: Answer, rows: _Rows, protocol: Protocol, ranges: list[Range], arm: str, texts: Texts | None
) -> dict[str, object]:
    """One row of the table."""
    window = protocol.window(answer.window)
    inside = next((span for span in ranges if span.start <= answer.start < span.end), None)
    stream = None if texts is None else texts.streams.get(answer.window)
    described: dict[str, object] = {
        "arm": arm,
        "answer": answer.name,
        "window": answer.window,
        "document": window.document,
        "panel": window.panel,
        "range": inside.name if inside else "",
        "kind": inside.kind if inside else "",
        "outlier": answer.window in protocol.outlier_windows,
        "form": answer.form,
        "from": answer.start,
        "to": answer.end,
        "text": texts.tokens.passage(stream[answer.start : answer.end]) if texts and stream is not None else None,
    }
    span = rows.span(answer)
    unknown = answer.end - answer.start - int(np.count_nonzero(rows.known[span]))
    described["unknown"] = unknown
    if unknown:
        return described
    wrong = np.flatnonzero(rows.wrong[span])
    described |= {
        "reference_exact": not rows.reference_wrong[span].any(),
        "exact": len(wrong) == 0,
        "wrong": len(wrong),
    }
    if len(wrong):
        row = rows.table.slice(span.start + int(wrong[0]), 1).to_pylist()[0]
        described |= _first_wrong(row, texts)
        if texts and stream is not None:
            place = texts.tokens.place(stream[answer.start : answer.end], row["position"] - answer.start)
            described |= {"wrong_from": place.start, "wrong_to": place.end}
    return described


def _first_wrong(row: Mapping[str, object], texts: Texts | None) -> dict[str, object]:
    """What stands at the first wrong position."""

    def text(token: object) -> str | None:
        return None if texts is None or token is None else texts.tokens.text(int(token))

    candidate = row["candidate_top"] if row["candidate_top"] is not None and row["candidate_top"] >= 0 else None
    return {
        "first_wrong": row["position"],
        "literal": row["literal"],
        "token": row["token"],
        "token_text": text(row["token"]),
        "candidate_top": candidate,
        "candidate_text": text(candidate),
        "reference_p": _probability(row["reference_nll_nats"]),
        "candidate_p": _probability(row["candidate_nll_nats"]),
        "candidate_p1": row["candidate_p1"],
    }


def _probability(nll_nats: object) -> float | None:
    return None if nll_nats is None else math.exp(-float(nll_nats))
