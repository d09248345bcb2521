"""Tails: how large the largest divergences are, and where they lie."""

from __future__ import annotations

from dashboard.frame import open_page


def show() -> None:
    open_page("Tails")


show()
