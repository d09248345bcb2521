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
    absence: str
    """Why there is no figure when nothing was measured; empty when something was, or there are no positions."""


def headline_of(positions: Positions, protocol: Protocol) -> Headline:
    """The headline of ``positions``; K is that of the rows, or the protocol's when no row has one."""
    column = BY_BASE[protocol.capture.divergence].column
    spec = headline_spec(protocol, positions.top_k or protocol.capture.top_k)
    absence = ""
    if len(positions) and not np.isfinite(getattr(positions, column)).any():
        absence = unsaid_reason(positions.unsaid_tails, len(positions)) if column == TAIL.column else ""
        absence = absence or f"not measured: no row has {spec}"
    return Headline(spec=spec, column=column, absence=absence)


TAIL = BY_BASE["kl.topk-tail"]


def unsaid_reason(unsaid: int, positions: int) -> str:
    """Why nobody has ``kl.topk-tail`` when ``unsaid`` of the positions do not say it; empty when all do."""
    if not unsaid:
        return ""
    return (
        f"the candidate does not say it at {unsaid:,} of {positions:,} positions, those where it "
        "drifts most: a mean over the others would be too low"
    )


def others_of(positions: Positions, protocol: Protocol) -> tuple[Divergence, ...]:
    """Every other divergence that at least one position has, in the order of :data:`specs.DIVERGENCES`."""
    return tuple(
        item
        for item in DIVERGENCES
        if item.base != protocol.capture.divergence and np.isfinite(getattr(positions, item.column)).any()
    )
