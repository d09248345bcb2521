"""The token-stream viewer: the history that two futures share, and both of them token by token.

A Streamlit component without a build step: its three files are read from here and handed over as they are. Texts reach
the browser as values and are set as text, never as markup.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa

from dashboard.components.stream_viewer.payload import HISTORY_TOKENS, History, Side, payload
from drift_runs.generate.futures import futures_of
from drift_runs.schema import FUTURES

__all__ = ["HISTORY_TOKENS", "History", "Side", "payload", "shown_futures", "stream_viewer"]

NAME = "drift_runs.stream_viewer"
_FOLDER = Path(__file__).parent


def stream_viewer(data: dict[str, Any], *, key: str) -> None:
    """Draw the viewer of what :func:`payload` made."""
    _component()(data=data, key=key)


def shown_futures(
    *,
    history: Sequence[int],
    dictionary: Sequence[bytes],
    reference: Mapping[str, Any],
    candidate: Mapping[str, Any] | None,
    reference_name: str,
    candidate_name: str,
    outcome: Mapping[str, Any],
    key: str,
) -> None:
    """Draw both futures of a root.

    ``reference``, ``candidate``: rows of schema ``FUTURES``; a candidate that is None is shown as the outcome's text.
    ``outcome``: their row of schema ``OUTCOMES``. ``history``: all ids before the root; empty where it is not stored.
    """
    position = outcome["position"]
    missing = "" if len(history) == position else "The text before the root is not stored with this campaign."
    sides = [
        Side(
            name=name,
            says=side,
            future=None if row is None else futures_of(pa.Table.from_pylist([dict(row)], schema=FUTURES))[0],
            text=outcome[f"{side}_text"],
            ended=outcome[f"{side}_ended"],
            resync=outcome[f"resync_{side}"],
        )
        for side, name, row in (
            ("reference", reference_name, reference),
            ("candidate", candidate_name, candidate),
        )
    ]
    before = History(tokens=list(history[-HISTORY_TOKENS:]), position=position, missing=missing)
    stream_viewer(payload(before, *sides, dictionary), key=key)


@cache
def _component() -> Any:
    import streamlit as st

    read = {kind: (_FOLDER / f"viewer.{kind}").read_text(encoding="utf-8") for kind in ("html", "css", "js")}
    return st.components.v2.component(NAME, **read)
