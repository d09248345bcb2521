"""History: figures over time and over versions of engine and driver."""

from __future__ import annotations

from dashboard.frame import open_page


def show() -> None:
    open_page("History")


show()
