"""Entry of the dashboard: navigation only."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

# An icon of our own: without it the browser would fetch the page icon's picture from another host.
st.set_page_config(page_title="Drift Runs", page_icon=str(Path(__file__).with_name("icon.svg")), layout="wide")
st.navigation(
    [
        st.Page("pages/overview.py", title="Overview", icon=":material/table_rows:", default=True),
        st.Page("pages/ranges.py", title="Ranges", icon=":material/grid_on:"),
        st.Page("pages/outliers.py", title="Outliers", icon=":material/scatter_plot:"),
    ]
).run()
