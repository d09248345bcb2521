"""Two candidates against each other where only means by context are known: table ``PAIRS``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Any

import pyarrow as pa

from drift_runs.errors import NotComparable
from drift_runs.measure.contexts import ContextDifference, paired_contexts
from drift_runs.measure.resampler import Resampler
from drift_runs.schema import PAIRS


def context_pairs(tables: Mapping[str, pa.Table], resampler: Resampler) -> pa.Table:
    """Every two arms in the given order, over all contexts; ``tables``: arm -> table ``CONTEXTS``.

    Contexts stand where windows do: how many both have, and in how many the left mean is the higher one. McNemar's
    test needs positions and is absent. Where the contexts of two arms are not the same, a reason stands in place of the
    numbers.
    """
    rows = [row for left, right in combinations(tables, 2) for row in _rows(left, right, tables, resampler)]
    columns = {field.name: pa.array([row[field.name] for row in rows], type=field.type) for field in PAIRS}
    return pa.table(columns, schema=PAIRS)


def _rows(left: str, right: str, tables: Mapping[str, pa.Table], resampler: Resampler) -> Iterator[dict[str, Any]]:
    try:
        found = paired_contexts(tables[left], tables[right], resampler=resampler)
    except NotComparable as error:
        nothing = {field.name: None for field in PAIRS if field.nullable}
        absent = {"spec": "kl.full", "statistic": "mean", "n": 0, "excluded": 0, "interval": "", "sign_flip": ""}
        yield {**nothing, **_scope(left, right), **absent, "reason": error.what}
        return
    for difference in found:
        yield {**_scope(left, right), **_numbers(difference)}
        yield {**_scope(left, right), **_numbers(difference), "outliers": "without"}


def _scope(left: str, right: str) -> dict[str, Any]:
    return {"left": left, "right": right, "scope_kind": "all", "scope": "all", "outliers": "with"}


def _numbers(found: ContextDifference) -> dict[str, Any]:
    return {
        "spec": found.spec,
        "statistic": found.statistic,
        "left_value": found.left,
        "right_value": found.right,
        "difference": found.difference,
        "n": found.n,
        "excluded": found.excluded,
        "low": found.low,
        "high": found.high,
        "interval": found.interval,
        "bca_low": found.bca_low,
        "bca_high": found.bca_high,
        "standard_error": found.standard_error,
        "clusters": found.clusters,
        "p_sign_flip": found.p_sign_flip,
        "sign_flip": found.sign_flip,
        "left_only": None,
        "right_only": None,
        "p_mcnemar": None,
        "windows": found.contexts,
        "windows_left_above": found.right_lower,
        "reason": found.reason,
    }
