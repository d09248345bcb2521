"""Protocol: what is frozen."""

from __future__ import annotations

from dashboard.frame import open_page


def show() -> None:
    open_page("Protocol")


show()
