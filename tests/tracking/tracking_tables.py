"""Small tables in the stored schemas, and facts that fit them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from drift_runs import schema
from drift_runs.tracking.tags import CampaignFacts, ComparisonFacts

SHA256 = "ab" * 32


def figure(**changes: Any) -> dict[str, Any]:
    row = {
        "arm": "q4_0",
        "scope_kind": "all",
        "scope": "all",
        "outliers": "with",
        "spec": "kl.full",
        "statistic": "mean",
        "value": 0.5,
        "n": 100,
        "excluded": 0,
        "beyond": None,
        "state": "firm",
        "reason": "",
        "low": None,
        "high": None,
        "interval": "",
        "standard_error": None,
        "bca_low": None,
        "bca_high": None,
        "t_low": None,
        "t_high": None,
        "clusters": None,
        "named": "",
        "named_share": None,
        "floor": "",
        "floor_value": None,
        "borrowed": False,
        "verdict": "",
        "verdict_reason": "",
    }
    return {**row, **changes}


def figures(*rows: dict[str, Any]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=schema.FIGURES)


def determinism() -> pa.Table:
    row = {
        "arm": "launch",
        "against": "f16",
        "window": "w1",
        "rows": 3,
        "rows_identical": 3,
        "rows_unhashable": 0,
        "window_identical": True,
        "row_hash": "row.full",
        "max_abs_dlogit": 0.0,
        "max_abs_dlogprob": None,
        "first_difference": None,
        "window_hash": None,
    }
    return pa.Table.from_pylist([row], schema=schema.DETERMINISM)


def comparison(window: str, positions: int) -> pa.Table:
    columns: dict[str, list[Any]] = {}
    for field in schema.COMPARISON:
        if pa.types.is_dictionary(field.type):
            columns[field.name] = [{"window": window, "row_hash": "row.full"}.get(field.name, "prompt")] * positions
        elif field.name == "position":
            columns[field.name] = list(range(1, positions + 1))
        elif pa.types.is_integer(field.type):
            columns[field.name] = [0] * positions
        elif pa.types.is_boolean(field.type):
            columns[field.name] = [False] * positions
        else:
            columns[field.name] = [0.5] * positions
    arrays = [
        pa.array(columns[field.name], field.type.value_type).dictionary_encode().cast(field.type)
        if pa.types.is_dictionary(field.type)
        else pa.array(columns[field.name], field.type)
        for field in schema.COMPARISON
    ]
    return pa.Table.from_arrays(arrays, schema=schema.COMPARISON)


def rows_files(folder: Path, **windows: int) -> dict[str, Path]:
    """Parquet files of that many positions for each window."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = {}
    for window, positions in windows.items():
        paths[window] = folder / f"{window}.parquet"
        pq.write_table(comparison(window, positions), paths[window])
    return paths


def campaign_facts(**changes: Any) -> CampaignFacts:
    facts: dict[str, Any] = {
        "protocol_name": "tiny",
        "protocol_version": 1,
        "protocol_sha256": SHA256,
        "draft": False,
        "title": "Tiny",
        "question": "Does it drift?",
        "notes": ("The stock weights are a dequantised Q4_1.",),
        "outliers": (("w9", "a literal that no model knows"),),
        "reference": "f16",
        "reference_capture_id": "0123456789abcdef",
        "campaign_key": "key-1",
        "tool_version": "0.1.0",
        "host": {"cpu": "a CPU", "gpu": "none"},
    }
    return CampaignFacts(**{**facts, **changes})


def comparison_facts(**changes: Any) -> ComparisonFacts:
    facts: dict[str, Any] = {
        "comparison_id": "cmp-q4_0",
        "arm": "q4_0",
        "title": "Four bits",
        "role": "candidate",
        "derivative": "stock",
        "weights": "q4_0",
        "weights_observed": "q4_0 with f32 norms",
        "kv": "f16",
        "hardware": "cpu",
        "engine": "llama_cpp",
        "settings": "{}",
        "capture_id": "fedcba9876543210",
        "weight_bytes": 91_000_000,
        "weights_sha256": "cd" * 32,
        "comparability": {"protocol": SHA256, "spec": "kl.full"},
    }
    return ComparisonFacts(**{**facts, **changes})
