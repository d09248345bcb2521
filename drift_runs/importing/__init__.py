"""Files of other tools as a campaign: what is asked (request), read and compared (compare), and kept (record)."""

from drift_runs.importing.record import figures_without_positions
from drift_runs.importing.request import ArmFile, ImportedOutcome, ImportRequest, ImportResult
from drift_runs.importing.run import run_import

__all__ = [
    "ArmFile",
    "ImportRequest",
    "ImportResult",
    "ImportedOutcome",
    "figures_without_positions",
    "run_import",
]
