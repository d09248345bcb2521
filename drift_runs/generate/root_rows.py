"""Rows of outcomes or roots as arrays, which figures select by scope."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from drift_runs.measure.answers import filled
from drift_runs.measure.intervals import Clusters, cluster_of
from drift_runs.measure.outliers import ONLY, WITH
from drift_runs.measure.resampler import Floats
from drift_runs.protocol.model import Protocol

SHARES = ("invalid", "invalid_any", "resolved", "literal_changes", "loops")
"""Of the explored roots. ``invalid``: malformed; ``invalid_any``: with those where both sides are; ``resolved``: all
but the unresolved; ``literal_changes``: changes that are of a literal; ``loops``: the candidate's future repeats
itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RootRows:
    """n rows of ``OUTCOMES`` or of ``ROOTS``, with their clusters."""

    table: pa.Table
    columns: Mapping[str, NDArray[Any]]
    clusters: Clusters

    @classmethod
    def of(cls, table: pa.Table, protocol: Protocol) -> RootRows:
        unit = protocol.intervals.cluster
        clusters = {window.name: cluster_of(window, unit) for window in protocol.windows}
        of_root = [clusters[name] for name in table["window"].to_pylist()]
        labels = tuple(dict.fromkeys(of_root))
        number = {label: at for at, label in enumerate(labels)}
        names = [name for name in ("pair", "panel", "kind", "why", "outcome") if name in table.column_names]
        return cls(
            table=table,
            columns={name: np.array(table[name].to_pylist(), dtype=object) for name in names}
            | {"outlier": filled(table["outlier"])},
            clusters=Clusters(
                unit=unit, labels=labels, index=np.array([number[label] for label in of_root], dtype=np.int32)
            ),
        )

    def inside(self, choice: str, scope: tuple[str, str], pair: str = "") -> NDArray[np.intp]:
        """Places of the rows of a scope, of one pair where they have pairs."""
        outlier = self.columns["outlier"]
        kept = np.ones(len(outlier), dtype=bool) if choice == WITH else outlier == (choice == ONLY)
        kind, name = scope
        if kind != "all":
            kept &= self.columns[kind] == name
        if pair:
            kept &= self.columns["pair"] == pair
        return np.flatnonzero(kept)

    def numbers(self, name: str, chosen: NDArray[np.intp]) -> Floats:
        """A column of numbers, NaN for null."""
        values = self.table[name].take(pa.array(chosen)).to_pylist()
        return np.array([np.nan if value is None else float(value) for value in values], dtype=np.float64)

    def shares(self, chosen: NDArray[np.intp]) -> Floats:
        """0 or 1 for each root and share: float64[n, shares], the columns in the order of ``SHARES``."""
        outcome = self.columns["outcome"][chosen]
        literal, loop = (self.numbers(name, chosen) == 1 for name in ("literal", "loop"))
        columns = (
            outcome == "malformed",
            (outcome == "malformed") | (outcome == "both-malformed"),
            outcome != "unresolved",
            (outcome == "changes") & literal,
            loop,
        )
        return np.stack([column.astype(np.float64) for column in columns], axis=1)
