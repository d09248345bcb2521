"""The headline: the one divergence that quantiles, the worst range, the verdict and every ranking use."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from drift_runs.measure.positions import Positions
from drift_runs.measure.specs import BY_BASE, DIVERGENCES, Divergence, headline_spec
from drift_runs.protocol.model import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Headline:
    """A protocol's headline in one comparison."""

    spec: str
    """Spec id, with K where the definition depends on it."""
    column: str
    """Its field of ``Positions``."""
    measured: bool
    """Whether any position has it; a comparison without positions counts as measured."""

    @property
    def absence(self) -> str:
        """Why there is no figure when nothing was measured; empty when something was."""
        return "" if self.measured else f"not measured: no row has {self.spec}"


def headline_of(positions: Positions, protocol: Protocol) -> Headline:
    """The headline of ``positions``; K is that of the rows, or the protocol's when no row has one."""
    column = BY_BASE[protocol.capture.divergence].column
    return Headline(
        spec=headline_spec(protocol, positions.top_k or protocol.capture.top_k),
        column=column,
        measured=len(positions) == 0 or bool(np.isfinite(getattr(positions, column)).any()),
    )


def others_of(positions: Positions, protocol: Protocol) -> tuple[Divergence, ...]:
    """Every other divergence that at least one position has, in the order of :data:`specs.DIVERGENCES`."""
    return tuple(
        item
        for item in DIVERGENCES
        if item.base != protocol.capture.divergence and np.isfinite(getattr(positions, item.column)).any()
    )
