"""How the agreement of two executions reads in a table: rows, windows, the largest difference, and what is refuted."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from dashboard.components.markup import Html, tag
from drift_runs.measure.determinism import DeterminismSummary


def without_windows(table: pa.Table, windows: Sequence[str]) -> pa.Table:
    """A ``DETERMINISM`` table without some windows."""
    return table.filter(pc.invert(pc.is_in(table["window"], value_set=pa.array(windows, type=pa.string()))))


def determinism_cells(rows_expected: str, found: DeterminismSummary) -> list[Html]:
    """Cells: rows identical, windows identical, largest difference."""
    if found.rows == 0:
        return [tag("td", "no positions", cls="dr-grey", colspan=3)]
    refuted = rows_expected == "identical" and not found.identical
    mark = tag("span", "determinism refuted", cls="dr-chip dr-above") if refuted else None
    where = f"first at {found.first_difference[0]}, {found.first_difference[1]}" if found.first_difference else ""
    unhashable = f"{found.rows_unhashable:,} unhashable" if found.rows_unhashable else ""
    largest, of = _largest(found)
    return [
        tag("td", f"{found.rows_identical:,} of {found.rows:,}", mark, _line(unhashable), cls="dr-num"),
        tag("td", f"{found.windows_identical:,} of {found.windows:,}", _line(where), cls="dr-num"),
        tag("td", largest, _line(of), cls="dr-num"),
    ]


def _largest(found: DeterminismSummary) -> tuple[str, str]:
    """The largest difference and of what: raw logits where they are known, else log-probabilities of shared tokens.

    Adding 0 takes the sign from a negative zero.
    """
    if found.max_abs_dlogit is not None:
        return f"{found.max_abs_dlogit + 0.0:.3g}", "of a raw logit"
    if found.max_abs_dlogprob is not None:
        return f"{found.max_abs_dlogprob + 0.0:.3g}", "of a log-probability"
    return "-", ""


def _line(words: str) -> Html | None:
    return tag("span", words, cls="dr-line") if words else None


def determinism_csv(found: DeterminismSummary) -> dict[str, object]:
    """The same as fields of a CSV row."""
    return {
        "rows": found.rows,
        "rows_identical": found.rows_identical,
        "rows_unhashable": found.rows_unhashable,
        "windows": found.windows,
        "windows_identical": found.windows_identical,
        "max_abs_dlogit": found.max_abs_dlogit,
        "max_abs_dlogprob": found.max_abs_dlogprob,
    }
