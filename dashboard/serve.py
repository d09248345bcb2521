"""The server of the pages: Streamlit, with the libraries that the first table needs read while the browser connects.

Streamlit reads a page's script, and with it all that it imports, when the first visitor is there. Two thirds of what
such a visitor waited for was that. What a table does not need is left for later: the library of charts is read when the
first chart is drawn, below the table.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
import threading
from importlib.abc import MetaPathFinder

_NEEDED = (
    "drift_runs.tracking.index",
    "drift_runs.tracking.reader",
    "dashboard.frame",
    "dashboard.components.arm_facets",
)


class _NoPandas(MetaPathFinder):
    def find_spec(self, fullname: str, path: object = None, target: object = None) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError("pandas is not looked for", name=fullname)


def read_ahead() -> None:
    """Import what the first table needs. What fails here fails again in the page, which says it."""
    for name in _NEEDED:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


def without_pandas() -> None:
    """Let pyarrow find no pandas. It looks once, when it first takes a value of Python, and would import all of it.

    No page hands a table of pandas to pyarrow or asks for one. Who imports pandas later gets it.
    """
    import pyarrow

    finder = _NoPandas()
    sys.meta_path.insert(0, finder)
    try:
        pyarrow.scalar("")
    finally:
        sys.meta_path.remove(finder)


def _ahead() -> None:
    without_pandas()
    read_ahead()


def main() -> None:
    """As ``streamlit``, with the same arguments."""
    threading.Thread(target=_ahead, name="read ahead", daemon=True).start()
    from streamlit import delta_generator
    from streamlit.components.v2 import manifest_scanner
    from streamlit.web.cli import main as streamlit

    # The first element of a server would look whether this is an interactive session, and for that read the source of
    # every function on the stack. It is not one. A version that does not know the name looks, as before.
    delta_generator._use_warning_has_been_displayed = True
    # The metadata of every installed package would be read in search of components. The pages use none of another's.
    manifest_scanner.scan_component_manifests = list
    streamlit(prog_name="streamlit")


if __name__ == "__main__":
    sys.exit(main())
