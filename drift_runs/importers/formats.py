"""Which module reads which format. A format's name is what stands after ``--format``.

A module of this registry has the interface of :class:`~drift_runs.importers.base.Importer`: ``FORMAT``, ``KIND``,
``HELP`` and ``read(path)``. It may have two things more:

``EQUAL_FACTS``
    Names of the facts that must be equal before two files are set against each other; every other fact may differ.
``compare_files(reference, candidate)``
    A table of schema ``COMPARISON`` from two files that were read, for a format whose ``ROWS`` hold less than the file
    does (full rows). Without it, rows are compared by :func:`~drift_runs.measure.topk.compare_topk`.
"""

from __future__ import annotations

import importlib
from types import ModuleType

from drift_runs.errors import ConfigError

FORMATS: dict[str, str] = {
    "topk-rows": "drift_runs.importers.topk_rows",
    "rollouts": "drift_runs.importers.rollouts",
    "contexts": "drift_runs.importers.contexts",
    "csv": "drift_runs.importers.csv_positions",
    "llama-kld": "drift_runs.importers.llama_kld",
    "cuteafd-run": "drift_runs.importers.cuteafd_run",
    "rows": "drift_runs.importers.plain_rows",
}
"""Format name to module. Which format a file has is said by the user: guessing could read one convention as another."""


def load(name: str) -> ModuleType:
    """The module of a format, imported when it is asked for; ``ConfigError`` with the nearest name for another."""
    if name not in FORMATS:
        # Inside the function, so that the command line can list the formats without it.
        from drift_runs.protocol.problems import did_you_mean

        raise ConfigError(
            f"unknown format {name!r}", expected="one of " + ", ".join(FORMATS), todo=did_you_mean(name, FORMATS)
        )
    return importlib.import_module(FORMATS[name])
