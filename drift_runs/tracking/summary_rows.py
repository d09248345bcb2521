"""The headline figures of one comparison among those of many: which they are, and its rows of ``SUMMARY``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from drift_runs.generate.outcomes import OUTCOMES
from drift_runs.schema import SUMMARY
from drift_runs.tracking import chosen_metrics
from drift_runs.tracking.records import ArmRecord, CampaignRecord

DETERMINISM = "determinism"
ROWS_SHARE = "rows.share"
WINDOWS_SHARE = "windows.share"

_OUTLIERS = ("with", "without")
_CHOSEN = frozenset(
    [
        "headline/mean",
        "headline/p50",
        "headline/p95",
        "headline/p99",
        "headline/tail_share",
        "headline/worst_range.p95",
        "flip/rate",
        "flip/count",
        "flip/worst_range.rate",
        "strong_overturn/rate",
        "strong_overturn/count",
        "answer.exact/rate",
        "answer.exact/count",
        "branches/explored",
        "branches/existing",
        "branches/invalid",
        "branches/resolved",
        *(f"branches/{outcome}" for outcome in OUTCOMES),
        "rollout.exact/share",
        "rollout.prefix/share",
        "rollout.agree/share",
        "rollout.early_stop/candidate.count",
        "rollout.loop/candidate.count",
        "sampled.exact/share",
        "sampled.agree/share",
        "task.passed/rate",
        "task.passed/count",
    ]
)
"""Tokens of figures, as :mod:`chosen_metrics` calls them."""

OF_FIGURE = (
    "outliers",
    "spec",
    "statistic",
    "value",
    "n",
    "excluded",
    "state",
    "reason",
    "low",
    "high",
    "interval",
    "named",
    "floor",
    "floor_value",
    "verdict",
)
"""Columns that a summary takes over from ``FIGURES`` as they are."""


def figure_rows(tables: Iterable[pa.Table], arm: str) -> list[dict[str, Any]]:
    """The headline figures of ``arm`` in tables with columns of ``FIGURES``, as columns of ``SUMMARY``."""
    found = []
    for table in tables:
        whole = table.filter(
            pc.and_(
                pc.and_(pc.equal(table["scope_kind"], "all"), pc.equal(table["arm"], arm)),
                pc.is_in(table["outliers"], pa.array(_OUTLIERS)),
            )
        )
        headline = chosen_metrics.headline_of(whole)
        for row in whole.select(list(OF_FIGURE)).to_pylist():
            if chosen_metrics.token(row["spec"], row["statistic"], headline) in _CHOSEN:
                found.append(row)
    return found


def determinism_rows(table: pa.Table, declared: Sequence[str]) -> list[dict[str, Any]]:
    """Shares of rows and windows that are identical to the byte, with and without the declared windows.

    A row that has no hash is left out and counted; a window with one is not counted as a window.
    """
    found = []
    for outliers in _OUTLIERS:
        kept = table
        if outliers == "without":
            kept = table.filter(pc.invert(pc.is_in(table["window"], pa.array(list(declared), pa.string()))))
        rows = pc.sum(kept["rows"]).as_py() or 0
        unhashable = pc.sum(kept["rows_unhashable"]).as_py() or 0
        identical = pc.sum(kept["rows_identical"]).as_py() or 0
        hashed = kept.filter(pc.equal(kept["rows_unhashable"], 0))
        same = pc.sum(hashed["window_identical"]).as_py() or 0
        of_rows = (identical, rows - unhashable, unhashable)
        of_windows = (same, hashed.num_rows, kept.num_rows - hashed.num_rows)
        for statistic, (count, n, excluded) in ((ROWS_SHARE, of_rows), (WINDOWS_SHARE, of_windows)):
            found.append(_share(outliers, statistic, count, n, excluded))
    return found


def _share(outliers: str, statistic: str, count: int, n: int, excluded: int) -> dict[str, Any]:
    return {
        **dict.fromkeys(OF_FIGURE, ""),
        "outliers": outliers,
        "spec": DETERMINISM,
        "statistic": statistic,
        "value": count / n if n else None,
        "n": n,
        "excluded": excluded,
        "state": "firm" if n else "withheld",
        "reason": "" if n else "no row has a hash",
        "low": None,
        "high": None,
        "floor_value": None,
    }


def summary_table(
    campaign: CampaignRecord, arm: ArmRecord, rows: Sequence[Mapping[str, Any]], *, system: str = "", tool: str = ""
) -> pa.Table:
    """Rows of ``SUMMARY`` of one comparison."""
    said = {
        "campaign": campaign.run_id,
        "run": arm.run_id,
        "started_ms": campaign.started_ms,
        "protocol": campaign.protocol_name,
        "version": campaign.protocol_version,
        "protocol_sha256": campaign.protocol_sha256,
        "complete": campaign.complete,
        "imported": campaign.imported,
        "arm": arm.arm,
        "role": arm.role,
        "reference": arm.reference or campaign.reference,
        "derivative": arm.derivative,
        "weights": arm.weights,
        "weights_observed": arm.weights_observed,
        "kv": arm.kv,
        "hardware": arm.hardware,
        "engine": arm.engine,
        "system": system,
        "tool": tool,
        "weight_bytes": arm.weight_bytes,
    }
    return pa.Table.from_pylist([{**said, **row} for row in rows], schema=SUMMARY)
