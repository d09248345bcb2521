"""Where captures and comparisons lie, and how they are written so that a kill at any moment loses one window at most.

    <store>/store.json                                    format version
    <store>/captures/<capture id>/capture.json            identity of what was executed
    <store>/captures/<capture id>/<window>.parquet        schema ROWS
    <store>/captures/<capture id>/processes.json          which process took which window
    <store>/captures/<capture id>/measured.json           what was measured of a server and its rows are made with
    <store>/comparisons/<comparison id>/comparison.json   the two capture ids
    <store>/comparisons/<comparison id>/<window>.parquet  schema COMPARISON
    <store>/generation/<generation id>/                   what one lane of one execution wrote: see generation.py
    <store>/campaigns/<protocol digest>-<key>.json        which capture is which arm
    <store>/observed/<digest>.json                        what a server said of itself when it last answered
    <store>/dictionaries/<dictionary digest>.parquet      schema DICTIONARY: the bytes of each token
    <store>/spill/                                        full rows of the reference, for the group at work only
    <store>/states/<capture id>/<window>.state            keys and values of a captured window, for this campaign only

Every file is written under a temporary name, flushed, and renamed. A file that is there is whole.
"""

from drift_runs.store.files import comparison_id, content_id, read_table, write_table
from drift_runs.store.folder import DEFAULT_FOLDER, FORMAT, Store
from drift_runs.store.plans import Plan, PlannedCapture, PlannedGeneration, StoredTable, plans, write_plan

__all__ = [
    "DEFAULT_FOLDER",
    "FORMAT",
    "Plan",
    "PlannedCapture",
    "PlannedGeneration",
    "Store",
    "StoredTable",
    "comparison_id",
    "content_id",
    "plans",
    "read_table",
    "write_plan",
    "write_table",
]
