"""Entry of the dashboard: navigation only.

The pages lie in ``views`` because a folder called ``pages`` beside this file would turn on Streamlit's older kind of
navigation: the first visitor of a fresh server who follows a link to a page would get that page without this file.
"""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from dashboard.components.markup import tag
from drift_runs.errors import DriftError

# An icon of our own: without it the browser would fetch the page icon's picture from another host.
st.set_page_config(page_title="Drift Runs", page_icon=str(Path(__file__).with_name("icon.svg")), layout="wide")
page = st.navigation(
    {
        "Which arm": [
            st.Page("views/overview.py", title="Overview", icon=":material/table_rows:", default=True),
            st.Page("views/compare.py", title="Compare", icon=":material/compare_arrows:"),
            st.Page("views/history.py", title="History", icon=":material/timeline:"),
        ],
        "Where": [
            st.Page("views/ranges.py", title="Ranges", icon=":material/grid_on:"),
            st.Page("views/tails.py", title="Tails", icon=":material/area_chart:"),
            st.Page("views/outliers.py", title="Outliers", icon=":material/scatter_plot:"),
            st.Page("views/rows.py", title="Rows", icon=":material/format_list_numbered:"),
        ],
        "What is written": [
            st.Page("views/branches.py", title="Branches", icon=":material/call_split:"),
            st.Page("views/rollouts.py", title="Rollouts and tasks", icon=":material/route:"),
            st.Page("views/answers.py", title="Answers", icon=":material/task_alt:"),
        ],
        "Is it sound": [
            st.Page("views/determinism.py", title="Determinism", icon=":material/fingerprint:"),
            st.Page("views/measures.py", title="Measures", icon=":material/straighten:"),
            st.Page("views/protocol.py", title="Protocol", icon=":material/lock:"),
            st.Page("views/published.py", title="Published", icon=":material/public:"),
        ],
    },
    expanded=True,
)
try:
    page.run()
except DriftError as error:  # an artifact that was moved or damaged since the page began to read
    st.html(tag("div", tag("b", "This cannot be shown."), " ", error, cls="dr-notes", role="alert"))
