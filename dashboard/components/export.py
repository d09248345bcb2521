"""The button that hands a table out as CSV: all of its rows, at full precision."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence

import streamlit as st

RISKY_STARTS = ("=", "+", "-", "@", "\t", "\r")
"""A spreadsheet takes a text that starts so for a formula."""


def to_csv(rows: Sequence[Mapping[str, object]]) -> str:
    """Rows as CSV, columns from the first row. None is an empty field; a text that could be a formula gets a quote."""
    out = io.StringIO()
    if not rows:
        return ""
    writer = csv.DictWriter(out, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _field(value) for name, value in row.items()} for row in rows)
    return out.getvalue()


def _field(value: object) -> object:
    if value is None:
        return ""
    if isinstance(value, str) and value.startswith(RISKY_STARTS):
        return "'" + value
    return value


def csv_button(rows: Sequence[Mapping[str, object]], *, name: str, key: str) -> None:
    """Draw the button; ``name`` is the file's, reduced to safe characters."""
    safe = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.") or "table"
    st.download_button(
        "CSV",
        to_csv(rows),
        file_name=f"{safe}.csv",
        mime="text/csv",
        key=f"csv.{key}",
        on_click="ignore",
        icon=":material/download:",
        disabled=not rows,
    )
