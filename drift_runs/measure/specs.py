"""The definitions that a figure can have, by spec id: METRICS is the list, and every name in a table maps to one here.

A spec id that depends on K carries it: ``kl.topk-shared@20``. A bare name of such a spec is never written.
"""

from __future__ import annotations

from dataclasses import dataclass

from drift_runs.errors import NotComparable
from drift_runs.protocol.model import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Divergence:
    """One definition of how far Q lies from P at a position, in nats."""

    base: str
    """Spec id without K."""
    column: str
    """Its column in ``COMPARISON``."""
    title: str
    needs_k: bool
    bounds: str
    """What it says about ``kl.full``."""

    def spec(self, top_k: int | None) -> str:
        """The spec id, with K where the definition depends on it."""
        if not self.needs_k:
            return self.base
        if top_k is None:
            raise NotComparable(f"{self.base} without K", expected="the number of entries that were compared")
        return f"{self.base}@{top_k}"


DIVERGENCES: tuple[Divergence, ...] = (
    Divergence(
        base="kl.full",
        column="kl_full_nats",
        title="KL over the dictionary",
        needs_k=False,
        bounds="it is the figure itself",
    ),
    Divergence(
        base="js.full",
        column="js_full_nats",
        title="Jensen-Shannon over the dictionary",
        needs_k=False,
        bounds="bounds nothing: another divergence, at most ln 2",
    ),
    Divergence(
        base="kl.topk-tail",
        column="kl_topk_tail_nats",
        title="KL over the reference's K best and one tail bucket",
        needs_k=True,
        bounds="a lower bound of kl.full that rises with K, where no tail was floored",
    ),
    Divergence(
        base="kl.topk-shared",
        column="kl_topk_shared_nats",
        title="KL over the shared tokens, both sides renormalised",
        needs_k=True,
        bounds="bounds nothing",
    ),
    Divergence(
        base="kl.topk-lower",
        column="kl_topk_lower_nats",
        title="KL over the shared tokens and one bucket for the rest",
        needs_k=True,
        bounds="a lower bound of kl.full, where both sides are normalised",
    ),
    Divergence(
        base="kl.topk-floor",
        column="kl_topk_floor_nats",
        title="KL over the reference's K best, missing tokens at the candidate's least",
        needs_k=True,
        bounds="bounds nothing: a sensitivity figure",
    ),
)

BY_BASE: dict[str, Divergence] = {item.base: item for item in DIVERGENCES}


def base_of(spec: str) -> str:
    """``kl.topk-shared`` of ``kl.topk-shared@20``."""
    return spec.partition("@")[0]


def is_divergence(spec: str) -> bool:
    """Whether a spec id is one of :data:`DIVERGENCES`."""
    return base_of(spec) in BY_BASE


def headline_spec(protocol: Protocol, top_k: int | None) -> str:
    """Spec id of the divergence that the protocol's quantiles, worst range, verdict and ranking use.

    ``top_k``: K of the rows. ``NotComparable`` for a definition that depends on K when there is none.
    """
    return BY_BASE[protocol.capture.divergence].spec(top_k)
