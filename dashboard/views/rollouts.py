"""Rollouts and tasks: what is written from a prompt, and which tasks pass."""

from __future__ import annotations

from dashboard.frame import open_page


def show() -> None:
    open_page("Rollouts and tasks")


show()
