"""Entry of the dashboard: navigation only."""

from __future__ import annotations

import streamlit as st

st.set_page_config(page_title="Drift Runs", layout="wide")
st.navigation(
    [
        st.Page("pages/overview.py", title="Overview", icon=":material/table_rows:", default=True),
        st.Page("pages/ranges.py", title="Ranges", icon=":material/grid_on:"),
        st.Page("pages/outliers.py", title="Outliers", icon=":material/scatter_plot:"),
    ]
).run()
