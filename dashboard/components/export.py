"""The buttons that hand out what is shown: a table as CSV, all of its rows at full precision; a chart as a picture."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import streamlit as st

from drift_runs.charts import still

if TYPE_CHECKING:
    import altair

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
    st.download_button(
        "CSV",
        to_csv(rows),
        file_name=f"{safe_name(name, 'table')}.csv",
        mime="text/csv",
        key=f"csv.{key}",
        on_click="ignore",
        icon=":material/download:",
        disabled=not rows,
    )


def shown_chart(chart: altair.TopLevelMixin, *, name: str, alt: str, key: str = "") -> None:
    """Draw a chart, and below it the buttons that hand it out. ``alt`` says in words what it shows."""
    st.altair_chart(chart, alt=alt)
    chart_button(chart, name=name, key=key)


def chart_button(chart: altair.TopLevelMixin, *, name: str, key: str = "") -> None:
    """Draw the buttons of a chart: SVG and PNG. A file is made when its button is pressed, and not before."""
    safe = safe_name(name, "chart")
    key = key or safe
    with st.container(horizontal=True, gap="small"):
        st.download_button(
            "SVG",
            lambda: still.svg(chart),
            file_name=f"{safe}.svg",
            mime="image/svg+xml",
            key=f"svg.{key}",
            on_click="ignore",
            type="tertiary",
            icon=":material/download:",
        )
        st.download_button(
            "PNG",
            lambda: still.png(chart),
            file_name=f"{safe}.png",
            mime="image/png",
            key=f"png.{key}",
            on_click="ignore",
            type="tertiary",
            icon=":material/download:",
        )


def safe_name(name: str, otherwise: str) -> str:
    """A file's name, reduced to characters that every machine takes, at most 100 of them."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name)[:100].strip("-.") or otherwise
