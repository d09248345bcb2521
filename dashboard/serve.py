"""The server of the pages: Streamlit, with the libraries that every page needs read while the browser connects.

Streamlit reads a page's script, and with it all that it imports, when the first visitor is there. Two thirds of what
such a visitor waited for was that.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
import threading

_NEEDED = (
    "pandas",
    "pyarrow.parquet",
    "altair",
    "drift_runs.tracking.index",
    "drift_runs.tracking.reader",
    "dashboard.frame",
)


def read_ahead() -> None:
    """Import what a page needs. What fails here fails again in the page, which says it."""
    for name in _NEEDED:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


def main() -> None:
    """As ``streamlit``, with the same arguments."""
    threading.Thread(target=read_ahead, name="read ahead", daemon=True).start()
    from streamlit.web.cli import main as streamlit

    streamlit(prog_name="streamlit")


if __name__ == "__main__":
    sys.exit(main())
