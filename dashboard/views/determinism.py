"""Determinism: whether the same gives the same."""

from __future__ import annotations

from dashboard.frame import open_page


def show() -> None:
    open_page("Determinism")


show()
