"""Branches: what becomes of a flip when nobody is pulled back."""

from __future__ import annotations

from dashboard.frame import open_page


def show() -> None:
    open_page("Branches")


show()
