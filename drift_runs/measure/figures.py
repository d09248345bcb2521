"""One row of table ``FIGURES``, and how rows become the table."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from operator import attrgetter

import pyarrow as pa

from drift_runs.measure.quantiles import FIRM
from drift_runs.schema import FIGURES


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One statistic of one spec over one scope; the fields are those of ``FIGURES``, where they are described."""

    arm: str
    scope_kind: str
    scope: str
    outliers: str
    spec: str
    statistic: str
    value: float | None
    n: int
    excluded: int = 0
    beyond: int | None = None
    state: str = FIRM
    reason: str = ""
    low: float | None = None
    high: float | None = None
    interval: str = ""
    standard_error: float | None = None
    bca_low: float | None = None
    bca_high: float | None = None
    t_low: float | None = None
    t_high: float | None = None
    clusters: int | None = None
    named: str = ""
    named_share: float | None = None
    floor: str = ""
    floor_value: float | None = None
    borrowed: bool = False
    verdict: str = ""
    verdict_reason: str = ""


_fields = attrgetter(*FIGURES.names)


def figures_table(figures: Iterable[Figure]) -> pa.Table:
    """The figures in order, schema ``FIGURES``."""
    rows = [_fields(figure) for figure in figures]
    columns = zip(*rows, strict=True) if rows else [()] * len(FIGURES)
    arrays = [pa.array(column, type=field.type) for column, field in zip(columns, FIGURES, strict=True)]
    return pa.Table.from_arrays(arrays, schema=FIGURES)
