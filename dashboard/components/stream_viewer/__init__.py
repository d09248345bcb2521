"""The token-stream viewer: the history that two futures share, and both of them token by token.

A Streamlit component without a build step: its three files are read from here and handed over as they are. Texts reach
the browser as values and are set as text, never as markup.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from dashboard.components.stream_viewer.payload import HISTORY_TOKENS, History, Side, payload

__all__ = ["HISTORY_TOKENS", "History", "Side", "payload", "stream_viewer"]

NAME = "drift_runs.stream_viewer"
_FOLDER = Path(__file__).parent


def stream_viewer(data: dict[str, Any], *, key: str) -> None:
    """Draw the viewer of what :func:`payload` made."""
    _component()(data=data, key=key)


@cache
def _component() -> Any:
    import streamlit as st

    read = {kind: (_FOLDER / f"viewer.{kind}").read_text(encoding="utf-8") for kind in ("html", "css", "js")}
    return st.components.v2.component(NAME, **read)
