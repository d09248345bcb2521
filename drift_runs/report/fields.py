"""Tables as CSV, all of their rows at full precision, and the names of files."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Mapping, Sequence

import pyarrow as pa

from drift_runs.tracking.records import CampaignRecord

RISKY_STARTS = ("=", "+", "-", "@", "\t", "\r")
"""A spreadsheet takes a text that starts so for a formula."""
NAME_CHARACTERS = 100


def to_csv(rows: Sequence[Mapping[str, object]]) -> str:
    """Rows as CSV, columns from the first row. None is an empty field; a text that could be a formula gets a quote."""
    out = io.StringIO()
    if not rows:
        return ""
    writer = csv.DictWriter(out, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _field(value) for name, value in row.items()} for row in rows)
    return out.getvalue()


def table_csv(table: pa.Table) -> str:
    """A stored table as CSV, its header also where it has no row."""
    if not table.num_rows:
        return ",".join(table.column_names) + "\n"
    return to_csv(table.to_pylist())


def _field(value: object) -> object:
    if value is None:
        return ""
    if isinstance(value, str):
        # Half a character cannot be written as UTF-8.
        value = value.encode("utf-8", "replace").decode()
        return "'" + value if value.startswith(RISKY_STARTS) else value
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, (list, tuple, dict)):
        return json.dumps(value, ensure_ascii=False)
    return value


def safe_name(name: str, otherwise: str) -> str:
    """A file's name, reduced to characters that every machine takes."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name)[:NAME_CHARACTERS].strip("-.") or otherwise


def report_name(campaign: CampaignRecord) -> str:
    """What a campaign's report is called, without an ending."""
    name = f"drift-{campaign.protocol_name}-v{campaign.protocol_version}-{campaign.run_id[:8]}"
    return safe_name(name, "drift-report")
