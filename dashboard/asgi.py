"""The web application that the server runs: the pages of ``app.py`` through :class:`~dashboard.rooted.Rooted`."""

from __future__ import annotations

from pathlib import Path

from starlette.middleware import Middleware
from streamlit.starlette import App

from dashboard.rooted import Rooted

# Streamlit looks for this name.
app = App(Path(__file__).with_name("app.py"), middleware=[Middleware(Rooted)])
