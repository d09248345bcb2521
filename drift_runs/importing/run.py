"""Files of other tools as a campaign: stored, measured and logged like rows that were taken here.

Everything is read and compared before anything is written, so that a file that cannot be trusted leaves no trace.
"""

from __future__ import annotations

from collections.abc import Callable

from drift_runs.importers import formats
from drift_runs.importers.panel import checked_protocol, protocol_content
from drift_runs.importing.compare import compare_all, read_files
from drift_runs.importing.record import Recorder
from drift_runs.importing.request import ImportRequest, ImportResult


def run_import(request: ImportRequest, note: Callable[[str], None]) -> ImportResult:
    """Read, compare, store, measure and log every file.

    Raises
    ------
    ImportFileError
        a file that cannot be read or trusted.
    NotComparable
        two files that must not be set against each other.
    SameRows
        a candidate that equals its reference everywhere.
    ConfigError
        arms that do not fit together.
    """
    module = formats.load(request.format)
    files = read_files(request, module)
    compared = compare_all(request, module, files, note)
    shown = [file for file in files.values() if file is not None]
    content = protocol_content(request.facts, [item.arm for item in request.files], shown)
    return Recorder(request, content, checked_protocol(content), files, compared).log()
