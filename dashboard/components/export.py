"""The buttons that hand out what is shown: a table as CSV, all of its rows at full precision; a chart as a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import streamlit as st

from drift_runs.charts import still
from drift_runs.report.fields import safe_name, to_csv

if TYPE_CHECKING:
    import altair


def csv_button(rows: Sequence[Mapping[str, object]], *, name: str, key: str) -> None:
    """Draw the button; ``name`` is the file's, reduced to safe characters. The file is made when it is pressed."""
    st.download_button(
        "CSV",
        lambda: to_csv(rows),
        file_name=f"{safe_name(name, 'table')}.csv",
        mime="text/csv",
        key=f"csv.{key}",
        on_click="ignore",
        icon=":material/download:",
        disabled=not rows,
    )


def shown_chart(chart: altair.TopLevelMixin, *, name: str, alt: str, key: str = "") -> None:
    """Draw a chart, and below it the buttons that hand it out. ``alt`` says in words what it shows."""
    st.altair_chart(_Unchecked(chart), alt=alt)
    chart_button(chart, name=name, key=key)


class _Unchecked:
    """A chart that is not held against Vega-Lite's schema each time it is drawn: that took half of the time of a click,
    and the tests of charts do it."""

    def __init__(self, chart: altair.TopLevelMixin) -> None:
        self._chart = chart

    def to_dict(self) -> dict[str, object]:
        """All that Streamlit asks of a chart."""
        return self._chart.to_dict(validate=False)


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
